package containersetup

import (
	"context"
	"fmt"
	"time"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
)

// Metrics hears what the worker does. Its methods are called from several
// goroutines at once and must not block. One that panics is logged and else
// ignored.
//
// What can be heard beyond phases is offered by [Attacher], [EventMetrics],
// [PhaseStarter] and [ContainerMetrics], which a Metrics may also be.
type Metrics interface {
	// PhaseDone tells of one attempt at one phase of one type.
	PhaseDone(PhaseAttempt)
}

// Attacher is a [Metrics] that wants to see the worker itself, as a gauge or a
// page does.
type Attacher interface {
	// Attach is called once when the worker starts; what it returns, if it is
	// not nil, when the worker has ended. The worker's Status and Report may
	// be called in between and afterwards. It must neither block nor wait for
	// the worker.
	Attach(*Worker) (detach func())
}

// EventMetrics is a [Metrics] that hears of events.
type EventMetrics interface {
	// EventReceived is called for each event, before any phase that it causes.
	EventReceived(Event)
}

// PhaseStarter is a [Metrics] that hears of phases when they begin, as tracing
// does.
type PhaseStarter interface {
	// PhaseStarting returns the context for the calls of the attempt that is
	// about to begin, derived from ctx, or ctx itself; and what to call when
	// that attempt has ended, or nil.
	PhaseStarting(ctx context.Context, start PhaseStart) (context.Context, func(PhaseAttempt))
}

// ContainerMetrics is a [Metrics] that also has one for each provisioner that
// the worker starts.
type ContainerMetrics interface {
	// ContainerMetrics returns the Metrics of the provisioner of a type, or
	// nil for none. It is called each time that one is handed its type.
	ContainerMetrics(ContainerType) containerprovisioner.Metrics
}

// Event is something that named containers of this machine. Its source is always
// containerprovisioner.SourceContainers, and its numbers are this worker's.
type Event = containerprovisioner.Event

// PhaseAttempt is one attempt at one phase, as [Metrics] hears of it.
type PhaseAttempt struct {
	Type  ContainerType
	Phase Phase
	// Attempts is how many attempts at the phase failed in a row before this
	// one: a retry has 1 or more.
	Attempts int
	// LockWait is for how long the machine lock was waited for, and LockHold
	// for how long it was then held; zero for a phase without it.
	LockWait, LockHold time.Duration
	// Duration is how long the attempt took, without LockWait.
	Duration time.Duration
	// Event is what first asked for a container of the type.
	Event Event
	// Err is why it failed, or nil.
	Err error
}

// PhaseStart is an attempt that begins.
type PhaseStart struct {
	Type  ContainerType
	Phase Phase
	// Attempts and Event are those of its [PhaseAttempt].
	Attempts int
	Event    Event
}

type noMetrics struct{}

func (noMetrics) PhaseDone(PhaseAttempt) {}

// heardBy keeps a panic of the host's metrics from ending the agent.
func (w *Worker) heardBy(method string, tell func()) {
	defer func() {
		if r := recover(); r != nil {
			w.config.Logger.Error("metrics panicked", "method", method, "error", fmt.Sprint(r))
		}
	}()
	tell()
}

// attach shows the worker to metrics that want to see it, and returns what to do
// at its end.
func (w *Worker) attach() (end func()) {
	var detach func()
	if attacher, ok := w.config.Metrics.(Attacher); ok {
		w.heardBy("Attach", func() { detach = attacher.Attach(w) })
	}
	return func() {
		if detach != nil {
			w.heardBy("Attach", detach)
		}
	}
}

// event makes an event of a number of its own, and tells of it.
func (w *Worker) event(names int) Event {
	event := Event{
		Number: w.events.Add(1), Source: containerprovisioner.SourceContainers,
		Time: w.config.Clock.Now(), Names: names,
	}
	if metrics, ok := w.config.Metrics.(EventMetrics); ok {
		w.heardBy("EventReceived", func() { metrics.EventReceived(event) })
	}
	return event
}

// starting tells that an attempt begins. It returns the context for it, and what
// to call with its end.
func (w *Worker) starting(ctx context.Context, start PhaseStart) (context.Context, func(PhaseAttempt)) {
	starter, ok := w.config.Metrics.(PhaseStarter)
	if !ok {
		return ctx, func(PhaseAttempt) {}
	}
	var derived context.Context
	var done func(PhaseAttempt)
	w.heardBy("PhaseStarting", func() { derived, done = starter.PhaseStarting(ctx, start) }) //nolint:fatcontext // Once a call, no loop.
	if derived == nil {
		derived = ctx
	}
	return derived, func(attempt PhaseAttempt) {
		if done != nil {
			w.heardBy("PhaseStarting", func() { done(attempt) })
		}
	}
}

// containerMetrics returns what the provisioner of a type is to tell.
func (w *Worker) containerMetrics(t ContainerType) (metrics containerprovisioner.Metrics) {
	if source, ok := w.config.Metrics.(ContainerMetrics); ok {
		w.heardBy("ContainerMetrics", func() { metrics = source.ContainerMetrics(t) })
	}
	return metrics
}
