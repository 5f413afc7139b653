package kubetest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/ociimage"
)

const testImage = "localhost/kubetest-operator:1"

// loadTestImage builds the program of testdata/operator and gives the node an image
// with it.
func loadTestImage(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "operator")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./testdata/operator")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	c.LoadImage(t, ociimage.Image{
		Name: testImage, Files: map[string]string{"/operator": program}, Entrypoint: []string{"/operator"}, User: "65534",
	})
}

// restricted has a pod pass under restricted Pod Security, as an ordinary user.
func restricted(spec corev1.PodSpec) corev1.PodSpec {
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(170)), RunAsGroup: new(int64(170)), FSGroup: new(int64(170)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.AutomountServiceAccountToken = new(false)
	spec.TerminationGracePeriodSeconds = new(int64(1))
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].Image, containers[i].ImagePullPolicy = testImage, corev1.PullNever
			containers[i].SecurityContext = &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
		}
	}
	return spec
}

func logs(t *testing.T, c *kubetest.Cluster, namespace, pod, want string) {
	t.Helper()
	kubetest.Eventually(t, "the log of "+pod, func() error {
		log, err := c.Client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil {
			return err
		}
		if !strings.Contains(string(log), want) {
			return fmt.Errorf("it is %q, without %q", log, want)
		}
		return nil
	})
}

// getPod runs a pod that gets the URL and checks that it says what it got.
func getPod(t *testing.T, c *kubetest.Cluster, namespace, name, url, want string) {
	t.Helper()
	_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       restricted(corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Args: []string{"get", url}}}}),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	logs(t, c, namespace, name, "got "+want)
}

func TestRealPodRunsWhatItsInitContainerInstalled(t *testing.T) {
	c := kubetest.RealNode(t)
	loadTestImage(t, c)
	ctx := t.Context()
	namespace := c.Namespace(t)
	writeSecret(t, c, namespace, "web", "hello")
	labels := map[string]string{"app": "web"}
	binaries := corev1.VolumeMount{Name: "bin", MountPath: "/opt/bin"}
	_, err := c.Client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: restricted(corev1.PodSpec{
					InitContainers: []corev1.Container{{
						Name: "install", Args: []string{"install", "/opt/bin/server"}, VolumeMounts: []corev1.VolumeMount{binaries},
					}},
					Containers: []corev1.Container{{
						Name: "main", Command: []string{"/opt/bin/server", "serve", ":30666", "/etc/agent.conf"},
						VolumeMounts: []corev1.VolumeMount{binaries, {Name: "config", MountPath: "/etc/agent.conf", SubPath: "agent"}},
						ReadinessProbe: &corev1.Probe{
							ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(30666)}},
							PeriodSeconds: 1,
						},
					}},
					Volumes: []corev1.Volume{
						{Name: "bin", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
						{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web"}}},
					},
				}),
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := c.Client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(30666)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := c.ReadyPod(t, namespace, "web-0")
	logs(t, c, namespace, "web-0", "serving as 170")

	for _, address := range []string{pod.Status.PodIP + ":30666", service.Spec.ClusterIP} {
		kubetest.Eventually(t, "an answer from "+address, func() error {
			response, err := http.Get("http://" + address)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err == nil && string(body) != "hello" {
				err = fmt.Errorf("it says %q", body)
			}
			return err
		})
	}
	getPod(t, c, namespace, "neighbour", "http://"+service.Spec.ClusterIP, "hello")

	c.KillContainer(t, pod, "main")
	again := c.Pod(t, namespace, "web-0", "runs again", func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return status.RestartCount == 1 && status.Ready
	})
	if ended := again.Status.ContainerStatuses[0].LastTerminationState.Terminated; again.UID != pod.UID || ended == nil || ended.ExitCode != 137 {
		t.Errorf("the container that was killed ended as %v", ended)
	}
}

func TestRealPodReachesTheTest(t *testing.T) {
	c := kubetest.RealNode(t)
	loadTestImage(t, c)
	listener, err := net.Listen("tcp", net.JoinHostPort(kubetest.NodeAddress, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "news") }))
	server.Listener = listener
	server.Start()
	defer server.Close()
	getPod(t, c, c.Namespace(t), "caller", server.URL, "news")
}
