package containerprovisioner

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// tracked is what the worker knows of one container between passes. Its memory
// belongs to the pass that holds the key; the rest is guarded by Worker.mu.
type tracked struct {
	memory memory

	running  bool    // a pass is under way, and not concluded
	outcome  Outcome // of the last pass; empty before the first
	attempts int     // to start
	since    time.Time
	next     time.Time // when it is looked at again; zero for never by itself
	reason   string    // why it is not settled
	kept     []container.InstanceID

	unsettled time.Time // since when it is not; zero if it is
	cause     *Event    // of the next pass; nil when it is due by itself
}

// memory is what is remembered of a container from pass to pass. All of it can
// be lost: it saves work, or spares the world repetitions, or is found out
// again by starting an instance that runs already.
type memory struct {
	// attempts counts those to start it that failed.
	attempts int
	// failures in a row, of whatever kind, and the last delay after one.
	failures int
	delay    time.Duration
	// failed is what failed last, and is not done again before that time,
	// whatever events there are: some are the echo of what is done here.
	failed    step
	notBefore time.Time

	// started is an instance that is not recorded yet.
	started *facade.InstanceInfo
	// asked tells that addresses were asked for, and then an instance;
	// unsure, that the broker's last answer was an error, so that there may
	// be an instance later yet.
	asked, unsure bool
	// seenAt is when its recorded instance was started by this worker;
	// missing tells that it was not in the last listing.
	seenAt  time.Time
	missing bool
	// marked tells that it was marked for removal.
	marked bool
	// said is the status as last set by this worker, as far as it still is.
	said said
}

// longestAttempt stands for the longest delay of a Backoff.
const longestAttempt = 64

// plan works out what the result of a pass means for the next one. It is pure
// but for the Backoff.
func (t *tracked) plan(res result, now time.Time, config Config) {
	m := &t.memory
	if res.early {
		return // nothing was done; what was planned stands
	}
	outcome, reason := res.outcome, ""
	if res.err != nil {
		reason = res.err.Error()
	}
	if res.attempt {
		m.attempts++
		if m.attempts >= config.MaxAttempts {
			outcome = OutcomeGivenUp
		}
	}
	if outcome == OutcomeGivenUp && t.outcome == OutcomeGivenUp {
		reason = t.reason // what went wrong, and not that it did
	}
	if outcome != t.outcome {
		t.since = now
	}
	t.outcome, t.reason, t.kept, t.attempts = outcome, reason, res.kept, m.attempts
	t.next, m.failed = time.Time{}, noStep
	switch {
	case outcome == OutcomeSettled:
		t.unsettled = time.Time{}
	case t.unsettled.IsZero():
		t.unsettled = now
	}

	switch outcome {
	case OutcomeFailed, OutcomePanicked:
		m.delay = config.Backoff(m.delay, m.failures)
		m.failures++
		m.failed, m.notBefore = res.step, now.Add(m.delay)
		t.next = m.notBefore
	case OutcomePermanent:
		m.delay = config.Backoff(m.delay, longestAttempt)
		m.failures++
		t.next = now.Add(m.delay)
	case OutcomeWaiting:
		// For its turn: the next failure still is one in a row.
	default:
		m.failures, m.delay = 0, 0
	}
}

// troubled reports whether the last pass failed.
func (t *tracked) troubled() bool {
	switch t.outcome {
	case OutcomeFailed, OutcomePanicked, OutcomePermanent:
		return true
	}
	return false
}

// maxOrphans bounds what is remembered of containers that are gone.
const maxOrphans = 1000

// track returns what is known of the container, nothing if it is new.
func (w *Worker) track(id string) *tracked {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.containers[id]
	if !ok {
		now := w.config.Clock.Now()
		t = &tracked{since: now, unsettled: now}
		if _, ok := w.orphans[id]; ok {
			t.memory.asked, t.memory.unsure = true, true
		}
		w.containers[id] = t
	}
	return t
}

// begin takes note that a pass begins, and tells what there is to tell of it.
func (w *Worker) begin(item keyqueue.Item[string], now time.Time) (*tracked, PassStart) {
	t := w.track(item.Key)
	start := PassStart{
		Container: item.Key, Type: w.config.Type,
		Delay: item.Delay, QueueWait: now.Sub(item.Ready),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.running = true
	start.Attempts = t.memory.failures
	if t.cause != nil {
		start.Event, t.cause = *t.cause, nil
	}
	return t, start
}

// dirty has the container looked at because of an event.
func (w *Worker) dirty(lane keyqueue.Lane, id string, cause *Event) {
	w.causedBy(id, cause)
	w.queue.Add(lane, id)
}

// causedBy has the container's next pass name the event, unless it names an
// earlier one.
func (w *Worker) causedBy(id string, cause *Event) {
	t := w.track(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.cause == nil {
		t.cause = cause
	}
}

// forget drops what is known of a container. That its instance may turn up yet,
// because a call that failed did not fail after all, outlives that.
func (w *Worker) forget(id string, m *memory) {
	if m.unsure && len(w.orphans) < maxOrphans {
		w.orphans[id] = struct{}{}
	}
	delete(w.containers, id)
}

// conclude records how a pass ended, tells the container's users, and returns
// when to look next.
func (w *Worker) conclude(ctx context.Context, id string, t *tracked, res result) (outcome Outcome, next time.Time) {
	now := w.config.Clock.Now()
	w.mu.Lock()
	before := tracked{outcome: t.outcome, reason: t.reason, kept: t.kept}
	t.plan(res, now, w.config)
	say := statusOf(res, t, w.config.MaxAttempts)
	after := *t
	w.mu.Unlock()

	if !res.early {
		w.logOutcome(ctx, id, &after, before.outcome == after.outcome && before.reason == after.reason)
	}
	for _, instance := range after.kept {
		if !slices.Contains(before.kept, instance) {
			w.log(ctx, slog.LevelInfo, "instance is left although nobody wants it", id, slog.String("instance", string(instance)))
		}
	}
	if w.tell(ctx, id, &t.memory, say) {
		after.next = w.retell(&t.memory, after.next)
	}
	w.mu.Lock()
	t.next, t.running = after.next, false
	if after.outcome == OutcomeForgotten {
		w.forget(id, &t.memory)
	}
	w.mu.Unlock()

	return after.outcome, after.next
}

// giveBack gives the key back to the queue, for a next look at that time.
func (w *Worker) giveBack(id string, next time.Time) {
	if next.IsZero() {
		w.queue.Done(id)
	} else {
		w.queue.DoneAfter(id, max(next.Sub(w.config.Clock.Now()), 1))
	}
}

// retell says when to look again at a container whose status could not be set:
// when it would be anyway, or after a back-off.
func (w *Worker) retell(m *memory, next time.Time) time.Time {
	if !next.IsZero() {
		return next
	}
	m.delay = w.config.Backoff(m.delay, m.failures)
	m.failures++
	return w.config.Clock.Now().Add(m.delay)
}

// logOutcome tells of trouble once, at a level that is seen; its repetition is
// for those who look closely.
func (w *Worker) logOutcome(ctx context.Context, id string, t *tracked, repeated bool) {
	level, message := slog.LevelDebug, "pass done"
	switch t.outcome {
	case OutcomeFailed, OutcomePermanent:
		level, message = slog.LevelWarn, "container is not provisioned"
	case OutcomeGivenUp:
		level, message = slog.LevelError, "container is not started until somebody asks for it again"
	case OutcomePanicked:
		return // logged with its stack where it was caught
	}
	if repeated {
		level = slog.LevelDebug
	}
	if !w.config.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("outcome", string(t.outcome))}
	if t.reason != "" {
		attrs = append(attrs, slog.String("error", t.reason))
	}
	if t.attempts > 0 {
		attrs = append(attrs, slog.Int("attempts", t.attempts))
	}
	if !t.next.IsZero() {
		attrs = append(attrs, slog.String("next", formatTime(t.next)))
	}
	w.log(ctx, level, message, id, attrs...)
}

func (w *Worker) log(ctx context.Context, level slog.Level, message, id string, attrs ...slog.Attr) {
	if !w.config.Logger.Enabled(ctx, level) {
		return
	}
	w.config.Logger.LogAttrs(ctx, level, message, append([]slog.Attr{slog.String("container", id)}, attrs...)...)
}
