package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/operator"
)

// value returns the manifold of an input that does nothing but be there: its
// dependents ask for a T and get v.
func value[T any](v T) dependency.Manifold {
	return dependency.Manifold{
		Start: func(dependency.Context) (worker.Worker, error) { return newIdle() },
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

// idle is a worker that waits for its end.
type idle struct{ catacomb catacomb.Catacomb }

func newIdle() (*idle, error) {
	w := &idle{}
	return w, catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: func() error {
		<-w.catacomb.Dying()
		return w.catacomb.ErrDying()
	}})
}

// Kill is part of worker.Worker.
func (w *idle) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *idle) Wait() error { return w.catacomb.Wait() }

// show prints how the application's operator is doing, whenever that changes,
// until ctx ends. It asks every moment: a manager's watcher tells of
// configurations that change, not of processes.
func show(ctx context.Context, manager operator.Manager, app string, out io.Writer) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for last := ""; ; {
		status := "none yet"
		if op, err := manager.Operator(ctx, app); err == nil {
			status = string(op.Status.Phase)
		}
		if status != last && ctx.Err() == nil {
			last = status
			fmt.Fprintf(out, "operator of %s: %s\n", app, status)
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(out, "stopping")
			return
		case <-tick.C:
		}
	}
}
