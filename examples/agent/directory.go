package main

import (
	"context"
	"log/slog"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/examples/agent/internal/remote"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/provisioner"
)

// directory is what the controller is made from.
type directory struct {
	dir           string // the model's
	state         *controller.State
	listen, image string
}

// manifold runs the controller, which serves the two halves of the agent.
func (d directory) manifold(logger *slog.Logger) dependency.Manifold {
	return dependency.Manifold{
		Inputs: []string{clockName},
		Start: func(context dependency.Context) (worker.Worker, error) {
			config := controller.Config{Dir: d.dir, State: d.state, Listen: d.listen, Image: d.image, Logger: logger}
			if err := context.Get(clockName, &config.Clock); err != nil {
				return nil, errors.Trace(err)
			}
			w, err := controller.New(config)
			if err != nil {
				return nil, err // and not a nil *Controller in a worker.Worker
			}
			return w, nil
		},
		Output: outputController,
	}
}

func outputController(in worker.Worker, out any) error {
	switch out.(type) {
	case *facade.Machine:
		return output[*controller.Controller, facade.Machine](in, out)
	case *remote.Source:
		return output[*controller.Controller, remote.Source](in, out)
	}
	return output[*controller.Controller, facade.Applications](in, out)
}

// controllerSocketName is the manifold of what agents join.
const controllerSocketName = "controller-socket"

// controllerManifolds are a controller alone.
func controllerManifolds(d directory, logger *slog.Logger) dependency.Manifolds {
	return dependency.Manifolds{
		clockName:      enginevalue.Manifold[clock.Clock](clock.WallClock),
		controllerName: d.manifold(logger.With("worker", controllerName)),
		controllerSocketName: {
			Inputs: []string{controllerName},
			Start: func(engine dependency.Context) (worker.Worker, error) {
				var source remote.Source
				if err := engine.Get(controllerName, &source); err != nil {
					return nil, errors.Trace(err)
				}
				return remote.Serve(context.Background(), d.state.Dir(), source,
					remote.Identity{ControllerUUID: d.state.ControllerUUID(), CACert: d.state.CACert()})
			},
		},
	}
}

// joined connects with a controller that another process serves in dir, and serves
// what operators are told of it.
func (o operators) joined(dir string) dependency.Manifold {
	return dependency.Manifold{
		Start: func(dependency.Context) (worker.Worker, error) {
			w, err := remote.Dial(context.Background(), dir)
			if err != nil {
				return nil, err // and not a nil *Controller in a worker.Worker
			}
			return w, nil
		},
		Output: func(in worker.Worker, out any) error {
			config, ok := out.(*provisioner.AgentConfig)
			if !ok {
				return output[*remote.Controller, facade.Applications](in, out)
			}
			w, ok := in.(*remote.Controller)
			if !ok {
				return errors.Errorf("worker of type %T", in)
			}
			*config = o.agentConfig(w)
			return nil
		},
		Filter: func(err error) error {
			if errors.Is(err, facade.ErrConnectionLost) {
				return dependency.ErrBounce // with whatever works over it
			}
			return err
		},
	}
}
