// Package enginevalue makes a manifold of a plain value, so that what needs no
// work of its own, such as a clock or an agent's settings, can be an input of
// other manifolds like any other.
package enginevalue

import (
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
	"github.com/juju/worker/v3/dependency"
)

// Manifold returns a manifold without inputs whose dependents ask for a T, with
// a *T, and get value. Asked for anything else, it returns an error that names
// both types. To serve an interface, name it: Manifold[clock.Clock](wall).
func Manifold[T any](value T) dependency.Manifold {
	return dependency.Manifold{
		Start: func(dependency.Context) (worker.Worker, error) {
			w := &idle{}
			err := catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: w.loop})
			if err != nil {
				return nil, errors.Trace(err)
			}
			return w, nil
		},
		Output: func(_ worker.Worker, out any) error {
			target, ok := out.(*T)
			if !ok {
				return errors.NotValidf("output of type %T (want %T)", out, target)
			}
			*target = value
			return nil
		},
	}
}

// idle is a worker that waits for its end.
type idle struct{ catacomb catacomb.Catacomb }

func (w *idle) loop() error {
	<-w.catacomb.Dying()
	return w.catacomb.ErrDying()
}

// Kill is part of worker.Worker.
func (w *idle) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *idle) Wait() error { return w.catacomb.Wait() }
