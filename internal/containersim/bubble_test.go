package containersim

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
)

// bubble plays in virtual time and returns what play returns. A story that
// leaves a goroutine behind, or blocks for ever, is wrong too, and must not end
// the test binary before its seed was printed.
func bubble(t *testing.T, play func() []string) (wrong []string) {
	t.Helper()
	caught := func() {
		if r := recover(); r != nil {
			wrong = append(wrong, fmt.Sprintf("panic: %v\n%s", r, debug.Stack()))
		}
	}
	defer caught() // of the bubble itself, which panics when it is blocked
	synctest.Test(t, func(*testing.T) {
		defer caught()
		wrong = play()
	})
	return wrong
}

// told is what is printed of a story that went wrong: what, and its last lines.
func told(wrong []string, w *World, last int) string {
	const most = 12
	if len(wrong) > most {
		wrong = append(wrong[:most:most], fmt.Sprintf("... and %d more", len(wrong)-most))
	}
	if w == nil {
		return strings.Join(wrong, "\n")
	}
	trace := w.Trace()
	trace = trace[max(len(trace)-last, 0):]
	return strings.Join(wrong, "\n") + "\nthe last of it:\n" + strings.Join(trace, "\n")
}
