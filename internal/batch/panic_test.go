package batch

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

func panicOn(bad string) func(context.Context, []string) ([]Result[string], error) {
	return func(_ context.Context, in []string) ([]Result[string], error) {
		if slices.Contains(in, bad) {
			explode()
		}
		return upper(in), nil
	}
}

//go:noinline
func explode() { panic("canary of a panic") }

func TestAPanicFailsItsBatchAndGoesOnInTheLeaderAfterTheHandOff(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = panicOn("c")
		all := s.dos("a", "b", "c", "d")
		all[0].wantOK()
		synctest.Wait()
		next := s.dos("e", "f")

		<-all[1].done
		if all[1].panicked != "canary of a panic" {
			t.Fatalf("the leader saw panic %v, error %v", all[1].panicked, all[1].err)
		}
		for _, p := range all[2:] {
			p.wantErr(nil, "panic")
			if strings.Contains(p.err.Error(), "canary") {
				t.Fatalf("the error quotes the panic: %v", p.err)
			}
		}
		for _, p := range next {
			p.wantOK()
		}
		s.want(t, "a", "b c d", "e f")
	})
}

func TestAPanicOfALoneItemLeavesTheBatcherUsable(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = panicOn("a")
		p := s.do("a")
		<-p.done
		if p.panicked == nil {
			t.Fatalf("no panic: %q, %v", p.out, p.err)
		}
		s.do("b").wantOK()
	})
}

func TestAPanicKeepsItsStack(t *testing.T) {
	b, err := New(Config[string, string]{
		Call: panicOn("a"), Context: t.Context(), Timeout: timeout, Clock: clock.WallClock,
	})
	if err != nil {
		t.Fatal(err)
	}
	var stack string
	func() {
		defer func() {
			_ = recover()
			stack = string(debug.Stack())
		}()
		_, _ = b.Do(t.Context(), "a")
	}()
	if !strings.Contains(stack, "batch.explode") {
		t.Fatalf("the place of the panic is not on the stack:\n%s", stack)
	}
}

func TestAPanicInTheMiddleOfASplitKeepsWhatWasAnswered(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		refused := refuse("e")
		s.answer = func(ctx context.Context, in []string) ([]Result[string], error) {
			if len(in) == 1 && in[0] == "d" {
				explode()
			}
			return refused(ctx, in)
		}
		all := s.dos("a", "b", "c", "d", "e")
		<-all[1].done // led, so it has the panic instead of its answer
		if all[1].panicked == nil {
			t.Fatalf("no panic: %q, %v", all[1].out, all[1].err)
		}
		all[2].wantOK()
		all[3].wantErr(nil, "panic")
		all[4].wantErr(nil, "panic")
		s.do("f").wantOK()
	}, splitBadRequests)
}

func TestAPanicOfSplitsIsOneOfTheCall(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = refuse("c")
		all := s.dos("a", "b", "c")
		<-all[1].done
		if all[1].panicked == nil {
			t.Fatal("no panic")
		}
		all[2].wantErr(nil, "panic")
		s.do("d").wantOK()
	}, func(c *Config[string, string]) { c.Splits = func(error) bool { panic("splits") } })
}

func TestACallThatEndsItsGoroutineHandsOn(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = func(_ context.Context, in []string) ([]Result[string], error) {
			if slices.Contains(in, "b") {
				runtime.Goexit()
			}
			return upper(in), nil
		}
		all := s.dos("a", "b", "c")
		all[0].wantOK()
		synctest.Wait()
		next := s.do("d")
		<-all[1].done
		all[2].wantErr(nil, "ended its goroutine")
		next.wantOK()
	})
}

func TestNothingOfADoIsKept(t *testing.T) {
	// Secrets go through here: after the last Do no item may be left in the
	// buffers that are used again.
	var mu sync.Mutex
	calls := 0
	b, err := New(Config[string, string]{
		Context: t.Context(), Timeout: timeout, Clock: clock.WallClock,
		Call: func(_ context.Context, in []string) ([]Result[string], error) {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%3 == 0 {
				return nil, errors.New("every third call fails")
			}
			return upper(in), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _, _ = b.Do(t.Context(), "canary") })
	}
	wg.Wait()
	for _, list := range [][]*item[string, string]{b.batch[:cap(b.batch)], b.gathered[:cap(b.gathered)]} {
		for i, it := range list {
			if it != nil {
				t.Fatalf("item %d is kept: %+v", i, it)
			}
		}
	}
	for it, _ := b.items.Get().(*item[string, string]); it != nil; it, _ = b.items.Get().(*item[string, string]) {
		if it.in != "" || it.out != "" || it.ctx != nil || it.err != nil {
			t.Fatalf("an unused item holds %+v", it)
		}
	}
}
