package containersetup_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
)

// listener hears all that there is to hear.
type listener struct {
	phases
	mu       sync.Mutex
	events   []containersetup.Event
	ends     []containersetup.PhaseAttempt
	attached []*containersetup.Worker
	detached int
}

type startKey struct{}

func (l *listener) Attach(w *containersetup.Worker) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attached = append(l.attached, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.detached++
	}
}

func (l *listener) EventReceived(e containersetup.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *listener) PhaseStarting(ctx context.Context, start containersetup.PhaseStart) (context.Context, func(containersetup.PhaseAttempt)) {
	return context.WithValue(ctx, startKey{}, start.Phase), func(attempt containersetup.PhaseAttempt) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends = append(l.ends, attempt)
	}
}

func (l *listener) ContainerMetrics(t containersetup.ContainerType) containerprovisioner.Metrics {
	return typeMetrics(t)
}

type typeMetrics containersetup.ContainerType

func (typeMetrics) PassDone(containerprovisioner.Pass) {}

func TestMetricsHearEventsAndPhasesAndSeeTheWorker(t *testing.T) {
	story(t, func(w *world) {
		l := &listener{}
		w.config.Metrics = l
		var phase any
		backend := w.config.Backends[containersetup.LXD]
		initialise := backend.Initialiser.Initialise
		backend.Initialiser = initialiser(func(ctx context.Context) error {
			phase = ctx.Value(startKey{})
			time.Sleep(3 * time.Second)
			return initialise(ctx)
		})
		w.config.Backends[containersetup.LXD] = backend
		w.start()
		w.ask("0/lxd/0")
		w.after(time.Minute)

		if phase != containersetup.PhaseInitialise {
			t.Errorf("the initialiser was called with the context of %v", phase)
		}
		attempts := l.of(containersetup.LXD, containersetup.PhaseInitialise)
		if len(attempts) != 1 || attempts[0].LockHold != 3*time.Second || attempts[0].Attempts != 0 {
			t.Fatalf("initialised by %+v, want once, the lock held for 3 s", attempts)
		}
		for _, attempt := range l.ends {
			if !slices.Contains(l.events, attempt.Event) || attempt.Event.Names != 1 {
				t.Errorf("%s was caused by %+v, of which nobody was told", attempt.Phase, attempt.Event)
			}
		}
		if len(l.ends) != 5 {
			t.Errorf("%d phases ended, want 5", len(l.ends))
		}
		if got := w.provisioners.started(); len(got) != 1 || got[0].config.Metrics != typeMetrics(containersetup.LXD) {
			t.Errorf("provisioners %v, want one with the metrics of lxd", got)
		}
		if len(l.attached) != 1 || l.attached[0] != w.worker || l.detached != 0 {
			t.Fatalf("attached %v, detached %d", l.attached, l.detached)
		}
		w.stop()
		if l.detached != 1 {
			t.Errorf("detached %d times, want once", l.detached)
		}
	})
}

type initialiser func(context.Context) error

func (i initialiser) Initialise(ctx context.Context) error { return i(ctx) }

func TestPanicOfAnyMetricsDisturbsNobody(t *testing.T) {
	story(t, func(w *world) {
		w.config.Metrics = allExplosive{}
		w.start()
		w.ask("0/lxd/0")
		w.ready(containersetup.LXD)
		w.stop()
		for _, method := range []string{"Attach", "EventReceived", "PhaseStarting", "PhaseDone", "ContainerMetrics"} {
			if !slices.ContainsFunc(w.log.Lines("metrics panicked"), func(line string) bool { return strings.Contains(line, method) }) {
				t.Errorf("the panic of %s was swallowed", method)
			}
		}
	})
}

type allExplosive struct{}

func (allExplosive) PhaseDone(containersetup.PhaseAttempt) { panic("phase") }
func (allExplosive) Attach(*containersetup.Worker) func()  { return func() { panic("detach") } }
func (allExplosive) EventReceived(containersetup.Event)    { panic("event") }
func (allExplosive) ContainerMetrics(containersetup.ContainerType) containerprovisioner.Metrics {
	panic("container")
}

func (allExplosive) PhaseStarting(context.Context, containersetup.PhaseStart) (context.Context, func(containersetup.PhaseAttempt)) {
	return nil, func(containersetup.PhaseAttempt) { panic("end") }
}

func TestStatusTellsHowFarEachTypeIs(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "Initialise", Key: string(containersetup.KVM), Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.start()
		if got := w.worker.Status().Types[containersetup.LXD]; got != (containersetup.TypeStatus{Phase: containersetup.PhaseIdle}) {
			t.Errorf("before anybody asked lxd is %+v", got)
		}
		w.ask("0/lxd/0", "0/kvm/0", "1/lxd/0")
		w.after(10 * time.Second)
		status := w.worker.Status()
		if status.MachineID != "0" || !status.Watching || status.Skipped != 1 || status.Err != "" {
			t.Errorf("status %+v", status)
		}
		if lxd := status.Types[containersetup.LXD]; lxd.Phase != containersetup.PhaseReady || lxd.Since.IsZero() || lxd.Err != "" || lxd.Waiting != 0 {
			t.Errorf("lxd is %+v", lxd)
		}
		kvm := status.Types[containersetup.KVM]
		if kvm.Phase != containersetup.PhaseInitialise || kvm.Attempts < 3 || kvm.Waiting != 1 || !strings.Contains(kvm.Err, "boom") || !kvm.Next.After(time.Now()) {
			t.Errorf("kvm is %+v", kvm)
		}
	})
}
