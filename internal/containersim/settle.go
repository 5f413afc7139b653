package containersim

import (
	"time"

	"github.com/sutler-dev/sutler/facade"
)

// maxAsked is how often users ask again: an answer that was lost may have an
// error told once more after they did.
const maxAsked = 3

// Settle waits until everything is as it should be, for no longer than bound.
// It returns what was still wrong then, nil when all is well. When nothing else
// is wrong, containers that were given up are asked for again, as their users
// would; then they have to run, too.
func (w *World) Settle(bound, poll time.Duration) []string {
	deadline := w.clock.Now().Add(bound)
	for asked := 0; ; {
		wrong := w.unsettled(false)
		if wrong == nil {
			return nil
		}
		if asked < maxAsked && w.unsettled(true) == nil {
			w.askAgain()
			asked++
		}
		if w.clock.Now().After(deadline) {
			return wrong
		}
		w.Sleep(poll | 1)
		poll = min(poll+poll/4, maxPoll) // what takes long need not be seen at once
	}
}

// maxPoll is how seldom it is looked whether all is well.
const maxPoll = 30 * time.Second

// askAgain asks for all containers that were given up.
func (w *World) askAgain() {
	for _, c := range w.known() {
		if c.givenUp && w.machine.Status(c.ID).State == facade.ContainerError {
			w.note("%s is asked for again", c.ID)
			w.AskAgain(c.ID)
		}
	}
}

// Serve runs an agent without any fault until everything is as it should be,
// and ends it.
func (w *World) Serve(name string) []string {
	s := w.Start(w.Prepare(name, nil))
	wrong := w.Settle(15*time.Minute, time.Second)
	s.Kill()
	return wrong
}
