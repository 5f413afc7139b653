// Package pager is a host of sutler's operator provisioner, made up to be tested:
// it pages somebody when an application has been in trouble for five minutes.
// How its author tests it is what this example is about: see pager_test.go.
package pager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/provisioner"
)

// Patience is for how long an application may be in trouble before somebody is
// paged, and Interval how often the pager looks.
const (
	Patience = 5 * time.Minute
	Interval = 15 * time.Second
)

// Config is what a [Pager] works with. All of it is required.
type Config struct {
	Clock clock.Clock
	// Page sends one line to whoever is on call. It is called by one
	// goroutine, which waits for it.
	Page func(ctx context.Context, message string) error
}

// Pager is a worker that pages, and the provisioner.Metrics that tells it what
// goes on. It lives beside the provisioner, not in it: what it knows outlives a
// provisioner that its engine has to start again.
type Pager struct {
	catacomb catacomb.Catacomb
	config   Config

	mu       sync.Mutex
	troubles map[string]*trouble
}

// trouble is what an application has.
type trouble struct {
	since  time.Time
	reason string
	paged  bool
}

// New starts a pager.
func New(config Config) (*Pager, error) {
	switch {
	case config.Clock == nil:
		return nil, errors.NotValidf("nil Clock")
	case config.Page == nil:
		return nil, errors.NotValidf("nil Page")
	}
	p := &Pager{config: config, troubles: make(map[string]*trouble)}
	err := catacomb.Invoke(catacomb.Plan{Site: &p.catacomb, Work: p.loop})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return p, nil
}

// Kill is part of worker.Worker.
func (p *Pager) Kill() { p.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (p *Pager) Wait() error { return p.catacomb.Wait() }

// NewWorker is a provisioner.ManifoldConfig.NewWorker whose worker tells this
// pager of its passes.
func (p *Pager) NewWorker(config provisioner.Config) (worker.Worker, error) {
	config.Metrics = p
	return provisioner.Start(config)
}

// PassDone is part of provisioner.Metrics. It must not block, so it only takes
// notes.
func (p *Pager) PassDone(pass provisioner.Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch pass.Outcome {
	case provisioner.OutcomeFailed, provisioner.OutcomePermanent,
		provisioner.OutcomePanicked, provisioner.OutcomeStuck:
	default:
		delete(p.troubles, pass.Application)
		return
	}
	t := p.troubles[pass.Application]
	if t == nil {
		t = &trouble{since: p.config.Clock.Now()}
		p.troubles[pass.Application] = t
	}
	t.reason = string(pass.Outcome)
	if pass.Err != nil {
		t.reason = pass.Err.Error()
	}
}

func (p *Pager) loop() error {
	ctx := p.catacomb.Context(context.Background())
	timer := p.config.Clock.NewTimer(Interval)
	defer timer.Stop()
	for {
		select {
		case <-p.catacomb.Dying():
			return p.catacomb.ErrDying()
		case <-timer.Chan():
		}
		for _, app := range p.due() {
			p.page(ctx, app)
		}
		timer.Reset(Interval)
	}
}

// due returns the applications about which somebody is to be paged now.
func (p *Pager) due() []string {
	now := p.config.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	var apps []string
	for _, app := range slices.Sorted(maps.Keys(p.troubles)) {
		if t := p.troubles[app]; !t.paged && now.Sub(t.since) >= Patience {
			apps = append(apps, app)
		}
	}
	return apps
}

// page pages about one application, without the lock: nobody may wait for it.
// What could not be sent is sent at the next look.
func (p *Pager) page(ctx context.Context, app string) {
	p.mu.Lock()
	t := p.troubles[app]
	if t == nil {
		p.mu.Unlock()
		return // mended since
	}
	message := fmt.Sprintf("%s is not provisioned: %s", app, t.reason)
	p.mu.Unlock()

	if err := p.config.Page(ctx, message); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.paged = true
}
