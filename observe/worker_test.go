package observe_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe"
	"github.com/sutler-dev/sutler/provisioner"
)

func TestWorkerGoesOnAndLogsWhatAPartPanickedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, log := &heard{}, fakes.NewLog()
		faults := fakes.NewFaults(clock.WallClock)
		controller := fakes.NewController(faults)
		controller.AddApplication("mysql", fakes.App{})
		w, err := provisioner.New(provisioner.Config{
			Facade:          controller,
			OperatorManager: fakes.NewManager(faults),
			Agent:           fakes.NewAgent(controller.CACert()),
			ModelUUID:       fakes.ModelUUID,
			Clock:           clock.WallClock,
			Logger:          log.Logger(),
			Metrics:         observe.Operators(operatorsEar{said{h, "bad", true}}, operatorsEar{said{h, "good", false}}),
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.Status().Applications[provisioner.StateSettled]; n != 1 {
			t.Errorf("%d applications are settled, want 1", n)
		}
		if err := worker.Stop(w); err != nil {
			t.Errorf("the worker ended with %v, want nil", err)
		}
		all := strings.Join(h.lines, "\n")
		for _, what := range []string{"attach", "event", "start", "batch", "pass", "end", "detach"} {
			if !strings.Contains(all, "good: "+what) {
				t.Errorf("the good part has not heard %q in:\n%s", what, all)
			}
		}
		for _, method := range []string{"Attach", "EventReceived", "PassStarting", "BatchDone", "PassDone"} {
			if want := "method=" + method + " error=bad"; !strings.Contains(log.Text(), want) {
				t.Errorf("no %q in the log:\n%s", want, log.Text())
			}
		}
	})
}
