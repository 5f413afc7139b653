package containerprovisioner

import (
	"context"
	"fmt"
	"time"

	"github.com/sutler-dev/sutler/internal/batch"
)

// What the host's metrics hear. None of it may disturb the worker: a panic there
// is logged, and that is all.

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
func (w *Worker) event(source EventSource, names int) *Event {
	event := &Event{Number: w.events.Add(1), Source: source, Time: w.config.Clock.Now(), Names: names}
	if metrics, ok := w.config.Metrics.(EventMetrics); ok {
		w.heardBy("EventReceived", func() { metrics.EventReceived(*event) })
	}
	return event
}

// starting tells that a pass begins. It returns the context for it, and what to
// call with its end.
func (w *Worker) starting(ctx context.Context, start PassStart) (context.Context, func(Pass)) {
	starter, ok := w.config.Metrics.(PassStarter)
	if !ok {
		return ctx, func(Pass) {}
	}
	var derived context.Context
	var done func(Pass)
	w.heardBy("PassStarting", func() { derived, done = starter.PassStarting(ctx, start) }) //nolint:fatcontext // Once a call, no loop.
	if derived == nil {
		derived = ctx
	}
	return derived, func(pass Pass) {
		if done != nil {
			w.heardBy("PassStarting", func() { done(pass) })
		}
	}
}

// measured is a batch's call that is told of.
func measured[In, Out any](
	w *Worker, name string, call func(context.Context, []In) ([]batch.Result[Out], error),
) func(context.Context, []In) ([]batch.Result[Out], error) {
	metrics, ok := w.config.Metrics.(BatchMetrics)
	if !ok {
		return call
	}
	return func(ctx context.Context, in []In) ([]batch.Result[Out], error) {
		size, started := len(in), w.config.Clock.Now()
		out, err := call(ctx, in)
		duration := w.config.Clock.Now().Sub(started)
		w.heardBy("BatchDone", func() {
			metrics.BatchDone(Batch{Call: name, Size: size, Duration: duration, Err: err})
		})
		return out, err
	}
}

// passOf is what is told of a pass that has ended.
func passOf(start PassStart, outcome Outcome, res result, duration time.Duration) Pass {
	return Pass{
		Container: start.Container,
		Type:      start.Type,
		Outcome:   outcome,
		Attempts:  start.Attempts,
		Start:     res.start,
		Delay:     start.Delay,
		QueueWait: start.QueueWait,
		Duration:  duration,
		Event:     start.Event,
		Err:       res.err,
	}
}
