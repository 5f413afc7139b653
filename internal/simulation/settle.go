package simulation

import (
	"fmt"
	"time"
)

// Settle waits until everything is as it should be, for no longer than bound.
// It returns what was still wrong then, nil when all is well.
func (w *World) Settle(bound, poll time.Duration) []string {
	deadline := w.clock.Now().Add(bound)
	for {
		wrong := w.unsettled(false)
		if wrong == nil {
			return nil
		}
		if w.clock.Now().After(deadline) {
			return w.unsettled(true)
		}
		w.Sleep(poll | 1)
	}
}

// Finish ends the workers that still run, and returns all that was wrong in the
// story.
func (w *World) Finish() []string {
	w.mu.Lock()
	sessions := w.sessions
	w.mu.Unlock()
	for _, s := range sessions {
		select {
		case <-s.ended:
		default:
			w.print(fmt.Sprint(s.worker.Report()))
			s.Kill()
		}
	}
	return w.Broken()
}

// Serve runs a worker without any fault until everything is as it should be,
// and ends it.
func (w *World) Serve(name string) []string {
	s := w.Start(w.Prepare(name))
	wrong := w.Settle(15*time.Minute, time.Second)
	s.Kill()
	return wrong
}
