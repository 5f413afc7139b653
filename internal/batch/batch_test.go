package batch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

const (
	latency = time.Second
	timeout = 10 * time.Second
)

// server is the other side of the stories: it takes latency for each call,
// answers every input with itself in upper case, and remembers the batches.
type server struct {
	mu      sync.Mutex
	batches [][]string
	// answer, when not nil, replaces the usual answer; the latency has
	// passed before.
	answer func(ctx context.Context, in []string) ([]Result[string], error)
}

func (s *server) call(ctx context.Context, in []string) ([]Result[string], error) {
	s.mu.Lock()
	s.batches = append(s.batches, in)
	answer := s.answer
	s.mu.Unlock()
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if answer != nil {
		return answer(ctx, in)
	}
	return upper(in), nil
}

func upper(in []string) []Result[string] {
	var out []Result[string]
	for _, s := range in {
		out = append(out, Result[string]{Value: strings.ToUpper(s)})
	}
	return out
}

// want compares the batches sent so far, each as its items in a row.
func (s *server) want(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, batch := range s.batches {
		got = append(got, strings.Join(batch, " "))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("sent %q, want %q", got, want)
	}
}

// story is a server, a batcher and the Dos under way.
type story struct {
	*server
	t       *testing.T
	config  Config[string, string]
	batcher *Batcher[string, string]
	cancel  context.CancelFunc // ends the owner's context
}

// tell runs a story in virtual time. Its options change the config.
func tell(t *testing.T, body func(t *testing.T, s *story), options ...func(*Config[string, string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &story{server: &server{}, t: t, cancel: cancel}
		s.config = Config[string, string]{
			Call: s.call, Context: ctx, Timeout: timeout, Clock: clock.WallClock,
		}
		for _, option := range options {
			option(&s.config)
		}
		var err error
		if s.batcher, err = New(s.config); err != nil {
			t.Fatal(err)
		}
		body(t, s)
	})
}

// pending is a Do under way.
type pending struct {
	t        *testing.T
	in       string
	cancel   context.CancelFunc
	done     chan struct{}
	out      string
	err      error
	panicked any
	took     time.Duration
}

// do starts a Do, and returns when it is blocked or done.
func (s *story) do(in string) *pending {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{t: s.t, in: in, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer cancel()
		defer func() { p.panicked = recover() }()
		start := time.Now()
		p.out, p.err = s.batcher.Do(ctx, in)
		p.took = time.Since(start)
	}()
	synctest.Wait()
	return p
}

func (s *story) dos(in ...string) []*pending {
	s.t.Helper()
	var all []*pending
	for _, in := range in {
		all = append(all, s.do(in))
	}
	return all
}

// wantOK waits for the Do and expects its answer.
func (p *pending) wantOK() {
	p.t.Helper()
	<-p.done
	if p.err != nil || p.panicked != nil || p.out != strings.ToUpper(p.in) {
		p.t.Fatalf("%s: got %q, error %v, panic %v", p.in, p.out, p.err, p.panicked)
	}
}

// wantErr waits for the Do and expects an error of a kind that says something.
func (p *pending) wantErr(kind error, says string) {
	p.t.Helper()
	<-p.done
	switch {
	case p.err == nil || p.out != "":
		p.t.Fatalf("%s: got %q, error %v", p.in, p.out, p.err)
	case kind != nil && !errors.Is(p.err, kind), !strings.Contains(p.err.Error(), says):
		p.t.Fatalf("%s: got error %q, want %q of kind %v", p.in, p.err, says, kind)
	}
}

// wantDone says whether the Do must have returned by now.
func (p *pending) wantDone(want bool) {
	p.t.Helper()
	synctest.Wait()
	select {
	case <-p.done:
		if !want {
			p.t.Fatalf("%s: returned %q, %v", p.in, p.out, p.err)
		}
	default:
		if want {
			p.t.Fatalf("%s: still blocked", p.in)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config[string, string]{
		Call: (&server{}).call, Context: context.Background(), Timeout: timeout, Clock: clock.WallClock,
	}
	for _, tc := range []struct {
		want  string
		spoil func(*Config[string, string])
	}{
		{"nil Call", func(c *Config[string, string]) { c.Call = nil }},
		{"nil Context", func(c *Config[string, string]) { c.Context = nil }},
		{"Timeout 0s", func(c *Config[string, string]) { c.Timeout = 0 }},
		{"Timeout -1ns", func(c *Config[string, string]) { c.Timeout = -1 }},
		{"nil Clock", func(c *Config[string, string]) { c.Clock = nil }},
		{"negative Max", func(c *Config[string, string]) { c.Max = -1 }},
	} {
		t.Run(tc.want, func(t *testing.T) {
			config := good
			tc.spoil(&config)
			b, err := New(config)
			if b != nil || !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, %v", b, err)
			}
		})
	}
	if b, err := New(good); err != nil || b.config.Max != DefaultMax {
		t.Fatalf("got Max %d, error %v", b.config.Max, err)
	}
}

func TestASingleItemIsNotDelayed(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		for range 3 {
			p := s.do("a")
			p.wantOK()
			if p.took != latency {
				t.Fatalf("took %v for a call of %v", p.took, latency)
			}
		}
		s.want(t, "a", "a", "a")
	})
}

func TestItemsThatComeDuringACallLeaveTogetherWhenItEnds(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		first := s.do("a")
		time.Sleep(latency / 2)
		rest := s.dos("b", "c", "d")
		s.want(t, "a")
		first.wantOK()
		for _, p := range rest {
			p.wantOK()
			if want := latency/2 + latency; p.took != want {
				t.Fatalf("%s took %v, want %v", p.in, p.took, want)
			}
		}
		s.want(t, "a", "b c d")
	})
}

func TestAnAppointedLeaderTakesLateComersAlong(t *testing.T) {
	// A thousand callers over ten rounds: each round is one batch.
	tell(t, func(t *testing.T, s *story) {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 10 {
					if out, err := s.batcher.Do(t.Context(), "x"); out != "X" || err != nil {
						t.Errorf("got %q, %v", out, err)
					}
				}
			})
		}
		wg.Wait()
		if n := len(s.batches); n < 11 || n > 21 {
			t.Fatalf("%d calls for 10 rounds", n)
		}
	})
}

func TestABatchIsNoLargerThanMax(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		for _, p := range s.dos("a", "b", "c", "d", "e", "f") {
			p.wantOK()
		}
		s.want(t, "a", "b c", "d e", "f")
	}, func(c *Config[string, string]) { c.Max = 2 })
}

func TestACallerThatLeavesWhileGatheredIsNotSent(t *testing.T) {
	for _, tc := range []struct {
		leaver string
		want   string
	}{
		{"b", "c d"}, // would have been the leader
		{"c", "b d"},
		{"d", "b c"},
	} {
		t.Run(tc.leaver, func(t *testing.T) {
			tell(t, func(t *testing.T, s *story) {
				all := s.dos("a", "b", "c", "d")
				for _, p := range all {
					if p.in == tc.leaver {
						p.cancel()
						p.wantDone(true)
						p.wantErr(context.Canceled, "")
						continue
					}
					defer p.wantOK()
				}
				all[0].wantOK()
				time.Sleep(latency)
				s.want(t, "a", tc.want)
			})
		})
	}
}

func TestALeaderThatIsCancelledAsItIsAppointedHandsOn(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		leavers := make(chan *pending, 1)
		s.answer = func(_ context.Context, in []string) ([]Result[string], error) {
			select {
			case p := <-leavers:
				// The last thing before this call's end, so that the
				// cancelled caller may still be found gathered.
				p.cancel()
			default:
			}
			return upper(in), nil
		}
		a := s.do("a")
		b := s.do("b")
		c := s.do("c")
		leavers <- b
		a.wantOK()
		b.wantErr(context.Canceled, "")
		c.wantOK()
		s.want(t, "a", "c")
	})
}

func TestWhenEveryGatheredCallerHasLeftTheNextDoCallsAtOnce(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		all := s.dos("a", "b", "c")
		all[1].cancel()
		all[2].cancel()
		all[0].wantOK()
		synctest.Wait()
		p := s.do("d")
		p.wantOK()
		if p.took != latency {
			t.Fatalf("took %v", p.took)
		}
		s.want(t, "a", "d")
	})
}

func TestACallerThatLeavesInFlightReturnsAtOnceAndHarmsNobody(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		all := s.dos("a", "b", "c", "d")
		all[0].wantOK()
		synctest.Wait()
		s.want(t, "a", "b c d")
		all[2].cancel()
		all[2].wantDone(true)
		all[2].wantErr(context.Canceled, "")
		all[1].wantOK()
		all[3].wantOK()
	})
}

func TestALeaderSeesItsCallThrough(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		all := s.dos("a", "b", "c", "d")
		all[0].cancel()
		all[0].wantDone(false)
		all[0].wantOK() // the answer is there: it is not thrown away
		synctest.Wait()
		all[1].cancel()
		all[1].wantDone(false)
		for _, p := range all[1:] {
			p.wantOK()
		}
		s.want(t, "a", "b c d")
	})
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.batcher.Do(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		s.cancel()
		s.do("b").wantErr(context.Canceled, "")
		s.want(t)
	})
}

func TestTheOwnersEndReturnsEverybodyAtOnce(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		all := s.dos("a", "b", "c", "d", "e")
		all[0].wantOK()
		all = append(all[1:], s.dos("f", "g")...) // b leads c; d, e, f, g gather
		s.cancel()
		for _, p := range all {
			p.wantDone(true)
			p.wantErr(context.Canceled, "")
		}
		s.want(t, "a", "b c")
	}, func(c *Config[string, string]) { c.Max = 2 })
}

func TestACallHasADeadlineThatIsNotTakenForACancellation(t *testing.T) {
	type call = func(ctx context.Context, in []string) ([]Result[string], error)
	for _, tc := range []struct {
		name string
		call call
	}{
		{"of the whole call", func(ctx context.Context, _ []string) ([]Result[string], error) {
			<-ctx.Done()
			return nil, errors.Annotate(ctx.Err(), "call")
		}},
		{"of the items", func(ctx context.Context, in []string) ([]Result[string], error) {
			<-ctx.Done()
			out := make([]Result[string], len(in))
			for i := range out {
				out[i].Err = ctx.Err()
			}
			return out, nil
		}},
		{"told by its cause", func(ctx context.Context, _ []string) ([]Result[string], error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tell(t, func(t *testing.T, s *story) {
				for i, p := range s.dos("a", "b", "c") {
					p.wantErr(errors.Timeout, "no answer within 10s")
					if errors.Is(p.err, context.Canceled) {
						t.Fatalf("%v is taken for a cancellation", p.err)
					}
					if want := timeout * time.Duration(min(i, 1)+1); p.took != want {
						t.Fatalf("took %v, want %v", p.took, want)
					}
				}
			}, func(c *Config[string, string]) { c.Call = tc.call })
		})
	}
}

func TestAnAnswerAfterTheDeadlineStillCounts(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.do("a").wantOK()
	}, func(c *Config[string, string]) {
		c.Call = func(_ context.Context, in []string) ([]Result[string], error) {
			time.Sleep(2 * timeout)
			return upper(in), nil
		}
	})
}

func TestAnItemsErrorCostsThatItemAlone(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = func(_ context.Context, in []string) ([]Result[string], error) {
			out := upper(in)
			if i := slices.Index(in, "c"); i >= 0 {
				out[i] = Result[string]{Err: errors.NotFoundf("c")}
			}
			return out, nil
		}
		all := s.dos("a", "b", "c", "d")
		all[0].wantOK()
		all[1].wantOK()
		all[2].wantErr(errors.NotFound, "c not found")
		all[3].wantOK()
	})
}

func TestAWholeCallsErrorGoesToTheBatchAndNoFurther(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = func(_ context.Context, in []string) ([]Result[string], error) {
			if len(in) > 1 {
				// Results beside an error are not looked at.
				return upper(in), errors.Unauthorizedf("this agent")
			}
			return upper(in), nil
		}
		all := s.dos("a", "b", "c")
		all[0].wantOK()
		all[1].wantErr(errors.Unauthorized, "this agent")
		all[2].wantErr(errors.Unauthorized, "this agent")
		s.do("d").wantOK()
		s.want(t, "a", "b c", "d")
	})
}

func TestShortLongAndNilAnswers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cut   func([]Result[string]) []Result[string]
		fails int // how many of the three, from the end
	}{
		{"short", func(r []Result[string]) []Result[string] { return r[:1] }, 2},
		{"nil", func(r []Result[string]) []Result[string] { return nil }, 3},
		{"long", func(r []Result[string]) []Result[string] {
			return append(r, Result[string]{Value: "extra"}, Result[string]{Err: errors.New("extra")})
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tell(t, func(t *testing.T, s *story) {
				s.answer = func(_ context.Context, in []string) ([]Result[string], error) {
					if len(in) == 1 {
						return upper(in), nil
					}
					return tc.cut(upper(in)), nil
				}
				all := s.dos("a", "b", "c", "d")
				all[0].wantOK()
				for i, p := range all[1:] {
					if i < 3-tc.fails {
						p.wantOK()
						continue
					}
					p.wantErr(errors.NotValid, fmt.Sprintf("answer %d of 3 missing", i+1))
				}
			})
		})
	}
}
