package batch

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/clock"
)

func newBench(b *testing.B, call func(context.Context, []int) ([]Result[int], error)) *Batcher[int, int] {
	b.Helper()
	batcher, err := New(Config[int, int]{
		Call: call, Context: b.Context(), Timeout: time.Minute, Clock: clock.WallClock,
	})
	if err != nil {
		b.Fatal(err)
	}
	return batcher
}

// BenchmarkOne is what the batcher adds to a call when there is nobody to
// gather with.
func BenchmarkOne(b *testing.B) {
	results := make([]Result[int], 1)
	batcher := newBench(b, func(context.Context, []int) ([]Result[int], error) { return results, nil })
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := batcher.Do(ctx, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMany is one of many callers at once, beside a call that takes some
// time. It tells how many calls were made for one item.
func BenchmarkMany(b *testing.B) {
	results := make([]Result[int], DefaultMax)
	var calls atomic.Int64
	batcher := newBench(b, func(_ context.Context, in []int) ([]Result[int], error) {
		calls.Add(1)
		time.Sleep(100 * time.Microsecond)
		return results[:len(in)], nil
	})
	ctx := context.Background()
	b.ReportAllocs()
	b.SetParallelism(100)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := batcher.Do(ctx, 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(calls.Load())/float64(b.N), "calls/op")
}
