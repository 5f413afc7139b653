package provisioner_test

import (
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/provisioner"
)

// In an agent with a dependency engine, the provisioner is one manifold with
// four inputs. Here these only have a value; an agent's facade is a worker that
// holds a connection, and its manager may be one, too.
func ExampleManifold() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	controller.AddApplication("mysql", fakes.App{})
	passes := make(passChannel, 100)

	engine, err := dependency.NewEngine(dependency.EngineConfig{
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
	})
	if err != nil {
		fmt.Println(err)
		return
	}
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
				config.Metrics = passes
				return provisioner.Start(config)
			},
		}),
	})
	if err != nil {
		fmt.Println(err, worker.Stop(engine))
		return
	}

	pass := <-passes
	fmt.Println(pass.Application, "is", pass.Outcome)
	fmt.Println("ended with", worker.Stop(engine))
	// Output:
	// mysql is settled
	// ended with <nil>
}
