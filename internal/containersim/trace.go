package containersim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/fakes"
)

// traced is one line of a story.
type traced struct {
	at   time.Duration
	text string
}

// reached is a line that is left out if the session was about to end then: it is
// not certain how far an agent comes in that instant.
type reached struct {
	session *Session
	at      time.Time
	text    string
}

// note adds an event to the trace.
func (w *World) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, traced{w.clock.Now().Sub(w.start), fmt.Sprintf(format, args...)})
}

// reach is note for how far a session has come.
func (w *World) reach(s *Session, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached = append(w.reached, reached{s, w.clock.Now(), text})
}

// Trace returns the story so far in the order of time: a line for each event,
// and for each call one for everything that it was about. What happened at one
// instant is sorted by its text, and the same is told once: so two plays of a
// story have equal traces, in whatever order its goroutines ran, and however
// those that ran at one instant joined their calls.
func (w *World) Trace() []string {
	w.mu.Lock()
	lines := slices.Clone(w.events)
	reached := slices.Clone(w.reached)
	sessions := slices.Clone(w.sessions)
	w.mu.Unlock()
	for _, r := range reached {
		if !r.session.ending(r.at) {
			lines = append(lines, traced{r.at.Sub(w.start), r.text})
		}
	}
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
	switch {
	case c.End.IsZero():
	case !c.Acted && s.ending(c.Start):
		return nil
	case !c.Acted && c.Start.Equal(c.End) && errors.Is(c.Err, context.Canceled):
		return nil // of a provisioner that ended then
	case s.ending(c.End):
		outcome = "until the end"
	default:
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

// ending tells whether the session was about to end, or had ended, at that time.
// What was under way then ends in no certain order: one call may just have what
// another gives back.
func (s *Session) ending(at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.end.IsZero() && !at.Before(s.end) || s.ends && !at.Before(s.killedAt)
}
