package containerprovisioner

import (
	"cmp"
	"slices"
	"time"
)

// maxReported is how many containers, and how many instances, a report describes
// one by one.
const maxReported = 100

// Report describes the worker for people, as plain maps, lists and strings:
//
//   - totals: how many containers are queued, running (being looked at, started
//     or stopped), waiting (for a turn), failed, in error (given up) and
//     settled; each is counted once. starting and stopping are how many have a
//     turn.
//   - containers: those that are not settled, the worst first, at most a
//     hundred, each with id, state, since, and where there is one: attempts,
//     left (attempts), next, error. omitted says how many more there are.
//   - unknown-instances: those that are left although nobody wants them, by
//     the harvest mode, at most a hundred: instance and container.
//   - strange-instances: those that the broker lists though they are of no
//     container of this type on this machine.
//   - skipped: ids that were named and are no such containers; total counts
//     every time.
//   - harvest-mode, and harvest-error while it cannot be read.
//   - watchers: for each, how many events it had and when the last one.
//   - resync: when the last one was and the next one is due.
//   - instances: when they were listed last and how many there were, how many
//     of them do not run; error and next when that fails.
//   - oldest-queued: for how long the first in the queue has waited.
//
// Times are in RFC 3339. It may be called at any time, also after the end.
func (w *Worker) Report() map[string]any {
	now := w.config.Clock.Now()
	stats := w.queue.Stats()
	starting, stopping := w.turns.counts()
	w.mu.Lock()
	defer w.mu.Unlock()

	counts := map[State]int{}
	var unsettled []reported
	var unknown []any
	for id, t := range w.containers {
		state := w.stateOf(id, t)
		counts[state]++
		if state != StateSettled {
			unsettled = append(unsettled, reported{id: id, state: state, tracked: t})
		}
		for _, instance := range t.kept {
			if len(unknown) < maxReported {
				unknown = append(unknown, map[string]any{"instance": string(instance), "container": id})
			}
		}
	}
	totals := map[string]any{"starting": starting, "stopping": stopping}
	for _, state := range States() {
		totals[string(state)] = counts[state]
	}
	report := map[string]any{
		"totals":       totals,
		"watchers":     w.reportWatchers(),
		"resync":       w.resyncs.report(),
		"harvest-mode": string(w.harvest.mode),
	}
	if w.harvest.err != "" {
		report["harvest-error"] = w.harvest.err
	}
	if len(unknown) > 0 {
		report["unknown-instances"] = unknown
	}
	if w.skipped.total > 0 {
		report["skipped"] = w.skipped.report()
	}
	if !stats.OldestReady.IsZero() {
		report["oldest-queued"] = now.Sub(stats.OldestReady).Round(time.Millisecond).String()
	}
	w.reportContainers(report, unsettled)
	w.reportInstances(report)
	return report
}

func (w *Worker) reportContainers(report map[string]any, unsettled []reported) {
	if len(unsettled) == 0 {
		return
	}
	slices.SortFunc(unsettled, worstFirst)
	if omitted := len(unsettled) - maxReported; omitted > 0 {
		report["omitted"] = omitted
		unsettled = unsettled[:maxReported]
	}
	list := make([]any, len(unsettled))
	for i, r := range unsettled {
		list[i] = r.report(w.config.MaxAttempts)
	}
	report["containers"] = list
}

func (w *Worker) reportInstances(report map[string]any) {
	if w.lister == nil {
		return
	}
	latest, next, err := w.lister.status()
	out := map[string]any{}
	if latest != nil {
		out["listed"], out["total"], out["not-running"] = formatTime(latest.began), len(latest.instances), latest.notRunning()
		if len(latest.strange) > 0 {
			list := make([]any, len(latest.strange))
			for i, in := range latest.strange {
				list[i] = map[string]any{"instance": shortened(string(in.ID)), "container": shortened(in.ContainerID)}
			}
			report["strange-instances"] = list
		}
	}
	if err != nil {
		out["error"], out["next"] = err.Error(), formatTime(next)
	}
	report["instances"] = out
}

type reported struct {
	id    string
	state State
	*tracked
}

// worstFirst puts what needs a person before what passes by itself, and what
// has lasted longer before what is new.
func worstFirst(a, b reported) int {
	return cmp.Or(
		cmp.Compare(a.badness(), b.badness()),
		cmp.Compare(b.attempts, a.attempts),
		a.since.Compare(b.since),
		cmp.Compare(a.id, b.id),
	)
}

func (r reported) badness() int {
	order := []Outcome{OutcomeGivenUp, OutcomePermanent, OutcomePanicked, OutcomeFailed, OutcomeWaiting}
	if i := slices.Index(order, r.outcome); i >= 0 {
		return i
	}
	return len(order)
}

func (r reported) report(most int) map[string]any {
	out := map[string]any{
		"id":    r.id,
		"state": string(r.state),
		"since": formatTime(r.since),
	}
	if r.attempts > 0 {
		out["attempts"] = r.attempts
		out["left"] = max(most-r.attempts, 0)
	}
	if !r.next.IsZero() {
		out["next"] = formatTime(r.next)
	}
	if r.reason != "" {
		out["error"] = r.reason
	}
	return out
}

func (w *Worker) reportWatchers() map[string]any {
	out := map[string]any{}
	for name, state := range w.watchers {
		entry := map[string]any{"events": state.events}
		if !state.last.IsZero() {
			entry["last-event"] = formatTime(state.last)
		}
		out[name] = entry
	}
	return out
}

func (s resyncState) report() map[string]any {
	out := map[string]any{}
	if !s.next.IsZero() {
		out["next"] = formatTime(s.next)
	}
	if !s.last.IsZero() {
		out["last"] = formatTime(s.last)
	}
	return out
}
