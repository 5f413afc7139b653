package embedding

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"
	"k8s.io/client-go/rest"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes"
)

// clusterManager is a manifold of operators that are pods.
func clusterManager(cluster *rest.Config, modelUUID, namespace string, logger *slog.Logger) dependency.Manifold {
	return dependency.Manifold{
		Inputs: []string{"clock"},
		Start: func(context dependency.Context) (worker.Worker, error) {
			config := kubernetes.Config{
				REST: cluster, Namespace: namespace, ModelUUID: modelUUID, Logger: logger,
			}
			if err := context.Get("clock", &config.Clock); err != nil {
				return nil, errors.Trace(err)
			}
			return kubernetes.New(config)
		},
		Output: func(in worker.Worker, out any) error {
			manager, ok := in.(*kubernetes.Manager)
			target, ok2 := out.(*operator.Manager)
			if !ok || !ok2 {
				return errors.Errorf("manager %T for %T", in, out)
			}
			*target = manager
			return nil
		},
	}
}

// hostParts is what container set-up is given on a real machine.
type hostParts struct {
	backends map[containersetup.ContainerType]containersetup.Backend
	network  containersetup.NetworkObserver
	bridger  containersetup.Bridger
}

// newHostParts changes nothing yet. Its state folder has what was done to the
// machine, by which it is undone.
func newHostParts(modelUUID, controllerUUID, stateDir, program string, logger *slog.Logger) (hostParts, error) {
	containers, err := lxd.NewBackend(lxd.Config{
		ModelUUID: modelUUID, ControllerUUID: controllerUUID,
		StateDir: filepath.Join(stateDir, "lxd"), Logger: logger,
	})
	if err != nil {
		return hostParts{}, errors.Trace(err)
	}
	machines, err := kvm.NewBackend(kvm.Config{
		ModelUUID: modelUUID, ControllerUUID: controllerUUID,
		StateDir: filepath.Join(stateDir, "kvm"), Logger: logger,
	})
	if err != nil {
		return hostParts{}, errors.Trace(err)
	}
	machine := host.New(host.Config{})
	observer, err := hostnet.NewObserver(hostnet.ObserverConfig{Host: machine, Logger: logger})
	if err != nil {
		return hostParts{}, errors.Trace(err)
	}
	networkDir := filepath.Join(stateDir, "network")
	bridger, err := hostnet.NewBridger(hostnet.BridgerConfig{
		Host: machine, Clock: clock.WallClock, StateDir: networkDir, Logger: logger,
		// The agent's own program, with a command that calls hostnet.RunWatchdog.
		Watchdog: []string{program, "watch-network", "--dir", networkDir},
	})
	if err != nil {
		return hostParts{}, errors.Trace(err)
	}
	return hostParts{
		backends: map[containersetup.ContainerType]containersetup.Backend{
			containersetup.LXD: containers,
			containersetup.KVM: machines,
		},
		network: observer,
		bridger: bridger,
	}, nil
}

func Example_cluster() {
	manifold := clusterManager(&rest.Config{Host: "https://10.0.0.1:6443"}, fakes.ModelUUID, "shop", nil)
	fmt.Println(manifold.Inputs)
	fmt.Println(kubernetes.Config{Namespace: "Shop"}.Validate())
	// Output:
	// [clock]
	// nil Client and nil REST (want one of them) not valid
}

func Example_host() {
	parts, err := newHostParts(fakes.ModelUUID, fakes.ControllerUUID, "/var/lib/agent", "/usr/bin/agent", nil)
	fmt.Println(slices.Sorted(maps.Keys(parts.backends)), err)
	// Output: [kvm lxd] <nil>
}
