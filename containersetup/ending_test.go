package containersetup_test

import (
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/fakes"
)

// A panic that the worker does not survive ends it: it does not stay as one that
// does nothing any more.
func TestPanicOfWhoeverGivesTheWatcherEndsTheWorker(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "WatchAllContainers", Effect: fakes.Effect{Panic: "boom"}})
		w.start()
		w.after(time.Second)
		ended := make(chan error, 1)
		worker := w.worker
		go func() { ended <- worker.Wait() }()
		w.after(time.Second)
		select {
		case err := <-ended:
			w.worker = nil
			if err == nil {
				t.Error("the worker ended without an error")
			}
		default:
			t.Error("the worker has not ended")
			w.stop()
			<-ended
		}
	})
}

// killedAfter kills the worker as soon as a phase was tried.
type killedAfter struct {
	*phases
	w *world
}

func (k killedAfter) PhaseDone(a containersetup.PhaseAttempt) {
	k.phases.PhaseDone(a)
	k.w.worker.Kill()
	time.Sleep(time.Nanosecond) // until that is known to all
}

func TestNothingIsTriedAfterTheWorkerWasKilled(t *testing.T) {
	for range 30 {
		story(t, func(w *world) {
			w.config.Metrics = killedAfter{w.phases, w}
			w.start()
			w.ask("0/lxd/0")
			w.after(time.Second)
			if n := len(w.phases.list); n != 1 {
				t.Errorf("%d phases were tried, want 1: %+v", n, w.phases.list)
			}
		})
	}
}
