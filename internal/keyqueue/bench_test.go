package keyqueue

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Budgets (DESIGN.md, section 7): under 1 us for Add, Take and Done of a key,
// and no allocation.

// BenchmarkAddTakeDone is one key's way through the queue beside others that
// wait, as failing ones do, or that are queued already.
func BenchmarkAddTakeDone(b *testing.B) {
	for _, others := range []int{0, 1, 1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", others), func(b *testing.B) {
			q := newQueue(b, 0)
			for i := range others {
				q.AddAfter(fmt.Sprintf("other-%d", i), time.Hour+time.Duration(i))
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				q.Add(Fresh, "key")
				item, err := q.Take(ctx)
				if err != nil {
					b.Fatal(err)
				}
				q.Done(item.Key)
			}
		})
	}
}

// BenchmarkManyKeys is the same for keys that differ, with a backlog: the costs
// of the map and the lanes.
func BenchmarkManyKeys(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			q := newQueue(b, 0)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("key-%d", i)
				if i < n/2 {
					q.Add(Background, keys[i])
				}
			}
			ctx := context.Background()
			i := n / 2
			b.ReportAllocs()
			for b.Loop() {
				q.Add(Background, keys[i])
				if i++; i == n {
					i = 0
				}
				item, err := q.Take(ctx)
				if err != nil {
					b.Fatal(err)
				}
				q.Done(item.Key)
			}
		})
	}
}

// BenchmarkRetry is a key that fails: DoneAfter, and a fresh event that cuts
// the delay short.
func BenchmarkRetry(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", others), func(b *testing.B) {
			q := newQueue(b, 0)
			for i := range others {
				q.AddAfter(fmt.Sprintf("other-%d", i), time.Hour+time.Duration(i))
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				q.Add(Fresh, "key")
				item, err := q.Take(ctx)
				if err != nil {
					b.Fatal(err)
				}
				q.DoneAfter(item.Key, 2*time.Minute)
			}
		})
	}
}

// BenchmarkBlockedTake is the hand-over to a taker that waits already, a
// goroutine switch included.
func BenchmarkBlockedTake(b *testing.B) {
	q := newQueue(b, 0)
	ctx := context.Background()
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		for {
			item, err := q.Take(ctx)
			if err != nil {
				return
			}
			q.Done(item.Key)
			taken <- struct{}{}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		q.Add(Fresh, "key")
		<-taken
	}
	q.Close()
	<-taken
}

// BenchmarkParallel is many goroutines that add, take and finish at once.
func BenchmarkParallel(b *testing.B) {
	q := newQueue(b, 0)
	ctx := context.Background()
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
		q.Add(Background, keys[i]) // enough for everybody, always
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			item, err := q.Take(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			q.Add(Lane(i&1), item.Key)
			q.Done(item.Key)
		}
	})
}

// steady fails if something allocates. It is a test and not only a benchmark
// since an allocation per event is how this is lost without anybody noticing.
func steady(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(1000, f); n >= 1 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestTheSteadyStateAllocatesNothing(t *testing.T) {
	q := newQueue(t, 0)
	ctx := context.Background()
	for i := range 100 {
		q.AddAfter(fmt.Sprintf("other-%d", i), time.Hour)
	}
	finished := func(finish func(key string)) func() {
		return func() {
			q.Add(Fresh, "key")
			item, err := q.Take(ctx)
			if err != nil {
				t.Fatal(err)
			}
			finish(item.Key)
		}
	}
	steady(t, "done", finished(q.Done))
	steady(t, "done after", finished(func(key string) { q.DoneAfter(key, time.Minute) }))
	steady(t, "dirtied while running", finished(func(key string) {
		q.Add(Background, key)
		q.Done(key)
	}))
	q.Add(Fresh, "key")
	take(t, q)
	q.Done("key")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	steady(t, "cancelled take", func() { _, _ = q.Take(cancelled) })
}
