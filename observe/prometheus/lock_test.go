package prometheus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/prometheus"
)

// lockNames are the families that tell of one holder at one moment.
func lockNames() []string {
	return []string{
		"sutler_machine_lock_failures_total", "sutler_machine_lock_hold_start_timestamp_seconds",
		"sutler_machine_lock_wait_start_timestamp_seconds", "sutler_machine_lock_waiting",
	}
}

// The clock of a bubble starts at 946684800.
func TestTheLockTellsWhoWaitsAndWhoHolds(t *testing.T) {
	story(t, prometheus.Config{}, func(w *world) {
		inner := w.host.Lock()
		lock := w.metrics.Lock(inner)
		free := inner.Occupy(containersetup.Holder{Worker: "somebody else"}, 1)
		var release func()
		go func() {
			var err error
			if release, err = lock.Acquire(w.Context(), containersetup.Holder{Worker: "hostprep"}); err != nil {
				t.Error(err)
			}
		}()
		w.after(20 * time.Second)
		w.sees(`
			sutler_machine_lock_failures_total{worker="container-setup"} 0
			sutler_machine_lock_failures_total{worker="hostprep"} 0
			sutler_machine_lock_hold_start_timestamp_seconds{worker="container-setup"} 0
			sutler_machine_lock_hold_start_timestamp_seconds{worker="hostprep"} 0
			sutler_machine_lock_wait_start_timestamp_seconds{worker="container-setup"} 0
			sutler_machine_lock_wait_start_timestamp_seconds{worker="hostprep"} 9.466848e+08
			sutler_machine_lock_waiting{worker="container-setup"} 0
			sutler_machine_lock_waiting{worker="hostprep"} 1
		`, lockNames()...)

		free()
		w.after(7 * time.Second)
		w.sees(`
			sutler_machine_lock_failures_total{worker="container-setup"} 0
			sutler_machine_lock_failures_total{worker="hostprep"} 0
			sutler_machine_lock_hold_start_timestamp_seconds{worker="container-setup"} 0
			sutler_machine_lock_hold_start_timestamp_seconds{worker="hostprep"} 9.4668482e+08
			sutler_machine_lock_wait_start_timestamp_seconds{worker="container-setup"} 0
			sutler_machine_lock_wait_start_timestamp_seconds{worker="hostprep"} 0
			sutler_machine_lock_waiting{worker="container-setup"} 0
			sutler_machine_lock_waiting{worker="hostprep"} 0
		`, lockNames()...)

		// Twice is harmless, and counted once.
		release()
		release()
		if err := inner.CheckFree(); err != nil {
			t.Error(err)
		}
		w.sees(`
			sutler_machine_lock_hold_start_timestamp_seconds{worker="container-setup"} 0
			sutler_machine_lock_hold_start_timestamp_seconds{worker="hostprep"} 0
		`, "sutler_machine_lock_hold_start_timestamp_seconds")
		sum := func(name string) (float64, uint64) { return histogram(t, w.registry, name, "hostprep") }
		if seconds, n := sum("sutler_machine_lock_wait_seconds"); seconds != 20 || n != 1 {
			t.Errorf("waited %d times for %v s, want once for 20 s", n, seconds)
		}
		if seconds, n := sum("sutler_machine_lock_hold_seconds"); seconds != 7 || n != 1 {
			t.Errorf("held %d times for %v s, want once for 7 s", n, seconds)
		}
	})
}

// histogram returns what a histogram has observed for a worker.
func histogram(t *testing.T, gatherer client.Gatherer, name, worker string) (sum float64, n uint64) {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == worker {
				return m.GetHistogram().GetSampleSum(), m.GetHistogram().GetSampleCount()
			}
		}
	}
	t.Fatalf("no %s of %s", name, worker)
	return 0, 0
}

func TestAWaitThatEndsWithoutTheLockIsAFailure(t *testing.T) {
	for name, test := range map[string]struct {
		effect fakes.Effect
		cancel bool
	}{
		"an error":         {effect: fakes.Effect{Err: errors.New("boom")}},
		"a panic":          {effect: fakes.Effect{Panic: "boom"}},
		"the end of a ctx": {cancel: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := client.NewPedanticRegistry()
				faults := fakes.NewFaults(clock.WallClock)
				inner := fakes.NewLock(faults)
				lock := newMetrics(t, prometheus.Config{Registerer: registry}).Lock(inner)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.cancel {
					defer inner.Occupy(containersetup.Holder{Worker: "somebody else"}, 1)()
					time.AfterFunc(time.Minute, cancel)
				} else {
					faults.Add(fakes.Rule{Method: "Acquire", Effect: test.effect})
				}
				func() {
					defer func() {
						if r := recover(); (r != nil) != (test.effect.Panic != nil) {
							t.Errorf("panicked with %v", r)
						}
					}()
					if _, err := lock.Acquire(ctx, containersetup.Holder{Worker: "hostprep"}); err == nil {
						t.Error("no error")
					}
				}()
				for name, want := range map[string]string{
					"sutler_machine_lock_failures_total": `sutler_machine_lock_failures_total{worker="hostprep"} 1`,
					"sutler_machine_lock_waiting":        `sutler_machine_lock_waiting{worker="hostprep"} 0`,
				} {
					if got := exposed(t, registry, name); got[1] != want {
						t.Errorf("exposed %q, want %s", got, want)
					}
				}
				if _, n := histogram(t, registry, "sutler_machine_lock_wait_seconds", "hostprep"); n != 0 {
					t.Error("a wait in vain is among those that were not")
				}
			})
		})
	}
}

// Locks with more or less to them.
type (
	bare       struct{ containersetup.Lock }
	withStatus struct{ *fakes.Lock }
	reporter   struct{}
	withReport struct {
		bare
		reporter
	}
	withBothOfs struct {
		withStatus
		reporter
	}
)

func (reporter) Report() map[string]any { return map[string]any{"of": "the lock"} }

func TestTheLockOffersWhatTheOneWithinDoes(t *testing.T) {
	m := newMetrics(t, prometheus.Config{Registerer: client.NewRegistry()})
	inner := fakes.NewLock(fakes.NewFaults(clock.WallClock))
	for name, test := range map[string]struct {
		lock           containersetup.Lock
		status, report bool
	}{
		"nothing": {bare{inner}, false, false},
		"status":  {withStatus{inner}, true, false},
		"report":  {withReport{bare: bare{inner}}, false, true},
		"both":    {withBothOfs{withStatus: withStatus{inner}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			lock := m.Lock(test.lock)
			asked, hasStatus := lock.(container.LockStatuser)
			reporter, hasReport := lock.(worker.Reporter)
			if hasStatus != test.status || hasReport != test.report {
				t.Fatalf("status %v, report %v, want %v and %v", hasStatus, hasReport, test.status, test.report)
			}
			release, err := lock.Acquire(t.Context(), containersetup.Holder{Worker: "hostprep"})
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			if hasStatus {
				status, err := asked.Status(t.Context())
				if err != nil || status.Holder.Worker != "hostprep" {
					t.Errorf("status %+v, %v", status, err)
				}
			}
			if hasReport && reporter.Report()["of"] != "the lock" {
				t.Error("the report is another one")
			}
		})
	}
	if m.Lock(nil) != nil {
		t.Error("nil became a lock")
	}
}
