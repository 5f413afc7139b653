package kubetest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/internal/controlplane"
)

// ControlPlane is a control plane of a test's own, with the fake node. The test's
// processes are the only ones that use it, but for its controllers.
type ControlPlane struct {
	*Cluster
	processes *controlplane.ControlPlane
}

// Private starts a control plane, from the same programs as the test bed's, which
// has to be up; it stops when the test ends, or when the test's process dies.
func Private(t testing.TB) *ControlPlane {
	t.Helper()
	shared, err := controlplane.Open(filepath.Join(controlplane.Root(), "k8s"))
	if err != nil {
		missing(t, requireCluster, "no Kubernetes programs: the test bed is not up (make testbed): %v", err)
	}
	// Not t.TempDir, whose path tells the test's name and may be very long.
	dir, err := os.MkdirTemp("", "sutler-k8s-") //nolint:usetesting // See above.
	if err != nil {
		t.Fatal(err)
	}
	processes, err := controlplane.Start(t.Context(), controlplane.Config{Dir: dir, Bin: shared.Bin, Tool: shared.Tool})
	if err != nil {
		t.Fatalf("starting a control plane in %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := processes.Stop(); err != nil {
			t.Errorf("stopping the control plane in %s: %v", dir, err)
		}
	})
	cluster, err := open(&clientcmd.ClientConfigLoadingRules{ExplicitPath: processes.Kubeconfig("admin")})
	if err != nil {
		t.Fatalf("the control plane in %s: %v", dir, err)
	}
	return &ControlPlane{Cluster: cluster, processes: processes}
}

// Stop kills the API server. Connections to it break and new ones are refused.
func (c *ControlPlane) Stop(t testing.TB) {
	t.Helper()
	if err := c.processes.StopAPIServer(); err != nil {
		t.Fatalf("stopping the API server: %v", err)
	}
}

// Start starts the API server that [ControlPlane.Stop] has killed, at the same
// address, and waits until it is ready. Its data has been kept.
func (c *ControlPlane) Start(t testing.TB) {
	t.Helper()
	// Also in a clean-up, after the test's own context.
	if err := c.processes.StartAPIServer(context.Background()); err != nil {
		t.Fatalf("starting the API server: %v", err)
	}
}

// Freeze stops the API server in its tracks: connections stay and nothing is
// answered, until [ControlPlane.Thaw].
func (c *ControlPlane) Freeze(t testing.TB) {
	t.Helper()
	if err := c.processes.FreezeAPIServer(true); err != nil {
		t.Fatalf("freezing the API server: %v", err)
	}
}

// Thaw has a frozen API server go on.
func (c *ControlPlane) Thaw(t testing.TB) {
	t.Helper()
	if err := c.processes.FreezeAPIServer(false); err != nil {
		t.Fatalf("thawing the API server: %v", err)
	}
}
