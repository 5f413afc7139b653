package page

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

func TestGuardGivesUpAndDoesNotAskAgainMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guard[int]
		var calls atomic.Int32
		release := make(chan struct{})
		ask := func() (int, error) {
			return g.ask(t.Context(), clock.WallClock, 2*time.Second, func() (int, error) {
				n := calls.Add(1)
				if n == 1 {
					<-release
				}
				return int(n), nil
			})
		}
		began := time.Now()
		_, err := ask()
		if !errors.Is(err, errNoAnswer) || err.Error() != "no answer for 2 s" || time.Since(began) != 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		time.Sleep(10 * time.Second)
		before := runtime.NumGoroutine()
		for range 50 {
			asked := time.Now()
			if _, err := ask(); err == nil || err.Error() != "no answer for 12 s" || time.Since(asked) != 0 {
				t.Errorf("asked while it is out: %v after %v", err, time.Since(asked))
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("called %d times, want once", n)
		}
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("goroutines went from %d to %d", before, after)
		}
		close(release)
		synctest.Wait()
		if n, err := ask(); n != 2 || err != nil {
			t.Errorf("asked anew: %d, %v", n, err)
		}
	})
}

func TestGuardAsksOnceForManyAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guard[int]
		var calls atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				n, err := g.ask(t.Context(), clock.WallClock, 2*time.Second, func() (int, error) {
					time.Sleep(time.Second)
					return int(calls.Add(1)), nil
				})
				if n != 1 || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestGuardBearsWhatACallDoes(t *testing.T) {
	for name, test := range map[string]struct {
		f    func() (int, error)
		want string
	}{
		"panic":        {func() (int, error) { panic("boom") }, "panic: boom"},
		"nil panic":    {func() (int, error) { panic(nil) }, "panic: panic called with nil argument"},
		"error":        {func() (int, error) { return 0, boom }, "boom"},
		"its own exit": {func() (int, error) { runtime.Goexit(); return 0, nil }, "ended without an answer"},
	} {
		var g guard[int]
		for range 3 {
			if _, err := g.ask(t.Context(), clock.WallClock, time.Minute, test.f); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %s", name, err, test.want)
			}
		}
	}
}

func TestGuardHeedsTheAskersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guard[int]
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := g.ask(ctx, clock.WallClock, time.Minute, func() (int, error) { time.Sleep(time.Hour); return 1, nil })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Hour) // for the call's own end
	})
}
