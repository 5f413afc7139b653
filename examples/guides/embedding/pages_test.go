package embedding

import (
	"fmt"
	"log/slog"

	"github.com/juju/clock"
	"github.com/juju/worker/v3/dependency"
	"k8s.io/client-go/rest"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/operator/kubernetes"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
	"github.com/sutler-dev/sutler/provisioner"
)

// What other pages show, README.md first.

func installBoth(
	engine *dependency.Engine, modelUUID string, logger *slog.Logger,
	backends map[containersetup.ContainerType]containersetup.Backend,
	network containersetup.NetworkObserver, bridger containersetup.Bridger,
) error {
	err := dependency.Install(engine, dependency.Manifolds{
		"operator-provisioner": provisioner.Manifold(provisioner.ManifoldConfig{
			AgentName:           "agent",            // serves a provisioner.AgentConfig
			FacadeName:          "controller",       // serves a facade.Applications
			OperatorManagerName: "operator-manager", // serves an operator.Manager
			ClockName:           "clock",
			ModelUUID:           modelUUID,
			NewWorker:           provisioner.Start,
			Logger:              logger,
		}),
		"container-setup": containersetup.Manifold(containersetup.ManifoldConfig{
			FacadeName: "controller",   // serves a facade.Machine
			LockName:   "machine-lock", // serves a containersetup.Lock
			ClockName:  "clock",
			MachineID:  "0",
			Backends:   backends, // by type: what this host offers
			Network:    network,
			Bridger:    bridger,
			NewWorker:  containersetup.Start,
			Logger:     logger,
		}),
	})
	return err
}

func makeManager(restConfig *rest.Config, modelUUID string, logger *slog.Logger) error {
	manager, err := kubernetes.New(kubernetes.Config{
		REST:      restConfig,      // or Client, with limits of its own
		Namespace: "model-default", // has to exist
		ModelUUID: modelUUID,
		ModelName: "default",
		Clock:     clock.WallClock,
		Logger:    logger,
	})
	if err != nil {
		return err
	}
	manager.Kill()
	return manager.Wait()
}

func ledManifolds(config leader.ManifoldConfig, provisionerConfig provisioner.ManifoldConfig) dependency.Manifolds {
	return dependency.Manifolds{
		"leader-election":      leader.ElectionManifold(config),
		"leader":               leader.Manifold("leader-election"),
		"operator-provisioner": leader.Wrap(provisioner.Manifold(provisionerConfig), "leader"),
	}
}

func imagesOf() kvm.Config {
	return kvm.Config{
		Images: map[string]kvm.Image{"ubuntu/22.04": {URL: "https://cloud-images.ubuntu.com/...", SHA256: "..."}},
	}
}

func Example_pages() {
	engine, err := newEngine(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(engine)
	fmt.Println(installBoth(engine, "", nil, nil, nil, nil))
	fmt.Println(makeManager(&rest.Config{Host: "https://127.0.0.1:1"}, "8f0c5a7e-1b7d-4f0e-9a57-0f2f5b0f9b3d", nil))
	fmt.Println(len(ledManifolds(leader.ManifoldConfig{}, provisioner.ManifoldConfig{})), len(imagesOf().Images))
	// Output:
	// <nil>
	// <nil>
	// 3 1
}
