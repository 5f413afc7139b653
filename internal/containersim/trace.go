package containersim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sutler-dev/sutler/fakes"
)

// traced is one line of a story.
type traced struct {
	at   time.Duration
	text string
}

// note adds an event to the trace.
func (w *World) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, traced{w.clock.Now().Sub(w.start), fmt.Sprintf(format, args...)})
}

// Trace returns the story so far in the order of time: a line for each event,
// and for each call one for everything that it was about. What happened at one
// instant is sorted by its text, and the same is told once: so two plays of a
// story have equal traces, in whatever order its goroutines ran, and however
// those that ran at one instant joined their calls.
func (w *World) Trace() []string {
	w.mu.Lock()
	lines := slices.Clone(w.events)
	sessions := slices.Clone(w.sessions)
	w.mu.Unlock()
	for _, s := range sessions {
		for _, c := range s.faults.Calls() {
			lines = append(lines, w.trace(s, c)...)
		}
	}
	slices.SortFunc(lines, func(a, b traced) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text))
	})
	lines = slices.Compact(lines)
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = fmt.Sprintf("%15.9fs  %s", l.at.Seconds(), l.text)
	}
	return out
}

func (w *World) trace(s *Session, c fakes.Call) (lines []traced) {
	outcome := "under way"
	if !c.End.IsZero() {
		outcome = "took " + c.End.Sub(c.Start).String()
		if !c.Acted {
			outcome += ", nothing done"
		}
		if c.Err != nil {
			outcome += ": " + c.Err.Error()
		}
	}
	keys := c.Keys
	if keys == nil {
		keys = []string{c.Key}
	}
	for _, key := range keys {
		lines = append(lines, traced{c.Start.Sub(w.start), fmt.Sprintf("  %s %s(%s) %s", s.name, c.Method, key, outcome)})
	}
	return lines
}
