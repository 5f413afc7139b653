package containerprovisioner

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// counter is a Metrics that tells when so many passes have settled.
type counter struct {
	left atomic.Int64
	all  chan time.Time
}

func newCounter(n int) *counter {
	c := &counter{all: make(chan time.Time, 1)}
	c.left.Store(int64(n))
	return c
}

func (c *counter) PassDone(p Pass) {
	if p.Outcome == OutcomeSettled && c.left.Add(-1) == 0 {
		c.all <- time.Now()
	}
}

func name(i int) string { return fmt.Sprintf("0/lxd/%d", i) }

// lxd returns the host's broker.
func lxd(tb testing.TB, host *fakes.Host) container.Broker {
	backend := host.Backend(container.LXD)
	if err := backend.Initialiser.Initialise(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	broker, err := backend.NewBroker(tb.Context(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return broker
}

// preparation is a Preparer whose work is one call.
type preparation struct{ machine *fakes.Machine }

func (p preparation) Prepare(ctx context.Context, id string) error {
	_, err := p.machine.HostChangesForContainer(ctx, id)
	return err
}

// settle runs a worker until n containers run, in virtual time, and returns how
// long that took, and how many calls one container's start takes, all of them
// one after the other: from the look when its turn has come to the status.
func settle(tb testing.TB, n, concurrency int, latency time.Duration) (took time.Duration, calls int) {
	faults := fakes.NewFaults(clock.WallClock)
	machine, host := fakes.NewMachine(faults, "0"), fakes.NewHost(faults)
	for i := range n {
		machine.AddContainer(name(i), fakes.Container{})
	}
	settled := newCounter(n)
	broker := lxd(tb, host)
	faults.Reset()
	// A call for several takes no longer than one for one.
	faults.OnCall(func(c fakes.Call) fakes.Effect {
		if c.Item {
			return fakes.Effect{}
		}
		return fakes.Effect{Delay: latency}
	})
	start := time.Now()
	w, err := New(Config{
		Facade:         machine.Plain(),
		MachineID:      "0",
		Type:           container.LXD,
		Broker:         broker,
		Preparer:       preparation{machine},
		Clock:          clock.WallClock,
		Concurrency:    concurrency,
		ResyncInterval: 1000 * time.Hour,
		Metrics:        settled,
	})
	if err != nil {
		tb.Fatal(err)
	}
	took = (<-settled.all).Sub(start)
	if got := len(host.Running()); got != n {
		tb.Fatalf("%d run, want %d", got, n)
	}
	last := name(n - 1)
	for _, c := range faults.Calls() {
		if c.Key == last || slices.Contains(c.Keys, last) {
			calls++
		}
	}
	calls-- // read once before its turn, while others had theirs
	w.Kill()
	if err := w.Wait(); err != nil {
		tb.Error(err)
	}
	return took, calls
}

// The limit is what the calls take if nothing else took any time:
// ceil(N/C) x calls x L. The budget is 1.15 of it.
func TestThroughputIsNearItsLimit(t *testing.T) {
	const n, latency = 1000, 50 * time.Millisecond
	for _, concurrency := range []int{1, 4, 16} {
		synctest.Test(t, func(t *testing.T) {
			took, calls := settle(t, n, concurrency, latency)
			limit := time.Duration((n+concurrency-1)/concurrency*calls) * latency
			ratio := float64(took) / float64(limit)
			t.Logf("C=%d: %v for %d containers of %d calls, %.3f of the limit", concurrency, took, n, calls, ratio)
			if ratio > 1.15 {
				t.Errorf("C=%d: %.3f of the limit, want 1.15 at most", concurrency, ratio)
			}
		})
	}
}

// still is a controller and a broker of n containers that run, which answer at
// once and keep nothing.
type still struct {
	facade.Machine
	ids       []string
	instances []container.Instance
}

func newStill(n int) *still {
	s := &still{Machine: fakes.NewMachine(fakes.NewFaults(clock.WallClock), "0").Plain()}
	for i := range n {
		s.ids = append(s.ids, name(i))
		s.instances = append(s.instances, container.Instance{ID: fakes.InstanceID(name(i)), ContainerID: name(i), Running: true})
	}
	return s
}

func (s *still) WatchContainers(context.Context, string, facade.ContainerType) (facade.StringsWatcher, error) {
	return fakes.NewStringsWatcher(s.ids...), nil
}

func (s *still) Containers(_ context.Context, ids []string) ([]facade.ContainerResult, error) {
	out := make([]facade.ContainerResult, len(ids))
	for i, id := range ids {
		out[i] = facade.ContainerResult{
			ID: id, Life: facade.Alive, InstanceID: string(fakes.InstanceID(id)), Status: facade.ContainerRunning,
		}
	}
	return out, nil
}

func (s *still) StartInstance(context.Context, container.StartParams) (container.StartResult, error) {
	panic("not to be called")
}

func (s *still) StopInstances(context.Context, ...container.InstanceID) []error {
	panic("not to be called")
}

func (s *still) AllInstances(context.Context) ([]container.Instance, error) { return s.instances, nil }

// runStill starts a worker on n containers that run and waits until all are
// settled.
func runStill(tb testing.TB, n int) *Worker {
	s := newStill(n)
	settled := newCounter(n)
	w, err := New(Config{
		Facade: s, MachineID: "0", Type: container.LXD, Broker: s,
		Clock: clock.WallClock, ResyncInterval: time.Hour, Metrics: settled,
	})
	if err != nil {
		tb.Fatal(err)
	}
	<-settled.all
	return w
}

// The budget is 1 KiB for each of 1,000, and no goroutine each. Measured: 0.8
// KiB, with the last listing and the test's own list of ids.
func TestSettledContainersCostLittle(t *testing.T) {
	const n = 1000
	before, goroutines := liveHeap(), runtime.NumGoroutine()
	w := runStill(t, n)
	used := liveHeap() - before
	t.Logf("%d bytes for each of %d", used/n, n)
	if used > 1024*n {
		t.Errorf("%d bytes for each container, want 1024 at most", used/n)
	}
	if extra := runtime.NumGoroutine() - goroutines; extra > 2*DefaultConcurrency+lookers+10 {
		t.Errorf("%d goroutines more", extra)
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(w)
}

func liveHeap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// BenchmarkSettledPass is one pass without I/O about a settled container.
func BenchmarkSettledPass(b *testing.B) {
	w := runStill(b, 1000)
	t := w.track(name(7))
	b.ReportAllocs()
	for b.Loop() {
		if res := w.runPass(b.Context(), name(7), &t.memory); res.outcome != OutcomeSettled {
			b.Fatalf("%+v", res)
		}
	}
	b.StopTimer()
	w.Kill()
	if err := w.Wait(); err != nil {
		b.Error(err)
	}
}

// BenchmarkSettle has 1,000 containers started in virtual time, each call of 50
// ms. The figures are virtual, and so exact.
func BenchmarkSettle(b *testing.B) {
	const n, latency = 1000, 50 * time.Millisecond
	for b.Loop() {
		ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
			Name: "virtual",
			F: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					took, calls := settle(t, n, DefaultConcurrency, latency)
					b.ReportMetric(took.Seconds(), "virtual-s")
					b.ReportMetric(float64(took)/float64(n/DefaultConcurrency*calls)/float64(latency), "of-the-limit")
				})
			},
		}})
		if !ok {
			b.Fatal("failed")
		}
	}
}
