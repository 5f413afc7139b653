package containersim

import (
	"fmt"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// enumerationBound is how long an enumerated play may take to settle after its
// mishap: a call that ran into its deadline was the longest of all, and after it
// comes the longest wait, which is that for a resync.
const enumerationBound = startTimeout + resyncInterval + 5*time.Minute

// first and second are the containers of enumerated plays.
const (
	first  = "0/lxd/0"
	second = "0/kvm/0"
)

// situation is a state of the world that the next agent finds.
type situation struct {
	name    string
	arrange func(w *World)
	// brief tells that its calls are mostly those of others, so that mishaps
	// like these are not played once more.
	brief bool
}

func situations() []situation {
	add := func(specs ...Spec) func(*World) {
		return func(w *World) {
			for _, spec := range specs {
				w.Add(spec)
			}
		}
	}
	made := func(specs ...Spec) func(*World) {
		return func(w *World) {
			add(specs...)(w)
			if wrong := w.Serve("maker"); wrong != nil {
				panic(fmt.Sprint(wrong))
			}
		}
	}
	return []situation{
		{name: "first of its type", arrange: add(Spec{ID: first})},
		{name: "two types at once", brief: true, arrange: add(
			Spec{ID: first, Devices: []string{"eth0"}}, Spec{ID: second, Devices: []string{"eth0", "eth1"}},
		)},
		{name: "a device to bridge", arrange: add(Spec{ID: first, Devices: []string{"eth0"}})},
		{name: "half-made instance", arrange: func(w *World) {
			made()(w)
			add(Spec{ID: first})(w)
			w.host.HalfMake(first)
		}},
		{name: "restart beside what runs", arrange: made(Spec{ID: first, Devices: []string{"eth0"}}, Spec{ID: second})},
		{name: "one to be removed", arrange: func(w *World) {
			made(Spec{ID: first})(w)
			w.Die(first)
		}},
		{name: "one to be removed, one to come", brief: true, arrange: func(w *World) {
			made(Spec{ID: first})(w)
			w.Die(first)
			add(Spec{ID: "0/lxd/1"})(w)
		}},
		{name: "one to be removed that was never started", arrange: func(w *World) {
			add(Spec{ID: first})(w)
			w.Die(first)
		}},
	}
}

// mishap is what befalls one call.
type mishap struct {
	name       string
	cut, after bool // the agent crashes, before or after the call has acted
	effect     func(s *Session) fakes.Effect
	// writes tells that for a call that only reads it is the same as another
	// mishap, and like tells that it is like another one.
	writes, like bool
}

func mishaps() []mishap {
	failing := func(e fakes.Effect) func(*Session) fakes.Effect {
		return func(*Session) fakes.Effect { return e }
	}
	return []mishap{
		{name: "crash before", cut: true},
		// With a call that takes several steps, after the first of them.
		{name: "crash after", cut: true, after: true},
		{name: "crash at the end", writes: true, effect: func(s *Session) fakes.Effect {
			return fakes.Effect{Then: s.faults.Cut}
		}},
		{name: "error", effect: failing(fakes.Effect{Err: boom})},
		{name: "refusal", like: true, effect: failing(fakes.Effect{Err: errors.NotValidf("all of it")})},
		{name: "lost reply", writes: true, effect: failing(fakes.Effect{Err: boom, Act: fakes.Fully})},
		{name: "half done", writes: true, like: true, effect: failing(fakes.Effect{Err: boom, Act: fakes.Half})},
		{name: "panic before", like: true, effect: failing(fakes.Effect{Panic: "boom"})},
		{name: "panic after", writes: true, like: true, effect: failing(fakes.Effect{Panic: "boom", Act: fakes.Fully})},
		{name: "time-out before", like: true, effect: failing(fakes.Effect{Delay: over})},
		{name: "time-out after", writes: true, effect: failing(fakes.Effect{Late: over})},
	}
}

// callsOf returns the calls that an agent makes in the situation when nothing
// goes wrong.
func callsOf(t *testing.T, sit situation, options Options) []fakes.Call {
	t.Helper()
	var calls []fakes.Call
	var w *World
	wrong := bubble(t, func() []string {
		w = NewWorld(options)
		sit.arrange(w)
		s := w.Start(w.Prepare("only", nil))
		wrong := w.Settle(enumerationBound, time.Second)
		calls = s.Faults().Calls()
		return append(wrong, w.Finish()...)
	})
	if wrong != nil {
		t.Fatalf("without any mishap: %s", told(wrong, w, 60))
	}
	if len(calls) < 10 {
		t.Fatalf("%d calls: nothing to enumerate", len(calls))
	}
	return calls
}

// befall makes the mishap befall call n of the session.
func befall(s *Session, m mishap, n int) {
	if m.cut {
		s.Faults().CutAt(n, m.after)
		return
	}
	s.hook = func(c fakes.Call) fakes.Effect {
		if c.Item || c.Seq != n {
			return fakes.Effect{}
		}
		if c.Method == "WatchAllContainers" {
			s.Doom("it was refused its watcher")
		}
		e := m.effect(s)
		e.Delay, e.Late = min(e.Delay, overFor(c.Method)), min(e.Late, overFor(c.Method))
		return e
	}
}

// outlast runs the session until it has crashed, ended or settled.
func (w *World) outlast(s *Session) {
	deadline := w.clock.Now().Add(enumerationBound)
	poll := time.Second
	for w.clock.Now().Before(deadline) && w.unsettled(false) != nil {
		poll = min(poll+poll/4, maxPoll)
		select {
		case <-s.Faults().Severed():
			s.Crash()
			return
		case <-s.ended:
			return
		case <-w.clock.After(poll | 1):
		}
	}
}

// endWith has what is left to do done by an agent to which nothing happens, the one
// that runs or else a new one, and judges the play.
func (w *World) endWith(name string) []string {
	if w.current() == nil {
		w.Start(w.Prepare(name, nil))
	}
	wrong := w.Settle(enumerationBound, time.Second)
	return append(wrong, w.Finish()...)
}

// TestEveryMishapAtEveryCall plays each situation with each mishap at each call;
// when the agent is gone by it, another one follows.
func TestEveryMishapAtEveryCall(t *testing.T) {
	for _, sit := range situations() {
		t.Run(sit.name, func(t *testing.T) {
			t.Parallel()
			options := Options{Seed: 1}
			calls := callsOf(t, sit, options)
			plays := 0
			defer func() { t.Logf("%d calls, %d plays", len(calls), plays) }()
			for _, m := range mishaps() {
				for i, call := range calls {
					if m.writes && !isWrite(call.Method) || m.like && sit.brief {
						continue
					}
					plays++
					var w *World
					wrong := bubble(t, func() []string {
						w = NewWorld(options)
						sit.arrange(w)
						s := w.Prepare("first", nil)
						befall(s, m, i+1)
						w.Start(s)
						w.outlast(s)
						return w.endWith("second")
					})
					if wrong != nil {
						t.Errorf("%s at call %d of %d, %s(%s): %s", m.name, i+1, len(calls), call.Method, call.Key, told(wrong, w, 60))
					}
				}
			}
		})
	}
}

// TestEveryPairOfCrashes crashes a first agent at each call, the second one at
// each call of what is left for it to do, and has a third one do the rest.
// Nothing is left of an agent that has crashed but what it wrote: so it is
// enough to crash once before anything, and after each write.
func TestEveryPairOfCrashes(t *testing.T) {
	for _, sit := range situations() {
		switch sit.name {
		case "a device to bridge", "one to be removed":
		default:
			continue
		}
		t.Run(sit.name, func(t *testing.T) {
			t.Parallel()
			options := Options{Seed: 2}
			var points []int
			for i, call := range callsOf(t, sit, options) {
				if i == 0 || isWrite(call.Method) {
					points = append(points, i+1)
				}
			}
			t.Logf("%d plays", len(points)*len(points))
			for _, p := range points {
				for _, q := range points {
					var w *World
					wrong := bubble(t, func() []string {
						w = NewWorld(options)
						sit.arrange(w)
						for i, n := range []int{p, q} {
							s := w.Prepare(fmt.Sprint("crashing", i), nil)
							s.Faults().CutAt(n, true)
							w.Start(s)
							w.outlast(s)
							if w.current() != nil {
								break // there was nothing left to crash at
							}
						}
						return w.endWith("last")
					})
					if wrong != nil {
						t.Errorf("crash after call %d, then after call %d: %s", p, q, told(wrong, w, 80))
					}
				}
			}
		})
	}
}

// TestContainerChangesAtEveryCall has the container that is being made die, go
// on dying, or vanish, right before and right after each call acts.
func TestContainerChangesAtEveryCall(t *testing.T) {
	changes := map[string]func(w *World){
		"it is dying": func(w *World) { w.machine.SetLife(first, facade.Dying) },
		"it is dead":  func(w *World) { w.Die(first) },
		"it vanishes": func(w *World) { w.Remove(first) },
	}
	sit := situations()[2]
	for about, change := range changes {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			// With a mode that leaves nothing behind, whoever started it.
			options := Options{Seed: 3, Harvest: facade.HarvestAll}
			calls := callsOf(t, sit, options)
			for i, call := range calls {
				for _, after := range []bool{false, true} {
					var w *World
					wrong := bubble(t, func() []string {
						w = NewWorld(options)
						sit.arrange(w)
						s := w.Prepare("only", nil)
						s.hook = func(c fakes.Call) fakes.Effect {
							e := fakes.Effect{}
							if !c.Item && c.Seq == i+1 && after {
								e.Then = func() { change(w) }
							} else if !c.Item && c.Seq == i+1 {
								e.Before = func() { change(w) }
							}
							return e
						}
						w.Start(s)
						w.Sleep(time.Minute)
						return w.endWith("second")
					})
					if wrong != nil {
						t.Errorf("call %d of %d, %s, after: %t: %s", i+1, len(calls), call.Method, after, told(wrong, w, 60))
					}
				}
			}
		})
	}
}

// TestKillAtEveryCall stops the agent in the middle of each call, before it acts
// and after: it is gone within a second, without an error and without the lock,
// and the next one does the rest.
func TestKillAtEveryCall(t *testing.T) {
	for _, sit := range situations() {
		t.Run(sit.name, func(t *testing.T) {
			t.Parallel()
			options := Options{Seed: 4}
			calls := callsOf(t, sit, options)
			for i, call := range calls {
				for _, after := range []bool{false, true} {
					if after && !isWrite(call.Method) {
						continue
					}
					var w *World
					wrong := bubble(t, func() []string {
						w = NewWorld(options)
						sit.arrange(w)
						s := w.Prepare("killed", nil)
						here := make(chan struct{})
						s.hook = func(c fakes.Call) fakes.Effect {
							switch {
							case c.Item || c.Seq != i+1:
								return fakes.Effect{}
							case after:
								return fakes.Effect{Then: func() { close(here) }, Late: time.Hour}
							}
							close(here)
							return fakes.Effect{Delay: time.Hour}
						}
						w.Start(s)
						select {
						case <-here:
						case <-w.clock.After(10 * time.Minute):
						}
						s.Kill()
						if err := w.host.Lock().CheckFree(); err != nil {
							w.violated("after the end: %v", err)
						}
						return w.endWith("second")
					})
					if wrong != nil {
						t.Errorf("call %d of %d, %s, after: %t: %s", i+1, len(calls), call.Method, after, told(wrong, w, 60))
					}
				}
			}
		})
	}
}
