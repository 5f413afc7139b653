package containerprovisioner_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
)

// listener hears all that there is to hear.
type listener struct {
	passes
	mu       sync.Mutex
	events   []containerprovisioner.Event
	ends     []containerprovisioner.Pass
	sizes    map[string]int
	attached []*containerprovisioner.Worker
	detached int
}

type startKey struct{}

func (l *listener) Attach(w *containerprovisioner.Worker) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attached = append(l.attached, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.detached++
	}
}

func (l *listener) EventReceived(e containerprovisioner.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *listener) PassStarting(ctx context.Context, start containerprovisioner.PassStart) (context.Context, func(containerprovisioner.Pass)) {
	return context.WithValue(ctx, startKey{}, start.Container), func(pass containerprovisioner.Pass) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends = append(l.ends, pass)
	}
}

func (l *listener) BatchDone(b containerprovisioner.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes[b.Call] += b.Size
}

func (w *world) listen() *listener {
	l := &listener{sizes: map[string]int{}}
	w.config.Metrics = l
	return l
}

func TestMetricsHearEventsPassesBatchesAndSeeTheWorker(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		seen := &contexts{Broker: w.config.Broker}
		w.config.Broker = seen
		w.add("0/lxd/0")
		w.start()
		w.provisioned("0/lxd/0")

		if seen.caller != "0/lxd/0" {
			t.Errorf("the instance was started with the context of %v", seen.caller)
		}
		first := l.of("0/lxd/0")[0]
		if first.Event.Source != containerprovisioner.SourceContainers || first.Event.Names != 1 || first.Type != container.LXD {
			t.Errorf("the first pass is %+v, want one of the baseline", first)
		}
		if !slices.Contains(l.events, first.Event) {
			t.Errorf("%+v is none of %+v", first.Event, l.events)
		}
		if len(l.ends) != len(l.passes.list) {
			t.Errorf("%d passes ended, PassDone was told of %d", len(l.ends), len(l.passes.list))
		}
		if l.sizes["SetInstanceInfo"] != 1 || l.sizes["Containers"] == 0 {
			t.Errorf("batches of %v", l.sizes)
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

// contexts is a broker that looks at its caller's context.
type contexts struct {
	container.Broker
	caller any
}

func (c *contexts) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	c.caller = ctx.Value(startKey{})
	return c.Broker.StartInstance(ctx, params)
}

func TestPassesCountTheAttemptsToStart(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		w.faults.Add(fakes.Rule{Method: "StartInstance", Key: "0/lxd/0", Times: 2, Effect: fakes.Effect{Err: boom}})
		w.add("0/lxd/0")
		w.start()
		w.after(time.Minute)
		w.provisioned("0/lxd/0")
		var starts []int
		for _, pass := range l.of("0/lxd/0") {
			if pass.Start > 0 {
				starts = append(starts, pass.Start)
			}
		}
		if !slices.Equal(starts, []int{1, 2, 3}) {
			t.Errorf("attempts to start %v, want 1 to 3", starts)
		}
	})
}

func TestPanicOfAnyMetricsDisturbsNobody(t *testing.T) {
	story(t, func(w *world) {
		w.config.Metrics = allExplosive{}
		w.add("0/lxd/0")
		w.start()
		w.provisioned("0/lxd/0")
		w.stop()
		for _, method := range []string{"Attach", "EventReceived", "PassStarting", "BatchDone", "PassDone"} {
			if !slices.ContainsFunc(w.log.Lines("metrics panicked"), func(line string) bool { return strings.Contains(line, method) }) {
				t.Errorf("the panic of %s was swallowed", method)
			}
		}
	})
}

type allExplosive struct{}

func (allExplosive) PassDone(containerprovisioner.Pass)         { panic("pass") }
func (allExplosive) Attach(*containerprovisioner.Worker) func() { return func() { panic("detach") } }
func (allExplosive) EventReceived(containerprovisioner.Event)   { panic("event") }
func (allExplosive) BatchDone(containerprovisioner.Batch)       { panic("batch") }
func (allExplosive) PassStarting(context.Context, containerprovisioner.PassStart) (context.Context, func(containerprovisioner.Pass)) {
	return nil, func(containerprovisioner.Pass) { panic("end") }
}

func TestStatusCountsAndDates(t *testing.T) {
	story(t, func(w *world) {
		began := time.Now()
		w.faults.Add(fakes.Rule{Method: "StartInstance", Key: "0/lxd/1", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.add("0/lxd/0", "0/lxd/1")
		w.start()
		w.after(10 * time.Second)
		status := w.worker.Status()
		if status.Type != container.LXD || len(status.Containers) != len(containerprovisioner.States()) {
			t.Errorf("status %+v", status)
		}
		if status.Containers[containerprovisioner.StateSettled] != 1 || status.Containers[containerprovisioner.StateFailed] != 1 {
			t.Errorf("counts %v", status.Containers)
		}
		if !status.UnsettledSince.Equal(began) || status.Listed.IsZero() || status.Watchers["containers"].Events == 0 {
			t.Errorf("status %+v", status)
		}
		containers := map[string]containerprovisioner.ContainerStatus{}
		for _, c := range w.worker.Containers() {
			containers[c.ID] = c
		}
		if good := containers["0/lxd/0"]; good.State != containerprovisioner.StateSettled || !good.UnsettledSince.IsZero() {
			t.Errorf("0/lxd/0 is %+v", good)
		}
		bad := containers["0/lxd/1"]
		if bad.State != containerprovisioner.StateFailed || bad.Attempts == 0 || bad.Attempts+bad.Left != containerprovisioner.DefaultMaxAttempts || !strings.Contains(bad.Err, "boom") {
			t.Errorf("0/lxd/1 is %+v", bad)
		}
		w.after(time.Hour)
		status = w.worker.Status()
		if status.Containers[containerprovisioner.StateError] != 1 || !status.UnsettledSince.Equal(began) || status.Instances != 1 {
			t.Errorf("one is given up, one is there, and the status is %+v", status)
		}
	})
}
