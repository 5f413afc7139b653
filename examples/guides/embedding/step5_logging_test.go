package embedding

import (
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

func Example_logging() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	controller.AddApplication("mysql", fakes.App{})
	// The manager refuses once.
	manager.Faults().Fail("EnsureOperator", "mysql", errors.New("disk is full"))

	heard := make(passes, 100)
	w, err := provisioner.New(provisioner.Config{
		Facade: controller.Plain(), OperatorManager: manager.Plain(),
		Agent: fakes.NewAgent(controller.CACert()), ModelUUID: fakes.ModelUUID, Clock: clock.WallClock,
		Metrics: heard,
		Backoff: func(time.Duration, int) time.Duration { return time.Millisecond },
		Logger:  plain().With("worker", "operator-provisioner"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(w)
	for (<-heard).Outcome != provisioner.OutcomeSettled {
	}
	// Output:
	// level=WARN msg="application is not provisioned" worker=operator-provisioner application=mysql outcome=failed error="ensuring the operator: disk is full" next=1ms attempts=1
	// level=INFO msg="operator created" worker=operator-provisioner application=mysql
}
