package batch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// raced is a gathered item whose caller's context has ended in the very moment
// in which something else became of it: two things that await may see in either
// order. Stories cannot bring that about for sure.
func raced(t *testing.T, s state) (*Batcher[string, string], *item[string, string], *item[string, string]) {
	t.Helper()
	b, err := New(Config[string, string]{
		Call: (&server{}).call, Context: t.Context(), Timeout: timeout, Clock: clock.WallClock,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	it, next := b.newItem(ctx, "a"), b.newItem(t.Context(), "b")
	b.led = true
	b.gathered = append(b.gathered, next)
	it.state = s
	it.signal <- struct{}{}
	cancel()
	return b, it, next
}

func TestALeaderThatLeavesAppointsAnother(t *testing.T) {
	for range 50 { // either order
		b, it, next := raced(t, leading)
		lead, err := b.await(it)
		if lead || !errors.Is(err, context.Canceled) {
			t.Fatalf("lead %v, error %v", lead, err)
		}
		if next.state != leading || !b.led || len(b.gathered) != 0 {
			t.Fatalf("the next is %+v, led %v, %d gathered", next, b.led, len(b.gathered))
		}
		<-next.signal
	}
}

func TestAnAnswerThatIsThereIsPreferredToTheEndOfAContext(t *testing.T) {
	for range 50 { // either order
		b, it, next := raced(t, settled)
		lead, err := b.await(it)
		if lead || err != nil {
			t.Fatalf("lead %v, error %v", lead, err)
		}
		if len(it.signal) != 0 {
			t.Fatal("the signal is left for the item's next use")
		}
		if next.state != gathered {
			t.Fatal("somebody was appointed beside the leader")
		}
	}
}

func TestTheOwnersEndReturnsCallersOfACallThatDoesNotListen(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		all := s.dos("a", "b", "c")
		all[0].wantOK()
		synctest.Wait()
		gathered := s.do("d")
		s.cancel()
		all[1].wantDone(false) // leads
		for _, p := range []*pending{all[2], gathered} {
			p.wantDone(true)
			p.wantErr(context.Canceled, "")
		}
		all[1].wantOK()
	}, func(c *Config[string, string]) {
		c.Call = func(_ context.Context, in []string) ([]Result[string], error) {
			time.Sleep(latency)
			return upper(in), nil
		}
	})
}

func TestTheOwnersEndIsACancellationWhateverItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b, err := New(Config[string, string]{
			Call: (&server{}).call, Context: ctx, Timeout: timeout, Clock: clock.WallClock,
		})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(latency/2, func() { cancel(errors.Timeoutf("owner")) })
		if _, err := b.Do(t.Context(), "a"); !errors.Is(err, context.Canceled) || errors.Is(err, errors.Timeout) {
			t.Fatalf("got %v", err)
		}
	})
}

// countingClock counts the timers that have neither fired nor been stopped.
type countingClock struct {
	clock.Clock
	armed atomic.Int64
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.armed.Add(1)
	return countedTimer{c.Clock.AfterFunc(d, func() {
		c.armed.Add(-1)
		f()
	}), c}
}

type countedTimer struct {
	clock.Timer
	clock *countingClock
}

func (t countedTimer) Stop() bool {
	active := t.Timer.Stop()
	if active {
		t.clock.armed.Add(-1)
	}
	return active
}

func TestNoTimerOutlivesItsCall(t *testing.T) {
	c := &countingClock{Clock: clock.WallClock}
	tell(t, func(t *testing.T, s *story) {
		s.answer = panicOn("b")
		a, b := s.do("a"), s.do("b")
		if n := c.armed.Load(); n != 1 {
			t.Fatalf("%d timers during a call", n)
		}
		a.wantOK()
		<-b.done
		if n := c.armed.Load(); n != 0 || b.panicked == nil {
			t.Fatalf("%d timers are left, panic %v", n, b.panicked)
		}
	}, func(config *Config[string, string]) { config.Clock = c })
}
