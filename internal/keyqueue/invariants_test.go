package keyqueue

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay the random stories of this seed alone")
	storyFlag = flag.Int("stories", 20, "how many random stories of each kind are told")
)

// seeded runs a story for each of a number of seeds, or for the one asked for.
func seeded(t *testing.T, story func(t *testing.T, rng *rand.Rand)) {
	first, n := uint64(1), *storyFlag
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	for seed := first; seed < first+uint64(n); seed++ {
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				story(t, rand.New(rand.NewPCG(seed, 0)))
			})
		})
		if !ok {
			t.Fatalf("replay with: go test -run '%s' ./internal/keyqueue -seed=%d", t.Name(), seed)
		}
	}
}

// TestManyGoroutines lets many goroutines dirty, take and finish few keys, with
// cancelled Takes in between, and holds what must be true whatever they do:
//
//  1. A key is never twice in flight.
//  2. Nothing is lost: after the last Add of a key a Take of it follows. (That of
//     a background Add of a key that was put back comes at the end of its delay.)
//  3. No Take comes before the delay that DoneAfter or AddAfter set is over,
//     unless a fresh Add asked for it.
//  4. In the end nothing is queued, running or waiting, nothing is remembered,
//     no timer is armed, and no goroutine is left (the bubble would not end).
//
// Order and fairness need a witness that sees every Take in order: see
// TestOneTakerAmongManyProducers and TestTheQueueIsItsModel.
func TestManyGoroutines(t *testing.T) {
	seeded(t, func(t *testing.T, rng *rand.Rand) {
		const producers, takers, keys, ops = 8, 6, 5, 200
		c := newTestClock()
		q, err := New[int](Config{Clock: c, FreshShare: 1 + rng.IntN(4)})
		if err != nil {
			t.Fatal(err)
		}
		w := &witness{keys: make([]witnessed, keys)}

		seeds := make([]uint64, producers+takers)
		for i := range seeds {
			seeds[i] = rng.Uint64()
		}
		var producing, taking sync.WaitGroup
		for _, seed := range seeds[:producers] {
			producing.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 1))
				for range ops {
					w.dirty(q, rng, rng.IntN(keys))
					if rng.IntN(3) == 0 {
						time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
					}
				}
			})
		}
		stop, stopped := context.WithCancel(context.Background())
		for _, seed := range seeds[producers:] {
			taking.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 2))
				for stop.Err() == nil {
					w.pass(t, q, rng, stop)
				}
			})
		}
		producing.Wait()
		// Longer than every delay, and the failures that follow it.
		w.calm.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()

		if s := q.Stats(); s != (Stats{}) {
			t.Errorf("in the end: %+v", s)
		}
		if n := len(q.entries); n != 0 {
			t.Errorf("%d entries are remembered", n)
		}
		if n := c.armed.Load(); n != 0 {
			t.Errorf("%d timers are armed", n)
		}
		for key := range w.keys {
			if k := &w.keys[key]; k.seen != k.dirtied {
				t.Errorf("key %d: %d Adds, the last Take came after %d", key, k.dirtied, k.seen)
			}
		}
		stopped()
		taking.Wait()
		q.Close()
	})
}

// witness knows what was asked of the queue, and checks what it does.
type witness struct {
	mu   sync.Mutex
	keys []witnessed
	calm atomic.Bool // no more failures
}

type witnessed struct {
	inFlight bool
	dirtied  int // Adds begun or made
	seen     int // of these, those begun before the latest Take
	// notBefore is when the key may be taken at the earliest, unless a
	// fresh Add is being made, or was made since the latest Take. In which
	// order things happen in one moment of virtual time the witness cannot
	// know, and gives the queue the benefit.
	notBefore time.Time
	adding    int
	added     time.Time
	taken     time.Time
}

// dirty makes one random request.
func (w *witness) dirty(q *Queue[int], rng *rand.Rand, key int) {
	d := time.Duration(1+rng.IntN(2000)) * time.Millisecond
	op := rng.IntN(3)
	k := &w.keys[key]

	w.mu.Lock()
	if op < 2 {
		k.dirtied++
	}
	if op == 0 {
		k.adding++
	}
	w.mu.Unlock()

	switch op {
	case 0:
		q.Add(Fresh, key)
	case 1:
		q.Add(Background, key)
	default:
		q.AddAfter(key, d)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	switch op {
	case 0:
		k.adding--
		k.added = time.Now()
	case 2:
		if due := time.Now().Add(d); due.Before(k.notBefore) {
			k.notBefore = due
		}
	}
}

// pass takes a key, if one comes in time, checks it, works and finishes it.
func (w *witness) pass(t *testing.T, q *Queue[int], rng *rand.Rand, stop context.Context) {
	ctx, cancel := context.WithTimeout(stop, time.Duration(1+rng.IntN(100))*time.Millisecond)
	defer cancel()
	item, err := q.Take(ctx)
	if err != nil {
		return
	}
	key, now := item.Key, time.Now()
	w.mu.Lock()
	k := &w.keys[key]
	if k.inFlight {
		t.Errorf("key %d is twice in flight", key)
	}
	if now.Before(k.notBefore) && k.adding == 0 && k.added.Before(k.taken) {
		t.Errorf("key %d is taken %v before its delay is over", key, k.notBefore.Sub(now))
	}
	if item.Ready.After(now.Round(0)) || item.Delay < 0 {
		t.Errorf("impossible times at %v: %+v", now, item)
	}
	k.inFlight, k.taken, k.notBefore = true, now, time.Time{}
	k.seen = k.dirtied
	w.mu.Unlock()

	if rng.IntN(2) == 0 {
		time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
	}
	fails := rng.IntN(2) == 0 && !w.calm.Load()
	d := time.Duration(1+rng.IntN(1000)) * time.Millisecond
	w.mu.Lock()
	k.inFlight = false
	if fails {
		k.notBefore = time.Now().Add(d)
	}
	w.mu.Unlock()
	if fails {
		q.DoneAfter(key, d)
	} else {
		q.Done(key)
	}
}

// TestOneTakerAmongManyProducers holds what a single taker can see of order
// while many goroutines dirty keys:
//
//  1. The keys of one producer, each dirtied once and all in one lane, are taken
//     in the order in which it dirtied them.
//  2. While background keys wait, at most FreshShare fresh keys are taken in a
//     row; and while fresh keys wait, never two background ones.
//  3. Every key is taken exactly once.
func TestOneTakerAmongManyProducers(t *testing.T) {
	type key struct {
		producer, n int
	}
	seeded(t, func(t *testing.T, rng *rand.Rand) {
		const producers, each = 8, 100
		share := 1 + rng.IntN(4)
		q, err := New[key](Config{Clock: clock.WallClock, FreshShare: share})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		laneOf := func(producer int) Lane { return Lane(producer % lanes) }
		var producing sync.WaitGroup
		for p := range producers {
			seed := rng.Uint64()
			add := func() {
				rng := rand.New(rand.NewPCG(seed, 0))
				for n := range each {
					q.Add(laneOf(p), key{p, n})
					if laneOf(p) == Fresh && rng.IntN(10) == 0 {
						time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
					}
				}
			}
			if laneOf(p) == Background {
				add() // all there from the start, so that they wait to the last
			} else {
				producing.Go(add)
			}
		}
		next := make([]int, producers)
		row := 0
		background := producers / lanes * each
		for range producers * each {
			fresh := q.Stats().QueuedFresh > 0 // only this taker takes from it
			item, err := q.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p, n := item.Key.producer, item.Key.n
			if n != next[p] || item.Lane != laneOf(p) {
				t.Fatalf("took %+v, want number %d", item, next[p])
			}
			next[p]++
			if item.Lane == Fresh {
				row++
			} else {
				if row < share && fresh {
					t.Fatalf("a background key after %d fresh ones in a row, share %d", row, share)
				}
				row = 0
				background--
			}
			if row > share && background > 0 {
				t.Fatalf("%d fresh keys in a row, share %d, and %d background ones wait", row, share, background)
			}
			q.Done(item.Key)
			if rng.IntN(4) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		producing.Wait()
		if s := q.Stats(); s != (Stats{}) {
			t.Fatalf("in the end: %+v", s)
		}
	})
}

// model is the queue's rules written down as plainly as possible, for one
// goroutine and without regard to time or memory.
type model struct {
	share, streak int
	lanes         [lanes][]int
	running       map[int][]Lane // what was asked for meanwhile
	waiting       map[int]modelWait
	item          map[int]Item[int] // of queued keys
}

type modelWait struct {
	since, due time.Time
	back       bool
}

func (m *model) queue(lane Lane, key int, ready time.Time, delay time.Duration) {
	m.lanes[lane] = append(m.lanes[lane], key)
	m.item[key] = Item[int]{Key: key, Lane: lane, Ready: ready, Delay: delay}
}

func (m *model) add(lane Lane, key int, now time.Time) {
	asked, running := m.running[key]
	wait, waiting := m.waiting[key]
	item, queued := m.item[key]
	switch {
	case running:
		m.running[key] = append(asked, lane)
	case waiting:
		if lane == Fresh || !wait.back {
			delete(m.waiting, key)
			m.queue(lane, key, now, 0)
		}
	case queued:
		if lane == Fresh && item.Lane == Background {
			i := slices.Index(m.lanes[Background], key)
			m.lanes[Background] = slices.Delete(m.lanes[Background], i, i+1)
			m.queue(Fresh, key, item.Ready, item.Delay)
		}
	default:
		m.queue(lane, key, now, 0)
	}
}

func (m *model) addAfter(key int, d time.Duration, now time.Time) {
	_, running := m.running[key]
	_, queued := m.item[key]
	wait, waiting := m.waiting[key]
	due := now.Add(d)
	switch {
	case d <= 0:
		m.add(Background, key, now)
	case running, queued:
	case !waiting:
		m.waiting[key] = modelWait{now, due, false}
	case due.Before(wait.due):
		m.waiting[key] = modelWait{wait.since, due, wait.back}
	}
}

func (m *model) take() (Item[int], bool) {
	fresh, background := len(m.lanes[Fresh]) > 0, len(m.lanes[Background]) > 0
	var lane Lane
	switch {
	case !fresh && !background:
		return Item[int]{}, false
	case fresh && background && m.streak < m.share:
		lane = Fresh
		m.streak++
	case fresh && !background:
		lane = Fresh
		m.streak = 0
	default:
		lane = Background
		m.streak = 0
	}
	key := m.lanes[lane][0]
	m.lanes[lane] = m.lanes[lane][1:]
	item := m.item[key]
	delete(m.item, key)
	m.running[key] = nil
	return item, true
}

func (m *model) done(key int, after bool, d time.Duration, now time.Time) {
	asked, running := m.running[key]
	if !running {
		return
	}
	delete(m.running, key)
	switch {
	case slices.Contains(asked, Fresh):
		m.queue(Fresh, key, now, 0)
	case after && d > 0:
		m.waiting[key] = modelWait{now, now.Add(d), true}
	case after, len(asked) > 0:
		m.queue(Background, key, now, 0)
	}
}

// elapse makes ready what is due. No two keys may be due in one moment.
func (m *model) elapse(now time.Time) {
	var due []int
	for key, wait := range m.waiting {
		if !wait.due.After(now) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b int) int { return m.waiting[a].due.Compare(m.waiting[b].due) })
	for _, key := range due {
		wait := m.waiting[key]
		delete(m.waiting, key)
		m.queue(Background, key, wait.due, wait.due.Sub(wait.since))
	}
}

func (m *model) status(key int) Status {
	if _, ok := m.running[key]; ok {
		return Status{State: Running}
	}
	if _, ok := m.item[key]; ok {
		return Status{State: Queued}
	}
	if wait, ok := m.waiting[key]; ok {
		return Status{State: Waiting, Due: wait.due}
	}
	return Status{}
}

func (m *model) stats() Stats {
	s := Stats{
		Queued:           len(m.item),
		QueuedFresh:      len(m.lanes[Fresh]),
		QueuedBackground: len(m.lanes[Background]),
		Running:          len(m.running),
		Waiting:          len(m.waiting),
	}
	for _, item := range m.item {
		if s.OldestReady.IsZero() || item.Ready.Before(s.OldestReady) {
			s.OldestReady = item.Ready
		}
	}
	return s
}

// TestTheQueueIsItsModel does random things to the queue and to the model, and
// expects the same keys in the same order with the same times.
func TestTheQueueIsItsModel(t *testing.T) {
	seeded(t, func(t *testing.T, rng *rand.Rand) {
		const keys, steps = 12, 3000
		share := 1 + rng.IntN(5)
		q, err := New[int](Config{Clock: clock.WallClock, FreshShare: share})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		m := &model{
			share: share, running: map[int][]Lane{}, waiting: map[int]modelWait{}, item: map[int]Item[int]{},
		}
		for step := range steps {
			key, now := rng.IntN(keys), time.Now()
			// Each step ends in a moment of its own, so that no two
			// keys are due at once.
			d := time.Duration(rng.IntN(40)-2)*time.Second + time.Duration(step)
			var did string
			switch op := rng.IntN(12); {
			case op < 3:
				lane := Lane(rng.IntN(lanes))
				did = fmt.Sprint("Add ", lane, key)
				q.Add(lane, key)
				m.add(lane, key, now)
			case op < 5:
				did = fmt.Sprint("AddAfter ", key, d)
				q.AddAfter(key, d)
				m.addAfter(key, d, now)
			case op < 8:
				did = "Take"
				want, ok := m.take()
				if !ok {
					break
				}
				item, err := q.Take(t.Context())
				if err != nil || item.Key != want.Key || item.Lane != want.Lane ||
					item.Delay != want.Delay || !item.Ready.Equal(want.Ready) {
					t.Fatalf("step %d: took %+v, %v; want %+v", step, item, err, want)
				}
			case op < 9:
				did = fmt.Sprint("Done ", key)
				q.Done(key)
				m.done(key, false, 0, now)
			case op < 11:
				did = fmt.Sprint("DoneAfter ", key, d)
				q.DoneAfter(key, d)
				m.done(key, true, d, now)
			default:
				did = "time"
				time.Sleep(time.Duration(rng.IntN(10)) * time.Second)
				synctest.Wait()
				m.elapse(time.Now())
			}
			for key := range keys {
				got, want := q.Status(key), m.status(key)
				if got.State != want.State || !got.Due.Equal(want.Due) {
					t.Fatalf("step %d, %s: key %d is %+v, want %+v", step, did, key, got, want)
				}
			}
			got, want := q.Stats(), m.stats()
			if !got.OldestReady.Equal(want.OldestReady) {
				t.Fatalf("step %d, %s: oldest %v, want %v", step, did, got.OldestReady, want.OldestReady)
			}
			got.OldestReady, want.OldestReady = time.Time{}, time.Time{}
			if got != want {
				t.Fatalf("step %d, %s: stats %+v, want %+v", step, did, got, want)
			}
		}
	})
}
