package contenders

import (
	"time"

	"github.com/juju/errors"
	"github.com/juju/retry"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/provisioner"
)

// World is what a contender is given to work with. Time is the wall clock,
// which is virtual in a bubble of testing/synctest.
type World struct {
	Facade  facade.Applications
	Manager operator.Manager
	Agent   provisioner.AgentConfig
	// ModelUUID is the UUID of the model whose applications these are.
	ModelUUID string
	// Workers is how many applications are worked on at once, by those who
	// can.
	Workers int
	// CallTimeout is the deadline of every single call.
	CallTimeout time.Duration
	// Resync is how often all applications are looked at without an event,
	// by those who do that.
	Resync time.Duration
}

// Defaults of what a [World] leaves out.
const (
	DefaultWorkers     = 16
	DefaultCallTimeout = 30 * time.Second
	// DefaultResync is so rare that it does not happen in a measurement.
	DefaultResync = 10000 * time.Hour
)

// Back-off and polling, the same for all that have no default of their own.
const (
	minBackoff      = time.Second
	maxBackoff      = 2 * time.Minute
	terminationPoll = 3 * time.Second
	terminationWait = 3 * time.Minute
)

// withDefaults returns the world with nothing left out, or errors.NotValid.
func (w World) withDefaults() (World, error) {
	switch {
	case w.Facade == nil:
		return w, errors.NotValidf("nil Facade")
	case w.Manager == nil:
		return w, errors.NotValidf("nil Manager")
	case w.Agent == nil:
		return w, errors.NotValidf("nil Agent")
	}
	if w.Workers == 0 {
		w.Workers = DefaultWorkers
	}
	if w.CallTimeout == 0 {
		w.CallTimeout = DefaultCallTimeout
	}
	if w.Resync == 0 {
		w.Resync = DefaultResync
	}
	return w, nil
}

// Contender keeps one operator running for every application, in one way.
type Contender interface {
	// Name tells it from the others, in tables and charts.
	Name() string
	// Start starts it. The caller owns the worker: Kill it, and Wait for
	// its end.
	Start(World) (worker.Worker, error)
}

// All returns every contender, this project's own first.
func All() []Contender {
	return []Contender{
		Sutler{},
		Serial{},
		ControllerRuntime{},
		ControllerRuntime{Tuned: true},
		Children{},
	}
}

// backoff is the delay after the given number of failures in a row, from 1: what
// sutler has, with its jitter.
func backoff(failures int) time.Duration {
	return retry.ExpBackoff(minBackoff, maxBackoff, 2, true)(0, failures-1)
}

// ready is the timer's channel of a delay; none of what is never due.
func ready(timer *time.Timer, delay time.Duration) <-chan time.Time {
	if delay <= 0 {
		return nil
	}
	timer.Reset(delay)
	return timer.C
}
