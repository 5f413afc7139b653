package bench

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/bench/worlds"
	"github.com/sutler-dev/sutler/fakes"
)

const boom = errors.ConstError("boom")

// property is something that a contender holds or not.
type property struct {
	name string
	// holds returns what is wrong, empty for nothing. It runs in a bubble.
	holds func(t *testing.T, c contenders.Contender) string
	// lacking are the contenders that do not hold it, by name.
	lacking map[string]bool
}

func names(cs ...contenders.Contender) map[string]bool {
	set := make(map[string]bool)
	for _, c := range cs {
		set[c.Name()] = true
	}
	return set
}

// others are all but sutler.
func others() map[string]bool { return names(contenders.All()[1:]...) }

func properties() []property {
	return []property{
		{"every application gets an operator with the controller's password", settlesAll, nil},
		{"also when each call fails once, or its reply is lost", survivesFailures, nil},
		{"also after a crash before or after any call", survivesCrashes, nil},
		{"a removed application's operator is removed", removes, nil},
		{"a panic about one application is that one's alone", survivesPanics, names(contenders.Serial{})},
		{"also when two agents overlap", survivesOverlap, others()},
	}
}

// start starts the contender; stop ends it and wants no error.
func start(t testing.TB, c contenders.Contender, w contenders.World) worker.Worker {
	t.Helper()
	running, err := c.Start(w)
	if err != nil {
		t.Fatalf("%s: %v", c.Name(), err)
	}
	return running
}

func stop(t testing.TB, running worker.Worker) {
	t.Helper()
	running.Kill()
	if err := running.Wait(); err != nil {
		t.Errorf("ended with %v, want nil", err)
	}
}

// within waits for the channel to be closed, in virtual time.
func within(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

func settlesAll(t *testing.T, c contenders.Contender) string {
	const n = 40
	f := worlds.NewFake(50 * time.Millisecond)
	running := start(t, c, f.World())
	defer stop(t, running)
	if !within(time.Hour, f.Add(worlds.Names(n)...)) {
		return "not settled within an hour"
	}
	time.Sleep(time.Minute)
	for i := range n {
		if changes := f.Controller.PasswordChanges(worlds.Name(i)); changes != 1 {
			return fmt.Sprintf("a password was changed %d times", changes)
		}
	}
	return f.Disagreement(worlds.Names(n)...)
}

// path are the calls on an application's path.
var path = []string{
	"Life", "CharmInfo", "OperatorExists", "Operator", "OperatorProvisioningInfo", "IssueOperatorCertificate",
	"StageOperator", "SetPasswords", "EnsureOperator",
}

func survivesFailures(t *testing.T, c contenders.Contender) string {
	f := worlds.NewFake(0)
	var apps []string
	for i, method := range path {
		for j, extent := range []fakes.Extent{fakes.Nothing, fakes.Half, fakes.Fully} {
			app := worlds.Name(10*i + j)
			apps = append(apps, app)
			f.Faults.Add(fakes.Rule{Method: method, Key: app, Effect: fakes.Effect{Err: boom, Act: extent}})
		}
	}
	running := start(t, c, f.World())
	defer stop(t, running)
	f.Add(apps...)
	time.Sleep(30 * time.Minute)
	return f.Disagreement(apps...)
}

func survivesCrashes(t *testing.T, c contenders.Contender) string {
	for seq := 2; seq <= 12; seq++ { // the first gets the watcher
		for _, after := range []bool{false, true} {
			f := worlds.NewFake(0)
			f.Controller.AddApplication("mysql", fakes.App{})
			first := fakes.NewFaults(clock.WallClock)
			first.CutAt(seq, after)
			running := start(t, c, f.Session(first))
			time.Sleep(time.Minute)
			first.Cut()
			stop(t, running)
			running = start(t, c, f.Session(fakes.NewFaults(clock.WallClock)))
			time.Sleep(10 * time.Minute)
			wrong := f.Disagreement("mysql")
			stop(t, running)
			if wrong != "" {
				return fmt.Sprintf("cut off at call %d (after it: %v): %s", seq, after, wrong)
			}
		}
	}
	return ""
}

func removes(t *testing.T, c contenders.Contender) string {
	f := worlds.NewFake(10 * time.Millisecond)
	f.Manager.SetTermination(fakes.Termination{For: time.Minute})
	running := start(t, c, f.World())
	defer stop(t, running)
	if !within(time.Hour, f.Add("mysql", "wordpress")) {
		return "not settled within an hour"
	}
	f.Controller.RemoveApplication("mysql")
	time.Sleep(10 * time.Minute)
	if f.Manager.Config("mysql") != nil {
		return "its operator is still there"
	}
	// And it may come again.
	if !within(time.Hour, f.Add("mysql")) {
		return "the next one of that name is not settled within an hour"
	}
	return f.Disagreement("mysql", "wordpress")
}

func survivesPanics(t *testing.T, c contenders.Contender) string {
	f := worlds.NewFake(10 * time.Millisecond)
	f.Befall("CharmInfo", "mysql", fakes.Effect{Panic: boom})
	running := start(t, c, f.World())
	defer func() {
		running.Kill()
		_ = running.Wait() // the panic, of one that cannot hold this
	}()
	f.Add("mysql", "wordpress")
	time.Sleep(10 * time.Minute)
	return f.Disagreement("wordpress")
}

// survivesOverlap plays two agents, as there are while one is upgraded, which
// begin within some milliseconds of each other.
func survivesOverlap(t *testing.T, c contenders.Contender) string {
	const latency = 50 * time.Millisecond
	for head := time.Duration(0); head <= 9*latency; head += latency / 2 {
		f := worlds.NewFake(latency)
		f.Controller.AddApplication("mysql", fakes.App{})
		first := start(t, c, f.World())
		time.Sleep(head)
		other := fakes.NewFaults(clock.WallClock)
		other.SetLatency(latency)
		second := start(t, c, f.Session(other))
		time.Sleep(10 * time.Minute)
		wrong := f.Disagreement("mysql")
		stop(t, first)
		stop(t, second)
		if wrong != "" {
			return fmt.Sprintf("%v apart: %s", head, wrong)
		}
	}
	return ""
}

// What each contender holds and what it does not, as docs/BENCHMARKS.md says.
func TestPropertiesOfTheContenders(t *testing.T) {
	for _, p := range properties() {
		for _, c := range contenders.All() {
			t.Run(p.name+"/"+c.Name(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					wrong := p.holds(t, c)
					switch lacking := p.lacking[c.Name()]; {
					case wrong != "" && !lacking:
						t.Error(wrong)
					case wrong == "" && lacking:
						t.Error("it holds this after all")
					default:
						t.Log(wrong)
					}
				})
			})
		}
	}
}
