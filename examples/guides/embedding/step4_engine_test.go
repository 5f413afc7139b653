package embedding

import (
	"fmt"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/provisioner"
)

func Example_engine() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	controller.AddApplication("mysql", fakes.App{})

	engine, err := newEngine(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(engine)

	heard := make(passes, 100)
	err = dependency.Install(engine, dependency.Manifolds{
		"agent":            enginevalue.Manifold[provisioner.AgentConfig](fakes.NewAgent(controller.CACert())),
		"controller":       enginevalue.Manifold[facade.Applications](controller),
		"operator-manager": enginevalue.Manifold[operator.Manager](manager),
		"clock":            enginevalue.Manifold[clock.Clock](clock.WallClock),
		"operator-provisioner": provisioner.Manifold(provisioner.ManifoldConfig{
			AgentName:           "agent",
			FacadeName:          "controller",
			OperatorManagerName: "operator-manager",
			ClockName:           "clock",
			ModelUUID:           fakes.ModelUUID,
			NewWorker: func(config provisioner.Config) (worker.Worker, error) {
				config.Metrics = heard // here a host sets what has a default
				return provisioner.Start(config)
			},
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println((<-heard).Outcome)
	// Output: settled
}
