package keyqueue

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// newQueue returns a queue on the wall clock, which is virtual in a synctest
// bubble; it is closed when the test ends.
func newQueue(t testing.TB, share int) *Queue[string] {
	t.Helper()
	q, err := New[string](Config{Clock: clock.WallClock, FreshShare: share})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// take returns the next item, which must be there already.
func take(t testing.TB, q *Queue[string]) Item[string] {
	t.Helper()
	if q.Stats().Queued == 0 {
		t.Fatal("nothing is queued")
	}
	item, err := q.Take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// wantTakes takes and finishes keys until none is ready, and compares.
func wantTakes(t testing.TB, q *Queue[string], want ...string) {
	t.Helper()
	var got []string
	for q.Stats().Queued > 0 {
		key := take(t, q).Key
		q.Done(key)
		got = append(got, key)
		if len(got) > 1000 {
			t.Fatalf("no end of keys: %v", got[:10])
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("took %v, want %v", got, want)
	}
}

func wantState(t testing.TB, q *Queue[string], key string, want State) {
	t.Helper()
	if got := q.Status(key).State; got != want {
		t.Fatalf("%s is %v, want %v", key, got, want)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no clock", Config{}, "nil Clock not valid"},
		{"negative share", Config{Clock: clock.WallClock, FreshShare: -1}, "negative FreshShare not valid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New[string](tc.config)
			if !errors.Is(err, errors.NotValid) || err.Error() != tc.want {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestKeysAreServedInTheOrderOfTheirComing(t *testing.T) {
	for _, lane := range []Lane{Fresh, Background} {
		t.Run(lane.String(), func(t *testing.T) {
			q := newQueue(t, 0)
			for _, key := range []string{"c", "a", "b"} {
				q.Add(lane, key)
			}
			wantTakes(t, q, "c", "a", "b")
		})
	}
}

func TestAddOfAQueuedKeyKeepsItsPlace(t *testing.T) {
	for _, lane := range []Lane{Fresh, Background} {
		t.Run(lane.String(), func(t *testing.T) {
			q := newQueue(t, 0)
			q.Add(lane, "a")
			q.Add(lane, "b")
			q.Add(lane, "a")
			wantTakes(t, q, "a", "b")
		})
	}
}

func TestAddInTheBackgroundDoesNotDemoteAFreshKey(t *testing.T) {
	q := newQueue(t, 0)
	q.Add(Fresh, "a")
	q.Add(Background, "a")
	if item := take(t, q); item.Lane != Fresh {
		t.Fatalf("taken from the %v lane", item.Lane)
	}
}

func TestFreshAddMovesAQueuedBackgroundKeyAndKeepsItsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		q.AddAfter("a", time.Second)
		q.Add(Background, "b")
		time.Sleep(time.Second)
		synctest.Wait()
		ready := time.Now()
		time.Sleep(time.Minute)
		q.Add(Fresh, "c")
		q.Add(Fresh, "a")

		if s := q.Stats(); s.QueuedFresh != 2 || s.QueuedBackground != 1 {
			t.Fatalf("stats %+v", s)
		}
		if item := take(t, q); item.Key != "c" {
			t.Fatalf("took %+v, want c, which was fresh first", item)
		}
		item := take(t, q)
		want := Item[string]{Key: "a", Lane: Fresh, Ready: ready, Delay: time.Second}
		if item != want {
			t.Fatalf("took %+v, want %+v", item, want)
		}
	})
}

func TestARunningKeyIsNotHandedOutAgain(t *testing.T) {
	q := newQueue(t, 0)
	q.Add(Fresh, "a")
	take(t, q)
	q.Add(Fresh, "a")
	q.Add(Background, "a")
	q.AddAfter("a", time.Nanosecond)
	wantState(t, q, "a", Running)
	if n := q.Stats().Queued; n != 0 {
		t.Fatalf("%d keys queued", n)
	}
}

func TestAKeyDirtiedWhileRunningRunsOnceMoreInTheBestLane(t *testing.T) {
	for _, tc := range []struct {
		name string
		adds []Lane
		want Lane
	}{
		{"fresh", []Lane{Fresh}, Fresh},
		{"background", []Lane{Background}, Background},
		{"fresh, then background", []Lane{Fresh, Background}, Fresh},
		{"background, then fresh", []Lane{Background, Fresh}, Fresh},
		{"an unknown lane is the background", []Lane{7}, Background},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, 0)
				q.Add(Fresh, "a")
				take(t, q)
				for _, lane := range tc.adds {
					q.Add(lane, "a")
				}
				time.Sleep(time.Second) // could not run meanwhile: no queue wait
				q.Done("a")
				want := Item[string]{Key: "a", Lane: tc.want, Ready: time.Now()}
				if item := take(t, q); item != want {
					t.Fatalf("took %+v, want %+v", item, want)
				}
				q.Done("a")
				wantState(t, q, "a", Idle)
			})
		})
	}
}

func TestDoneForgetsACleanKey(t *testing.T) {
	q := newQueue(t, 0)
	q.Add(Fresh, "a")
	take(t, q)
	q.Done("a")
	wantState(t, q, "a", Idle)
	if n := len(q.entries); n != 0 {
		t.Fatalf("%d entries are left", n)
	}
	if s := q.Stats(); s != (Stats{}) {
		t.Fatalf("stats %+v", s)
	}
}

func TestDoneOfAKeyThatDoesNotRunDoesNothing(t *testing.T) {
	q := newQueue(t, 0)
	q.Add(Fresh, "queued")
	q.AddAfter("waiting", time.Hour)
	for _, key := range []string{"idle", "queued", "waiting"} {
		q.Done(key)
		q.DoneAfter(key, time.Second)
	}
	wantState(t, q, "idle", Idle)
	wantState(t, q, "queued", Queued)
	wantState(t, q, "waiting", Waiting)
	wantTakes(t, q, "queued")
}
