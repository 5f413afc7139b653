package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// Trace returns the story so far, one line for each event and each call, in the
// order of time. What happened at one instant is sorted by its text, so that
// two plays of the same story have equal traces. No line holds anything that
// was drawn at random outside the story's dice.
func (w *World) Trace() []string {
	w.mu.Lock()
	lines := slices.Clone(w.events)
	sessions := slices.Clone(w.sessions)
	w.mu.Unlock()
	for _, s := range sessions {
		for _, c := range s.faults.Calls() {
			lines = append(lines, w.trace(s, c))
		}
	}
	slices.SortFunc(lines, func(a, b traced) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text))
	})
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = fmt.Sprintf("%15.9fs  %s", l.at.Seconds(), l.text)
	}
	return out
}

func (w *World) trace(s *Session, c fakes.Call) traced {
	about := c.Key
	if c.Keys != nil {
		keys := slices.Sorted(slices.Values(c.Keys))
		about = strings.Join(keys, ", ")
	}
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
	return traced{c.Start.Sub(w.start), fmt.Sprintf("  %s %s(%s) #%d %s", s.name, c.Method, about, c.N, outcome)}
}
