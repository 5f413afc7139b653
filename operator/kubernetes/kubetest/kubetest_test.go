package kubetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
)

// statefulSet returns one of a pod that mounts a Secret twice, and passes under
// restricted Pod Security.
func statefulSet(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		RunAsNonRoot:             new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(false),
					InitContainers:               []corev1.Container{{Name: "install", Image: "operator", SecurityContext: security}},
					Containers: []corev1.Container{{
						Name: "main", Image: "base", SecurityContext: security,
						VolumeMounts: []corev1.VolumeMount{
							{Name: "config", MountPath: "/all"},
							{Name: "config", MountPath: "/var/lib/agents/template-agent.conf", SubPath: "template-agent.conf"},
						},
					}},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
						SecretName: name, Items: []corev1.KeyToPath{
							{Key: "agent", Path: "template-agent.conf"}, {Key: "operator.yaml", Path: "operator.yaml"},
						},
					}}}},
				},
			},
		},
	}
}

// deploy makes a StatefulSet and its Secret and returns the pod's name.
func deploy(t *testing.T, c *kubetest.Cluster, namespace, name string, changes ...func(*appsv1.StatefulSet)) string {
	t.Helper()
	set := statefulSet(name)
	for _, change := range changes {
		change(set)
	}
	writeSecret(t, c, namespace, name, "first")
	if _, err := c.Client.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name + "-0"
}

func writeSecret(t *testing.T, c *kubetest.Cluster, namespace, name, content string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"agent": content, "operator.yaml": "more"}}
	secrets := c.Client.CoreV1().Secrets(namespace)
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPodOfStatefulSetBecomesReadyWithItsFiles(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	c.NeedFakeNode(t)
	namespace := c.Namespace(t)
	pod := c.ReadyPod(t, namespace, deploy(t, c, namespace, "web"))
	want := map[string]string{
		"/all/template-agent.conf": "first", "/all/operator.yaml": "more", "/var/lib/agents/template-agent.conf": "first",
	}
	if files := kubetest.Files(t, pod); fmt.Sprint(files) != fmt.Sprint(want) {
		t.Errorf("files are %q, want %q", files, want)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
		t.Errorf("status is %v", pod.Status)
	}
	init := pod.Status.InitContainerStatuses
	if len(init) != 1 || init[0].State.Terminated == nil || init[0].State.Terminated.Reason != "Completed" {
		t.Errorf("init containers are %v", init)
	}
}

func TestDeletedPodIsReplaced(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	c.NeedFakeNode(t)
	namespace := c.Namespace(t)
	name := deploy(t, c, namespace, "web")
	first := c.ReadyPod(t, namespace, name)
	writeSecret(t, c, namespace, "web", "second")
	if err := c.Client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := c.Pod(t, namespace, name, "is another", func(pod *corev1.Pod) bool { return pod.UID != first.UID && pod.Status.PodIP != "" })
	if file := kubetest.Files(t, second)["/all/template-agent.conf"]; file != "second" {
		t.Errorf("the new pod found %q", file)
	}
}

func TestPodWaitsForItsSecret(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	c.NeedFakeNode(t)
	namespace := c.Namespace(t)
	if _, err := c.Client.AppsV1().StatefulSets(namespace).Create(t.Context(), statefulSet("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Pod(t, namespace, "web-0", "is being created", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 1 &&
			pod.Status.ContainerStatuses[0].State.Waiting.Reason == "ContainerCreating"
	})
	writeSecret(t, c, namespace, "web", "late")
	if file := kubetest.Files(t, c.ReadyPod(t, namespace, "web-0"))["/all/template-agent.conf"]; file != "late" {
		t.Errorf("the pod found %q", file)
	}
}

// state returns the state of the pod's container, or init container, of that name.
func state(pod *corev1.Pod, name string) corev1.ContainerState {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == name {
			return status.State
		}
	}
	return corev1.ContainerState{}
}

func TestPodMisbehavesAndRecovers(t *testing.T) {
	t.Parallel()
	waiting := func(container, reason, message string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			waits := state(pod, container).Waiting
			return waits != nil && waits.Reason == reason && strings.Contains(waits.Message, message)
		}
	}
	for _, test := range []struct {
		name      string
		behaviour fakenode.Behaviour
		seen      func(*corev1.Pod) bool
		// recovered are the restarts of the main container after that.
		restarts int32
	}{{
		name:      "image pull",
		behaviour: fakenode.Behaviour{PullError: "no such image"},
		seen:      waiting("main", "ErrImagePull", "no such image"),
	}, {
		name:      "image pull of the init container",
		behaviour: fakenode.Behaviour{Container: "install", PullError: "no such image"},
		seen: func(pod *corev1.Pod) bool {
			return waiting("install", "ErrImagePull", "no such image")(pod) && pod.Status.Phase == corev1.PodPending &&
				waiting("main", "PodInitializing", "")(pod)
		},
	}, {
		name:      "crash loop",
		behaviour: fakenode.Behaviour{Crash: "out of luck"},
		seen: func(pod *corev1.Pod) bool {
			return waiting("main", "CrashLoopBackOff", "back-off")(pod) &&
				pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message == "out of luck"
		},
		restarts: 1,
	}, {
		name:      "exit",
		behaviour: fakenode.Behaviour{Exit: "bye"},
		seen: func(pod *corev1.Pod) bool {
			ended := state(pod, "main").Terminated
			return ended != nil && ended.ExitCode == 1 && ended.Message == "bye"
		},
		restarts: 1,
	}, {
		name:      "never ready",
		behaviour: fakenode.Behaviour{NeverReady: true},
		seen: func(pod *corev1.Pod) bool {
			return state(pod, "main").Running != nil && !pod.Status.ContainerStatuses[0].Ready
		},
	}, {
		name:      "slow start",
		behaviour: fakenode.Behaviour{StartAfter: metav1.Duration{Duration: time.Hour}},
		seen:      waiting("main", "ContainerCreating", ""),
	}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := kubetest.Need(t)
			namespace := c.Namespace(t)
			c.Behave(t, namespace, "", test.behaviour)
			name := deploy(t, c, namespace, "web")
			c.Pod(t, namespace, name, "misbehaves", func(pod *corev1.Pod) bool {
				for _, condition := range pod.Status.Conditions {
					if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
						t.Error("the pod is ready")
					}
				}
				return test.seen(pod)
			})
			// That of the pod goes before that of all.
			c.Behave(t, namespace, name, fakenode.Behaviour{})
			pod := c.ReadyPod(t, namespace, name)
			if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != test.restarts {
				t.Errorf("%d restarts, want %d", restarts, test.restarts)
			}
			if kubetest.Files(t, pod)["/all/template-agent.conf"] != "first" {
				t.Errorf("files are %v", kubetest.Files(t, pod))
			}
		})
	}
}

func TestRunningPodCrashesAndReadsAnew(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	c.NeedFakeNode(t)
	namespace := c.Namespace(t)
	name := deploy(t, c, namespace, "web")
	first := c.ReadyPod(t, namespace, name)
	c.Behave(t, namespace, name, fakenode.Behaviour{Crash: "boom"})
	c.Pod(t, namespace, name, "has crashed", func(pod *corev1.Pod) bool { return state(pod, "main").Waiting != nil })
	writeSecret(t, c, namespace, "web", "second")
	c.Behave(t, namespace, name, fakenode.Behaviour{})
	pod := c.ReadyPod(t, namespace, name)
	if pod.UID != first.UID {
		t.Error("it is another pod")
	}
	if file := kubetest.Files(t, pod)["/all/template-agent.conf"]; file != "second" {
		t.Errorf("after its crash the container found %q", file)
	}
}

func TestStuckPodStaysUntilReleased(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	c.NeedFakeNode(t)
	namespace := c.Namespace(t)
	name := deploy(t, c, namespace, "web", func(set *appsv1.StatefulSet) {
		set.Spec.Template.Annotations = map[string]string{fakenode.BehaviourAnnotation: fakenode.Behaviour{Stuck: true}.String()}
	})
	pod := c.ReadyPod(t, namespace, name)
	if err := c.Client.AppsV1().StatefulSets(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Pod(t, namespace, name, "is being deleted", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	patch := `{"metadata":{"annotations":{"` + fakenode.BehaviourAnnotation + `":null}}}`
	pods := c.Client.CoreV1().Pods(namespace)
	released, err := pods.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if released.UID != pod.UID {
		t.Error("the stuck pod had gone")
	}
	kubetest.Eventually(t, "the end of the pod", func() error {
		if _, err := pods.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

func TestStuckPodIsReleasedWithItsNamespace(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	namespace := c.Namespace(t)
	c.Behave(t, namespace, "", fakenode.Behaviour{Stuck: true})
	c.ReadyPod(t, namespace, deploy(t, c, namespace, "web"))
	// The namespace has to go when the test ends.
}

func TestClaimIsBoundGrownAndRemoved(t *testing.T) {
	t.Parallel()
	for _, mode := range []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			c := kubetest.Need(t)
			ctx := t.Context()
			class := c.StorageClass(t, func(class *storagev1.StorageClass) { class.VolumeBindingMode = &mode })
			namespace := c.Namespace(t)
			name := deploy(t, c, namespace, "web", func(set *appsv1.StatefulSet) {
				set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "charm"},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")}},
					},
				}}
				set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "charm", MountPath: "/charm"}}
			})
			c.ReadyPod(t, namespace, name)

			claims := c.Client.CoreV1().PersistentVolumeClaims(namespace)
			claim, err := claims.Patch(ctx, "charm-web-0", types.MergePatchType,
				[]byte(`{"spec":{"resources":{"requests":{"storage":"20Mi"}}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			volumes := c.Client.CoreV1().PersistentVolumes()
			kubetest.Eventually(t, "20Mi", func() error {
				claim, err = claims.Get(ctx, claim.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				volume, err := volumes.Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if has, of := claim.Status.Capacity.Storage(), volume.Spec.Capacity.Storage(); has.String() != "20Mi" || of.String() != "20Mi" {
					return fmt.Errorf("the claim has %s, of a volume of %s", has, of)
				}
				return nil
			})

			if err := c.Client.AppsV1().StatefulSets(namespace).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			kubetest.Eventually(t, "the end of the volume", func() error {
				if _, err := volumes.Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("got %v", err)
				}
				return nil
			})
		})
	}
}

func TestClaimOfOtherClassIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	class := c.StorageClass(t, func(class *storagev1.StorageClass) { class.AllowVolumeExpansion = new(false) })
	namespace := c.Namespace(t)
	claims := c.Client.CoreV1().PersistentVolumeClaims(namespace)
	create := func(name, class string) {
		_, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	bound := func(name string) error {
		claim, err := claims.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && claim.Status.Phase != corev1.ClaimBound {
			err = fmt.Errorf("claim %s is %s", name, claim.Status.Phase)
		}
		return err
	}
	create("unknown", "no-such-class")
	create("ours", class)
	kubetest.Eventually(t, "a bound claim", func() error { return bound("ours") })
	if err := bound("unknown"); err == nil {
		t.Error("the claim of an unknown class is bound")
	}
	// The API server itself refuses what the class does not allow.
	_, err := claims.Patch(t.Context(), "ours", types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"2Mi"}}}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("growing a claim that may not: %v", err)
	}
}

func TestNamespaceEnforcesRestrictedPods(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	bare := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bare"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "base"}}},
	}
	pods := func(namespace string) error {
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), bare, metav1.CreateOptions{})
		return err
	}
	if err := pods(c.Namespace(t)); !apierrors.IsForbidden(err) {
		t.Errorf("an unrestricted pod: %v", err)
	}
	if err := pods(c.Namespace(t, func(namespace *corev1.Namespace) { namespace.Labels = nil })); err != nil {
		t.Errorf("an unrestricted pod where it may be: %v", err)
	}
}

func TestServiceAccountHasItsRightsInItsNamespaceOnly(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	namespace, other := c.Namespace(t), c.Namespace(t)
	config := c.ServiceAccount(t, namespace, "agent",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
	// The same by way of a file.
	config, err := clientcmd.BuildConfigFromFlags("", kubetest.KubeconfigFor(t, config))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("what it may do: %v", err)
	}
	if _, err := client.CoreV1().Secrets(other).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: %v", err)
	}
	if _, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what it may not do: %v", err)
	}
}

func TestKubeconfigReachesTheCluster(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	path := c.Kubeconfig(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestPrivateControlPlaneStopsAndStarts(t *testing.T) {
	t.Parallel()
	p := kubetest.Private(t)
	namespace := p.Namespace(t)
	name := deploy(t, p.Cluster, namespace, "web")
	first := p.ReadyPod(t, namespace, name)

	p.Stop(t)
	secrets := p.Client.CoreV1().Secrets(namespace)
	if _, err := secrets.Get(t.Context(), "web", metav1.GetOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("with the API server stopped: %v", err)
	}
	p.Start(t)
	if pod := p.ReadyPod(t, namespace, name); pod.UID != first.UID {
		t.Error("the pod is another after the restart")
	}

	p.Freeze(t)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := secrets.Get(short, "web", metav1.GetOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with the API server frozen: %v", err)
	}
	p.Thaw(t)
	if _, err := secrets.Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Errorf("after the frost: %v", err)
	}
}

func TestAuditLogHasEveryRequestOnce(t *testing.T) {
	t.Parallel()
	p := kubetest.Private(t)
	namespace := p.Namespace(t)
	rights := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "list", "watch"}}
	recorder := kubetest.NewRecorder()
	client, err := kubernetes.NewForConfig(recorder.Wrap(p.ServiceAccount(t, namespace, "agent", rights)))
	if err != nil {
		t.Fatal(err)
	}
	before := len(p.AuditLog(t))
	secrets := client.CoreV1().Secrets(namespace)
	for i := range 20 {
		if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := secrets.Delete(t.Context(), "s0", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting without the right: %v", err)
	}
	watch, err := secrets.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	var audited, recorded []string
	for _, event := range p.AuditLog(t)[before:] {
		if event.User == "system:serviceaccount:"+namespace+":agent" && event.Resource == "secrets" {
			name := event.String()
			if event.Verb == "create" {
				// The name of what is made is in the body.
				name = fmt.Sprintf("create secrets %s/", namespace)
			}
			audited = append(audited, fmt.Sprint(name, " ", event.Code))
		}
	}
	for _, request := range recorder.Requests() {
		recorded = append(recorded, fmt.Sprint(request, " ", request.Code))
	}
	if !slices.Equal(audited, recorded) {
		t.Errorf("audited %q\nrecorded %q", audited, recorded)
	}
	if len(audited) != 22 {
		t.Errorf("%d requests, want 22", len(audited))
	}
}

func TestRecorderDisturbsRealRequests(t *testing.T) {
	t.Parallel()
	c := kubetest.Need(t)
	namespace := c.Namespace(t)
	recorder := kubetest.NewRecorder()
	client, err := kubernetes.NewForConfig(recorder.Wrap(c.Config))
	if err != nil {
		t.Fatal(err)
	}
	secrets := client.CoreV1().Secrets(namespace)
	create := func(name string) error {
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	exists := func(name string) bool {
		_, err := c.Client.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}

	recorder.Inject(kubetest.On("create", "secrets"), kubetest.Fault{First: 2, Last: 2, Refuse: true})
	recorder.Inject(kubetest.On("create", "secrets"), kubetest.Fault{First: 3, Last: 3, Lose: true})
	if err := create("one"); err != nil || !exists("one") {
		t.Errorf("the first: %v", err)
	}
	if err := create("two"); !errors.Is(err, syscall.ECONNREFUSED) || exists("two") {
		t.Errorf("the second, which is refused: %v", err)
	}
	if err := create("three"); !errors.Is(err, io.ErrUnexpectedEOF) || !exists("three") {
		t.Errorf("the third, whose answer is lost: %v", err)
	}
	if err := create("four"); err != nil {
		t.Errorf("the fourth: %v", err)
	}

	recorder.Heal()
	recorder.Inject(kubetest.Writes, kubetest.Fault{Status: 403, Message: "quota exceeded"})
	if err := create("five"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "quota exceeded") {
		t.Errorf("one that is forbidden: %v", err)
	}
	recorder.Heal()
	recorder.Reset()
	// client-go itself does as it is told, and asks once more.
	recorder.Inject(kubetest.Writes, kubetest.Fault{Last: 1, Status: 429, RetryAfter: 1})
	if err := create("six"); err != nil {
		t.Errorf("one that is throttled: %v", err)
	}
	if n := len(recorder.Writes()); n != 2 {
		t.Errorf("%d requests for the throttled write, want 2: %v", n, recorder.Writes())
	}

	recorder.Heal()
	recorder.CrashAfterWrite(2)
	if err := create("seven"); err != nil || recorder.Crashed() {
		t.Errorf("the write before the crash: %v", err)
	}
	if err := create("eight"); err == nil || !exists("eight") || !recorder.Crashed() {
		t.Errorf("the write of the crash: %v", err)
	}
	if _, err := secrets.Get(t.Context(), "one", metav1.GetOptions{}); err == nil {
		t.Error("a request after the crash was sent")
	}
	recorder.Heal()
	if err := create("nine"); err != nil {
		t.Errorf("after the crash: %v", err)
	}
}

func TestBehaviourIsReadable(t *testing.T) {
	t.Parallel()
	behaviour := fakenode.Behaviour{Container: "install", StartAfter: metav1.Duration{Duration: 2 * time.Second}, Stuck: true}
	const want = `{"container":"install","startAfter":"2s","stuck":true}`
	if behaviour.String() != want {
		t.Errorf("it reads %s, want %s", behaviour, want)
	}
	var again fakenode.Behaviour
	if err := json.Unmarshal([]byte(behaviour.String()), &again); err != nil || again != behaviour {
		t.Errorf("read again it is %v (%v)", again, err)
	}
}
