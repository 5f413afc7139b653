package keyqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// Bug reports about other queues, each with the behaviour that is right.

// O11, github.com/kubernetes-sigs/controller-runtime/issues/631: all requests
// share one rate limit, so a fresh change waits behind the retries of others,
// and one of a failing key behind its own back-off.
func TestO11FreshChangesDoNotWaitBehindRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		for i := range 500 {
			key := fmt.Sprint("failing-", i)
			q.Add(Background, key)
			take(t, q)
			q.DoneAfter(key, time.Minute)
		}
		pass(30 * time.Second)
		q.Add(Fresh, "failing-7") // just mended: its delay is cut short
		if item := take(t, q); item.Key != "failing-7" || item.Delay != 0 {
			t.Fatalf("took %+v", item)
		}
		pass(30 * time.Second)
		if s := q.Stats(); s.QueuedBackground != 499 {
			t.Fatalf("stats %+v", s)
		}
		q.Add(Fresh, "changed")
		if item := take(t, q); item.Key != "changed" {
			t.Fatalf("took %+v before the fresh change", item)
		}
	})
}

// O12, github.com/kubernetes-retired/kubefed/pull/1379: keys are pointers, so
// that no two are equal: nothing is de-duplicated, and one object is worked on
// by several workers at once.
func TestO12KeysAreValuesAndNeverTwiceInFlight(t *testing.T) {
	type key struct{ model, app string }
	config := Config{Clock: clock.WallClock}
	if _, err := New[*key](config); !errors.Is(err, errors.NotValid) {
		t.Fatalf("pointers are accepted as keys: %v", err)
	}
	q, err := New[key](config)
	if err != nil {
		t.Fatal(err)
	}
	// Not guarded by anything: the race detector sees it if one key is ever
	// in two workers' hands. Equal keys are made anew for each Add.
	inFlight := map[key]*int{}
	for i := range 4 {
		inFlight[key{"m", fmt.Sprint(i)}] = new(int)
	}
	var workers, producers sync.WaitGroup
	var taken atomic.Int64
	for range 8 {
		workers.Go(func() {
			for {
				item, err := q.Take(context.Background())
				if err != nil {
					return
				}
				*inFlight[item.Key]++
				taken.Add(1)
				q.Done(item.Key)
			}
		})
	}
	const adds = 2000
	for p := range 4 {
		producers.Go(func() {
			for i := range adds {
				q.Add(Lane(i%2), key{"m", fmt.Sprint((i + p) % 4)})
			}
		})
	}
	producers.Wait()
	q.Close()
	workers.Wait()
	var sum int
	for _, n := range inFlight {
		sum += *n
	}
	if int64(sum) != taken.Load() {
		t.Fatalf("%d passes counted, %d made", sum, taken.Load())
	}
}

// O13, github.com/kubernetes-sigs/controller-runtime/issues/3067: after a restart
// everything that exists is looked at first, and what was just made waits.
func TestO13AfterARestartNewKeysGoBeforeTheBaseline(t *testing.T) {
	q := newQueue(t, 0)
	for i := range 1000 {
		q.Add(Background, fmt.Sprint("old-", i))
	}
	q.Add(Fresh, "new")
	q.Add(Fresh, "old-900") // changed just now, and in the baseline too
	for _, want := range []string{"new", "old-900", "old-0"} {
		if item := take(t, q); item.Key != want {
			t.Fatalf("took %s, want %s", item.Key, want)
		}
	}
}

// github.com/kubernetes-sigs/controller-runtime/issues/3496, the remedy of O13
// gone too far: with a steady flow of fresh keys the baseline is never served.
func TestABaselineIsServedUnderASteadyFlowOfEvents(t *testing.T) {
	q := newQueue(t, 0)
	const baseline = 100
	for i := range baseline {
		q.Add(Background, fmt.Sprint("old-", i))
	}
	served, total := 0, 0
	for rng := rand.New(rand.NewPCG(1, 2)); served < baseline; total++ {
		// More comes than is served.
		for range 2 {
			q.Add(Fresh, fmt.Sprint("event-", rng.IntN(1e6)))
		}
		item := take(t, q)
		q.Done(item.Key)
		if item.Lane == Background {
			served++
		}
	}
	if want := baseline * (DefaultFreshShare + 1); total > want {
		t.Fatalf("the baseline took %d turns, want %d", total, want)
	}
}
