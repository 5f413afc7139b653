package provisioner

import (
	"context"
	"log/slog"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/internal/keyqueue"
	"github.com/sutler-dev/sutler/operator"
)

// resyncState is what the report tells of resyncs.
type resyncState struct {
	last      time.Time
	next      time.Time
	listed    time.Time // when the manager's operators were last listed
	listError string
	saturated bool // the previous resync was not through when the next one began
}

// resync looks at every application from time to time, in case an event was
// lost, and at every operator, in case its application was removed while
// nobody looked.
func (w *Worker) resync(ctx context.Context) {
	attempt := 0
	var delay time.Duration
	due, period := w.schedule()
	for {
		now := w.config.Clock.Now()
		if !now.Before(due) {
			w.markAll()
			due, period = w.schedule()
		}
		// No longer, also when the clock was set back.
		until := min(due.Sub(now), period)
		due = now.Add(until)
		if err := w.list(ctx); err != nil {
			// Retried with back-off; the resync is due all the same.
			delay = w.config.Backoff(delay, attempt)
			attempt++
			until = min(until, delay)
		} else {
			attempt, delay = 0, 0
		}
		if !w.wait(ctx, until) {
			return
		}
	}
}

// schedule returns when the next resync is due, and how far off that is.
func (w *Worker) schedule() (due time.Time, period time.Duration) {
	period = max(w.config.Jitter(w.config.ResyncInterval), 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resyncs.next = w.config.Clock.Now().Add(period)
	return w.resyncs.next, period
}

// markAll has every settled application looked at that is not being looked at.
// What waits after a failure is looked at when its back-off ends: a resync must
// not hammer what is failing.
func (w *Worker) markAll() {
	now := w.config.Clock.Now()
	stats := w.queue.Stats()
	saturated := stats.QueuedBackground > 0 && !w.lastResync().IsZero() && !stats.OldestReady.After(w.lastResync())

	w.mu.Lock()
	apps := make([]string, 0, len(w.applications))
	for app, a := range w.applications {
		if a.outcome == OutcomeSettled && !a.running {
			apps = append(apps, app)
		}
	}
	became := saturated && !w.resyncs.saturated
	w.resyncs.saturated = saturated
	w.resyncs.last = now
	w.mu.Unlock()

	if became {
		w.config.Logger.Warn("resync began before the previous one was through: Concurrency is too low for ResyncInterval",
			"applications", len(apps), "waiting", stats.QueuedBackground)
	}
	event := w.event(SourceResync, len(apps))
	for _, app := range apps {
		w.dirty(keyqueue.Background, app, event)
	}
}

func (w *Worker) lastResync() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resyncs.last
}

// list has every operator looked at whose application is not tracked. Whether
// that application is really gone is for its pass to ask.
func (w *Worker) list(ctx context.Context) error {
	lister, ok := w.lister.get()
	if !ok {
		return nil
	}
	apps, err := w.callList(ctx, lister)
	if w.lister.refused(err) {
		return nil
	}
	if w.isDying() {
		return nil
	}
	w.mu.Lock()
	var unknown []string
	for _, app := range apps {
		if _, ok := w.applications[app]; !ok {
			unknown = append(unknown, app)
		}
	}
	repeated := err != nil && w.resyncs.listError == err.Error()
	w.resyncs.listError = ""
	if err != nil {
		w.resyncs.listError = err.Error()
	} else {
		w.resyncs.listed = w.config.Clock.Now()
	}
	w.mu.Unlock()

	if err != nil {
		level := slog.LevelWarn
		if repeated {
			level = slog.LevelDebug
		}
		w.config.Logger.Log(ctx, level, "operators not listed", "error", err.Error())
		return err
	}
	if len(unknown) == 0 {
		return nil
	}
	event := w.event(SourceListing, len(unknown))
	for _, app := range unknown {
		w.dirty(keyqueue.Background, app, event)
	}
	return nil
}

// callList keeps a panic of the manager from ending the agent.
func (w *Worker) callList(ctx context.Context, lister operator.Lister) (apps []string, err error) {
	calls := w.newDeadline(ctx)
	defer calls.close()
	defer func() {
		if r := recover(); r != nil {
			err = errors.Errorf("panic: %v", r)
		}
	}()
	apps, err = lister.Operators(calls.begin())
	return apps, errors.Annotate(calls.end(err), "listing operators")
}
