package provisioner_test

import (
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginelog"
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
		"agent":            having[provisioner.AgentConfig](fakes.NewAgent(controller.CACert())),
		"controller":       having[facade.Applications](controller),
		"operator-manager": having[operator.Manager](manager),
		"clock":            having[clock.Clock](clock.WallClock),
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

// having returns a manifold whose worker does nothing and whose output is v, of
// the type T that its dependents ask for.
func having[T any](v T) dependency.Manifold {
	return dependency.Manifold{
		Start: func(dependency.Context) (worker.Worker, error) {
			w := &idle{}
			err := catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: func() error {
				<-w.catacomb.Dying()
				return w.catacomb.ErrDying()
			}})
			return w, err
		},
		Output: func(_ worker.Worker, out any) error {
			target, ok := out.(*T)
			if !ok {
				return errors.Errorf("output of type %T (want %T)", out, target)
			}
			*target = v
			return nil
		},
	}
}

type idle struct{ catacomb catacomb.Catacomb }

func (w *idle) Kill()       { w.catacomb.Kill(nil) }
func (w *idle) Wait() error { return w.catacomb.Wait() }
