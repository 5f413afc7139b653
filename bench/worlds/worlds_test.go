package worlds_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/bench/worlds"
	"github.com/sutler-dev/sutler/facade"
)

func settled(t *testing.T, n int, latency time.Duration) *worlds.Settled {
	t.Helper()
	s, err := worlds.NewSettled(n, latency)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A settled world that a contender changed would be none.
func TestSettledWorldIsSettledForEveryContender(t *testing.T) {
	for _, c := range contenders.All() {
		s := settled(t, 5, 0)
		done := s.Await(5)
		running, err := c.Start(s.World())
		if err != nil {
			t.Fatal(err)
		}
		<-done
		again := s.Await(10)
		s.Send(s.Names()...)
		<-again
		running.Kill()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
		if s.Writes() != 0 || s.Passes() != 10 {
			t.Errorf("%s: %d writes in %d passes, want none in 10", c.Name(), s.Writes(), s.Passes())
		}
	}
}

func TestSettledWorldNoticesChanges(t *testing.T) {
	s := settled(t, 1, 0)
	w := s.World()
	ctx := t.Context()
	op, err := w.Manager.Operator(ctx, worlds.Name(0))
	if err != nil {
		t.Fatal(err)
	}
	cfg := op.Config.Clone()
	cfg.AgentConf = facade.NewSecret("another one")
	if err := w.Manager.EnsureOperator(ctx, worlds.Name(0), "/", cfg); err != nil || s.Writes() != 1 {
		t.Errorf("%v, %d writes; want one", err, s.Writes())
	}
	if _, err := w.Manager.Operator(ctx, "nobody"); !errors.Is(err, errors.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestSettledWorldHangsUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settled(t, 1, 0)
		s.Hang(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.World().Facade.Life(ctx, worlds.Name(0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the deadline passed", err)
		}
	})
}

func TestSettledWorldTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := settled(t, 1, time.Second)
		began := time.Now()
		if _, err := s.World().Facade.Life(t.Context(), worlds.Name(0)); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v, want nothing after a second", err, time.Since(began))
		}
	})
}

func TestEventsMergeWhileNobodyReads(t *testing.T) {
	s := settled(t, 3, 0)
	watcher, err := s.World().Facade.WatchApplications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := <-watcher.Changes(); !slices.Equal(got, worlds.Names(3)) {
		t.Errorf("the baseline is %q", got)
	}
	for range 100 {
		s.Send(worlds.Name(1))
		s.Send(worlds.Name(2), worlds.Name(1))
	}
	if got := <-watcher.Changes(); !slices.Equal(got, []string{worlds.Name(1), worlds.Name(2)}) {
		t.Errorf("the event is %q", got)
	}
	s.Send(worlds.Name(1))
	if got := <-watcher.Changes(); len(got) != 1 {
		t.Errorf("the next event is %q", got)
	}
	watcher.Kill()
	if err := watcher.Wait(); err != nil {
		t.Error(err)
	}
}

// Without operators there is a disagreement; a test that finds none must be
// able to.
func TestDisagreementIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := worlds.NewFake(0)
		running, err := contenders.Serial{}.Start(f.World())
		if err != nil {
			t.Fatal(err)
		}
		<-f.Add("mysql")
		synctest.Wait()
		if wrong := f.Disagreement("mysql"); wrong != "" {
			t.Error(wrong)
		}
		if f.Disagreement("mysql", "nobody") == "" {
			t.Error("an operator that is not there was not missed")
		}
		_, err = f.Controller.SetPasswords(t.Context(), []facade.ApplicationPassword{{Name: "mysql", Password: facade.NewSecret("another")}})
		if err != nil || f.Disagreement("mysql") == "" {
			t.Errorf("%v; a password that differs was not noticed", err)
		}
		running.Kill()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	})
}
