package containerprovisioner_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/containersetup/hostprep"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// On a machine that is prepared, a controller and a broker are all that it
// takes; here both are in memory.
func ExampleNew() {
	faults := fakes.NewFaults(clock.WallClock)
	machine := fakes.NewMachine(faults, "0")
	host := fakes.NewHost(faults)
	machine.AddContainer("0/lxd/0", fakes.Container{})

	passes := make(passChannel, 100)
	w, err := containerprovisioner.New(containerprovisioner.Config{
		Facade:    machine,
		MachineID: "0",
		Type:      container.LXD,
		Broker:    connect(host),
		Clock:     clock.WallClock,
		Metrics:   passes,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	pass := <-passes
	fmt.Println(pass.Container, "is", pass.Outcome)
	fmt.Println("running:", host.Running())
	fmt.Println("recorded:", machine.InstanceInfo("0/lxd/0").InstanceID)

	w.Kill()
	fmt.Println("ended with", w.Wait())
	// Output:
	// 0/lxd/0 is settled
	// running: [0/lxd/0]
	// recorded: juju-6f2e04-0-lxd-0
	// ended with <nil>
}

// A config with a mistake starts nothing.
func ExampleNew_notValid() {
	_, err := containerprovisioner.New(containerprovisioner.Config{MachineID: "0"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// container provisioner config: nil Facade not valid
	// true
}

func ExampleConfig_Validate() {
	_, _, config, _ := exampleWorld()
	fmt.Println(config.Validate())
	config.HarvestMode = "some"
	fmt.Println(config.Validate())
	config.Type = "LXD"
	fmt.Println(config.Validate())
	// Output:
	// <nil>
	// HarvestMode: harvest mode "some" (want none, unknown, destroyed or all) not valid
	// Type: container type "LXD" not valid
}

// The host is readied for each container before that starts. Two need one
// bridge, and the second finds it there.
func ExampleConfig_preparer() {
	machine, host, config, passes := exampleWorld()
	preparer, err := hostprep.New(hostprep.Config{
		Facade:    machine,
		MachineID: "0",
		Lock:      host.Lock(),
		Network:   host.Network(),
		Bridger:   host.Bridger(),
		Clock:     clock.WallClock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	config.Preparer = preparer

	w := start(config)
	defer stop(w)
	for _, id := range []string{"0/lxd/0", "0/lxd/1"} {
		machine.AddContainer(id, fakes.Container{})
		fmt.Println(id, "is", passes.wait(id).Outcome)
	}
	fmt.Println("eth0 was bridged", host.Bridgings("eth0"), "time")
	// Output:
	// 0/lxd/0 is settled
	// 0/lxd/1 is settled
	// eth0 was bridged 1 time
}

// Only so many instances are being started at once; here, one.
func ExampleConfig_concurrency() {
	machine, host, config, passes := exampleWorld()
	gate := fakes.NewGate()
	host.Faults().Add(fakes.Rule{Method: "StartInstance", Key: "0/lxd/0", Effect: fakes.Effect{Gate: gate}})
	machine.AddContainer("0/lxd/0", fakes.Container{})

	config.Concurrency = 1
	w := start(config)
	defer stop(w)
	<-gate.Arrived()
	machine.AddContainer("0/lxd/1", fakes.Container{})
	pass := passes.wait("0/lxd/1")
	fmt.Println(pass.Outcome, pass.Err)
	fmt.Println("starting:", w.Report()["totals"].(map[string]any)["starting"])
	gate.Release()
	fmt.Println(passes.wait("0/lxd/1").Outcome)
	// Output:
	// waiting waits for a turn to start
	// starting: 1
	// settled
}

// An agent died after it had started an instance, and before that was recorded.
// The next one finds it again, and starts no second one.
func ExampleWorker() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	host.Faults().Fail("SetInstanceInfo", "", errors.New("the controller is busy"))
	config.Backoff = late
	w := start(config)
	fmt.Println(passes.wait("0/lxd/0").Err)
	stop(w)

	w = start(config)
	defer stop(w)
	fmt.Println(passes.wait("0/lxd/0").Outcome)
	fmt.Println("recorded:", machine.InstanceInfo("0/lxd/0").InstanceID)
	fmt.Println("started", host.Starts("0/lxd/0"), "time")
	// Output:
	// recording the instance: the controller is busy
	// settled
	// recorded: juju-6f2e04-0-lxd-0
	// started 1 time
}

// Only a lost connection, or a watcher that ends, ends the worker.
func ExampleWorker_Wait() {
	machine, _, config, _ := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	machine.Faults().Fail("Containers", "", facade.ErrConnectionLost)

	err := start(config).Wait()
	fmt.Println(err)
	fmt.Println(errors.Is(err, facade.ErrConnectionLost))
	// Output:
	// talking to the controller: controller connection lost
	// true
}

// The report has totals, and describes each container that is not settled.
func ExampleWorker_Report() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	host.Faults().Fail("StartInstance", "0/lxd/0", errors.New("no room"))

	config.Backoff = late
	w := start(config)
	defer stop(w)
	passes.wait("0/lxd/0")
	report := w.Report()
	fmt.Println(report["totals"])
	for _, item := range report["containers"].([]any) {
		c := item.(map[string]any)
		// Besides: "since" and "next", in RFC 3339.
		fmt.Println(c["id"], c["state"], c["error"], c["attempts"], c["left"])
	}
	fmt.Println(report["harvest-mode"])
	// Output:
	// map[error:0 failed:1 queued:0 running:0 settled:0 starting:0 stopping:0 waiting:0]
	// 0/lxd/0 failed starting the instance: no room 1 9
	// destroyed
}

// The examples of the seven outcomes tell how a pass over one container ends,
// and what is done about it.

// The instance runs, is recorded, and shown so. Nothing more is done until
// something changes.
func ExampleOutcome_settled() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})

	w := start(config)
	defer stop(w)
	fmt.Println(passes.wait("0/lxd/0").Outcome)
	fmt.Println("running:", host.Running())
	fmt.Println("users see", machine.Status("0/lxd/0").State)
	// Output:
	// settled
	// running: [0/lxd/0]
	// users see running
}

// The container is dead. Its instance goes, then its addresses, then the
// container itself.
func ExampleOutcome_forgotten() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	w := start(config)
	defer stop(w)
	passes.wait("0/lxd/0", containerprovisioner.OutcomeSettled)

	machine.SetLife("0/lxd/0", facade.Dead)
	fmt.Println(passes.wait("0/lxd/0", containerprovisioner.OutcomeForgotten).Outcome)
	fmt.Println(host.Running(), machine.Addresses(), machine.IDs())
	// Output:
	// forgotten
	// [] [] []
}

// The controller has not said yet which instances are to be taken away, so
// none is.
func ExampleOutcome_waiting() {
	machine, host, config, passes := exampleWorld()
	gate := fakes.NewGate()
	machine.Faults().Add(fakes.Rule{Method: "HarvestMode", Effect: fakes.Effect{Gate: gate}})
	host.AddInstance("0/lxd/0", true)
	machine.AddContainer("0/lxd/0", fakes.Container{
		Life: facade.Dead, InstanceID: string(fakes.InstanceID("0/lxd/0")),
	})

	config.Facade = machine // also a facade.HarvestWatcher
	w := start(config)
	defer stop(w)
	pass := passes.wait("0/lxd/0")
	fmt.Println(pass.Outcome, pass.Err)
	gate.Release()
	fmt.Println(passes.wait("0/lxd/0", containerprovisioner.OutcomeForgotten).Outcome)
	// Output:
	// waiting waits for the harvest mode to be known
	// forgotten
}

// An error that may pass by itself: the next try comes after a back-off. Users
// see what went wrong, how many attempts are left, and when the next one is.
func ExampleOutcome_failed() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	host.Faults().Fail("StartInstance", "0/lxd/0", errors.New("no room"))

	config.Backoff = late
	w := start(config)
	defer stop(w)
	pass := passes.wait("0/lxd/0")
	fmt.Println(pass.Outcome, "with:", pass.Err)
	status := machine.Status("0/lxd/0")
	message, _, _ := strings.Cut(status.Message, ", next at")
	fmt.Println(status.State, message)
	// Output:
	// failed with: starting the instance: no room
	// provisioning starting the instance: no room; 9 of 10 attempts left
}

// An error that no repetition mends: here, what was recorded is gone. No other
// instance takes its place, since what was in it would be lost silently.
func ExampleOutcome_permanent() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{InstanceID: string(fakes.InstanceID("0/lxd/0"))})

	config.Backoff = soon
	w := start(config)
	defer stop(w)
	pass := passes.wait("0/lxd/0", containerprovisioner.OutcomePermanent)
	fmt.Println(pass.Outcome, "with:", pass.Err)
	fmt.Println("users see", machine.Status("0/lxd/0").State)
	fmt.Println("started", host.Starts("0/lxd/0"), "times")
	// Output:
	// permanent with: recorded instance "juju-6f2e04-0-lxd-0" not found
	// users see error
	// started 0 times
}

// All attempts are used up. It is not started until somebody asks for it again,
// by setting its status to pending.
func ExampleOutcome_givenUp() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	host.Faults().Add(fakes.Rule{Method: "StartInstance", Times: 2, Effect: fakes.Effect{Err: errors.New("no room")}})

	config.MaxAttempts = 2
	config.Backoff = soon
	w := start(config)
	defer stop(w)
	fmt.Println(passes.wait("0/lxd/0", containerprovisioner.OutcomeGivenUp).Outcome)
	status := machine.Status("0/lxd/0")
	fmt.Println(status.State, status.Message)

	machine.AskAgain("0/lxd/0")
	fmt.Println(passes.wait("0/lxd/0", containerprovisioner.OutcomeSettled).Outcome)
	// Output:
	// given up
	// error starting the instance: no room; given up after 2 attempts
	// settled
}

// A panic in a facade, a broker or a preparer is the failure of the one
// container that was being looked at. The stack is in the log.
func ExampleOutcome_panicked() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	host.Faults().Add(fakes.Rule{Method: "StartInstance", Effect: fakes.Effect{Panic: "index out of range"}})

	config.Backoff = late
	w := start(config)
	defer stop(w)
	pass := passes.wait("0/lxd/0")
	fmt.Println(pass.Outcome, "with:", pass.Err)
	// Output: panicked with: panic: index out of range
}

// The examples of the harvest modes tell which instances are taken away.

// With destroyed, the default, and all, the instance of a dead container goes.
// With none and unknown it runs on, with its addresses, and the container goes.
func ExampleConfig_harvestDead() {
	for _, mode := range []facade.HarvestMode{facade.HarvestNone, facade.HarvestDestroyed} {
		machine, host, config, passes := exampleWorld()
		host.AddInstance("0/lxd/0", true)
		machine.AddContainer("0/lxd/0", fakes.Container{
			Life: facade.Dead, InstanceID: string(fakes.InstanceID("0/lxd/0")),
		})

		config.HarvestMode = mode
		w := start(config)
		passes.wait("0/lxd/0")
		fmt.Println(mode, "leaves instances", host.Running(), "and containers", machine.IDs())
		stop(w)
	}
	// Output:
	// none leaves instances [0/lxd/0] and containers []
	// destroyed leaves instances [] and containers []
}

// With unknown and all, an instance goes that the controller knows nothing of.
// With the others it is reported.
func ExampleConfig_harvestUnknown() {
	for _, mode := range []facade.HarvestMode{facade.HarvestDestroyed, facade.HarvestAll} {
		_, host, config, passes := exampleWorld()
		host.AddInstance("0/lxd/9", true)

		config.HarvestMode = mode
		w := start(config)
		fmt.Println(mode, "has it", passes.wait("0/lxd/9").Outcome, "and leaves", host.Running())
		fmt.Println(w.Report()["unknown-instances"])
		stop(w)
	}
	// Output:
	// destroyed has it settled and leaves [0/lxd/9]
	// [map[container:0/lxd/9 instance:juju-6f2e04-0-lxd-9]]
	// all has it forgotten and leaves []
	// <nil>
}

// A facade that is a facade.HarvestWatcher has the mode followed as it changes.
func ExampleConfig_harvestWatcher() {
	machine, host, config, passes := exampleWorld()
	host.AddInstance("0/lxd/9", true)

	config.Facade = machine
	w := start(config)
	defer stop(w)
	fmt.Println(passes.wait("0/lxd/9", containerprovisioner.OutcomeSettled).Outcome)
	machine.SetHarvestMode(facade.HarvestAll)
	fmt.Println(passes.wait("0/lxd/9", containerprovisioner.OutcomeForgotten).Outcome)
	fmt.Println("running:", host.Running())
	// Output:
	// settled
	// forgotten
	// running: []
}

// preparing is a Preparer made of a function.
type preparing func(ctx context.Context, id string) error

func (p preparing) Prepare(ctx context.Context, id string) error { return p(ctx, id) }

// A host that keeps a container from starting may do so by its Preparer. Each
// refusal counts as an attempt.
func ExamplePreparer() {
	machine, host, config, passes := exampleWorld()
	machine.AddContainer("0/lxd/0", fakes.Container{})
	config.Preparer = preparing(func(_ context.Context, id string) error {
		return errors.Errorf("no disk is left for %s", id)
	})

	config.Backoff = late
	w := start(config)
	defer stop(w)
	pass := passes.wait("0/lxd/0")
	fmt.Println(pass.Outcome, "with:", pass.Err)
	fmt.Println("running:", host.Running())
	// Output:
	// failed with: preparing the host: no disk is left for 0/lxd/0
	// running: []
}
