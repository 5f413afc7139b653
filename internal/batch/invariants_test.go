package batch

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay the random story of this seed alone")
	storyFlag = flag.Int("stories", 50, "how many random stories are told")
)

// TestManyGoroutines lets many goroutines call Do against a server that does
// everything wrong now and then, with callers that leave, and holds:
//
//  1. There is one call at a time, of 1 to Max items.
//  2. An answer belongs to its question.
//  3. An item is in no more calls than the splitting of one batch explains, and
//     never in one that began after its caller had returned.
//  4. An item's error costs that item alone; an item that the server refuses
//     costs no other one anything.
//  5. Every Do returns, and no later than its turn: with an error only if its
//     caller left, or the server gave one.
//  6. In the end nobody leads, nothing is gathered, and the next Do calls at
//     once.
func TestManyGoroutines(t *testing.T) {
	first, n := uint64(1), *storyFlag
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	for seed := first; seed < first+uint64(n); seed++ {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { manyGoroutines(t, seed) })
		})
		if !ok {
			t.Fatalf("replay with: go test -run '%s' ./internal/batch -seed=%d", t.Name(), seed)
		}
	}
}

// question is unique; what the server makes of it is decided beforehand.
type question struct {
	caller, n int
	fate      fate
}

type fate int

const (
	answered  fate = iota
	failed         // alone
	refused        // with its whole call, which splits
	panicking      // with its whole call
	fates
)

// witness is the server, and knows what it was sent.
type witness struct {
	t   *testing.T
	max int

	mu      sync.Mutex
	rng     *rand.Rand
	calling bool
	sent    map[question]int
	closed  map[question]time.Time // when its caller returned
}

func (w *witness) call(ctx context.Context, in []question) ([]Result[question], error) {
	w.mu.Lock()
	if w.calling {
		w.t.Error("two calls at a time")
	}
	if len(in) < 1 || len(in) > w.max {
		w.t.Errorf("a call for %d items, Max is %d", len(in), w.max)
	}
	w.calling = true
	for _, q := range in {
		w.sent[q]++
		// In one and the same moment a caller may leave and be sent.
		if at, left := w.closed[q]; left && at.Before(time.Now()) {
			w.t.Errorf("%v is sent after its caller returned", q)
		}
	}
	odd := w.rng.IntN(20)
	takes := time.Duration(w.rng.IntN(100)) * time.Millisecond
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.calling = false
		w.mu.Unlock()
	}()

	if odd == 0 {
		<-ctx.Done() // goes silent
		return nil, ctx.Err()
	}
	time.Sleep(takes)
	out := make([]Result[question], len(in))
	for i, q := range in {
		out[i].Value = q
		switch q.fate {
		case failed:
			out[i] = Result[question]{Err: errors.NotFoundf("question")}
		case refused:
			return nil, errors.BadRequestf("one of the questions")
		case panicking:
			panic(q)
		}
	}
	switch odd {
	case 1:
		return out[:len(out)-1], nil
	case 2:
		return append(out, out...), nil
	case 3:
		return nil, errors.Unauthorizedf("caller")
	}
	return out, nil
}

// do asks once, and returns what became of it; a panic is an error here.
func (w *witness) do(ctx context.Context, b *Batcher[question, question], q question) (out question, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("panic")
		}
		w.mu.Lock()
		w.closed[q] = time.Now()
		w.mu.Unlock()
	}()
	return b.Do(ctx, q)
}

func manyGoroutines(t *testing.T, seed uint64) {
	const callers, asks, timeout = 20, 20, time.Second
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &witness{
		t: t, max: 1 + rng.IntN(16), rng: rand.New(rand.NewPCG(seed, 1)),
		sent: map[question]int{}, closed: map[question]time.Time{},
	}
	b, err := New(Config[question, question]{
		Call: w.call, Context: t.Context(), Timeout: timeout, Clock: clock.WallClock, Max: w.max,
		Splits: func(err error) bool { return errors.Is(err, errors.BadRequest) },
	})
	if err != nil {
		t.Fatal(err)
	}
	panics := rng.IntN(4) == 0
	var wg sync.WaitGroup
	for caller := range callers {
		rng := rand.New(rand.NewPCG(seed, uint64(caller)+2))
		wg.Go(func() {
			for n := range asks {
				q := question{caller: caller, n: n}
				if rng.IntN(8) == 0 {
					q.fate = fate(rng.IntN(int(fates)))
				}
				if q.fate == panicking && !panics {
					q.fate = answered
				}
				leaves := time.Hour
				if rng.IntN(4) == 0 {
					leaves = time.Duration(rng.IntN(300)) * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(context.Background(), leaves)
				start := time.Now()
				out, err := w.do(ctx, b, q)
				w.check(q, out, err, ctx.Err() != nil, panics)
				cancel()
				// The calls for those before it, each at most
				// timeout; splitting multiplies them.
				if took := time.Since(start); took > 2*callers*2*timeout {
					t.Errorf("%v took %v", q, took)
				}
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	synctest.Wait()
	if b.led || len(b.gathered) != 0 {
		t.Errorf("in the end: led %v, %d gathered", b.led, len(b.gathered))
	}
	quick := question{n: -1}
	start := time.Now()
	_, _ = w.do(t.Context(), b, quick)
	if w.sent[quick] != 1 || time.Since(start) > timeout {
		t.Errorf("the next Do was sent %d times and took %v", w.sent[quick], time.Since(start))
	}
}

// check judges how one Do ended.
func (w *witness) check(q, out question, err error, left, panics bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	// A batch of n is halved at most 4 times with n <= 16.
	if w.sent[q] > 5 {
		w.t.Errorf("%v was sent %d times", q, w.sent[q])
	}
	switch {
	case err == nil:
		if out != q || q.fate != answered {
			w.t.Errorf("%v got the answer %v", q, out)
		}
	case errors.Is(err, context.DeadlineExceeded):
		if !left {
			w.t.Errorf("%v: %v, and its caller had not left", q, err)
		}
	case errors.Is(err, context.Canceled):
		w.t.Errorf("%v: %v, and nobody was cancelled", q, err)
	case errors.Is(err, errors.NotFound):
		if q.fate != failed {
			w.t.Errorf("%v has another one's error: %v", q, err)
		}
	case errors.Is(err, errors.BadRequest):
		if q.fate != refused {
			w.t.Errorf("%v has another one's error: %v", q, err)
		}
	case errors.Is(err, errors.Unauthorized), errors.Is(err, errors.Timeout), errors.Is(err, errors.NotValid):
		if w.sent[q] == 0 {
			w.t.Errorf("%v: %v, and was not sent", q, err)
		}
	default: // a panic
		if !panics {
			w.t.Errorf("%v: %v", q, err)
		}
	}
}
