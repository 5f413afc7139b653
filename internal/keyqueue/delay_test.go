package keyqueue

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
)

// pass lets virtual time pass and the timer's callback end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantWaiting expects a key to wait until d from now, to the nanosecond.
func wantWaiting(t *testing.T, q *Queue[string], key string, d time.Duration) {
	t.Helper()
	got := q.Status(key)
	if want := (Status{State: Waiting, Due: time.Now().Add(d)}); got.State != want.State || !got.Due.Equal(want.Due) {
		t.Fatalf("%s: %+v, want %+v", key, got, want)
	}
}

func TestAddAfterMakesAnIdleKeyReadyWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.AddAfter("a", time.Minute)
		wantWaiting(t, q, "a", time.Minute)
		pass(time.Minute - 1)
		wantState(t, q, "a", Waiting)
		pass(1)
		want := Item[string]{Key: "a", Lane: Background, Ready: time.Now(), Delay: time.Minute}
		pass(time.Second) // queue wait, which is no delay
		if item := take(t, q); item != want {
			t.Fatalf("took %+v, want %+v", item, want)
		}
	})
}

func TestAddAfterWithoutADelayIsABackgroundAdd(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, math.MinInt64} {
		t.Run(d.String(), func(t *testing.T) {
			q := newQueue(t, 0)
			q.AddAfter("a", d)
			if item := take(t, q); item.Lane != Background || item.Delay != 0 {
				t.Fatalf("took %+v", item)
			}
			q.AddAfter("a", d) // dirty while running
			q.Done("a")
			wantTakes(t, q, "a")
		})
	}
}

func TestAddAfterOnlyShortensADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.AddAfter("a", time.Minute)
		q.AddAfter("a", time.Hour)
		wantWaiting(t, q, "a", time.Minute)
		pass(20 * time.Second)
		q.AddAfter("a", 10*time.Second)
		wantWaiting(t, q, "a", 10*time.Second)
		pass(10 * time.Second)
		if item := take(t, q); item.Delay != 30*time.Second {
			t.Fatalf("took %+v, want the delay that really was", item)
		}
	})
}

func TestAddAfterLeavesQueuedAndRunningKeysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.Add(Fresh, "a")
		q.AddAfter("a", time.Second)
		wantState(t, q, "a", Queued)
		take(t, q)
		q.AddAfter("a", time.Second)
		wantState(t, q, "a", Running)
		q.Done("a")
		pass(time.Hour)
		wantState(t, q, "a", Idle)
	})
}

func TestAddOfAWaitingKey(t *testing.T) {
	putBack := func(t *testing.T, q *Queue[string]) {
		q.Add(Fresh, "a")
		take(t, q)
		q.DoneAfter("a", time.Minute)
	}
	hastened := func(t *testing.T, q *Queue[string]) {
		q.Add(Fresh, "a")
		take(t, q)
		q.DoneAfter("a", time.Hour)
		q.AddAfter("a", time.Minute)
	}
	planned := func(_ *testing.T, q *Queue[string]) { q.AddAfter("a", time.Minute) }
	plannedAgain := func(t *testing.T, q *Queue[string]) {
		putBack(t, q)
		pass(time.Minute)
		take(t, q)
		q.Done("a")
		planned(t, q)
	}
	for _, tc := range []struct {
		name string
		why  func(*testing.T, *Queue[string])
		lane Lane
		want State
	}{
		{"put back, fresh", putBack, Fresh, Queued},
		{"put back, background", putBack, Background, Waiting},
		{"put back and hastened, background", hastened, Background, Waiting},
		{"planned, fresh", planned, Fresh, Queued},
		{"planned, background", planned, Background, Queued},
		{"planned after it was put back, background", plannedAgain, Background, Queued},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, 0)
				tc.why(t, q)
				pass(time.Second)
				q.Add(tc.lane, "a")
				wantState(t, q, "a", tc.want)
				pass(time.Minute)
				item := take(t, q)
				if cut := tc.want == Queued; cut != (item.Delay == 0) || item.Lane != tc.lane {
					t.Fatalf("took %+v", item)
				}
				q.Done("a")
				pass(time.Hour) // the delay that was cut short does not come back
				wantState(t, q, "a", Idle)
			})
		})
	}
}

func TestDoneAfter(t *testing.T) {
	const d = time.Minute
	for _, tc := range []struct {
		name  string
		adds  []Lane
		delay time.Duration
		want  State
		lane  Lane
	}{
		{"clean", nil, d, Waiting, Background},
		{"dirtied as fresh", []Lane{Fresh}, d, Queued, Fresh},
		{"dirtied in the background", []Lane{Background}, d, Waiting, Background},
		{"dirtied as both", []Lane{Background, Fresh}, d, Queued, Fresh},
		{"clean, no delay", nil, 0, Queued, Background},
		{"clean, negative delay", nil, -d, Queued, Background},
		{"dirtied as fresh, no delay", []Lane{Fresh}, 0, Queued, Fresh},
		{"dirtied in the background, no delay", []Lane{Background}, 0, Queued, Background},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, 0)
				q.Add(Fresh, "a")
				take(t, q)
				for _, lane := range tc.adds {
					q.Add(lane, "a")
				}
				q.DoneAfter("a", tc.delay)
				wantState(t, q, "a", tc.want)
				wantDelay := time.Duration(0)
				if tc.want == Waiting {
					pass(tc.delay)
					wantDelay = tc.delay
				}
				want := Item[string]{Key: "a", Lane: tc.lane, Ready: time.Now(), Delay: wantDelay}
				if item := take(t, q); item != want {
					t.Fatalf("took %+v, want %+v", item, want)
				}
				q.Done("a")
				wantState(t, q, "a", Idle)
			})
		})
	}
}

func TestWaitingKeysBecomeReadyInTheOrderOfTheirDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.AddAfter("c", 3*time.Second)
		q.AddAfter("a", time.Second)
		q.AddAfter("d", 3*time.Second)
		q.AddAfter("b", 2*time.Second)
		q.AddAfter("e", 3*time.Second)
		pass(time.Second)
		wantTakes(t, q, "a")
		pass(time.Second)
		wantTakes(t, q, "b")
		pass(time.Second)
		wantTakes(t, q, "c", "d", "e")
	})
}

func TestADelayBeyondTheEndOfTimeIsADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		pass(time.Second)
		q.AddAfter("a", math.MaxInt64)
		q.AddAfter("b", time.Second)
		pass(time.Hour)
		wantTakes(t, q, "b")
		wantState(t, q, "a", Waiting)
		q.Add(Fresh, "a")
		wantTakes(t, q, "a")
	})
}

// testClock is the wall clock, virtual in a bubble, without its monotonic part:
// step sets it forward or back, as an administrator or NTP would. It counts
// timers.
type testClock struct {
	clock.Clock
	step  atomic.Int64 // nanoseconds
	made  atomic.Int64 // AfterFunc calls
	armed atomic.Int64 // timers that have neither fired nor been stopped
}

func newTestClock() *testClock { return &testClock{Clock: clock.WallClock} }

func (c *testClock) Now() time.Time {
	return c.Clock.Now().Round(0).Add(time.Duration(c.step.Load()))
}

func (c *testClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.made.Add(1)
	c.armed.Add(1)
	return &testTimer{c, c.Clock.AfterFunc(d, func() {
		c.armed.Add(-1)
		f()
	})}
}

type testTimer struct {
	clock *testClock
	clock.Timer
}

func (t *testTimer) Reset(d time.Duration) bool {
	active := t.Timer.Reset(d)
	if !active {
		t.clock.armed.Add(1)
	}
	return active
}

func (t *testTimer) Stop() bool {
	active := t.Timer.Stop()
	if active {
		t.clock.armed.Add(-1)
	}
	return active
}

func TestAClockThatIsSteppedBackDelaysKeysOnceMoreAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		q, err := New[string](Config{Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		q.AddAfter("a", 10*time.Second)
		q.AddAfter("b", 20*time.Second)
		pass(5 * time.Second)
		c.step.Add(-int64(time.Hour))

		// The queue sees the step when its timer fires, 10 s after it last
		// looked, and grants no more than the delay anew.
		pass(5 * time.Second)
		wantState(t, q, "a", Waiting)
		if got, want := q.Status("a").Due, c.Now().Add(10*time.Second); !got.Equal(want) {
			t.Fatalf("a is due at %v, want %v", got, want)
		}
		pass(10 * time.Second)
		item := take(t, q)
		if item.Key != "a" || !item.Ready.Equal(c.Now()) {
			t.Fatalf("took %+v at %v", item, c.Now())
		}
		q.Done("a")
		pass(10 * time.Second)
		wantTakes(t, q, "b")

		// Every later delay is exact again, whatever the clock says.
		q.AddAfter("c", 10*time.Second)
		pass(10*time.Second - 1)
		wantState(t, q, "c", Waiting)
		pass(1)
		wantTakes(t, q, "c")
	})
}

func TestClockStepsLoseNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		q, err := New[string](Config{Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		steps := []time.Duration{-time.Hour, time.Hour, -time.Second, -24 * time.Hour, 3 * time.Hour}
		for i := range 50 {
			q.AddAfter(fmt.Sprint(i), time.Duration(i+1)*time.Second)
		}
		for _, step := range steps {
			pass(3 * time.Second)
			c.step.Add(int64(step))
		}
		pass(time.Duration(len(steps)+1) * 50 * time.Second)
		if s := q.Stats(); s.Queued != 50 || s.Waiting != 0 {
			t.Fatalf("stats %+v", s)
		}
	})
}

func TestOneTimerServesAllDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		q, err := New[string](Config{Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		want := func(what string, made, armed int64) {
			t.Helper()
			if c.made.Load() != made || c.armed.Load() != armed {
				t.Fatalf("%s: %d timers made, %d armed; want %d, %d", what, c.made.Load(), c.armed.Load(), made, armed)
			}
		}
		q.Add(Fresh, "x")
		want("no delay", 0, 0)
		for i := range 1000 {
			q.AddAfter(fmt.Sprint(i), time.Duration(1000-i)*time.Second)
		}
		want("1000 delays", 1, 1)
		pass(500 * time.Second)
		want("half of them over", 1, 1)
		for i := range 1000 {
			q.Add(Fresh, fmt.Sprint(i))
		}
		want("the rest cut short", 1, 0)
		q.AddAfter("y", time.Second)
		want("one more delay", 1, 1)
		pass(time.Second)
		want("over", 1, 0)
		if s := q.Stats(); s.Queued != 1002 {
			t.Fatalf("stats %+v", s)
		}
	})
}

func TestCloseStopsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		q, err := New[string](Config{Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		q.AddAfter("a", time.Second)
		q.Add(Fresh, "b")
		take(t, q)
		q.Close()
		q.Close()
		q.AddAfter("c", time.Second)
		q.DoneAfter("b", time.Second)
		if n := c.armed.Load(); n != 0 {
			t.Fatalf("%d timers are armed", n)
		}
		if s := q.Stats(); s != (Stats{}) {
			t.Fatalf("stats %+v", s)
		}
	})
}

func TestIdleKeysHoldNoMemory(t *testing.T) {
	const n = 5 * keep
	q := newQueue(t, 0)
	for i := range n {
		q.Add(Background, fmt.Sprint(i))
	}
	for range n {
		q.Done(take(t, q).Key)
	}
	if len(q.entries) != 0 || q.peak != 0 || q.nfree != keep {
		t.Fatalf("%d entries, %d unused ones, map sized for %d", len(q.entries), q.nfree, q.peak)
	}
	for e := q.free; e != nil; e = e.next {
		if e.key != "" {
			t.Fatalf("an unused entry holds key %q", e.key)
		}
	}
}
