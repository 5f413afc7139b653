package provisioner_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// What the examples share. Each shows a minute of somebody's use; what is
// usual about it stands here.

// passChannel is a provisioner.Metrics for whoever waits for passes. One that
// finds the channel full is dropped, since PassDone must not block.
type passChannel chan provisioner.Pass

func (c passChannel) PassDone(pass provisioner.Pass) {
	select {
	case c <- pass:
	default:
	}
}

// exampleWorld returns a controller and a manager in memory, and the smallest
// config of a worker on them. Neither offers it an optional interface, so that
// nothing but what the example does causes a pass.
func exampleWorld() (*fakes.Controller, *fakes.Manager, provisioner.Config) {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	return controller, manager, provisioner.Config{
		Facade:          controller.Plain(),
		OperatorManager: manager.Plain(),
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
	}
}

// start starts a worker and returns the first pass over the application that
// ended with one of the outcomes, with any when none is named.
func start(config provisioner.Config, app string, outcomes ...provisioner.Outcome) (*provisioner.Worker, provisioner.Pass) {
	passes := make(passChannel, 1000)
	config.Metrics = passes
	w, err := provisioner.New(config)
	if err != nil {
		panic(err)
	}
	for pass := range passes {
		if pass.Application == app && (outcomes == nil || slices.Contains(outcomes, pass.Outcome)) {
			return w, pass
		}
	}
	return w, provisioner.Pass{}
}

// stop ends a worker, and prints an error if there is one.
func stop(w *provisioner.Worker) {
	w.Kill()
	if err := w.Wait(); err != nil {
		fmt.Println("the worker ended with", err)
	}
}

// deleteBehindItsBack begins the deletion of an operator, as an operator's
// administrator might, over another connection than the worker's.
func deleteBehindItsBack(manager *fakes.Manager, app string) {
	session := manager.Session(fakes.NewFaults(clock.WallClock))
	if err := session.DeleteOperator(context.Background(), app); err != nil {
		panic(err)
	}
}
