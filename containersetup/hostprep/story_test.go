package hostprep_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sutler-dev/sutler/facade"
)

// seedFlag lets one story be played alone.
var seedFlag = flag.Uint64("seed", 0, "replay the random story of this seed alone")

// TestStories plays random stories: containers are prepared for at once, and
// calls fail, lose their reply, hang, panic, or are cancelled. Always:
//
//   - the controller is asked, and the host changed, with the lock held alone;
//   - after a change, however it ended, and with the lock still held, the host
//     is observed;
//   - a call returns in under a second after its context ended;
//   - at the end the lock is free.
//
// Once the faults stop, one more call makes the host ready, and what the
// controller knows is true.
func TestStories(t *testing.T) {
	first, n := uint64(1), uint64(300)
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	for seed := first; seed < first+n; seed++ {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, rand.New(rand.NewPCG(seed, 0))) })
		})
		if !ok {
			t.Fatalf("replay with: go test -run TestStories ./containersetup/hostprep -seed=%d", seed)
		}
	}
}

func play(t *testing.T, rng *rand.Rand) {
	w := newWorld()
	var mu sync.Mutex // rng's, and faults'
	faults := true
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		if !faults {
			return n // nothing that is asked for
		}
		return rng.IntN(n)
	}
	w.before = func(ctx context.Context, call string) error {
		switch roll(12) {
		case 0:
			return fmt.Errorf("%s failed", call)
		case 1:
			panic(call + " panicked")
		case 2:
			if call != callAcquire {
				<-ctx.Done() // for ever, but for its deadline
			}
		case 3, 4, 5:
			select {
			case <-time.After(time.Duration(1+roll(3)) * time.Second):
			case <-ctx.Done():
			}
		}
		return nil
	}
	w.after = func(_ context.Context, call string) error {
		if roll(12) == 0 {
			return fmt.Errorf("%s lost its reply", call)
		}
		return nil
	}
	p := w.preparer(t)
	prepare := func(ctx context.Context, id string) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
		}()
		return p.Prepare(ctx, id)
	}
	var all sync.WaitGroup
	for n := range 2 + roll(6) {
		begin, cancelled, end := time.Duration(roll(20))*time.Second, roll(3) == 0, time.Duration(roll(40_000))*time.Millisecond
		all.Go(func() {
			time.Sleep(begin)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if cancelled {
				defer time.AfterFunc(end, cancel).Stop()
			}
			begun := time.Now()
			err := prepare(ctx, fmt.Sprintf("0/lxd/%d", n))
			if late := time.Since(begun) - end; cancelled && late >= time.Second {
				t.Errorf("0/lxd/%d returned %s after its context ended: %v", n, late, err)
			}
		})
	}
	all.Wait()
	checkCalls(t, w.calls)
	w.wantFree(t)

	mu.Lock()
	faults = false
	mu.Unlock()
	if err := prepare(t.Context(), "0/kvm/0"); err != nil {
		t.Errorf("once the faults stop: %v", err)
	}
	if w.bridged == 0 || !slices.ContainsFunc(w.published, func(i facade.NetworkInterface) bool { return i.Name == "eth0" && i.Parent == "br-eth0" }) {
		t.Errorf("bridged %d times, published %+v", w.bridged, w.published)
	}
	checkCalls(t, w.calls)
	w.wantFree(t)
}

// checkCalls reads a whole story. Those who wait for the lock come in between;
// between two releases everything else is one preparation's.
func checkCalls(t *testing.T, calls []string) {
	t.Helper()
	var inside []string
	for _, call := range calls {
		switch call {
		case callAcquire:
			continue
		case callRelease:
			if n := slices.Index(inside, callBridge); n >= 0 && !slices.Contains(inside[n:], callObserve) {
				t.Errorf("the lock was given back after %v", inside)
			}
			inside = nil
			continue
		}
		inside = append(inside, call)
		rest := slices.DeleteFunc(slices.Clone(inside), func(c string) bool { return c == callObserve || c == callPublish })
		if !slices.Equal(rest, []string{callAsk, callBridge}[:min(2, len(rest))]) || len(rest) > 2 {
			t.Errorf("with the lock held once: %v", inside)
		}
	}
	if len(inside) > 0 {
		t.Errorf("without the lock: %v", inside)
	}
}
