package fakes_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/fakes"
)

func TestWatcherCoalescesWhileUnread(t *testing.T) {
	w := fakes.NewStringsWatcher("a")
	w.Send([]string{"b", "a"})
	w.Send([]string{"b", "c"})
	if got := next(w); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("first event %q", got)
	}
	w.Send([]string{"a", "a"})
	if got := next(w); !slices.Equal(got, []string{"a", "a"}) {
		t.Errorf("an event that repeats a name arrives as %q", got)
	}
	if got := next(w); got != nil {
		t.Errorf("another event %q", got)
	}
}

func TestNotifyWatcherHasABaseline(t *testing.T) {
	w := fakes.NewNotifyWatcher()
	w.Send(struct{}{})
	<-w.Changes()
	select {
	case <-w.Changes():
		t.Error("two events were not coalesced")
	default:
	}
}

func TestWaysOfAWatcherToBreak(t *testing.T) {
	tests := []struct {
		name   string
		do     func(*fakes.Watcher[[]string])
		ended  bool
		err    error
		closed bool
	}{
		{"silence", (*fakes.Watcher[[]string]).Silence, false, nil, false},
		{"close", (*fakes.Watcher[[]string]).Close, false, nil, true},
		{"end", (*fakes.Watcher[[]string]).End, true, nil, false},
		{"fail", func(w *fakes.Watcher[[]string]) { w.Fail(boom) }, true, boom, false},
		{"close and fail", func(w *fakes.Watcher[[]string]) { w.Close(); w.Fail(boom) }, true, boom, true},
		{"kill", (*fakes.Watcher[[]string]).Kill, true, nil, false},
		{"kill, then fail", func(w *fakes.Watcher[[]string]) { w.Kill(); w.Fail(boom) }, true, nil, false},
		{"fail, then kill", func(w *fakes.Watcher[[]string]) { w.Fail(boom); w.Kill() }, true, boom, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := fakes.NewStringsWatcher()
			<-w.Changes()
			test.do(w)
			if w.Ended() != test.ended {
				t.Errorf("ended: %t", w.Ended())
			}
			w.Send([]string{"a"})
			select {
			case names, ok := <-w.Changes():
				if ok || !test.closed {
					t.Errorf("event %q, %t", names, ok)
				}
			default:
				if test.closed {
					t.Error("not closed")
				}
			}
			test.do(w) // again
			if err := worker.Stop(w); !errors.Is(err, test.err) {
				t.Errorf("Wait: %v, want %v", err, test.err)
			}
		})
	}
}

func TestWaitOfAWatcherBlocksUntilItEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := fakes.NewStringsWatcher()
		waited := make(chan error, 1)
		go func() { waited <- w.Wait() }()
		w.Close()
		synctest.Wait()
		if len(waited) != 0 {
			t.Error("Wait returned before the watcher ended")
		}
		w.Kill()
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// Many senders and one reader: every name that was sent is read in the end.
func TestWatcherLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := fakes.NewStringsWatcher()
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		seen := map[string]bool{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for len(seen) < len(names) {
				for _, name := range <-w.Changes() {
					seen[name] = true
				}
			}
		}()
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() {
				for range 10 {
					w.Send([]string{name})
				}
			})
		}
		wg.Wait()
		<-done
	})
}
