package fakes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/fakes"
)

func newLock() (*fakes.Faults, *fakes.Lock) {
	f := fakes.NewFaults(clock.WallClock)
	return f, fakes.NewLock(f)
}

func holder(name string) container.Holder {
	return container.Holder{Worker: name, Reason: "test"}
}

// acquire returns what gives the lock back.
func acquire(t *testing.T, l *fakes.Lock, name string) func() {
	t.Helper()
	release, err := l.Acquire(t.Context(), holder(name))
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func names(holds []fakes.Hold) string {
	var out []string
	for _, h := range holds {
		out = append(out, h.Holder.Worker)
	}
	return strings.Join(out, " ")
}

func TestLockIsHadInTheOrderInWhichItWasAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, l := newLock()
		release := acquire(t, l, "a")
		for _, name := range []string{"b", "c", "d"} {
			go func() {
				release, err := l.Acquire(t.Context(), holder(name))
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				release()
			}()
			synctest.Wait()
		}
		if got := names(l.Waiting()); got != "b c d" {
			t.Errorf("waiting: %s", got)
		}
		time.Sleep(time.Minute)
		release()
		time.Sleep(time.Minute)
		if got := names(l.History()); got != "a b c d" {
			t.Errorf("history: %s", got)
		}
		for i, h := range l.History() {
			if h.Acquired.IsZero() || !h.Freed.After(h.Acquired) || h.Releases != 1 {
				t.Errorf("hold %d: %+v", i, h)
			}
		}
		if wait := l.History()[1].Acquired.Sub(l.History()[1].Asked); wait != time.Minute {
			t.Errorf("b waited %v", wait)
		}
		if err := l.CheckFree(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitingForTheLockIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, l := newLock()
		release := acquire(t, l, "a")
		for _, timeout := range []time.Duration{0, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			start := time.Now()
			got, err := l.Acquire(ctx, holder("b"))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || got != nil || time.Since(start) != timeout {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		if got := l.Waiting(); len(got) != 0 {
			t.Errorf("waiting: %v", got)
		}
		if err := l.CheckFree(); err == nil || !strings.Contains(err.Error(), `"a" for "test"`) {
			t.Errorf("CheckFree: %v", err)
		}
		release()
		acquire(t, l, "c")()
	})
}

// Whoever is cancelled at the very moment has the lock or has an error, and
// never both.
func TestCancelledAsTheLockBecomesFree(t *testing.T) {
	for range 50 {
		_, l := newLock()
		release := acquire(t, l, "a")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			release, err := l.Acquire(ctx, holder("b"))
			if (release == nil) != (err != nil) {
				t.Errorf("release %t, error %v", release != nil, err)
			}
			if release != nil {
				release()
			}
		}()
		go cancel()
		release()
		<-done
		if err := l.CheckFree(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReleasingTwiceIsHarmlessAndSeen(t *testing.T) {
	_, l := newLock()
	release := acquire(t, l, "a")
	release()
	next := acquire(t, l, "b")
	release()
	if h, ok := l.Held(); !ok || h.Holder.Worker != "b" {
		t.Errorf("held by %v", h)
	}
	next()
	if got := l.History()[0].Releases; got != 2 {
		t.Errorf("released %d times", got)
	}
}

func TestOthersHaveTheLockBeforeAllWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, l := newLock()
		release := acquire(t, l, "a")
		got := make(chan func())
		go func() { got <- acquire(t, l, "b") }()
		synctest.Wait()
		free := l.Occupy(holder("apt"), 4711)
		release()
		time.Sleep(time.Hour)
		status, err := l.Status(t.Context())
		if err != nil || !status.Held || status.PID != 4711 || status.Holder != holder("apt") || time.Since(status.Since) != time.Hour {
			t.Errorf("status %+v, %v", status, err)
		}
		free()
		free()
		(<-got)()
		if status, err := l.Status(t.Context()); err != nil || status != (container.LockStatus{}) {
			t.Errorf("status of a free lock %+v, %v", status, err)
		}
		release = acquire(t, l, "c")
		l.Occupy(holder("given up"), 0)()
		release()
		if got := names(l.History()); got != "a apt b c" {
			t.Errorf("history: %s", got)
		}
	})
}

func TestLockOfACutConnectionIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, l := newLock()
		other := l.Session(fakes.NewFaults(clock.WallClock))
		stale := acquire(t, l, "a")
		ctx, cancel := context.WithCancel(t.Context())
		lost := make(chan error)
		go func() { _, err := l.Acquire(ctx, holder("b")); lost <- err }()
		got := make(chan func())
		go func() { got <- acquire(t, other, "c") }()
		synctest.Wait()

		first.Cut()
		release := <-got
		if h, _ := other.Held(); h.Holder.Worker != "c" {
			t.Errorf("held by %v", h)
		}
		if len(other.Waiting()) != 0 {
			t.Errorf("waiting: %v", other.Waiting())
		}
		stale() // has no effect
		if h, ok := other.Held(); !ok || h.Holder.Worker != "c" {
			t.Errorf("held by %v", h)
		}
		cancel()
		if err := <-lost; !errors.Is(err, context.Canceled) {
			t.Errorf("the cut one: %v", err)
		}
		if _, err := l.Acquire(ctx, holder("d")); !errors.Is(err, context.Canceled) {
			t.Errorf("after the cut: %v", err)
		}
		release()
		if err := other.CheckFree(); err != nil {
			t.Error(err)
		}
		if h := other.History()[0]; h.Freed.IsZero() || h.Releases != 0 {
			t.Errorf("the cut one's hold: %+v", h)
		}
	})
}

func TestCutAtAcquire(t *testing.T) {
	for _, after := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			f, l := newLock()
			f.CutAt(1, after)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if release, err := l.Acquire(ctx, holder("a")); !errors.Is(err, context.DeadlineExceeded) || release != nil {
				t.Errorf("error %v", err)
			}
			if err := l.CheckFree(); err != nil {
				t.Error(err)
			}
			if got := len(l.History()); got != 0 && !after {
				t.Errorf("had %d times", got)
			}
			acquire(t, l.Session(fakes.NewFaults(clock.WallClock)), "b")()
		})
	}
}

func TestFaultsOfAcquire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, l := newLock()
		f.Add(fakes.Rule{Effect: fakes.Effect{Err: boom, Act: fakes.Fully}})
		if _, err := l.Acquire(t.Context(), holder("a")); !errors.Is(err, boom) {
			t.Errorf("error %v", err)
		}
		f.Add(fakes.Rule{Effect: fakes.Effect{Panic: boom}})
		func() {
			defer func() {
				if v := recover(); v != boom {
					t.Errorf("panicked with %v", v)
				}
			}()
			_, _ = l.Acquire(t.Context(), holder("a"))
		}()
		// The context ends after the lock was had.
		f.Add(fakes.Rule{Effect: fakes.Effect{Late: time.Minute}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, holder("a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if err := l.CheckFree(); err != nil {
			t.Error(err)
		}
		// The context has ended and nobody listens.
		var seen []string
		f.Add(fakes.Rule{Effect: fakes.Effect{
			Delay: time.Minute, Deaf: true,
			Before: func() { seen = append(seen, "before") },
			Then:   func() { seen = append(seen, "then") },
		}})
		release, err := l.Acquire(ctx, holder("a"))
		if err != nil || !slices.Equal(seen, []string{"before", "then"}) {
			t.Fatal(err, seen)
		}
		release()
		calls := f.Calls()
		if len(calls) != 4 || !calls[3].Acted || calls[3].Err != nil || calls[1].Err == nil || calls[0].Acted {
			t.Errorf("calls %v", calls)
		}
		if calls[0].Args[0] != holder("a") {
			t.Errorf("arguments %v", calls[0].Args)
		}
	})
}
