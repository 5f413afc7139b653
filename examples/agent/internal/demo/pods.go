package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is where the operators of a demo are that are pods.
type Cluster struct {
	// Kubeconfig is the path of a file, or empty for what kubectl takes. What
	// it lets one do has to include to make a namespace.
	Kubeconfig string
	// Image is the operators': the cluster's node has it.
	Image string
	// Listen is where operators log in, host:port.
	Listen string
}

// pods are the home of operators that are pods, of a cluster whose node is on this
// machine: a namespace.
type pods struct {
	Cluster
	namespace string
	client    kubernetes.Interface
	objects   metadata.Interface
	discovery discovery.DiscoveryInterface
}

// newPods makes the namespace, with the Pod Security level that asks for most.
func newPods(ctx context.Context, c Cluster) (*pods, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.Annotate(err, "how to reach the cluster")
	}
	config.QPS = -1 // a demo asks as often as it likes
	config.WarningHandler = rest.NoWarnings{}
	p := &pods{Cluster: c}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, errors.Trace(err)
	}
	p.client, p.discovery = client, client.Discovery()
	if p.objects, err = metadata.NewForConfig(config); err != nil {
		return nil, errors.Trace(err)
	}
	made, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "sutler-demo-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, errors.Annotate(err, "making a namespace")
	}
	p.namespace = made.Name
	return p, nil
}

// clear removes the namespace with whatever is in it, although ctx has ended.
func (p *pods) clear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), podTimeout)
	defer cancel()
	namespaces := p.client.CoreV1().Namespaces()
	err := namespaces.Delete(ctx, p.namespace, metav1.DeleteOptions{})
	for ; err == nil; time.Sleep(pollInterval) {
		_, err = namespaces.Get(ctx, p.namespace, metav1.GetOptions{})
	}
}

// clusterFlags are those of every agent of the cluster.
func (p *pods) clusterFlags() []string {
	flags := []string{"--operators", "kubernetes", "--namespace", p.namespace}
	if p.Kubeconfig != "" {
		flags = append(flags, "--kubeconfig", p.Kubeconfig)
	}
	return flags
}

// controllerFlags are those of whoever has the controller.
func (p *pods) controllerFlags() []string {
	flags := []string{"--image", p.Image}
	if p.Listen != "" {
		flags = append(flags, "--listen", p.Listen)
	}
	return flags
}

func (p *pods) flags() []string { return append(p.clusterFlags(), p.controllerFlags()...) }

// pod is the application's, of which there must be exactly one, that is ready.
func (p *pods) pod(ctx context.Context, app string) (*corev1.Pod, error) {
	list, err := p.client.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: "operator.juju.is/name=" + app})
	switch {
	case err != nil:
		return nil, errors.Trace(err)
	case len(list.Items) != 1:
		return nil, errors.Errorf("%s has %d pods, want one", app, len(list.Items))
	}
	pod := &list.Items[0]
	switch {
	case pod.DeletionTimestamp != nil:
		return nil, errors.Errorf("the pod of %s is being deleted", app)
	case !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}):
		return nil, errors.Errorf("the pod of %s is not ready: %s", app, pod.Status.Phase)
	}
	return pod, nil
}

// operator tells pods apart, and the containers of a pod.
func (p *pods) operator(ctx context.Context, app string) (string, error) {
	pod, err := p.pod(ctx, app)
	if err != nil {
		return "", err
	}
	return string(pod.UID) + " " + pod.Status.ContainerStatuses[0].ContainerID, nil
}

// podOf is the part of what operator returns that is the same as long as the pod
// is.
func podOf(operator string) string {
	uid, _, _ := strings.Cut(operator, " ")
	return uid
}

func (p *pods) empty(ctx context.Context, app string) error {
	left, err := p.left(ctx)
	if err != nil {
		return err
	}
	for _, object := range left {
		if _, name, _ := strings.Cut(object, "/"); strings.Contains(name, app+"-operator") {
			return errors.Errorf("%s has left %s", app, object)
		}
	}
	return nil
}

// left is everything in the namespace that the cluster has not put there itself, as
// resource/name.
func (p *pods) left(ctx context.Context) ([]string, error) {
	lists, err := p.discovery.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, errors.Trace(err)
	}
	var left []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, errors.Trace(err)
		}
		for _, r := range list.APIResources {
			// Events are about what happened, and last an hour.
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" {
				continue
			}
			found, err := p.objects.Resource(gv.WithResource(r.Name)).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, errors.Trace(err)
			}
			for _, object := range found.Items {
				left = append(left, r.Name+"/"+object.Name)
			}
		}
	}
	return slices.DeleteFunc(left, func(object string) bool {
		return object == "configmaps/kube-root-ca.crt" || object == "serviceaccounts/default"
	}), nil
}

// find finds the processes of the operators' containers, which are processes of this
// machine.
func (p *pods) find() (map[string][]int, error) {
	found, err := findProcesses(func(args []string) (string, bool) {
		if len(args) < 6 || args[1] != "operator" || filepath.Base(args[3]) != "application-"+args[5] {
			return "", false
		}
		return args[5], true
	})
	for app, pids := range found {
		found[app] = slices.DeleteFunc(pids, func(pid int) bool {
			environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
			return err != nil || !bytes.Contains(append(environ, 0), []byte("JUJU_OPERATOR_NAMESPACE="+p.namespace+"\x00"))
		})
	}
	return found, err
}

// process is that of the application's container.
func (p *pods) process(app string) (int, error) {
	found, err := p.find()
	switch {
	case err != nil:
		return 0, err
	case len(found[app]) != 1:
		return 0, errors.Errorf("%s has %d processes on this machine, want one", app, len(found[app]))
	}
	return found[app][0], nil
}

func (p *pods) processes() ([]int, error) {
	found, err := p.find()
	var all []int
	for _, pids := range found {
		all = append(all, pids...)
	}
	return all, err
}

// confs are the one in the operator's Secret and the one that the operator made of
// it in its pod.
func (p *pods) confs(ctx context.Context, app string) ([][]byte, error) {
	secret, err := p.client.CoreV1().Secrets(p.namespace).Get(ctx, app+"-operator-config", metav1.GetOptions{})
	if err != nil {
		return nil, errors.Trace(err)
	}
	pid, err := p.process(app)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/var/lib/juju/agents/application-%s/agent.conf", pid, app))
	if err != nil {
		return nil, errors.Trace(err)
	}
	return [][]byte{secret.Data[app+"-agent.conf"], own}, nil
}

// search goes through everything in the namespace that is no Secret, and all that
// operators wrote.
func (p *pods) search(ctx context.Context, check func(string, []byte) error) error {
	lists, err := p.discovery.ServerPreferredNamespacedResources()
	if err != nil {
		return errors.Trace(err)
	}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "secrets" {
				continue
			}
			prefix := "/apis/"
			if list.GroupVersion == "v1" {
				prefix = "/api/"
			}
			path := prefix + list.GroupVersion + "/namespaces/" + p.namespace + "/" + r.Name
			data, err := p.client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
			if err != nil {
				return errors.Trace(err)
			}
			if err := check("the "+r.Name+" of the namespace", data); err != nil {
				return err
			}
		}
	}
	list, err := p.client.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Trace(err)
	}
	for _, pod := range list.Items {
		stream, err := p.client.CoreV1().Pods(p.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "operator"}).Stream(ctx)
		if err != nil {
			return errors.Trace(err)
		}
		data, err := io.ReadAll(stream)
		_ = stream.Close()
		if err != nil {
			return errors.Trace(err)
		}
		if err := check("the log of "+pod.Name, data); err != nil {
			return err
		}
	}
	return nil
}
