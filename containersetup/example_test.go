package containersetup_test

import (
	"context"
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// An agent brings its controller, the back ends of this host, the machine lock,
// and what sees and bridges the host's network; here all are in memory. The
// first container of a type has the host prepared for that type, phase by
// phase.
func ExampleNew() {
	faults := fakes.NewFaults(clock.WallClock)
	machine := fakes.NewMachine(faults, "0")
	host := fakes.NewHost(faults)
	machine.AddContainer("0/lxd/0", fakes.Container{})

	phases := make(phaseChannel, 100)
	w, err := containersetup.New(containersetup.Config{
		Facade:    machine,
		MachineID: "0",
		Backends:  host.Backends(containersetup.LXD, containersetup.KVM),
		Lock:      host.Lock(),
		Network:   host.Network(),
		Bridger:   host.Bridger(),
		Clock:     clock.WallClock,
		Metrics:   phases,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	for attempt := range phases {
		fmt.Println(attempt.Type, attempt.Phase, attempt.Err)
		if attempt.Phase == containersetup.PhaseProvisioner {
			break
		}
	}
	fmt.Println("prepared for lxd:", host.Initialisations("lxd"), "time, for kvm:", host.Initialisations("kvm"))

	w.Kill()
	fmt.Println("ended with", w.Wait())
	// Output:
	// lxd settings <nil>
	// lxd initialise <nil>
	// lxd network <nil>
	// lxd broker <nil>
	// lxd provisioner <nil>
	// prepared for lxd: 1 time, for kvm: 0
	// ended with <nil>
}

// A config with a mistake starts nothing.
func ExampleNew_notValid() {
	_, err := containersetup.New(containersetup.Config{MachineID: "0"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// container setup config: nil Facade not valid
	// true
}

func ExampleConfig_Validate() {
	_, _, config, _ := exampleWorld()
	fmt.Println(config.Validate())
	config.Backends["lxd"] = containersetup.Backend{}
	fmt.Println(config.Validate())
	config.MachineID = "machine-0"
	fmt.Println(config.Validate())
	// Output:
	// <nil>
	// Backends["lxd"]: nil Initialiser not valid
	// MachineID: machine id "machine-0" not valid
}

// A host that knows by itself which types it can have need not have the
// controller asked.
func ExampleConfig_supportedTypes() {
	machine, host, config, phases := exampleWorld()
	config.SupportedTypes = []containersetup.ContainerType{"kvm"}
	machine.AddContainer("0/kvm/0", fakes.Container{})

	w := start(config)
	defer stop(w)
	fmt.Println(phases.wait(containersetup.PhaseProvisioner).Type, "is prepared")
	fmt.Println("the controller was asked", host.Faults().Count("SupportedContainers", ""), "times")
	// Output:
	// kvm is prepared
	// the controller was asked 0 times
}

// The provisioner of each type gets its defaults changed here. It runs once
// the type is prepared, and starts the container.
func ExampleConfig_newProvisioner() {
	machine, host, config, _ := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	settled := make(chan string, 100)
	config.NewProvisioner = func(config containerprovisioner.Config) (worker.Worker, error) {
		config.Concurrency = 8
		config.Metrics = passes(func(pass containerprovisioner.Pass) {
			if pass.Outcome == containerprovisioner.OutcomeSettled {
				settled <- pass.Container
			}
		})
		// Not return containerprovisioner.New(config): a nil *Worker is not
		// a nil worker.Worker.
		w, err := containerprovisioner.New(config)
		if err != nil {
			return nil, err
		}
		return w, nil
	}

	w := start(config)
	defer stop(w)
	fmt.Println(<-settled, "is settled")
	fmt.Println("running:", host.Running())
	fmt.Println("recorded:", machine.InstanceInfo("0/lxd/0").InstanceID)
	// Output:
	// 0/lxd/0 is settled
	// running: [0/lxd/0]
	// recorded: juju-6f2e04-0-lxd-0
}

// passes makes a containerprovisioner.Metrics of a function.
type passes func(containerprovisioner.Pass)

func (p passes) PassDone(pass containerprovisioner.Pass) { p(pass) }

// Each type is prepared by itself: a slow installation of one does not delay
// another, but for the machine lock that both need.
func ExampleWorker() {
	machine, host, config, phases := exampleWorld()
	gate := fakes.NewGate()
	host.Faults().Add(fakes.Rule{Method: "NewBroker", Key: "lxd", Effect: fakes.Effect{Gate: gate}})

	w := start(config)
	defer stop(w)
	machine.AddContainer("0/lxd/0", fakes.Container{})
	<-gate.Arrived()
	machine.AddContainer("0/kvm/0", fakes.Container{})
	fmt.Println(phases.wait(containersetup.PhaseProvisioner).Type, "is prepared")
	gate.Release()
	fmt.Println(phases.wait(containersetup.PhaseProvisioner).Type, "is prepared")
	// Output:
	// kvm is prepared
	// lxd is prepared
}

// On a machine that can have no containers at all there is nothing to do,
// once whoever asked for one was told so. A Manifold is uninstalled then.
func ExampleWorker_Wait() {
	machine, _, config, _ := exampleWorld()
	machine.SetSupported()
	machine.AddContainer("0/lxd/0", fakes.Container{})

	err := start(config).Wait()
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotSupported))
	fmt.Println(machine.Status("0/lxd/0").Message)
	// Output:
	// containers on machine 0 not supported
	// true
	// lxd containers cannot be had on this machine: this machine supports none
}

// While an installation takes its time after a first failure, the report says
// so.
func ExampleWorker_Report() {
	machine, host, config, _ := exampleWorld()
	gate := fakes.NewGate()
	host.Faults().Add(
		fakes.Rule{Method: "Initialise", Effect: fakes.Effect{Err: errors.New("no room on the disk")}},
		fakes.Rule{Method: "Initialise", Effect: fakes.Effect{Gate: gate}},
	)
	config.Backoff = func(time.Duration, int) time.Duration { return time.Millisecond }
	machine.AddContainer("0/lxd/0", fakes.Container{})
	machine.AddContainer("1/lxd/0", fakes.Container{})

	w := start(config)
	defer stop(w)
	<-gate.Arrived()
	report := w.Report()
	fmt.Println("supported:", report["supported"])
	fmt.Println("watching:", report["watching"])
	lxd := report["types"].(map[string]any)["lxd"].(map[string]any)
	// Besides: "since" and "next", in RFC 3339, and "lock-wait".
	fmt.Println(lxd["phase"], lxd["attempts"], lxd["error"], "waiting:", lxd["waiting"])
	fmt.Println(report["skipped"])
	// Output:
	// supported: lxd, kvm
	// watching: true
	// initialise 1 no room on the disk waiting: 1
	// map[1/lxd/0:not directly on machine 0]
}

// The examples of the phases tell how far the preparation of a type has come,
// and what its users see of that.

// The settings are the controller's. The back end gets them when it makes its
// broker.
func ExamplePhase_settings() {
	machine, host, config, phases := exampleWorld()
	machine.SetManagerConfig("lxd", facade.ContainerManagerConfig{"image-source": "local"})
	machine.AddContainer("0/lxd/0", fakes.Container{})

	w := start(config)
	defer stop(w)
	fmt.Println(phases.wait(containersetup.PhaseSettings).Err)
	fmt.Println(phases.wait(containersetup.PhaseBroker).Err)
	_, settings := host.Brokers("lxd")
	fmt.Println(settings)
	// Output:
	// <nil>
	// <nil>
	// map[image-source:local]
}

// The host is changed under the machine lock alone, however long somebody else
// has that. Those who wait for the type see what for.
func ExamplePhase_initialise() {
	machine, host, config, phases := exampleWorld()
	free := host.Lock().Occupy(containersetup.Holder{Worker: "upgrader", Reason: "upgrade packages"}, 4711)
	machine.AddContainer("0/lxd/0", fakes.Container{})

	seen := watched(machine)
	config.Facade = seen
	w := start(config)
	defer stop(w)
	for status := range seen.statuses {
		if status.Message == "preparing for lxd: initialise" {
			fmt.Println(status.State, status.Message)
			break
		}
	}
	fmt.Println("prepared:", host.Initialisations("lxd"), "times")
	free()
	fmt.Println(phases.wait(containersetup.PhaseInitialise).Err)
	fmt.Println("prepared:", host.Initialisations("lxd"), "time")
	// Output:
	// pending preparing for lxd: initialise
	// prepared: 0 times
	// <nil>
	// prepared: 1 time
}

// A phase that fails is repeated after a back-off, and the phases before it
// are not.
func ExamplePhase_retried() {
	machine, host, config, phases := exampleWorld()
	host.Faults().Fail("Initialise", "lxd", errors.New("the package manager is busy"))
	config.Backoff = func(time.Duration, int) time.Duration { return time.Millisecond }
	machine.AddContainer("0/lxd/0", fakes.Container{})

	w := start(config)
	defer stop(w)
	for attempt := range phases {
		fmt.Println(attempt.Phase, attempt.Err)
		if attempt.Phase == containersetup.PhaseBroker {
			break
		}
	}
	// Output:
	// settings <nil>
	// initialise the package manager is busy
	// initialise <nil>
	// network <nil>
	// broker <nil>
}

// What a preparation may have changed of the host's network is published.
func ExamplePhase_network() {
	machine, _, config, phases := exampleWorld()
	// No device of the host needs a bridge for it.
	machine.AddContainer("0/lxd/0", fakes.Container{Devices: []facade.DeviceToBridge{}})

	w := start(config)
	defer stop(w)
	fmt.Println(phases.wait(containersetup.PhaseNetwork).Err)
	network, times := machine.Network()
	fmt.Println("published", times, "time:")
	for _, i := range network {
		fmt.Println(i.Name, i.Addresses)
	}
	// Output:
	// <nil>
	// published 1 time:
	// lo [127.0.0.1/8]
	// eth0 [10.0.0.5/24]
	// eth1 [10.0.2.5/24]
}

// Only a prepared host has something to connect to. A panic in a back end is
// the failure of one attempt for one type.
func ExamplePhase_broker() {
	machine, host, config, phases := exampleWorld()
	host.Faults().Add(fakes.Rule{Method: "NewBroker", Effect: fakes.Effect{Panic: "nil map"}})
	config.Backoff = func(time.Duration, int) time.Duration { return time.Millisecond }
	machine.AddContainer("0/lxd/0", fakes.Container{})

	w := start(config)
	defer stop(w)
	fmt.Println(phases.wait(containersetup.PhaseBroker).Err)
	fmt.Println(phases.wait(containersetup.PhaseBroker).Err)
	// Output:
	// panic: nil map
	// <nil>
}

// The type is prepared, and its provisioner runs. After a restart of the agent
// the way is gone again, and the host is found prepared.
func ExamplePhase_ready() {
	machine, host, config, phases := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	for range 2 {
		w := start(config)
		fmt.Println(phases.wait(containersetup.PhaseProvisioner).Err)
		stop(w)
	}
	fmt.Println("prepared:", host.Initialisations("lxd"), "time")
	// Output:
	// <nil>
	// <nil>
	// prepared: 1 time
}

// An initialiser that returns errors.NotSupported is not asked again: this
// machine can never have such containers. Others are not concerned.
func ExamplePhase_refused() {
	machine, host, config, phases := exampleWorld()
	host.SetUnsupported("kvm")
	machine.AddContainer("0/kvm/0", fakes.Container{})

	seen := watched(machine)
	config.Facade = seen
	w := start(config)
	defer stop(w)
	fmt.Println(phases.wait(containersetup.PhaseInitialise).Err)
	status := seen.wait(facade.ContainerError)
	fmt.Println(status.ID, status.State)

	machine.AddContainer("0/lxd/0", fakes.Container{})
	fmt.Println(phases.wait(containersetup.PhaseProvisioner).Type, "is prepared")
	// Output:
	// kvm containers on this machine not supported
	// 0/kvm/0 error
	// lxd is prepared
}

// A type that the controller supports here and this agent has no back end for
// cannot be had either. Its containers say so, once.
func ExamplePhase_withoutBackend() {
	machine, host, config, _ := exampleWorld()
	config.Backends = host.Backends("lxd")
	machine.AddContainer("0/kvm/0", fakes.Container{})

	seen := watched(machine)
	config.Facade = seen
	w := start(config)
	defer stop(w)
	status := seen.wait(facade.ContainerError)
	fmt.Println(status.ID, status.Message)
	fmt.Println(w.Report()["refused"], "refused")
	// Output:
	// 0/kvm/0 kvm containers cannot be had on this machine: this agent has a back end for lxd
	// 1 refused
}

func ExampleParseContainerID() {
	for _, s := range []string{"0/lxd/1", "0/kvm/2/lxd/0", "0"} {
		id, err := containersetup.ParseContainerID(s)
		if err != nil {
			fmt.Println(err, errors.Is(err, errors.NotValid))
			continue
		}
		fmt.Println("host", id.Host, "type", id.Type, "number", id.Number)
	}
	// Output:
	// host 0 type lxd number 1
	// host 0/kvm/2 type lxd number 0
	// container id "0" (want HOST/TYPE/NUMBER) not valid true
}

// A back end is two things: who prepares the host, and what makes the broker
// afterwards.
func ExampleBackend() {
	backend := containersetup.Backend{Initialiser: nothingToInstall{}}
	fmt.Println(backend.Validate())
	backend.NewBroker = func(context.Context, facade.ContainerManagerConfig) (containersetup.Broker, error) {
		return nil, errors.NotYetAvailablef("socket of the daemon")
	}
	fmt.Println(backend.Validate())
	// Output:
	// nil NewBroker not valid
	// <nil>
}

// nothingToInstall is a containersetup.Initialiser of a host that comes with
// everything.
type nothingToInstall struct{}

func (nothingToInstall) Initialise(ctx context.Context) error { return ctx.Err() }
