package hostprep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/hostprep"
)

// Where in a call a context may end.
type moment string

const (
	before moment = "before" // it has its effect no more
	during moment = "during" // it waits, and returns when the context ends
	after  moment = "after"  // it has had its effect, and fails
	unseen moment = "unseen" // it has had its effect, and succeeds
)

// Every call is cancelled at every moment. Whatever came of it, the lock is
// free, it took less than a second, nothing was changed after the context had
// ended, and a host whose devices were touched was observed and published.
func TestCancelledAtEveryMoment(t *testing.T) {
	for _, call := range allCalls {
		for _, when := range []moment{before, during, after, unseen} {
			t.Run(fmt.Sprint(when, " ", call), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cancelledAt(t, call, when) })
			})
		}
	}
}

func cancelledAt(t *testing.T, call string, when moment) {
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := func(m moment) func(context.Context, string) error {
		return func(callCtx context.Context, c string) error {
			switch {
			case c != call || when != m || w.count(c) > 1:
				return nil
			case m == during:
				time.AfterFunc(time.Minute/10, cancel)
				<-callCtx.Done()
				return callCtx.Err()
			}
			cancel()
			if m == unseen {
				return nil
			}
			return context.Cause(ctx)
		}
	}
	w.before = func(ctx context.Context, c string) error {
		if when == during {
			return at(during)(ctx, c)
		}
		return at(before)(ctx, c)
	}
	w.after = func(ctx context.Context, c string) error {
		if when == unseen {
			return at(unseen)(ctx, c)
		}
		return at(after)(ctx, c)
	}
	var ended time.Time
	context.AfterFunc(ctx, func() { ended = time.Now() })

	err := w.preparer(t).Prepare(ctx, "0/lxd/1")
	synctest.Wait()
	if took := time.Since(ended); took >= time.Second {
		t.Errorf("it took %s after the end", took)
	}
	w.wantFree(t)
	// Once all is done, it is done.
	complete := w.bridged == 1 && len(w.published) == 2
	if errors.Is(err, context.Canceled) == (err == nil) || err == nil && !complete {
		t.Errorf("got %v", err)
	}
	if n := slices.Index(allCalls, call); n < slices.Index(allCalls, callBridge) {
		if w.count(callBridge) > 0 {
			t.Errorf("bridged after the end: %s", w.story())
		}
		return
	}
	if len(w.published) == 0 || (w.bridged == 1) != complete {
		t.Errorf("bridged %d times, published %+v: %s", w.bridged, w.published, w.story())
	}
}

// O16, github.com/google/trillian/issues/3789: clean-up ran with the context that
// was cancelled. Publishing has its own, and a limit, so that one which is
// not answered holds up nobody's end.
func TestO16WhatComesAfterACancelledBridgeHasItsOwnContext(t *testing.T) {
	for _, slow := range []string{callObserve, callPublish} {
		t.Run(slow, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				type key struct{}
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
				defer cancel()
				w.before = func(callCtx context.Context, call string) error {
					switch call {
					case callBridge:
						cancel()
					case callObserve, callPublish:
						if callCtx.Err() != nil {
							t.Errorf("%s has a context that ended", call)
						}
						if callCtx.Value(key{}) != "kept" {
							t.Errorf("%s lost the context's values", call)
						}
						if call == slow {
							<-callCtx.Done()
						}
					}
					return nil
				}
				begun := time.Now()
				err := w.preparer(t).Prepare(ctx, "0/lxd/1")
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begun); took == 0 || took >= time.Second {
					t.Errorf("took %s", took)
				}
				w.wantFree(t)
			})
		})
	}
}

// A bridger that takes its time to roll back is not cut short by us: only its
// context ends.
func TestARollBackIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const errRollBack = errors.ConstError("eth0 has no address any more")
		w.before = func(callCtx context.Context, call string) error {
			if call == callBridge {
				cancel()
				<-callCtx.Done()
				time.Sleep(7 * time.Second)
				return errRollBack
			}
			return nil
		}
		begun := time.Now()
		err := w.preparer(t).Prepare(ctx, "0/lxd/1")
		if !errors.Is(err, errRollBack) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if text := fmt.Sprint(err); strings.Index(text, "no address") > strings.Index(text, "canceled") {
			t.Errorf("the order is %q", text)
		}
		if took := time.Since(begun); took != 7*time.Second {
			t.Errorf("took %s", took)
		}
		w.wantStory(t, "acquire ask bridge observe publish release")
	})
}

func TestTheCallersDeadlineIsItsOwn(t *testing.T) {
	for _, call := range allCalls {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.before = hang(call)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if err := w.preparer(t).Prepare(ctx, "0/lxd/1"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				w.wantFree(t)
			})
		})
	}
}

func TestAContextThatEndedTouchesNothing(t *testing.T) {
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.preparer(t).Prepare(ctx, "0/lxd/1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.wantStory(t, "acquire")
}

func TestCancelledWhileAnotherHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		release, err := lock{w}.Acquire(t.Context(), hostLock)
		if err != nil {
			t.Fatal(err)
		}
		p := w.preparer(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				if err := p.Prepare(ctx, fmt.Sprintf("0/lxd/%d", n)); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		time.Sleep(time.Hour)
		begun := time.Now()
		cancel()
		all.Wait()
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %s", took)
		}
		release()
		w.wantFree(t)
		if w.count(callAsk) != 0 {
			t.Errorf("the controller was asked outside the lock: %s", w.story())
		}
	})
}

// Every call panics once, at its beginning and at its end. The caller gets the
// panic, the lock is free, what a bridger left is published, and the next try
// succeeds.
func TestAPanicInEachCallLeavesTheLockFree(t *testing.T) {
	for _, call := range allCalls {
		for _, when := range []moment{before, after} {
			t.Run(fmt.Sprint(when, " ", call), func(t *testing.T) {
				if call == callAcquire && when == after {
					// A lock that panics while it is held is its
					// own affair.
					return
				}
				w := newWorld()
				blow := func(m moment) func(context.Context, string) error {
					return func(_ context.Context, c string) error {
						if c == call && m == when && w.count(c) == 1 {
							panic("boom in " + c)
						}
						return nil
					}
				}
				w.before, w.after = blow(before), blow(after)
				p := w.preparer(t)
				if got := panicOf(func() { _ = p.Prepare(t.Context(), "0/lxd/1") }); got != "boom in "+call {
					t.Errorf("panic was %v", got)
				}
				w.wantFree(t)
				if call == callBridge {
					w.wantStory(t, "acquire ask bridge observe publish release")
				}
				if err := p.Prepare(t.Context(), "0/lxd/1"); err != nil {
					t.Errorf("the next try: %v", err)
				}
				w.wantFree(t)
				if len(w.published) != 2 {
					t.Errorf("published %+v", w.published)
				}
			})
		}
	}
}

func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// A panic in one container's preparation does not disturb another's.
func TestAPanicIsTheContainersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.before = func(_ context.Context, call string) error {
			if call == callBridge && w.count(callBridge) == 1 {
				time.Sleep(time.Second)
				panic("boom")
			}
			return nil
		}
		p := w.preparer(t, func(c *hostprep.Config) { c.ObserveTimeout = time.Millisecond })
		var all sync.WaitGroup
		all.Go(func() {
			if panicOf(func() { _ = p.Prepare(t.Context(), "0/lxd/1") }) == nil {
				t.Error("no panic")
			}
		})
		synctest.Wait()
		all.Go(func() {
			if err := p.Prepare(t.Context(), "0/lxd/2"); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		w.wantFree(t)
	})
}
