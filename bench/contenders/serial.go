package contenders

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
)

// attempts is how often [Serial] tries an application on the spot before it
// turns to the next.
const attempts = 3

// Serial is the plain loop: one application after the other, every call in turn.
// What fails is tried again on the spot, a few times; an operator that is being
// deleted is waited for. What then still fails is put aside, and comes again
// when the rest is done. A panic ends it.
type Serial struct{}

// Name is part of [Contender].
func (Serial) Name() string { return "serial loop" }

// Start is part of [Contender].
func (Serial) Start(w World) (worker.Worker, error) {
	r, err := NewReconciler(w)
	if err != nil {
		return nil, err
	}
	s := &serial{reconciler: r}
	err = catacomb.Invoke(catacomb.Plan{Site: &s.catacomb, Work: s.loop})
	return s, errors.Trace(err)
}

type serial struct {
	catacomb   catacomb.Catacomb
	reconciler *Reconciler
}

// Kill is part of worker.Worker.
func (s *serial) Kill() { s.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (s *serial) Wait() error { return s.catacomb.Wait() }

func (s *serial) loop() error {
	ctx := s.catacomb.Context(context.Background())
	watcher, err := s.reconciler.world.Facade.WatchApplications(ctx)
	if err != nil {
		return errors.Annotate(err, "watching applications")
	}
	if err := s.catacomb.Add(watcher); err != nil {
		return errors.Trace(err)
	}
	known, aside := map[string]bool{}, map[string]bool{}
	visit := func(app string) {
		if ctx.Err() != nil {
			return
		}
		delete(aside, app)
		known[app] = true
		gone, err := s.provision(ctx, app)
		switch {
		case err != nil:
			aside[app] = true
		case gone:
			delete(known, app)
		}
	}
	resync := time.NewTicker(s.reconciler.world.Resync)
	defer resync.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		var delay time.Duration
		if len(aside) > 0 {
			delay = minBackoff
		}
		select {
		case <-s.catacomb.Dying():
			return s.catacomb.ErrDying()
		case apps, ok := <-watcher.Changes():
			if !ok {
				return errors.New("the watcher of applications ended")
			}
			for _, app := range apps {
				visit(app)
			}
		case <-ready(pause, delay):
			for app := range aside {
				visit(app)
				if len(watcher.Changes()) > 0 {
					break // what is new goes first
				}
			}
		case <-resync.C:
			for app := range known {
				visit(app)
			}
		}
	}
}

// provision works on one application until it is settled or all attempts are
// used up.
func (s *serial) provision(ctx context.Context, app string) (gone bool, err error) {
	failures := 0
	for waited := time.Duration(0); ; {
		result, err := s.reconciler.Reconcile(ctx, app)
		delay := result.After
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil:
			if failures++; failures == attempts {
				return false, err
			}
			delay = backoff(failures)
		case !result.Terminating || waited >= terminationWait:
			// A deletion that goes on, or a certificate that falls due,
			// is the resync's.
			return result.Gone, nil
		default:
			waited += delay
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(delay):
		}
	}
}
