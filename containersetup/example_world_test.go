package containersetup_test

import (
	"context"
	"fmt"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// What the examples share. Each shows a minute of somebody's use; what is
// usual about it stands here.

// phaseChannel is a containersetup.Metrics for whoever waits for phases. One
// that finds the channel full is dropped, since PhaseDone must not block.
type phaseChannel chan containersetup.PhaseAttempt

func (c phaseChannel) PhaseDone(attempt containersetup.PhaseAttempt) {
	select {
	case c <- attempt:
	default:
	}
}

// wait returns the next attempt at the phase.
func (c phaseChannel) wait(phase containersetup.Phase) containersetup.PhaseAttempt {
	for attempt := range c {
		if attempt.Phase == phase {
			return attempt
		}
	}
	return containersetup.PhaseAttempt{}
}

// exampleWorld returns a machine's controller and a host in memory, and the
// smallest config of a worker on them, with a channel of its phases.
func exampleWorld() (*fakes.Machine, *fakes.Host, containersetup.Config, phaseChannel) {
	faults := fakes.NewFaults(clock.WallClock)
	machine := fakes.NewMachine(faults, "0")
	host := fakes.NewHost(faults)
	done := make(phaseChannel, 1000)
	return machine, host, containersetup.Config{
		Facade:    machine,
		MachineID: machine.ID(),
		Backends:  host.Backends(containersetup.LXD, containersetup.KVM),
		Lock:      host.Lock(),
		Network:   host.Network(),
		Bridger:   host.Bridger(),
		Clock:     clock.WallClock,
		Metrics:   done,
	}, done
}

// start starts a worker.
func start(config containersetup.Config) *containersetup.Worker {
	w, err := containersetup.New(config)
	if err != nil {
		panic(err)
	}
	return w
}

// stop ends a worker, and prints an error if there is one.
func stop(w worker.Worker) {
	w.Kill()
	if err := w.Wait(); err != nil {
		fmt.Println("the worker ended with", err)
	}
}

// users see the statuses that are told of containers.
type users struct {
	facade.Machine
	statuses chan facade.ContainerStatus
}

// watched returns the machine's facade, and what its users see over it.
func watched(machine facade.Machine) *users {
	return &users{machine, make(chan facade.ContainerStatus, 1000)}
}

// SetContainerStatus is part of facade.ContainerStates.
func (u *users) SetContainerStatus(ctx context.Context, statuses []facade.ContainerStatus) ([]error, error) {
	results, err := u.Machine.SetContainerStatus(ctx, statuses)
	if err == nil {
		for _, status := range statuses {
			u.statuses <- status
		}
	}
	return results, err
}

// wait returns the first status of that state that is told.
func (u *users) wait(state facade.ContainerState) facade.ContainerStatus {
	for status := range u.statuses {
		if status.State == state {
			return status
		}
	}
	return facade.ContainerStatus{}
}
