package embedding

import (
	"fmt"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

func Example_provisioner() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	controller.AddApplication("mysql", fakes.App{})

	heard := make(passes, 100)
	w, err := provisioner.New(provisioner.Config{
		Facade:          controller,
		OperatorManager: manager,
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
		Metrics:         heard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(w)

	pass := <-heard
	fmt.Println(pass.Application, "is", pass.Outcome)
	fmt.Println("the operator's agent.conf:", manager.AgentConf("mysql"))
	// Output:
	// mysql is settled
	// the operator's agent.conf: [redacted]
}
