package containersetup_test

import (
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// In an agent with a dependency engine, the handler is one manifold with three
// inputs. Here these only have a value; an agent's facade is a worker that holds
// a connection.
func ExampleManifold() {
	faults := fakes.NewFaults(clock.WallClock)
	machine := fakes.NewMachine(faults, "0")
	host := fakes.NewHost(faults)
	machine.AddContainer("0/lxd/0", fakes.Container{})
	phases := make(phaseChannel, 100)

	engine, err := dependency.NewEngine(engineConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = dependency.Install(engine, dependency.Manifolds{
		"controller":   enginevalue.Manifold[facade.Machine](machine),
		"machine-lock": enginevalue.Manifold[containersetup.Lock](host.Lock()),
		"clock":        enginevalue.Manifold[clock.Clock](clock.WallClock),
		"container-setup": containersetup.Manifold(containersetup.ManifoldConfig{
			FacadeName: "controller",
			LockName:   "machine-lock",
			ClockName:  "clock",
			MachineID:  "0",
			Backends:   host.Backends(containersetup.LXD),
			Network:    host.Network(),
			Bridger:    host.Bridger(),
			NewWorker: func(config containersetup.Config) (worker.Worker, error) {
				config.Metrics = phases
				return containersetup.Start(config)
			},
		}),
	})
	if err != nil {
		fmt.Println(err, worker.Stop(engine))
		return
	}

	fmt.Println(phases.wait(containersetup.PhaseProvisioner).Type, "is prepared")
	fmt.Println("ended with", worker.Stop(engine))
	// Output:
	// lxd is prepared
	// ended with <nil>
}

func engineConfig() dependency.EngineConfig {
	return dependency.EngineConfig{
		IsFatal:          func(error) bool { return false },
		WorstError:       func(first, _ error) error { return first },
		ErrorDelay:       time.Second,
		BounceDelay:      time.Millisecond,
		BackoffFactor:    1.5,
		BackoffResetTime: time.Minute,
		MaxDelay:         time.Minute,
		Clock:            clock.WallClock,
		Metrics:          dependency.DefaultMetrics(),
		Logger:           enginelog.New(nil),
	}
}

// A NewWorker of one's own is where a host sets what it wants other than the
// defaults.
func ExampleStart() {
	_, host, config, _ := exampleWorld()
	manifold := containersetup.ManifoldConfig{
		FacadeName: "controller",
		LockName:   "machine-lock",
		ClockName:  "clock",
		MachineID:  "0",
		Backends:   config.Backends,
		Network:    host.Network(),
		Bridger:    host.Bridger(),
		NewWorker: func(config containersetup.Config) (worker.Worker, error) {
			config.InitialiseTimeout = time.Hour
			return containersetup.Start(config)
		},
	}
	fmt.Println(manifold.Validate())
	// Output: <nil>
}

func ExampleManifoldConfig_Validate() {
	config := containersetup.ManifoldConfig{FacadeName: "controller"}
	fmt.Println(config.Validate())
	// Output: empty LockName not valid
}
