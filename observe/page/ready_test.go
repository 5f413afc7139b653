package page

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// ready wants /ready to say so, or to give exactly the reasons.
func (w *world) ready(reasons ...string) {
	w.Helper()
	status, want := http.StatusOK, "ready\n"
	if len(reasons) > 0 {
		status, want = http.StatusServiceUnavailable, strings.Join(reasons, "\n")+"\n"
	}
	answer := w.request(http.MethodGet, "/ready")
	if answer.Code != status || answer.Body.String() != want {
		w.Errorf("%d %q, want %d %q", answer.Code, answer.Body, status, want)
	}
}

func TestReadyWithNobodyToWaitFor(t *testing.T) {
	story(t, func(w *world) { w.ready() })
}

func TestReadyWhenWorkersHaveTheirBaselines(t *testing.T) {
	story(t, func(w *world) {
		w.look().Operators()
		w.look().Setup()
		w.ready("no container-setup handler has started", "no operator provisioner has started")

		// Its watchers cannot be had yet.
		gate := fakes.NewGate()
		w.faults.Add(fakes.Rule{Method: "WatchApplications", Effect: fakes.Effect{Gate: gate}})
		w.operators(fakes.ModelUUID)
		w.after(0)
		w.ready("no container-setup handler has started",
			"operator provisioner of model "+fakes.ModelUUID+": its watchers have not started")
		gate.Release()
		w.after(0)
		w.ready("no container-setup handler has started")

		w.setup()
		w.after(0)
		w.ready()
		w.shows(w.get("/healthz", http.StatusOK), "ok")
	})
}

func TestFailingApplicationIsNoReasonToBeUnready(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.operators(fakes.ModelUUID)
		w.after(time.Hour)
		w.shows(w.get("/", http.StatusOK), "1 of 1 not settled")
		w.ready()
	})
}

func TestContainerProvisionersCountToo(t *testing.T) {
	story(t, func(w *world) {
		gate := fakes.NewGate()
		w.faults.Add(fakes.Rule{Method: "WatchContainers", Effect: fakes.Effect{Gate: gate}})
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.setup()
		w.after(time.Second)
		w.ready("lxd provisioner of machine 0: its watchers have not started")
		gate.Release()
		w.after(time.Second)
		w.ready()
		// With all types prepared, nothing is waited for any more.
		w.machine.AddContainer("0/kvm/0", fakes.Container{})
		w.after(time.Second)
		w.ready()
		w.shows(w.get("/", http.StatusOK), "kvm provisioner of machine 0")
	})
}

func TestMachineOfWhichTooLittleIsKnownIsUnready(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SupportedContainers", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.setup()
		w.after(time.Second)
		w.ready("container-setup handler of machine 0: it is not known what the machine supports: reading the supported types: boom")
	})
}

func TestWorkerThatEndedIsMissedUntilReplacedOrForgotten(t *testing.T) {
	story(t, func(w *world) {
		first := w.operators(fakes.ModelUUID)
		w.after(time.Second)
		w.ready()
		first.Kill()
		_ = first.Wait()
		at := stamp(time.Now())
		w.ready("operator provisioner of model " + fakes.ModelUUID + ": ended at " + at)
		w.shows(w.get("/", http.StatusOK), "Not ready", "ended at "+at)

		second := w.operators(fakes.ModelUUID)
		w.after(time.Second)
		w.ready()
		second.Kill()
		_ = second.Wait()
		w.operators(otherModel)
		w.after(endedKept)
		if w.request(http.MethodGet, "/ready").Code != http.StatusServiceUnavailable {
			t.Error("forgotten early")
		}
		w.after(time.Second)
		w.ready() // the other model's is there
	})
}

func TestPredecessorThatEndsLateTakesNobodyAway(t *testing.T) {
	story(t, func(w *world) {
		first := w.operators(fakes.ModelUUID)
		w.after(time.Second)
		w.controller.AddApplication("mysql", fakes.App{})
		second := w.operators(fakes.ModelUUID)
		w.after(time.Second)
		first.Kill()
		_ = first.Wait()
		w.ready()
		w.shows(w.get("/", http.StatusOK), "1 to 1 of 1", ">mysql<")
		second.Kill()
		_ = second.Wait()
		w.hides(w.get("/", http.StatusOK), ">mysql<")
	})
}

func TestHostSaysWhenItIsReady(t *testing.T) {
	story(t, func(w *world) {
		var err error
		w.config.Ready = func(context.Context) error { return err }
		w.ready()
		err = errors.New("no connection\nto the controller")
		w.ready("no connection to the controller")
	})
}

func TestHostThatNeverSaysWhetherItIsReadyIsUnready(t *testing.T) {
	story(t, func(w *world) {
		var calls, quick atomic.Int32
		w.config.Ready = func(ctx context.Context) error {
			calls.Add(1)
			if quick.Load() == 0 {
				time.Sleep(time.Minute) // whatever its context says
			}
			return nil
		}
		w.ready("asking whether all else is ready: no answer for 2 s")
		w.ready("asking whether all else is ready: no answer for 2 s")
		if n := calls.Load(); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		quick.Store(1)
		w.after(time.Minute)
		w.ready()
	})
}

func TestHostThatHeedsItsContextIsToldToStop(t *testing.T) {
	story(t, func(w *world) {
		w.config.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		if w.request(http.MethodGet, "/ready").Code != http.StatusServiceUnavailable {
			t.Error("it is ready")
		}
	})
}

func TestHostThatPanicsIsUnready(t *testing.T) {
	story(t, func(w *world) {
		w.config.Ready = func(context.Context) error { panic("boom") }
		w.ready("asking whether all else is ready: panic: boom")
		w.shows(w.get("/", http.StatusOK), "panic: boom")
	})
}

var _ provisioner.Attacher = operators{}
