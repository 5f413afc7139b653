package simulation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// enumerationBound is how long an enumerated play may take to settle after its
// mishap. The longest that anything waits there: a resync is 10 minutes off, if
// an event was lost; before it, a call may run into its deadline (three of them
// for a password), a permanent failure waits for 2 minutes, a certificate that
// was refused once for 1 minute.
const enumerationBound = 15 * time.Minute

const app = "mysql"

// passKind is a state of the world that the next worker finds, and what it has
// to do then is all the calls of one kind of pass.
type passKind struct {
	name     string
	features fakes.Features // that it needs
	// mints tells that a password is made in it, so that it matters whether
	// there is a Stager.
	mints bool
	// interesting tells that more is played with it: two crashes, or things
	// that happen meanwhile.
	interesting bool
	// known tells that it is about an application of which the worker knows,
	// by a pass before, that its files are right: so that it matters whether
	// there is a Glancer.
	known bool
	// alone tells that no second worker may be there: the operator is changed
	// by hand meanwhile.
	alone   bool
	arrange func(w *World)
}

// passKinds returns them all.
func passKinds() []passKind {
	add := func(w *World) { w.Add(Spec{Name: app}) }
	made := func(w *World) {
		add(w)
		if wrong := w.Serve("maker"); wrong != nil {
			panic(fmt.Sprint(wrong))
		}
	}
	tampered := func(how Tampering) func(*World) {
		return func(w *World) {
			made(w)
			w.Tamper(app, how)
		}
	}
	// What the worker finds out in its first pass, which ends before, it knows
	// when this happens.
	known := func(change func(*World)) func(*World) {
		return func(w *World) {
			made(w)
			w.Later(time.Second/2, func() {
				change(w)
				w.Trigger(app)
			})
		}
	}
	knownTampered := func(how Tampering) func(*World) {
		return known(func(w *World) { w.Tamper(app, how) })
	}
	kill := func(w *World) {
		w.manager.SetTermination(fakes.Termination{For: 2 * time.Second})
		w.Age(app)
		w.Age(app)
	}
	readdress := func(i *facade.OperatorProvisioningInfo) { i.APIAddresses = []string{"10.9.9.9:17070"} }
	return []passKind{
		{name: "create", mints: true, interesting: true, arrange: add},
		{name: "complete", mints: true, arrange: tampered(HalfVanishes)},
		{name: "create anew", mints: true, arrange: tampered(Vanishes)},
		{name: "replace lost config", mints: true, interesting: true, arrange: tampered(ConfigVanishes)},
		{name: "replace corrupt config", mints: true, interesting: true, arrange: tampered(Corrupted)},
		{name: "update", interesting: true, arrange: func(w *World) {
			made(w)
			w.SetInfo(app, readdress)
		}},
		{name: "update with own password", arrange: func(w *World) {
			made(w)
			w.TakeOwnPassword(app)
			w.SetInfo(app, readdress)
		}},
		{name: "renew certificate", interesting: true, arrange: func(w *World) {
			w.controller.SetCertificateLife(3 * time.Hour)
			made(w)
			w.Sleep(2*time.Hour + 5*time.Minute)
		}},
		{name: "replace CA", arrange: func(w *World) {
			made(w)
			w.RotateCA()
			w.LearnCA()
		}},
		{name: "look", arrange: made},
		{name: "look again", known: true, interesting: true, arrange: known(func(*World) {})},
		{name: "update known files", known: true, arrange: known(func(w *World) { w.SetInfo(app, readdress) })},
		{name: "update beside known files", known: true, interesting: true, arrange: known(func(w *World) {
			w.SetInfo(app, func(i *facade.OperatorProvisioningInfo) {
				i.ImageDetails.RegistryPath += "-next"
				i.Tags = map[string]string{"tag": "next"}
			})
		})},
		{name: "complete known files", known: true, alone: true, mints: true, arrange: knownTampered(HalfVanishes)},
		{name: "replace lost known files", known: true, alone: true, mints: true, arrange: knownTampered(ConfigVanishes)},
		{
			name: "replace corrupt known files", known: true, alone: true, mints: true, interesting: true,
			arrange: knownTampered(Corrupted),
		},
		{name: "delete", arrange: func(w *World) {
			made(w)
			kill(w)
		}},
		{name: "delete half", arrange: func(w *World) {
			tampered(HalfVanishes)(w)
			kill(w)
		}},
		{name: "delete unheard of", features: fakes.Listing, arrange: func(w *World) {
			made(w)
			kill(w)
			w.Remove(app)
		}},
		{name: "create after previous", mints: true, arrange: func(w *World) {
			made(w)
			w.manager.SetTermination(fakes.Termination{For: 7 * time.Second})
			w.Remove(app)
			if err := w.manager.DeleteOperator(context.Background(), app); err != nil {
				panic(err)
			}
			add(w)
		}},
	}
}

// featureSets are those that enumerations are played with.
var featureSets = []struct {
	name     string
	features fakes.Features
}{
	{"all", AllFeatures},
	{"no Stager", AllFeatures &^ fakes.Staging},
	{"no Glancer", AllFeatures &^ fakes.Glancing},
	{"none", 0},
}

// mishap is what befalls one call.
type mishap struct {
	name       string
	effect     func() fakes.Effect
	cut, after bool // the worker crashes, before or after the call has acted
	// writes tells that for a call that only reads it is the same as another
	// mishap, and thorough that it is played with all features and
	// interesting kinds only: what the worker makes of an error does not
	// depend on more.
	writes, thorough bool
}

func mishaps() []mishap {
	failing := func(e fakes.Effect) func() fakes.Effect { return func() fakes.Effect { return e } }
	boom := errors.New("boom")
	return []mishap{
		{name: "crash before", cut: true},
		{name: "crash after", cut: true, after: true},
		{name: "error", thorough: true, effect: failing(fakes.Effect{Err: boom})},
		{name: "refusal", thorough: true, effect: failing(fakes.Effect{Err: errors.NotValidf("all of it")})},
		{name: "lost reply", effect: failing(fakes.Effect{Err: boom, Act: fakes.Fully})},
		{name: "half done", writes: true, effect: failing(fakes.Effect{Err: boom, Act: fakes.Half})},
		{name: "panic before", thorough: true, effect: failing(fakes.Effect{Panic: "boom"})},
		{name: "panic after", writes: true, thorough: true, effect: failing(fakes.Effect{Panic: "boom", Act: fakes.Fully})},
		{name: "time-out before", thorough: true, effect: failing(fakes.Effect{Delay: time.Hour})},
		{name: "time-out after", writes: true, thorough: true, effect: failing(fakes.Effect{Late: time.Hour})},
	}
}

// enumerate plays f for every kind of pass with every set of features that it
// can do with, each in a test of its own.
func enumerate(t *testing.T, f func(t *testing.T, kind passKind, options Options)) {
	t.Helper()
	for _, kind := range passKinds() {
		for _, set := range featureSets {
			if set.features&kind.features != kind.features ||
				!kind.mints && set.name == "no Stager" || !kind.known && set.name == "no Glancer" {
				continue
			}
			t.Run(kind.name+"/"+set.name, func(t *testing.T) {
				t.Parallel()
				f(t, kind, Options{Seed: 1, Features: set.features, Concurrency: 2})
			})
		}
	}
}

// callsOf returns the calls that a worker makes for the kind when nothing goes
// wrong.
func callsOf(t *testing.T, kind passKind, options Options) []fakes.Call {
	t.Helper()
	var calls []fakes.Call
	wrong := bubble(t, func() []string {
		w := NewWorld(options)
		kind.arrange(w)
		s := w.Start(w.Prepare("only"))
		wrong := w.Settle(enumerationBound, time.Second)
		calls = s.Faults().Calls()
		return append(wrong, w.Finish()...)
	})
	if wrong != nil {
		t.Fatalf("without any mishap: %s", told(wrong, nil, 0))
	}
	if len(calls) < 4 {
		t.Fatalf("%d calls: nothing to enumerate", len(calls))
	}
	return calls
}

func isWrite(method string) bool {
	switch method {
	case "SetPasswords", "StageOperator", "EnsureOperator", "KeepOperator", "DeleteOperator", "IssueOperatorCertificate", "SetProvisioningStatus":
		return true
	}
	return false
}

// befall makes the mishap befall call n of the session, and tells whether the
// worker may end by it.
func befall(s *Session, m mishap, n int) {
	if m.cut {
		s.Faults().CutAt(n, m.after)
		return
	}
	s.hook = func(c fakes.Call) fakes.Effect {
		if c.Item || c.Seq != n {
			return fakes.Effect{}
		}
		switch c.Method {
		case "WatchApplications", "WatchProvisioning", "WatchOperators":
			s.Doom("it was refused a watcher")
		}
		return m.effect()
	}
}

// outlast runs the session until it has crashed, ended or settled.
func (w *World) outlast(s *Session) {
	deadline := w.clock.Now().Add(5 * time.Minute)
	for w.clock.Now().Before(deadline) {
		select {
		case <-s.Faults().Severed():
			s.Crash()
			return
		case <-s.ended:
			return
		case <-w.clock.After(time.Second):
		}
		if w.unsettled(false) == nil {
			return
		}
	}
}

// TestEveryMishapAtEveryCall plays each kind of pass with each mishap at each of
// its calls; when the worker is gone by it, another one follows.
func TestEveryMishapAtEveryCall(t *testing.T) {
	enumerate(t, func(t *testing.T, kind passKind, options Options) {
		calls := callsOf(t, kind, options)
		plays := 0
		defer func() { t.Logf("%d plays", plays) }()
		for _, m := range mishaps() {
			if m.thorough && (options.Features != AllFeatures || !kind.interesting) {
				continue
			}
			for i, call := range calls {
				n := i + 1
				if m.writes && !isWrite(call.Method) {
					continue
				}
				plays++
				var w *World
				wrong := bubble(t, func() []string {
					w = NewWorld(options)
					kind.arrange(w)
					first := w.Prepare("first")
					befall(first, m, n)
					w.Start(first)
					w.outlast(first)
					return w.end("second")
				})
				if wrong != nil {
					t.Errorf("%s at call %d of %d, %s: %s", m.name, n, len(calls), call.Method, told(wrong, w, 40))
				}
			}
		}
	})
}

// end has what is left to do done by a worker to which nothing happens, the one
// that runs or else a new one, and judges the play.
func (w *World) end(name string) []string {
	if w.current() == nil {
		w.Start(w.Prepare(name))
	}
	wrong := w.Settle(enumerationBound, time.Second)
	return append(wrong, w.Finish()...)
}

// point is a moment to pause or to crash at: before or after a call acts.
type point struct {
	call   int
	after  bool
	method string
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	return fmt.Sprintf("%s call %d, %s", when, p.call, p.method)
}

// pausesOf returns all points of the calls at which it makes a difference to
// pause: after a call that only reads, the world is as it was before.
func pausesOf(calls []fakes.Call) (points []point) {
	for i, c := range calls {
		points = append(points, point{i + 1, false, c.Method})
		if isWrite(c.Method) {
			points = append(points, point{i + 1, true, c.Method})
		}
	}
	return points
}

// crashesOf returns all points of the calls at which it makes a difference to
// crash. Nothing is left of a worker that has crashed but what it wrote: so
// between two writes all points are the same, and there is one after each of
// them, and one before the first.
func crashesOf(calls []fakes.Call) (points []point) {
	points = []point{{1, false, calls[0].Method}}
	for i, c := range calls {
		if isWrite(c.Method) {
			points = append(points, point{i + 1, true, c.Method})
		}
	}
	return points
}

// TestEveryPairOfCrashes crashes a first worker at each point, the second one at
// each point of what is left for it to do, and has a third one do the rest.
func TestEveryPairOfCrashes(t *testing.T) {
	for _, kind := range passKinds() {
		if !kind.interesting || !kind.mints {
			continue
		}
		for _, set := range featureSets[:2] {
			t.Run(kind.name+"/"+set.name, func(t *testing.T) {
				t.Parallel()
				options := Options{Seed: 2, Features: set.features, Concurrency: 2}
				points := crashesOf(callsOf(t, kind, options))
				t.Logf("%d plays", len(points)*len(points))
				for _, p := range points {
					for _, q := range points {
						var w *World
						wrong := bubble(t, func() []string {
							w = NewWorld(options)
							kind.arrange(w)
							for i, p := range []point{p, q} {
								s := w.Prepare(fmt.Sprint("crashing ", i+1))
								s.Faults().CutAt(p.call, p.after)
								w.Start(s)
								w.outlast(s)
								if w.current() != nil {
									break // there was nothing left to crash at
								}
							}
							return w.end("last")
						})
						if wrong != nil {
							t.Errorf("crash %s, then %s: %s", p, q, told(wrong, w, 60))
						}
					}
				}
			})
		}
	}
}

// freeze makes the session pause at the point until it is thawed; paused is
// closed when it has come there. It pauses for less than the deadline of a
// call.
func freeze(s *Session, p point) (paused <-chan struct{}, thaw func()) {
	here, gone := make(chan struct{}), make(chan struct{})
	pause := func() {
		close(here)
		<-gone
	}
	s.hook = func(c fakes.Call) fakes.Effect {
		switch {
		case c.Item || c.Seq != p.call:
			return fakes.Effect{}
		case p.after:
			return fakes.Effect{Then: pause}
		}
		return fakes.Effect{Before: pause}
	}
	return here, func() { close(gone) }
}

// overtaking is how long the second worker has while the first is frozen: long
// enough for all that it has to do, less than the deadline of a call.
const overtaking = 20 * time.Second

// overtake freezes a first worker at the point, lets a second one do everything
// meanwhile, and thaws the first.
func (w *World) overtake(p point, first *Session, meanwhile func(*World)) {
	paused, thaw := freeze(first, p)
	w.Start(first)
	select {
	case <-paused:
	case <-w.clock.After(time.Minute):
		// It had done everything before it came there.
	}
	w.Start(w.Prepare("overtaking"))
	w.Sleep(overtaking / 2)
	if meanwhile != nil {
		meanwhile(w)
	}
	w.Sleep(overtaking / 2)
	thaw()
}

// TestSecondWorkerOvertakesAtEveryCall freezes a worker at each point of each
// kind of pass while a second one, which knows nothing of it, runs to the end;
// then the first goes on with what it had in mind, and later is killed.
func TestSecondWorkerOvertakesAtEveryCall(t *testing.T) {
	meanwhiles := map[string]func(w *World){
		"nothing else happens": nil,
		"addresses change meanwhile": func(w *World) {
			w.SetInfo(app, func(i *facade.OperatorProvisioningInfo) {
				i.APIAddresses = []string{"10.7.7.7:17070"}
				i.Version = "2.9.50"
			})
		},
		"image changes meanwhile": func(w *World) {
			w.SetInfo(app, func(i *facade.OperatorProvisioningInfo) { i.ImageDetails.RegistryPath += "-patched" })
		},
		"it dies meanwhile": func(w *World) {
			w.Age(app)
			w.Age(app)
		},
	}
	for _, kind := range passKinds() {
		for about, meanwhile := range meanwhiles {
			if kind.alone || meanwhile != nil && !kind.interesting {
				continue
			}
			t.Run(kind.name+"/"+about, func(t *testing.T) {
				t.Parallel()
				options := Options{Seed: 3, Features: AllFeatures, Concurrency: 2}
				pauses := pausesOf(callsOf(t, kind, options))
				t.Logf("%d plays", len(pauses))
				for _, p := range pauses {
					var w *World
					wrong := bubble(t, func() []string {
						w = NewWorld(options)
						kind.arrange(w)
						first := w.Prepare("overtaken")
						w.overtake(p, first, meanwhile)
						w.Sleep(time.Minute)
						first.Kill()
						return w.end("last")
					})
					if wrong != nil {
						t.Errorf("overtaken %s: %s", p, told(wrong, w, 60))
					}
				}
			})
		}
	}
}

// TestOvertakenWorkerCrashesAtEveryCall is the worst of both: a worker frozen at
// each point is overtaken by a second one, thawed, and crashes at each later
// point.
func TestOvertakenWorkerCrashesAtEveryCall(t *testing.T) {
	for _, kind := range passKinds() {
		if !kind.interesting || !kind.mints || kind.alone {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			options := Options{Seed: 4, Features: AllFeatures, Concurrency: 2}
			calls := callsOf(t, kind, options)
			plays := 0
			defer func() { t.Logf("%d plays", plays) }()
			for _, p := range pausesOf(calls) {
				for _, q := range crashesOf(calls) {
					if q.call < p.call || q.call == p.call && p.after {
						continue // it is past that
					}
					plays++
					var w *World
					wrong := bubble(t, func() []string {
						w = NewWorld(options)
						kind.arrange(w)
						first := w.Prepare("overtaken")
						first.Faults().CutAt(q.call, q.after)
						w.overtake(p, first, nil)
						w.Sleep(time.Minute)
						first.Crash()
						return w.end("last")
					})
					if wrong != nil {
						t.Errorf("overtaken %s, crashed %s: %s", p, q, told(wrong, w, 60))
					}
				}
			}
		})
	}
}
