package containerprovisioner_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// eventful has a worker do everything that it can do: containers are started,
// left alone, die before and after their start, and one is unknown. The worker
// may have crashed meanwhile.
func eventful(w *world) {
	w.config.Preparer = preparer{w.machine}
	w.config.HarvestMode = facade.HarvestAll
	w.config.Concurrency = 2
	w.host.SetStartTime(2 * time.Second)
	w.machine.AddContainer("0/lxd/3", fakes.Container{InstanceID: string(fakes.InstanceID("0/lxd/3"))})
	w.machine.AddContainer("0/lxd/4", fakes.Container{Life: facade.Dead, InstanceID: string(fakes.InstanceID("0/lxd/4"))})
	for _, id := range []string{"0/lxd/3", "0/lxd/4", "0/lxd/7"} {
		w.host.AddInstance(id, true)
	}
	w.host.HalfMake("0/lxd/1")
	w.add("0/lxd/1", "0/lxd/2", "0/lxd/5", "0/lxd/6")
	w.start()
	w.after(3 * time.Second)
	w.machine.SetLife("0/lxd/2", facade.Dead)
	w.machine.SetLife("0/lxd/5", facade.Dead)
	w.after(10 * time.Second)
}

// settled wants everything of that story to have come right.
func (w *world) settled() {
	w.Helper()
	w.removed("0/lxd/2", "0/lxd/4", "0/lxd/5", "0/lxd/7")
	w.provisioned("0/lxd/1", "0/lxd/6")
	w.status("0/lxd/3", facade.ContainerRunning, "")
	if got := w.host.Running(); !slices.Equal(got, []string{"0/lxd/1", "0/lxd/3", "0/lxd/6"}) {
		w.Errorf("%q run", got)
	}
	for _, id := range []string{"0/lxd/1", "0/lxd/6"} {
		if n := w.machine.Recordings(id); n != 1 {
			w.Errorf("%s was recorded %d times, want once", id, n)
		}
		if allocated, released := w.machine.Allocations(id); allocated != 1 || released != 0 {
			w.Errorf("addresses of %s were allocated %d times and released %d times", id, allocated, released)
		}
	}
	if n := w.total("settled"); n != 3 {
		w.Errorf("%d are settled, want 3:\n%v", n, w.worker.Report())
	}
}

// callsOf returns how many calls the story takes without any crash.
func callsOf(t *testing.T) (n int) {
	story(t, func(w *world) {
		eventful(w)
		n = len(w.faults.Calls())
		w.settled()
	})
	return n
}

func TestCrashAtEveryCall(t *testing.T) {
	n := callsOf(t)
	t.Logf("%d calls", n)
	if n < 40 {
		t.Errorf("the story has %d calls, so it does not do everything", n)
	}
	for call := 1; call <= n; call++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d after %v", call, after), func(t *testing.T) {
				story(t, func(w *world) {
					w.faults.CutAt(call, after)
					eventful(w)
					w.stop()
					w.succeed()
					w.config.Preparer = preparer{w.machine}
					w.start()
					w.after(15 * time.Minute)
					w.settled()
				})
			})
		}
	}
}

// A kill cancels the call that is under way, before or after it has acted; the
// next worker finds out.
func TestKillInEveryCall(t *testing.T) {
	n := callsOf(t)
	for name, effect := range map[string]fakes.Effect{"before": {Delay: time.Hour}, "after": {Late: time.Hour}} {
		for call := 1; call <= n; call++ {
			t.Run(fmt.Sprintf("%s it acts %d", name, call), func(t *testing.T) {
				story(t, func(w *world) {
					w.faults.OnCall(func(c fakes.Call) fakes.Effect {
						if c.Seq == call && !c.Item {
							return effect
						}
						return fakes.Effect{}
					})
					eventful(w)
					killed := time.Now()
					w.stop()
					if took := time.Since(killed); took > time.Second {
						t.Errorf("it took %v to stop", took)
					}
					w.faults.Clear()
					w.start()
					w.after(15 * time.Minute)
					w.settled()
				})
			})
		}
	}
}

// Every call fails once, or acts and loses its reply, or takes too long.
func TestFaultAtEveryCall(t *testing.T) {
	n := callsOf(t)
	for name, effect := range map[string]fakes.Effect{
		"fails":         {Err: boom},
		"loses a reply": {Err: boom, Act: fakes.Fully},
		"does half":     {Err: boom, Act: fakes.Half},
		"hangs":         {Delay: time.Hour},
		"acts late":     {Late: time.Hour},
		"panics":        {Panic: "boom"},
	} {
		for call := 2; call <= n; call++ { // without a watcher there is no worker
			t.Run(fmt.Sprintf("%s %d", name, call), func(t *testing.T) {
				story(t, func(w *world) {
					w.faults.OnCall(func(c fakes.Call) fakes.Effect {
						if c.Seq == call && !c.Item {
							return effect
						}
						return fakes.Effect{}
					})
					eventful(w)
					w.after(2 * time.Hour)
					w.settled()
				})
			})
		}
	}
}

// Two workers at once for a while, as when an agent is replaced.
func TestTwoWorkersAtOnce(t *testing.T) {
	story(t, func(w *world) {
		first := *w
		eventful(&first)
		w.succeed()
		w.config.HarvestMode = facade.HarvestAll
		w.start()
		for _, id := range []string{"0/lxd/8", "0/lxd/9"} {
			w.add(id)
		}
		w.after(time.Minute)
		w.machine.SetLife("0/lxd/9", facade.Dead)
		w.after(time.Minute)
		first.stop()
		w.after(15 * time.Minute)
		w.provisioned("0/lxd/1", "0/lxd/6", "0/lxd/8")
		w.removed("0/lxd/2", "0/lxd/4", "0/lxd/5", "0/lxd/7", "0/lxd/9")
	})
}

// No goroutine outlives the worker: the bubble would not end.
func TestNothingIsLeftOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eventful(w)
		w.stop()
		synctest.Wait()
		calls := len(w.faults.Calls())
		w.after(24 * time.Hour)
		if n := len(w.faults.Calls()); n != calls {
			t.Errorf("%d calls were made after the end", n-calls)
		}
	})
}
