package provisioner

import (
	"context"
	"log/slog"
	"time"

	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// application is what the worker knows of one application between passes. Its
// memory belongs to the pass that holds the key; the rest is guarded by
// Worker.mu.
type application struct {
	memory memory

	running  bool    // a pass is under way, and not concluded
	outcome  Outcome // of the last pass; empty before the first
	attempts int     // failures in a row
	since    time.Time
	next     time.Time // when it is looked at again; zero for never by itself
	delay    time.Duration
	reason   string // why it is not settled
	would    string // what a dry run did not do
	status   string // as last told to a facade.StatusSetter

	terminating time.Time // since when a deletion is awaited
	unsettled   time.Time // since when it is not; zero if it is
	expires     time.Time // when its operator's certificate ends, if known
	cause       *Event    // of the next pass; nil when it is due by itself
}

// longestAttempt stands for the longest delay of a Backoff.
const longestAttempt = 64

// plan works out what the result of a pass means for the next one. It is pure
// but for Backoff.
func (a *application) plan(res result, now time.Time, backoff func(time.Duration, int) time.Duration) {
	reason := ""
	if res.err != nil {
		reason = res.err.Error()
	}
	if res.outcome != a.outcome {
		a.since = now
	}
	a.outcome, a.reason, a.would, a.terminating = res.outcome, reason, res.would, res.terminating
	a.next = time.Time{}
	switch {
	case res.outcome == OutcomeSettled:
		a.unsettled = time.Time{}
	case a.unsettled.IsZero():
		a.unsettled = now
	}

	switch res.outcome {
	case OutcomeFailed, OutcomePanicked:
		a.delay = max(backoff(a.delay, a.attempts), res.after)
		a.attempts++
	case OutcomePermanent:
		a.delay = backoff(a.delay, longestAttempt)
		a.attempts++
	case OutcomeWaiting, OutcomeStuck:
		if res.after > 0 {
			a.delay, a.attempts = res.after, 0
			break
		}
		a.delay = backoff(a.delay, a.attempts)
		a.attempts++
	default:
		a.delay, a.attempts = res.after, 0
	}
	if a.delay > 0 {
		a.next = now.Add(a.delay)
	}
}

// troubled reports whether the application waits after a failure.
func (a *application) troubled() bool {
	switch a.outcome {
	case OutcomeFailed, OutcomePanicked, OutcomePermanent:
		return true
	}
	return false
}

// track returns what is known of the application, nothing if it is new.
func (w *Worker) track(app string) *application {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.applications[app]
	if !ok {
		now := w.config.Clock.Now()
		a = &application{since: now, unsettled: now}
		w.applications[app] = a
	}
	return a
}

// begin takes note that a pass begins, and tells what there is to tell of it.
func (w *Worker) begin(item keyqueue.Item[string], now time.Time) (*application, PassStart) {
	a := w.track(item.Key)
	start := PassStart{Application: item.Key, Delay: item.Delay, QueueWait: now.Sub(item.Ready)}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.running = true
	start.Attempts = a.attempts
	if a.cause != nil {
		start.Event, a.cause = *a.cause, nil
	}
	return a, start
}

// dirty has the application looked at because of an event.
func (w *Worker) dirty(lane keyqueue.Lane, app string, cause *Event) {
	w.causedBy(app, cause)
	w.queue.Add(lane, app)
}

// causedBy has the application's next pass name the event, unless it names an
// earlier one.
func (w *Worker) causedBy(app string, cause *Event) {
	a := w.track(app)
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.cause == nil {
		a.cause = cause
	}
}

// conclude records how a pass ended, and returns the delay until the next.
func (w *Worker) conclude(app string, a *application, res result, now time.Time) time.Duration {
	w.mu.Lock()
	repeated := a.outcome == res.outcome && res.err != nil && a.reason == res.err.Error()
	a.plan(res, now, w.config.Backoff)
	a.running = false
	a.expires = a.memory.expires
	delay, attempts := a.delay, a.attempts
	if res.outcome == OutcomeForgotten {
		delete(w.applications, app)
	}
	w.mu.Unlock()

	w.logOutcome(app, res, attempts, delay, repeated)
	return delay
}

// giveBack gives the key back to the queue.
func (w *Worker) giveBack(app string, res result, delay time.Duration) {
	switch res.outcome {
	case OutcomeForgotten:
		w.queue.Done(app)
	case OutcomeSettled:
		// Whatever came during the pass is looked at now, not when the
		// certificate falls due.
		w.queue.Done(app)
		if delay > 0 {
			w.queue.AddAfter(app, delay)
		}
	default:
		w.queue.DoneAfter(app, delay)
	}
}

// logOutcome tells of trouble once, at a level that is seen; its repetition is
// for those who look closely.
func (w *Worker) logOutcome(app string, res result, attempts int, delay time.Duration, repeated bool) {
	level := slog.LevelDebug
	message := "pass done"
	switch res.outcome {
	case OutcomeFailed, OutcomePermanent, OutcomeStuck:
		message = "application is not provisioned"
		level = slog.LevelWarn
	case OutcomeWaiting:
		message = "application waits"
		level = slog.LevelInfo
	case OutcomePanicked:
		return // logged with its stack where it was caught
	}
	if repeated {
		level = slog.LevelDebug
	}
	if res.would != "" {
		level = slog.LevelInfo
		message = "dry run: would " + res.would
	}
	if !w.config.Logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("outcome", string(res.outcome))}
	if res.err != nil {
		attrs = append(attrs, slog.String("error", res.err.Error()))
	}
	if delay > 0 {
		attrs = append(attrs, slog.Duration("next", delay))
	}
	if attempts > 0 {
		attrs = append(attrs, slog.Int("attempts", attempts))
	}
	w.log(context.Background(), level, message, app, attrs...)
}

func (w *Worker) log(ctx context.Context, level slog.Level, message, app string, attrs ...slog.Attr) {
	if !w.config.Logger.Enabled(ctx, level) {
		return
	}
	w.config.Logger.LogAttrs(ctx, level, message, append([]slog.Attr{slog.String("application", app)}, attrs...)...)
}
