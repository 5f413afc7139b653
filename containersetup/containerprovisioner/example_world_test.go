package containerprovisioner_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
)

// What the examples share. Each shows a minute of somebody's use; what is
// usual about it stands here.

// passChannel is a containerprovisioner.Metrics for whoever waits for passes.
// One that finds the channel full is dropped, since PassDone must not block.
type passChannel chan containerprovisioner.Pass

func (c passChannel) PassDone(pass containerprovisioner.Pass) {
	select {
	case c <- pass:
	default:
	}
}

// wait returns the next pass over the container that ended with one of the
// outcomes, with any when none is named.
func (c passChannel) wait(id string, outcomes ...containerprovisioner.Outcome) containerprovisioner.Pass {
	for pass := range c {
		if pass.Container == id && (outcomes == nil || slices.Contains(outcomes, pass.Outcome)) {
			return pass
		}
	}
	return containerprovisioner.Pass{}
}

// exampleWorld returns a machine's controller and a host in memory, which is
// prepared for lxd, and the smallest config of a worker on them, with a channel
// of its passes.
func exampleWorld() (*fakes.Machine, *fakes.Host, containerprovisioner.Config, passChannel) {
	faults := fakes.NewFaults(clock.WallClock)
	machine := fakes.NewMachine(faults, "0")
	host := fakes.NewHost(faults)
	passes := make(passChannel, 1000)
	return machine, host, containerprovisioner.Config{
		Facade:    machine.Plain(),
		MachineID: machine.ID(),
		Type:      container.LXD,
		Broker:    connect(host),
		Clock:     clock.WallClock,
		Metrics:   passes,
	}, passes
}

// connect prepares the host for lxd and returns a broker, as the container-setup
// handler does.
func connect(host *fakes.Host) container.Broker {
	ctx := context.Background()
	backend := host.Backend(container.LXD)
	if err := backend.Initialiser.Initialise(ctx); err != nil {
		panic(err)
	}
	broker, err := backend.NewBroker(ctx, nil)
	if err != nil {
		panic(err)
	}
	return broker
}

// start starts a worker.
func start(config containerprovisioner.Config) *containerprovisioner.Worker {
	w, err := containerprovisioner.New(config)
	if err != nil {
		panic(err)
	}
	return w
}

// stop ends a worker, and prints an error if there is one.
func stop(w *containerprovisioner.Worker) {
	w.Kill()
	if err := w.Wait(); err != nil {
		fmt.Println("the worker ended with", err)
	}
}

// soon and late are back-offs for those who want to see what comes after a
// failure, and for those who do not.
func soon(time.Duration, int) time.Duration { return time.Millisecond }

func late(time.Duration, int) time.Duration { return time.Hour }
