package provisioner

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

// still is a facade and a manager that answer at once and allocate nothing: what
// a pass costs beyond them is the worker's own. It stores what is ensured.
type still struct {
	facade.Applications
	info   facade.OperatorProvisioningInfo
	charm  facade.CharmInfo
	stored map[string]*operator.Operator
}

func newStill(c *fakes.Controller) *still {
	return &still{Applications: c, info: fakes.Info(), charm: fakes.Charm(1), stored: map[string]*operator.Operator{}}
}

func (s *still) Life(context.Context, string) (facade.Life, error) { return facade.Alive, nil }

func (s *still) CharmInfo(context.Context, string) (facade.CharmInfo, error) { return s.charm, nil }

func (s *still) OperatorProvisioningInfo(context.Context, string) (facade.OperatorProvisioningInfo, error) {
	return s.info, nil
}

func (s *still) OperatorExists(_ context.Context, app string) (operator.State, error) {
	return operator.State{Exists: s.stored[app] != nil}, nil
}

func (s *still) Operator(_ context.Context, app string) (*operator.Operator, error) {
	if op := s.stored[app]; op != nil {
		return op, nil
	}
	return nil, errors.NotFoundf("operator")
}

func (s *still) EnsureOperator(_ context.Context, app, _ string, cfg *operator.Config) error {
	if s.stored[app] == nil {
		s.stored[app] = &operator.Operator{Config: cfg.Clone()}
	}
	return nil
}

func (s *still) DeleteOperator(context.Context, string) error { return nil }

// stillGlancer is a still that shows a generation, and nothing but that to a pass
// about a settled application.
type stillGlancer struct {
	*still
	tb testing.TB
	// glance is what it shows once it is set; then nothing else may be asked for.
	glance *operator.Operator
}

func (s *stillGlancer) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	if s.glance != nil {
		s.tb.Error("the stored files were asked for")
	}
	op, err := s.still.Operator(ctx, app)
	if err == nil {
		op.Config.Generation = "1"
	}
	return op, err
}

func (s *stillGlancer) GlanceOperator(context.Context, string) (*operator.Operator, error) {
	s.glance = glanceOfOne
	return glanceOfOne, nil
}

var glanceOfOne = &operator.Operator{Config: &operator.Config{Generation: "1"}}

func (s *stillGlancer) KeepOperator(_ context.Context, _, _ string, cfg *operator.Config) error {
	return cfg.ValidateKeep()
}

// settledPass returns a function that runs a pass about a settled application,
// with a manager that is what glancer says.
func settledPass(tb testing.TB, glancer bool) func() result {
	controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
	controller.AddApplication("mysql", fakes.App{})
	s := newStill(controller)
	manager := operator.Manager(s)
	if glancer {
		manager = &stillGlancer{still: s, tb: tb}
	}
	w, err := New(Config{
		Facade:          struct{ facade.Applications }{s},
		OperatorManager: manager,
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
		Owns:            func(string) bool { return true },
		ResyncInterval:  time.Hour,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		w.Kill()
		if err := w.Wait(); err != nil {
			tb.Error(err)
		}
	})
	// The worker's own pass settles it; then the key is this test's alone.
	for w.Report()["totals"].(map[string]any)[string(StateSettled)] != 1 {
		runtime.Gosched()
	}
	a := w.track("mysql")
	pass := func() result { return w.runPass(context.Background(), "mysql", &a.memory) }
	if res := pass(); res.outcome != OutcomeSettled || !a.memory.remembered {
		tb.Fatalf("the pass is not about a settled application: %+v", res)
	}
	return pass
}

// ways are the two ways of a settled pass.
var ways = map[string]bool{"reading": false, "glancing": true}

// The budget is 60; measured: 12, and 12 glancing.
func TestSettledPassAllocatesLittle(t *testing.T) {
	for way, glancer := range ways {
		t.Run(way, func(t *testing.T) {
			pass := settledPass(t, glancer)
			allocs := testing.AllocsPerRun(1000, func() { pass() })
			t.Logf("%.0f allocations", allocs)
			if allocs > 60 {
				t.Errorf("%.0f allocations, want 60 at most", allocs)
			}
		})
	}
}

// BenchmarkSettledPass is one pass without I/O about a settled application. The
// budget is 20 us.
func BenchmarkSettledPass(b *testing.B) {
	for way, glancer := range ways {
		b.Run(way, func(b *testing.B) {
			pass := settledPass(b, glancer)
			b.ReportAllocs()
			for b.Loop() {
				pass()
			}
		})
	}
}

// settle runs a worker until n applications have settled, in virtual time, and
// returns how long that took, and how many calls one application's took.
func settle(tb testing.TB, n, concurrency int, latency time.Duration) (took time.Duration, calls int) {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	settled := newCounter(n)
	start := time.Now()
	for i := range n {
		controller.AddApplication(fmt.Sprintf("a%d", i), fakes.App{})
	}
	// Only the calls on an application's path have latency.
	faults.OnCall(func(c fakes.Call) fakes.Effect {
		if c.Key == "" && c.Method != "SetPasswords" || c.Item {
			return fakes.Effect{}
		}
		return fakes.Effect{Delay: latency}
	})
	w, err := New(Config{
		Facade:          controller.Plain(),
		OperatorManager: manager.With(fakes.Staging),
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
		Concurrency:     concurrency,
		ResyncInterval:  1000 * time.Hour,
		Metrics:         settled,
	})
	if err != nil {
		tb.Fatal(err)
	}
	took = (<-settled.all).Sub(start)
	if len(manager.Apps()) != n {
		tb.Fatalf("%d operators, want %d", len(manager.Apps()), n)
	}
	for _, c := range faults.Calls() {
		if c.Key == "a0" {
			calls++
		}
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		tb.Error(err)
	}
	return took, calls + 1 // SetPasswords, which names several
}

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

// The limit is what the calls take if nothing else took any time:
// ceil(N/C) x calls x L. The budget is 1.15 of it.
func TestThroughputIsNearItsLimit(t *testing.T) {
	const n, latency = 1000, 50 * time.Millisecond
	for _, concurrency := range []int{16, 64} {
		synctest.Test(t, func(t *testing.T) {
			took, calls := settle(t, n, concurrency, latency)
			limit := time.Duration((n+concurrency-1)/concurrency*calls) * latency
			ratio := float64(took) / float64(limit)
			t.Logf("C=%d: %v for %d applications of %d calls, %.3f of the limit", concurrency, took, n, calls, ratio)
			if ratio > 1.15 {
				t.Errorf("C=%d: %.3f of the limit, want 1.15 at most", concurrency, ratio)
			}
		})
	}
}

// 100,000 settled applications: the budget is 1 KiB each, 150 MB in all, and no
// goroutine each. Measured: 0.7 KiB each.
func TestSettledApplicationsCostLittleMemory(t *testing.T) {
	const n = 100_000
	settled := newCounter(n)
	before, goroutines := liveHeap(), runtime.NumGoroutine()
	s := newStill(fakes.NewController(fakes.NewFaults(clock.WallClock)))
	w, err := New(Config{
		Facade:          crowd{still: s, n: n},
		OperatorManager: dumb{s},
		Agent:           fakes.NewAgent(""),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
		ResyncInterval:  time.Hour,
		Metrics:         settled,
	})
	if err != nil {
		t.Fatal(err)
	}
	<-settled.all
	// As they are once their certificates are known to fall due.
	for i := range n {
		w.queue.AddAfter(name(i), time.Hour)
	}
	used := liveHeap() - before
	t.Logf("%d bytes for each of %d", used/n, n)
	if used > 1024*n {
		t.Errorf("%d bytes for each application, want 1024 at most", used/n)
	}
	if extra := runtime.NumGoroutine() - goroutines; extra > 16+20 {
		t.Errorf("%d goroutines more", extra)
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(s)
}

func liveHeap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func name(i int) string { return fmt.Sprintf("application-a%d-of-many", i) }

// crowd is a controller with many dying applications, which settle at the first
// look.
type crowd struct {
	*still
	n int
}

func (c crowd) WatchApplications(context.Context) (facade.StringsWatcher, error) {
	names := make([]string, c.n)
	for i := range names {
		names[i] = name(i)
	}
	return fakes.NewStringsWatcher(names...), nil
}

func (c crowd) Life(context.Context, string) (facade.Life, error) { return facade.Dying, nil }

// dumb hides that still is a facade as well.
type dumb struct{ operator.Manager }

// BenchmarkSettle has 1,000 applications provisioned in virtual time, each call
// of 50 ms, by the worker and, in the same run, by the plain algorithm: one
// application after the other, every call in turn. The figures are virtual, and
// so exact.
func BenchmarkSettle(b *testing.B) {
	const n, latency = 1000, 50 * time.Millisecond
	for b.Loop() {
		virtual(b, func(t *testing.T) {
			took, _ := settle(t, n, 16, latency)
			serial := serially(t, n, latency)
			b.ReportMetric(took.Seconds(), "virtual-s/worker")
			b.ReportMetric(serial.Seconds(), "virtual-s/serial")
			b.ReportMetric(serial.Seconds()/took.Seconds(), "times-faster")
		})
	}
}

// virtual runs f in virtual time, which a benchmark cannot have by itself.
func virtual(b *testing.B, f func(*testing.T)) {
	ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "virtual",
		F:    func(t *testing.T) { synctest.Test(t, f) },
	}})
	if !ok {
		b.Fatal("failed")
	}
}

// serially is the plain algorithm.
func serially(tb testing.TB, n int, latency time.Duration) time.Duration {
	ctx := context.Background()
	faults := fakes.NewFaults(clock.WallClock)
	faults.SetLatency(latency)
	controller := fakes.NewController(faults)
	manager := fakes.NewManager(faults)
	agent := fakes.NewAgent(controller.CACert())
	start := time.Now()
	for i := range n {
		app := name(i)
		controller.AddApplication(app, fakes.App{})
		check := func(err error) {
			if err != nil {
				tb.Fatal(err)
			}
		}
		_, err := controller.Life(ctx, app)
		check(err)
		_, err = controller.CharmInfo(ctx, app)
		check(err)
		_, err = manager.OperatorExists(ctx, app)
		check(err)
		_, err = manager.Operator(ctx, app)
		if !errors.Is(err, errors.NotFound) {
			tb.Fatal(err)
		}
		info, err := controller.OperatorProvisioningInfo(ctx, app)
		check(err)
		cert, err := controller.IssueOperatorCertificate(ctx, app)
		check(err)
		in := &inputs{
			app: app, dataDir: agent.DataDir(), logDir: agent.LogDir(), controllerUUID: agent.ControllerUUID(),
			modelUUID: fakes.ModelUUID, caCert: agent.CACert(), info: &info,
		}
		operatorInfo, _, err := acceptCertificate(in, cert, time.Now())
		check(err)
		password := mintPassword()
		agentConf, err := renderConf(in, nil, password, false)
		check(err)
		_, err = controller.SetPasswords(ctx, []facade.ApplicationPassword{{Name: app, Password: password}})
		check(err)
		check(manager.EnsureOperator(ctx, app, in.dataDir, newConfig(&info, agentConf, operatorInfo, "")))
	}
	return time.Since(start)
}
