package embedding

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/provisioner"
)

// passes hears of every look at an application. PassDone must not block, so one
// that finds the channel full is dropped.
type passes chan provisioner.Pass

func (c passes) PassDone(pass provisioner.Pass) {
	select {
	case c <- pass:
	default:
	}
}

// phases hears of every attempt at a phase of container set-up.
type phases chan containersetup.PhaseAttempt

func (c phases) PhaseDone(attempt containersetup.PhaseAttempt) {
	select {
	case c <- attempt:
	default:
	}
}

// wait returns when the phase was gone through.
func (c phases) wait(phase containersetup.Phase) {
	for attempt := range c {
		if attempt.Phase == phase && attempt.Err == nil {
			return
		}
	}
}

// plain logs to standard output without the time, which is another one each time.
func plain() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// newEngine starts again whatever ends, with a back-off.
func newEngine(logger *slog.Logger) (*dependency.Engine, error) {
	return dependency.NewEngine(dependency.EngineConfig{
		IsFatal:          func(error) bool { return false },
		WorstError:       func(first, _ error) error { return first },
		ErrorDelay:       3 * time.Second,
		BounceDelay:      10 * time.Millisecond,
		BackoffFactor:    1.5,
		BackoffResetTime: time.Minute,
		MaxDelay:         time.Minute,
		Clock:            clock.WallClock,
		Metrics:          dependency.DefaultMetrics(),
		Logger:           enginelog.New(logger),
	})
}

// stop ends a worker, and says so if it did not end well.
func stop(w worker.Worker) {
	if err := worker.Stop(w); err != nil {
		fmt.Println("ended with", err)
	}
}
