package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/bench/worlds"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// latency is what each call takes where time is virtual.
const latency = 50 * time.Millisecond

// virtual runs f in virtual time, which a benchmark cannot have by itself.
func virtual(tb testing.TB, f func(*testing.T)) {
	tb.Helper()
	if t, ok := tb.(*testing.T); ok {
		synctest.Test(t, f)
		return
	}
	ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "virtual",
		F:    func(t *testing.T) { synctest.Test(t, f) },
	}})
	if !ok {
		tb.Fatal("failed in virtual time")
	}
}

// settle returns the virtual seconds until n new applications have operators.
func settle(tb testing.TB, c contenders.Contender, n int) (seconds float64) {
	virtual(tb, func(t *testing.T) {
		f := worlds.NewFake(latency)
		done := f.Add(worlds.Names(n)...)
		began := time.Now()
		running := start(t, c, f.World())
		<-done
		seconds = time.Since(began).Seconds()
		stop(t, running)
		if wrong := f.Disagreement(worlds.Names(n)...); wrong != "" {
			t.Error(wrong)
		}
	})
	return seconds
}

// besideHanging returns the virtual seconds that healthy applications take, one
// every half a minute or so, beside so many whose EnsureOperator never answers
// and has had its deadline pass for a quarter of an hour: sorted.
func besideHanging(tb testing.TB, c contenders.Contender, stuck, healthy int) (seconds []float64) {
	virtual(tb, func(t *testing.T) {
		f := worlds.NewFake(latency)
		never := fakes.NewGate()
		for _, app := range worlds.Names(stuck) {
			f.Befall("EnsureOperator", app, fakes.Effect{Gate: never})
		}
		f.Add(worlds.Names(stuck)...)
		running := start(t, c, f.World())
		time.Sleep(15 * time.Minute)
		for i := range healthy {
			began := time.Now()
			<-f.Add(fmt.Sprintf("healthy%d", i))
			seconds = append(seconds, time.Since(began).Seconds())
			time.Sleep(31*time.Second + time.Duration(i)*703*time.Millisecond)
		}
		stop(t, running)
	})
	slices.Sort(seconds)
	return seconds
}

// startBesideHanging returns the virtual seconds that a healthy application
// takes which is there with the others when the contender starts, and comes
// last.
func startBesideHanging(tb testing.TB, c contenders.Contender, stuck int) (seconds float64) {
	virtual(tb, func(t *testing.T) {
		f := worlds.NewFake(latency)
		never := fakes.NewGate()
		for _, app := range worlds.Names(stuck) {
			f.Befall("EnsureOperator", app, fakes.Effect{Gate: never})
			f.Controller.AddApplication(app, fakes.App{})
		}
		done := f.Add("healthy")
		began := time.Now()
		running := start(t, c, f.World())
		<-done
		seconds = time.Since(began).Seconds()
		stop(t, running)
	})
	return seconds
}

// besideTerminating returns the virtual seconds that a healthy application takes
// beside so many whose operators take three minutes to terminate.
func besideTerminating(tb testing.TB, c contenders.Contender, stuck int) (seconds float64) {
	virtual(tb, func(t *testing.T) {
		f := worlds.NewFake(latency)
		apps := worlds.Names(stuck)
		done := f.Add(apps...)
		running := start(t, c, f.World())
		<-done
		time.Sleep(time.Minute)
		// Somebody deletes the operators, and the applications change.
		f.Manager.SetTermination(fakes.Termination{For: 3 * time.Minute})
		manager := f.Session(fakes.NewFaults(f.Clock())).Manager
		for _, app := range apps {
			if err := manager.DeleteOperator(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			f.Controller.SetLife(app, facade.Alive)
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		<-f.Add("healthy")
		seconds = time.Since(began).Seconds()
		stop(t, running)
	})
	return seconds
}

// killDeaf returns the virtual seconds from Kill to the end of Wait while a
// manager is at work that does not heed its context for 20 seconds.
func killDeaf(tb testing.TB, c contenders.Contender) (seconds float64) {
	virtual(tb, func(t *testing.T) {
		f := worlds.NewFake(latency)
		f.Befall("EnsureOperator", "mysql", fakes.Effect{Delay: 20 * time.Second, Deaf: true})
		f.Add("mysql")
		running := start(t, c, f.World())
		time.Sleep(time.Second)
		began := time.Now()
		stop(t, running)
		seconds = time.Since(began).Seconds()
	})
	return seconds
}

// storm returns how many passes a contender makes over so many settled
// applications about which so many events come within ten seconds, where each
// call takes 10 ms, and for how long after the last event it goes on. Both
// are of virtual time.
func storm(tb testing.TB, c contenders.Contender, apps, events int) (passes, after float64) {
	const duration, callTakes = 10 * time.Second, 10 * time.Millisecond
	virtual(tb, func(t *testing.T) {
		s := newSettled(t, apps, callTakes)
		settled := s.Await(int64(apps))
		running := start(t, c, s.World())
		<-settled
		time.Sleep(time.Minute)
		before := s.Passes()
		sent := 0
		for step := range 1000 {
			for ; sent < events*(step+1)/1000; sent++ {
				s.Send(worlds.Name(sent % apps))
			}
			time.Sleep(duration / 1000)
		}
		ended, last := time.Now(), s.Passes()
		quiet := ended
		for time.Since(quiet) < 5*time.Second {
			time.Sleep(10 * time.Millisecond)
			if now := s.Passes(); now != last {
				last, quiet = now, time.Now()
			}
		}
		passes, after = float64(last-before), quiet.Sub(ended).Seconds()
		stop(t, running)
		checkUnchanged(t, s)
	})
	return passes, after
}

func newSettled(tb testing.TB, n int, callTakes time.Duration) *worlds.Settled {
	tb.Helper()
	s, err := worlds.NewSettled(n, callTakes)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func checkUnchanged(tb testing.TB, s *worlds.Settled) {
	tb.Helper()
	if n := s.Writes(); n != 0 {
		tb.Errorf("%d changes of what was settled", n)
	}
}

// cost is what a pass costs.
type cost struct{ cpu, allocs, bytes float64 }

// meter is what the process has used.
type meter struct {
	cpu            time.Duration
	mallocs, bytes uint64
}

func read(tb testing.TB) meter {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return meter{time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), m.Mallocs, m.TotalAlloc}
}

// since returns what was used for each of so many.
func (m meter) since(tb testing.TB, of float64) cost {
	now := read(tb)
	return cost{
		cpu:    float64(now.cpu-m.cpu) / of,
		allocs: float64(now.mallocs-m.mallocs) / of,
		bytes:  float64(now.bytes-m.bytes) / of,
	}
}

// pass returns what a pass over a settled application costs the process, in
// nanoseconds of CPU, allocations and bytes: as many rounds as asked for, in
// each of which every application is named once. Calls take no time.
func pass(tb testing.TB, c contenders.Contender, s *worlds.Settled, rounds int) cost {
	tb.Helper()
	running, before := startSettled(tb, c, s)
	defer stop(tb, running)
	runtime.GC()
	m := read(tb)
	n := int64(len(s.Names()))
	for round := range rounds {
		done := s.Await(before + n*int64(round+1))
		s.Send(s.Names()...)
		<-done
	}
	passes := float64(s.Passes() - before)
	checkUnchanged(tb, s)
	return m.since(tb, passes)
}

// startSettled starts a contender and has it look at every application twice:
// whoever remembers something does so from then on. It returns how many passes
// the world has seen.
func startSettled(tb testing.TB, c contenders.Contender, s *worlds.Settled) (worker.Worker, int64) {
	tb.Helper()
	n := int64(len(s.Names()))
	passes := s.Passes()
	first := s.Await(passes + n)
	running := start(tb, c, s.World())
	<-first
	second := s.Await(passes + 2*n)
	s.Send(s.Names()...)
	<-second
	return running, s.Passes()
}

// direct returns what the reconcile function that the others share costs when
// it is called by nobody in particular.
func direct(tb testing.TB, s *worlds.Settled, rounds int) cost {
	tb.Helper()
	r, err := contenders.NewReconciler(s.World())
	if err != nil {
		tb.Fatal(err)
	}
	runtime.GC()
	m := read(tb)
	for range rounds {
		for _, app := range s.Names() {
			if _, err := r.Reconcile(tb.Context(), app); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return m.since(tb, float64(rounds*len(s.Names())))
}

// idle is a contender whose passes do nothing but say that they took place: all
// that it costs is the framework's.
type idle struct {
	contenders.ControllerRuntime
	settled *worlds.Settled
}

func (i idle) Start(w contenders.World) (worker.Worker, error) {
	return i.StartReconciler(w, func(context.Context, string) (contenders.Result, error) {
		i.settled.Pass()
		return contenders.Result{}, nil
	})
}

// stormCost returns what a storm costs the process where calls take no time: in
// seconds of CPU, and in allocations and bytes, all in all.
func stormCost(tb testing.TB, c contenders.Contender, s *worlds.Settled, events int) cost {
	tb.Helper()
	running, _ := startSettled(tb, c, s)
	defer stop(tb, running)
	runtime.GC()
	m := read(tb)
	apps := s.Names()
	for i := range events {
		s.Send(apps[i%len(apps)])
	}
	awaitQuiet(s)
	total := m.since(tb, 1)
	total.cpu /= float64(time.Second)
	checkUnchanged(tb, s)
	return total
}

// awaitQuiet returns when there was no call for a while. It polls: that nothing
// comes any more can be told by nobody.
func awaitQuiet(s *worlds.Settled) {
	for last := int64(-1); ; {
		now := s.Calls()
		if now == last {
			return
		}
		last = now
		time.Sleep(200 * time.Millisecond)
	}
}

// size is what settled applications take in memory.
type size struct{ bytes, goroutines float64 }

// memory returns the live heap and the stacks of a contender that has settled
// applications, and how many goroutines it has: what is there less what is
// there when it has gone.
func memory(tb testing.TB, c contenders.Contender, s *worlds.Settled) size {
	tb.Helper()
	running, _ := startSettled(tb, c, s)
	awaitQuiet(s)
	with, goroutines := liveMemory(), runtime.NumGoroutine()
	stop(tb, running)
	checkUnchanged(tb, s)
	s.Release()
	for range 10 {
		// Goroutines that only have to return are still counted.
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	without := liveMemory()
	runtime.KeepAlive(s)
	return size{max(with-without, 0), float64(goroutines - runtime.NumGoroutine())}
}

func liveMemory() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) + float64(m.StackInuse)
}

// kill returns the seconds from Kill to the end of Wait while as many calls are
// under way as the contender makes at once: the median of several.
func kill(tb testing.TB, c contenders.Contender, s *worlds.Settled, repeat int) float64 {
	tb.Helper()
	var seconds []float64
	for range repeat {
		s.Hang(true)
		running := start(tb, c, s.World())
		awaitQuiet(s) // all calls that it makes at once are under way
		began := time.Now()
		stop(tb, running)
		seconds = append(seconds, time.Since(began).Seconds())
		s.Hang(false)
		s.Release()
	}
	return median(seconds)
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
