package provisioner_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/fakes"
)

// settableClock is a clock without a monotonic reading, whose timers go on when
// it is set.
type settableClock struct {
	clock.Clock
	ahead atomic.Int64
}

func (c *settableClock) Now() time.Time {
	return c.Clock.Now().Round(0).Add(time.Duration(c.ahead.Load()))
}

// A clock that is set back by a day holds up nothing for a day.
func TestClockThatIsSetBackDelaysNothingForLong(t *testing.T) {
	play := func(t *testing.T, tell func(w *world, setBack func())) {
		t.Helper()
		story(t, func(w *world) {
			clk := &settableClock{Clock: clock.WallClock}
			clk.ahead.Store(int64(24 * time.Hour))
			w.config.Clock = clk
			w.controller.AddApplication("mysql", fakes.App{})
			tell(w, func() { clk.ahead.Store(0) })
		})
	}
	t.Run("a certificate that was refused is asked for again", func(t *testing.T) {
		play(t, func(w *world, setBack func()) {
			w.controller.SetFlaw(fakes.WrongKey)
			w.start()
			w.after(30 * time.Second)
			w.controller.SetFlaw("")
			setBack()
			w.after(5 * time.Minute)
			w.provisioned("mysql")
		})
	})
	t.Run("resyncs go on", func(t *testing.T) {
		play(t, func(w *world, setBack func()) {
			w.config.Facade = w.controller.Plain()
			w.config.OperatorManager = w.manager.Plain()
			w.start()
			setBack()
			// Of which no watcher tells.
			info := fakes.Info()
			info.Version = "2.9.50"
			w.controller.SetInfo("mysql", info)
			w.after(21 * time.Minute)
			if got := w.manager.Config("mysql").Version; got != "2.9.50" {
				t.Errorf("the operator still has version %s", got)
			}
		})
	})
}
