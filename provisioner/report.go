package provisioner

import (
	"cmp"
	"slices"
	"time"
)

// maxReported is how many applications a report describes one by one.
const maxReported = 100

// Report describes the worker for people, as plain maps, lists and strings:
//
//   - totals: how many applications are queued, running, waiting, stuck,
//     failed and settled; each is counted once.
//   - applications: those that are not settled, the worst first, at most a
//     hundred, each with name, state, since, and where there is one: attempts,
//     next, error, terminating-for. omitted says how many more there are.
//   - watchers: for each, how many events it had and when the last one.
//   - resync: when the last one was and the next one is due; saturated when
//     the last one was not through in time; listed and list-error tell of the
//     manager's operators.
//   - oldest-queued: for how long the first in the queue has waited.
//   - dry-run: what was not done, by application.
//
// Times are in RFC 3339. It may be called at any time, also after the end.
func (w *Worker) Report() map[string]any {
	now := w.config.Clock.Now()
	stats := w.queue.Stats()
	w.mu.Lock()
	defer w.mu.Unlock()

	totals := map[string]any{}
	counts := map[State]int{}
	var unsettled []reported
	would := map[string]any{}
	for app, a := range w.applications {
		state := w.stateOf(app, a)
		counts[state]++
		if state != StateSettled {
			unsettled = append(unsettled, reported{name: app, state: state, application: a})
		}
		if a.would != "" {
			would[app] = a.would
		}
	}
	for _, state := range States() {
		totals[string(state)] = counts[state]
	}
	report := map[string]any{
		"totals":   totals,
		"watchers": w.reportWatchers(),
		"resync":   w.resyncs.report(),
	}
	if len(unsettled) > 0 {
		slices.SortFunc(unsettled, worstFirst)
		if omitted := len(unsettled) - maxReported; omitted > 0 {
			report["omitted"] = omitted
			unsettled = unsettled[:maxReported]
		}
		list := make([]any, len(unsettled))
		for i, r := range unsettled {
			list[i] = r.report(now)
		}
		report["applications"] = list
	}
	if !stats.OldestReady.IsZero() {
		report["oldest-queued"] = now.Sub(stats.OldestReady).Round(time.Millisecond).String()
	}
	if w.config.DryRun {
		report["dry-run"] = would
	}
	return report
}

type reported struct {
	name  string
	state State
	*application
}

// worstFirst puts what needs a person before what passes by itself, and what
// has lasted longer before what is new.
func worstFirst(a, b reported) int {
	return cmp.Or(
		cmp.Compare(a.badness(), b.badness()),
		cmp.Compare(b.attempts, a.attempts),
		a.since.Compare(b.since),
		cmp.Compare(a.name, b.name),
	)
}

func (r reported) badness() int {
	order := []Outcome{OutcomePermanent, OutcomePanicked, OutcomeFailed, OutcomeStuck, OutcomeWaiting}
	if i := slices.Index(order, r.outcome); i >= 0 {
		return i
	}
	return len(order)
}

func (r reported) report(now time.Time) map[string]any {
	out := map[string]any{
		"name":  r.name,
		"state": string(r.state),
		"since": formatTime(r.since),
	}
	if r.attempts > 0 {
		out["attempts"] = r.attempts
	}
	if !r.next.IsZero() {
		out["next"] = formatTime(r.next)
	}
	if r.reason != "" {
		out["error"] = r.reason
	}
	if !r.terminating.IsZero() {
		out["terminating-for"] = now.Sub(r.terminating).Round(time.Second).String()
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
		if state.missing != "" {
			entry = map[string]any{"missing": state.missing}
		}
		out[name] = entry
	}
	return out
}

func (s resyncState) report() map[string]any {
	out := map[string]any{"next": formatTime(s.next), "saturated": s.saturated}
	if !s.last.IsZero() {
		out["last"] = formatTime(s.last)
	}
	if !s.listed.IsZero() {
		out["listed"] = formatTime(s.listed)
	}
	if s.listError != "" {
		out["list-error"] = s.listError
	}
	return out
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
