package fakes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// story makes calls one after the other until one fails.
func story(ctx context.Context, c *fakes.Controller, m *fakes.Manager) error {
	if _, err := c.Life(ctx, "a"); err != nil {
		return err
	}
	if _, err := m.StageOperator(ctx, "a", "/data", config("1")); err != nil {
		return err
	}
	if _, err := c.SetPasswords(ctx, []facade.ApplicationPassword{{Name: "a", Password: facade.NewSecret("1")}}); err != nil {
		return err
	}
	return m.EnsureOperator(ctx, "a", "/data", config("1"))
}

// state is how far a story came.
func state(c *fakes.Controller, m *fakes.Manager) string {
	_, told := c.Password("a")
	return fmt.Sprintf("stored %t told %t exists %t", m.Config("a") != nil, told, m.State("a").Exists)
}

func TestCutAtEachCallStopsThereForGood(t *testing.T) {
	after := []string{
		"stored false told false exists false",
		"stored false told false exists false",
		"stored true told false exists false",
		"stored true told true exists false",
		"stored true told true exists true",
	}
	for n := 1; n <= 4; n++ {
		for _, acts := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, acts %t", n, acts), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f, c, m := world("a")
					f.CutAt(n, acts)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					start := time.Now()
					if err := story(ctx, c, m); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error %v", err)
					}
					if took := time.Since(start); took != time.Minute {
						t.Errorf("returned after %v", took)
					}
					select {
					case <-f.Severed():
					default:
						t.Error("not severed")
					}
					want := after[n-1]
					if acts {
						want = after[n]
					}
					if got := state(c, m); got != want {
						t.Errorf("%s, want %s", got, want)
					}

					// The next incarnation goes on where that one stopped.
					next := fakes.NewFaults(clock.WallClock)
					if err := story(t.Context(), c.Session(next), m.Session(next)); err != nil {
						t.Errorf("next: %v", err)
					}
					if got := state(c, m); got != after[4] {
						t.Errorf("in the end: %s", got)
					}
				})
			})
		}
	}
}

func TestCutStopsCallsThatAreUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c, m := world("a")
		gate := fakes.NewGate()
		f.Add(
			fakes.Rule{Method: "SetPasswords", Effect: fakes.Effect{Delay: time.Second, Deaf: true}},
			fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Gate: gate}},
			fakes.Rule{Method: "StageOperator", Key: "b", Effect: fakes.Effect{Late: time.Second}},
			fakes.Rule{Method: "Life", Effect: fakes.Effect{Delay: time.Second, Err: boom}},
		)
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 4)
		go func() {
			_, err := c.SetPasswords(ctx, []facade.ApplicationPassword{{Name: "a", Password: facade.NewSecret("1")}})
			errs <- err
		}()
		go func() { errs <- m.EnsureOperator(ctx, "a", "/data", config("1")) }()
		go func() { _, err := m.StageOperator(ctx, "b", "/data", config("1")); errs <- err }()
		go func() { _, err := c.Life(ctx, "a"); errs <- err }()
		synctest.Wait()
		f.Cut()
		f.Cut()
		gate.Release()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(errs) > 0 {
			t.Errorf("a call returned: %v", <-errs)
		}
		cancel()
		for range 4 {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		}
		if got := state(c, m); got != "stored false told false exists false" {
			t.Error(got)
		}
		if m.Config("b") == nil {
			t.Error("what had acted before the cut is gone")
		}
	})
}

func TestSessionsHaveFaultsOfTheirOwn(t *testing.T) {
	f, c, m := world("a")
	other := fakes.NewFaults(clock.WallClock)
	c2, m2 := c.Session(other), m.Session(other)
	if c2.Faults() != other || m2.Faults() != other || c.Faults() != f || m.Faults() != f {
		t.Fatal("sessions mixed up")
	}
	f.Add(fakes.Rule{Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
	if _, err := c.Life(t.Context(), "a"); !errors.Is(err, boom) {
		t.Errorf("first: %v", err)
	}
	if _, err := c2.Life(t.Context(), "a"); err != nil {
		t.Errorf("second: %v", err)
	}
	if err := m2.EnsureOperator(t.Context(), "a", "/data", config("1")); err != nil {
		t.Errorf("second: %v", err)
	}
	if !m.State("a").Exists {
		t.Error("the first does not see what the second did")
	}
	if len(f.Calls()) != 1 || len(other.Calls()) != 2 {
		t.Errorf("recorded %v and %v", f.Calls(), other.Calls())
	}

	w, err := c2.WatchApplications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Watchers("WatchApplications")) != 0 || len(c2.Watchers("WatchApplications")) != 1 {
		t.Error("watchers mixed up")
	}
	<-w.Changes()
	c.SetLife("a", facade.Dead)
	if names := <-w.Changes(); len(names) != 1 || names[0] != "a" {
		t.Errorf("event %q", names)
	}
}

// Many goroutines do everything at once, over connections that are cut one
// after the other; what holds is: no race, no call that never returns, and no
// effect of a connection that was cut.
func TestEverythingAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	bubble(t, func(t *testing.T) {
		_, c, m := world("a", "b", "c")
		m.SetTermination(fakes.Termination{For: 2 * time.Second}, "b")
		var wg sync.WaitGroup
		for worker := range 8 {
			rnd := rand.New(rand.NewPCG(seed, uint64(worker)))
			wg.Go(func() {
				for range 5 {
					f := fakes.NewFaults(clock.WallClock)
					f.SetLatency(time.Duration(rnd.IntN(100)) * time.Millisecond)
					f.CutAt(1+rnd.IntN(40), rnd.IntN(2) == 0)
					c, m := c.Session(f), m.Session(f)
					ctx, cancel := context.WithCancel(t.Context())
					go func() { <-f.Severed(); cancel() }()
					for {
						app := []string{"a", "b", "c"}[rnd.IntN(3)]
						if err := anything(ctx, rnd, c, m, app); errors.Is(err, context.Canceled) {
							break
						}
					}
					// Deaf, so that only the cut can be what stops them.
					f.OnCall(func(fakes.Call) fakes.Effect { return fakes.Effect{Deaf: true} })
					for _, app := range []string{"a", "b", "c"} {
						_ = m.EnsureOperator(ctx, app, "/data", config("late"))
					}
					cancel()
				}
			})
		}
		wg.Wait()
		for _, app := range []string{"a", "b", "c"} {
			if cfg := m.Config(app); cfg != nil && cfg.AgentConf.Equal(config("late").AgentConf) {
				t.Errorf("a connection that was cut has changed %s", app)
			}
		}
		if err := m.CheckHistory(); err != nil {
			t.Error(err)
		}
	})
}

// anything makes one call, or changes something by hand.
func anything(ctx context.Context, rnd *rand.Rand, c *fakes.Controller, m *fakes.Manager, app string) error {
	var err error
	switch rnd.IntN(14) {
	case 0:
		_, err = c.Life(ctx, app)
	case 1:
		_, err = c.SetPasswords(ctx, []facade.ApplicationPassword{{Name: app, Password: facade.NewSecret("x")}})
	case 2:
		_, err = c.ApplicationsInfo(ctx, []string{"a", "b"})
	case 3:
		_, err = c.IssueOperatorCertificate(ctx, app)
	case 4:
		_, err = m.OperatorExists(ctx, app)
	case 5, 6:
		cfg := config(fmt.Sprint(rnd.IntN(3)))
		if op, err := m.Operator(ctx, app); err == nil {
			cfg.Generation = op.Config.Generation
		}
		err = m.EnsureOperator(ctx, app, "/data", cfg)
	case 7:
		_, err = m.StageOperator(ctx, app, "/data", config(fmt.Sprint(rnd.IntN(3))))
	case 8:
		err = m.DeleteOperator(ctx, app)
	case 9:
		_, err = m.Operators(ctx)
	case 10:
		var w facade.StringsWatcher
		if w, err = m.WatchOperators(ctx); err == nil {
			<-w.Changes()
			w.Kill()
		}
	case 11:
		c.AddApplication(app, fakes.App{})
	case 12:
		m.VanishOperator(app)
	case 13:
		err = c.SetProvisioningStatus(ctx, app, facade.StatusWaiting, "m")
	}
	return err
}
