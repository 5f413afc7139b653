package kubetest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/internal/controlplane"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/ociimage"
)

// NodeAddress is the real node's address, and so the test's, in the node's network.
// Pods find there what a test listens with.
const NodeAddress = "10.77.0.1"

// RealNode returns the test bed's cluster with a node that really runs pods. The
// test has to run in that node's network, by testbed/in-node; elsewhere, or without
// the node, it ends, as the package's documentation says.
func RealNode(t testing.TB) *Cluster {
	t.Helper()
	node := filepath.Join(controlplane.Root(), "node")
	state, err := controlplane.Open(filepath.Join(node, "k8s"))
	if err != nil {
		missing(t, requireNode, "no real Kubernetes node: the test bed's is not up (make testbed, as root): %v", err)
	}
	if !here(NodeAddress) {
		missing(t, requireNode, "not in the network of the test bed's real node (testbed/in-node go test ...)")
	}
	c, err := open(&clientcmd.ClientConfigLoadingRules{ExplicitPath: state.Kubeconfig("admin")})
	if err != nil {
		t.Fatalf("the test bed in %s: %v", state.Dir, err)
	}
	c.node = node
	return c
}

// here says whether the address is one of this machine's, in the test's network.
func here(address string) bool {
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
		return strings.HasPrefix(a.String(), address+"/")
	})
}

// LoadImage gives an image to the real node, where it stays. Pods that use it say
// imagePullPolicy Never, or IfNotPresent. On any other cluster the test fails.
func (c *Cluster) LoadImage(t testing.TB, image ociimage.Image) {
	t.Helper()
	if c.node == "" {
		t.Fatal("images can only be loaded into a cluster that RealNode returned")
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	err = ociimage.Write(file, image)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		t.Fatalf("writing image %s: %v", image.Name, err)
	}
	if output, err := exec.CommandContext(t.Context(), filepath.Join(c.node, "ctr"), "images", "import", path).CombinedOutput(); err != nil {
		t.Fatalf("loading image %s: %v\n%s", image.Name, err, output)
	}
}

// KillContainer kills the first process of a pod's container on the real node, as a
// crash would. On any other cluster the test fails.
func (c *Cluster) KillContainer(t testing.TB, pod *corev1.Pod, container string) {
	t.Helper()
	if c.node == "" {
		t.Fatal("containers can only be killed in a cluster that RealNode returned")
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != container {
			continue
		}
		id := strings.TrimPrefix(status.ContainerID, "containerd://")
		if output, err := exec.CommandContext(t.Context(), filepath.Join(c.node, "ctr"), "tasks", "kill", "--signal", "KILL", id).CombinedOutput(); err != nil {
			t.Fatalf("killing container %s of %s: %v\n%s", container, pod.Name, err, output)
		}
		return
	}
	t.Fatalf("pod %s has no container %s", pod.Name, container)
}
