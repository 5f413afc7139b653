package contenders

import (
	"context"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
)

// Children is one catacomb for each application. At most as many as the world
// says work at once: each holds the semaphore for a pass, not for a
// call, which has some settled early rather than all of them late. A panic is
// recovered and is the application's failure.
type Children struct{}

// Name is part of [Contender].
func (Children) Name() string { return "catacomb per application" }

// Start is part of [Contender].
func (Children) Start(w World) (worker.Worker, error) {
	r, err := NewReconciler(w)
	if err != nil {
		return nil, err
	}
	p := &parent{
		reconciler: r,
		semaphore:  make(chan struct{}, r.world.Workers),
		children:   make(map[string]*child),
	}
	err = catacomb.Invoke(catacomb.Plan{Site: &p.catacomb, Work: p.loop})
	return p, errors.Trace(err)
}

type parent struct {
	catacomb   catacomb.Catacomb
	reconciler *Reconciler
	semaphore  chan struct{}

	mu       sync.Mutex
	children map[string]*child
}

// Kill is part of worker.Worker.
func (p *parent) Kill() { p.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (p *parent) Wait() error { return p.catacomb.Wait() }

func (p *parent) loop() error {
	watcher, err := p.reconciler.world.Facade.WatchApplications(p.catacomb.Context(context.Background()))
	if err != nil {
		return errors.Annotate(err, "watching applications")
	}
	if err := p.catacomb.Add(watcher); err != nil {
		return errors.Trace(err)
	}
	for {
		select {
		case <-p.catacomb.Dying():
			return p.catacomb.ErrDying()
		case apps, ok := <-watcher.Changes():
			if !ok {
				return errors.New("the watcher of applications ended")
			}
			for _, app := range apps {
				if err := p.wake(app); err != nil {
					return err
				}
			}
		}
	}
}

// wake has the application's child look at it, and makes one if there is none.
func (p *parent) wake(app string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.children[app]
	if !ok {
		c = &child{parent: p, app: app, changed: make(chan struct{}, 1)}
		if err := catacomb.Invoke(catacomb.Plan{Site: &c.catacomb, Work: c.loop}); err != nil {
			return errors.Trace(err)
		}
		if err := p.catacomb.Add(c); err != nil {
			return errors.Trace(err)
		}
		p.children[app] = c
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return nil
}

// forget lets go of a child that has nothing left to do, unless it was woken
// meanwhile.
func (p *parent) forget(c *child) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(c.changed) > 0 {
		return false
	}
	delete(p.children, c.app)
	return true
}

// child looks after one application.
type child struct {
	catacomb catacomb.Catacomb
	parent   *parent
	app      string
	changed  chan struct{}
}

// Kill is part of worker.Worker.
func (c *child) Kill() { c.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (c *child) Wait() error { return c.catacomb.Wait() }

func (c *child) loop() error {
	ctx := c.catacomb.Context(context.Background())
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	var delay time.Duration
	<-timer.C
	for {
		select {
		case <-c.catacomb.Dying():
			return c.catacomb.ErrDying()
		case <-c.changed:
		case <-ready(timer, delay):
		}
		select {
		case <-c.catacomb.Dying():
			return c.catacomb.ErrDying()
		case c.parent.semaphore <- struct{}{}:
		}
		select {
		case <-c.changed: // meanwhile: this pass sees it
		default:
		}
		result, err := c.pass(ctx)
		switch {
		case err != nil:
			failures++
			delay = backoff(failures)
		case result.Gone && c.parent.forget(c):
			return nil
		default:
			failures, delay = 0, result.After
		}
	}
}

// pass gives the semaphore back, also when the pass panics.
func (c *child) pass(ctx context.Context) (result Result, err error) {
	defer func() {
		<-c.parent.semaphore
		if r := recover(); r != nil {
			err = errors.Errorf("panic: %v", r)
		}
	}()
	return c.parent.reconciler.Reconcile(ctx, c.app)
}
