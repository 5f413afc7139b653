package containerprovisioner

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// said is a status as users see it; the zero value is nothing to say.
type said struct {
	state   facade.ContainerState
	message string
}

// maxMessage bounds what a status repeats of an error.
const maxMessage = 500

// statusOf says what users are to be told after a pass, of which t has what was
// planned.
func statusOf(res result, t *tracked, most int) said {
	reason := oneLine(t.reason)
	switch {
	case res.early, res.outcome == OutcomeForgotten:
		return said{}
	case t.outcome == OutcomeGivenUp && res.state == facade.ContainerError:
		// Whoever set it said why.
		return said{}
	case t.outcome == OutcomeGivenUp:
		return said{facade.ContainerError, fmt.Sprintf("%s; given up after %s", reason, attempts(t.attempts))}
	case res.attempt:
		return said{facade.ContainerProvisioning, fmt.Sprintf("%s; %d of %d attempts left, next at %s",
			reason, most-t.attempts, most, formatTime(t.next))}
	case res.step == recordInstance && t.troubled():
		return said{facade.ContainerProvisioning, "started, but not yet recorded: " + reason}
	case res.lost && res.outcome == OutcomePermanent:
		return said{facade.ContainerError, reason}
	case res.running && res.state != facade.ContainerRunning:
		return said{state: facade.ContainerRunning}
	}
	return said{}
}

// oneLine makes one line of a message, and not too long a one.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return s
}

// tell lets the container's users see how far it has come, once for each
// change. It reports whether that needs to be repeated; it is no failure of
// anything else.
func (w *Worker) tell(ctx context.Context, id string, m *memory, s said) (again bool) {
	if s == (said{}) || m.said == s || w.isDying() {
		return false
	}
	defer func() {
		if r := recover(); r != nil {
			w.panicked(ctx, id, r)
			again = true
		}
	}()
	_, err := join(ctx, w, w.batchers.statuses, facade.ContainerStatus{ID: id, State: s.state, Message: s.message})
	switch {
	case errors.Is(err, errors.NotFound):
		return false
	case err != nil:
		if !w.isDying() {
			w.log(ctx, slog.LevelDebug, "status not set", id, slog.String("error", err.Error()))
		}
		return true
	}
	m.said = s
	return false
}

// heard compares what the controller says of the container's status with what
// was said to it. It reports whether somebody asks for another attempt: they
// do so by a status that is none of this worker's.
func (m *memory) heard(state facade.ContainerState) (asked bool) {
	if m.said.state == "" || m.said.state == state {
		return false
	}
	m.said = said{}
	return m.attempts > 0 && state != facade.ContainerError && state != facade.ContainerProvisioning
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}
