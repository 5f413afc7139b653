package main

import (
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
)

// value is a worker that does nothing but have a value for others, so that what
// needs no work of its own can be an input like any other.
type value[T any] struct {
	catacomb catacomb.Catacomb
	value    T
}

func newValue[T any](v T) (worker.Worker, error) {
	w := &value[T]{value: v}
	err := catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: func() error {
		<-w.catacomb.Dying()
		return w.catacomb.ErrDying()
	}})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return w, nil
}

// valueOutput is the Output function of a manifold whose worker is a value.
func valueOutput[T any](in worker.Worker, out any) error {
	w, ok := in.(*value[T])
	if !ok {
		return errors.Errorf("worker of type %T", in)
	}
	target, ok := out.(*T)
	if !ok {
		return errors.Errorf("output of type %T (want %T)", out, target)
	}
	*target = w.value
	return nil
}

// Kill is part of worker.Worker.
func (w *value[T]) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *value[T]) Wait() error { return w.catacomb.Wait() }
