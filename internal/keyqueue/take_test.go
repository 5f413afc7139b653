package keyqueue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// taking is a Take under way.
type taking struct {
	cancel context.CancelFunc
	done   chan struct{}
	item   Item[string]
	err    error
}

// goTake starts a Take and returns when it is blocked or done.
func goTake(q *Queue[string]) *taking {
	ctx, cancel := context.WithCancel(context.Background())
	g := &taking{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		g.item, g.err = q.Take(ctx)
	}()
	synctest.Wait()
	return g
}

func (g *taking) wantBlocked(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case <-g.done:
		t.Fatalf("Take returned %+v, %v", g.item, g.err)
	default:
	}
}

func (g *taking) want(t *testing.T, key string, err error) {
	t.Helper()
	<-g.done
	if g.item.Key != key || !errors.Is(g.err, err) {
		t.Fatalf("Take returned %+v, %v; want %q, %v", g.item, g.err, key, err)
	}
}

func TestTakeBlocksUntilAKeyIsReady(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(q *Queue[string]) // makes "a" ready, at once or in 1 s
	}{
		{"fresh", func(q *Queue[string]) { q.Add(Fresh, "a") }},
		{"background", func(q *Queue[string]) { q.Add(Background, "a") }},
		{"due", func(q *Queue[string]) { q.AddAfter("a", time.Second) }},
		{"hastened", func(q *Queue[string]) {
			q.AddAfter("a", time.Hour)
			q.AddAfter("a", time.Second)
		}},
		{"cut short", func(q *Queue[string]) {
			q.AddAfter("a", time.Hour)
			q.Add(Fresh, "a")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, 0)
				g := goTake(q)
				defer g.cancel()
				pass(time.Hour)
				g.wantBlocked(t)
				tc.make(q)
				pass(time.Second)
				g.want(t, "a", nil)
				wantState(t, q, "a", Running)
			})
		})
	}
}

func TestABlockedTakeGetsADirtiedKeyWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.Add(Fresh, "a")
		take(t, q)
		g := goTake(q)
		defer g.cancel()
		q.Add(Background, "a")
		g.wantBlocked(t) // it is running
		q.Done("a")
		g.want(t, "a", nil)
	})
}

func TestTakersAreServedInTheOrderOfTheirComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		var all []*taking
		for range 4 {
			all = append(all, goTake(q))
		}
		all[1].cancel()
		all[1].want(t, "", context.Canceled)
		for _, key := range []string{"a", "b", "c"} {
			q.Add(Fresh, key)
		}
		all[0].want(t, "a", nil)
		all[2].want(t, "b", nil)
		all[3].want(t, "c", nil)
	})
}

func TestTakeReturnsTheErrorOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		g := goTake(q)
		g.cancel()
		g.want(t, "", context.Canceled)

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := q.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		// Ended before: no key is handed out, however many there are.
		q.Add(Fresh, "a")
		if _, err := q.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		wantState(t, q, "a", Queued)
	})
}

func TestACancelledTakeLosesNoKey(t *testing.T) {
	// Two takers, one of them cancelled in the moment of the Add: one of them
	// has the key, each time.
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		for range 2000 {
			a, b := goTake(q), goTake(q)
			var wg sync.WaitGroup
			wg.Go(a.cancel)
			wg.Go(func() { q.Add(Fresh, "key") })
			wg.Wait()
			<-a.done
			if a.err == nil {
				b.cancel()
			}
			<-b.done
			if (a.err == nil) == (b.err == nil) {
				t.Fatalf("took %+v, %v and %+v, %v", a.item, a.err, b.item, b.err)
			}
			q.Done("key")
			b.cancel()
		}
	})
}

func TestCloseEndsTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		a, b := goTake(q), goTake(q)
		q.Close()
		a.want(t, "", ErrClosed)
		b.want(t, "", ErrClosed)
		if _, err := q.Take(context.Background()); !errors.Is(err, ErrClosed) {
			t.Fatalf("got %v", err)
		}
		a.cancel()
		b.cancel()
	})
}

func TestCloseDropsWhatIsNotRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.Add(Fresh, "running")
		take(t, q)
		q.Add(Fresh, "fresh")
		q.Add(Background, "background")
		q.AddAfter("waiting", time.Second)
		q.Close()
		q.Add(Fresh, "late")
		q.Add(Fresh, "running")
		q.AddAfter("late", time.Second)
		pass(time.Hour)
		if s := q.Stats(); s != (Stats{Running: 1}) {
			t.Fatalf("stats %+v", s)
		}
		q.Done("running")
		if s := q.Stats(); s != (Stats{}) {
			t.Fatalf("stats %+v", s)
		}
		if _, err := q.Take(context.Background()); !errors.Is(err, ErrClosed) {
			t.Fatalf("got %v", err)
		}
	})
}

// turns serves n keys and returns the lanes they came from, F or B.
func turns(t *testing.T, q *Queue[string], n int) string {
	t.Helper()
	var got []byte
	for range n {
		item := take(t, q)
		q.Done(item.Key)
		got = append(got, "FB"[item.Lane])
	}
	return string(got)
}

func TestNeitherLaneStarves(t *testing.T) {
	for _, tc := range []struct {
		name              string
		share             int
		fresh, background int
		want              string
	}{
		{"default share", 0, 10, 4, "FFFFBFFFFBFFBB"},
		{"share of 1", 1, 4, 4, "FBFBFBFB"},
		{"fresh ones only", 2, 5, 0, "FFFFF"},
		{"background ones only", 2, 0, 5, "BBBBB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := newQueue(t, tc.share)
			for i := range tc.background {
				q.Add(Background, "b"+string(rune('0'+i)))
			}
			for i := range tc.fresh {
				q.Add(Fresh, "f"+string(rune('0'+i)))
			}
			if got := turns(t, q, tc.fresh+tc.background); got != tc.want {
				t.Fatalf("served %s, want %s", got, tc.want)
			}
		})
	}
}

func TestTheShareCountsOnlyWhileBackgroundKeysWait(t *testing.T) {
	q := newQueue(t, 2)
	for _, key := range []string{"1", "2", "3", "4", "5", "6"} {
		q.Add(Fresh, key)
	}
	if got := turns(t, q, 3); got != "FFF" {
		t.Fatalf("served %s", got)
	}
	q.Add(Background, "b")
	if got := turns(t, q, 4); got != "FFBF" {
		t.Fatalf("served %s", got)
	}
}

func TestStatsCountWhatIsGoingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.Add(Fresh, "running")
		take(t, q)
		q.Add(Background, "moves")
		oldest := time.Now()
		pass(time.Second)
		q.Add(Fresh, "fresh")
		q.Add(Background, "b1")
		q.Add(Background, "b2")
		q.AddAfter("waiting", time.Hour)
		q.Add(Fresh, "moves")
		want := Stats{
			Queued: 4, QueuedFresh: 2, QueuedBackground: 2,
			Running: 1, Waiting: 1, OldestReady: oldest,
		}
		if got := q.Stats(); got != want {
			t.Fatalf("stats %+v, want %+v", got, want)
		}
	})
}

func TestKeyTypesThatDoNotCompareByValueAreRefused(t *testing.T) {
	type pair struct {
		App   string
		Model [2]int
	}
	type holder struct {
		Name string
		In   [1]struct{ P *int }
	}
	config := Config{Clock: clock.WallClock}
	var errs []error
	add := func(_ any, err error) { errs = append(errs, err) }
	add(New[string](config))
	add(New[int](config))
	add(New[pair](config))
	good := len(errs)
	add(New[*string](config))
	add(New[holder](config))
	add(New[any](config))
	add(New[chan int](config))
	add(New[float64](config))
	for i, err := range errs {
		if i < good && err != nil || i >= good && !errors.Is(err, errors.NotValid) {
			t.Errorf("type %d: %v", i, err)
		}
	}
}

func TestNamesOfLanesAndStates(t *testing.T) {
	got := []string{
		Fresh.String(), Background.String(),
		Idle.String(), Queued.String(), Running.String(), Waiting.String(), State(9).String(),
	}
	want := []string{"fresh", "background", "idle", "queued", "running", "waiting", "unknown"}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q", got)
	}
}
