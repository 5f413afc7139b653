package containerprovisioner

import (
	"context"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// resyncState is what the report tells of resyncs.
type resyncState struct {
	last time.Time
	next time.Time
}

// resync looks at every container from time to time, in case an event was lost,
// and at every instance, in case its container was removed while nobody looked.
// Before it was told which containers there are, it looks at nothing.
func (w *Worker) resync(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-w.baseline:
	}
	due := w.schedule()
	attempt := 0
	var delay time.Duration
	for {
		now := w.config.Clock.Now()
		if !now.Before(due) {
			w.markAll()
			due = w.schedule()
		}
		until := due.Sub(now)
		if !w.findInstances(ctx) {
			// Asked again with back-off; the resync is due all the same.
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

// schedule returns when the next resync is due.
func (w *Worker) schedule() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resyncs.next = w.config.Clock.Now().Add(max(w.config.Jitter(w.config.ResyncInterval), 1))
	return w.resyncs.next
}

// markAll has every container looked at that waits for nothing and is not being
// looked at. One that waits after a failure is looked at when its back-off ends.
func (w *Worker) markAll() {
	w.mu.Lock()
	ids := make([]string, 0, len(w.containers))
	for id, t := range w.containers {
		if !t.running && (t.outcome == OutcomeSettled || t.outcome == OutcomeGivenUp) {
			ids = append(ids, id)
		}
	}
	w.resyncs.last = w.config.Clock.Now()
	w.mu.Unlock()
	event := w.event(SourceResync, len(ids))
	for _, id := range ids {
		w.dirty(keyqueue.Background, id, event)
	}
}

// findInstances has every container looked at that is not tracked and has an
// instance. Whether it is really gone is for its pass to ask. It reports whether
// the instances could be listed.
func (w *Worker) findInstances(ctx context.Context) bool {
	l, err := w.lister.after(ctx, w.lister.now())
	if err != nil {
		return false
	}
	ids := w.untracked(l.instances)
	if len(ids) == 0 {
		return true
	}
	event := w.event(SourceListing, len(ids))
	for _, id := range ids {
		w.dirty(keyqueue.Background, id, event)
	}
	return true
}

func (w *Worker) untracked(instances []container.Instance) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for _, i := range instances {
		if _, ok := w.containers[i.ContainerID]; !ok {
			ids = append(ids, i.ContainerID)
		}
	}
	return ids
}
