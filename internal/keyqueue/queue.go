package keyqueue

import (
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// ErrClosed is what Take returns once the queue is closed.
const ErrClosed = errors.ConstError("queue is closed")

// DefaultFreshShare is the default of Config.FreshShare.
const DefaultFreshShare = 4

// Lane is one of the two lines that keys stand in. Anything but Fresh counts as
// Background.
type Lane uint8

const (
	// Fresh is for keys that something just happened to.
	Fresh Lane = iota
	// Background is for resyncs, retries and baselines.
	Background

	lanes = 2
)

// String returns the lane's name.
func (l Lane) String() string {
	if l == Fresh {
		return "fresh"
	}
	return "background"
}

// Config is what a [Queue] works with.
type Config struct {
	// Clock is where time comes from; required.
	Clock clock.Clock
	// FreshShare is how many fresh keys are served in a row while
	// background ones wait; 4 by default.
	FreshShare int
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil.
func (c Config) Validate() error {
	switch {
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.FreshShare < 0:
		return errors.NotValidf("negative FreshShare")
	}
	return nil
}

// Queue holds dirty keys; see the package's documentation. Make one with [New].
type Queue[K comparable] struct {
	clock clock.Clock
	share int

	mu      sync.Mutex
	closed  bool
	entries map[K]*entry[K]
	peak    int // most entries since the map was made
	running int

	lanes  [lanes]list[K]
	streak int // fresh keys served in a row while background ones waited

	takers []*taker[K] // blocked in Take, first come first; then all lanes are empty
	idle   []*taker[K] // for reuse

	waiting waiting[K]
	seq     uint64        // counts the waits
	timer   clock.Timer   // nil until the first delay
	armed   time.Duration // when the timer fires, on the queue's time scale; 0 if it does not
	start   time.Time     // origin of the queue's time scale
	last    time.Duration // latest time seen on that scale
	skew    time.Duration // what the clock was stepped backwards in all

	free  *entry[K] // for reuse, linked by next
	nfree int
}

// New returns an empty queue, or an errors.NotValid for an impossible config or
// for a key type that does not compare by value. The queue needs no closing to
// be collected, but its timer may fire until then.
func New[K comparable](config Config) (*Queue[K], error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if err := validKeyType[K](); err != nil {
		return nil, err
	}
	if config.FreshShare == 0 {
		config.FreshShare = DefaultFreshShare
	}
	return &Queue[K]{
		clock:   config.Clock,
		share:   config.FreshShare,
		entries: make(map[K]*entry[K]),
		start:   config.Clock.Now(),
	}, nil
}

// Add marks a key dirty. What that means depends on what the key is doing:
//
//   - idle: it is queued in the lane.
//   - queued: it keeps its place; but one in the background that is dirtied as
//     Fresh moves to the end of the fresh lane. Item.Ready and Item.Delay stay.
//   - running: it runs again after Done, in the best lane asked for.
//   - waiting: it is queued at once. But one that DoneAfter put back and that
//     is dirtied as Background goes on waiting: a resync must not hammer keys
//     that fail.
//
// After Close it does nothing.
func (q *Queue[K]) Add(lane Lane, key K) {
	if lane != Fresh {
		lane = Background
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entries[key]
	if e == nil {
		e = q.remember(key)
		q.enqueue(e, lane, 0)
		return
	}
	switch e.state {
	case Queued:
		if lane < e.lane {
			q.lanes[e.lane].remove(e)
			e.lane = lane
			q.lanes[lane].push(e)
		}
	case Running:
		if !e.again || lane < e.lane {
			e.again, e.lane = true, lane
		}
	case Waiting:
		if lane == Fresh || !e.back {
			q.unwait(e)
			q.enqueue(e, lane, 0)
		}
	}
}

// AddAfter makes an idle key ready in the background after d. A key that waits
// for longer than d waits for d from now instead; one that is queued, running,
// or waiting for sooner is left alone. With d <= 0 it is Add(Background, key).
// After Close it does nothing.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	if d <= 0 {
		q.Add(Background, key)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e := q.entries[key]
	if e == nil {
		q.wait(q.remember(key), d)
		return
	}
	if e.state == Waiting {
		q.hasten(e, d)
	}
}

// Done says that a key handed out by Take is finished. It is queued again if it
// was dirtied meanwhile, else the queue forgets it. For a key that is not
// running it does nothing, so that a second Done is harmless.
func (q *Queue[K]) Done(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.finish(key)
	switch {
	case e == nil:
	case e.again:
		q.enqueue(e, e.lane, 0)
	default:
		q.forget(e)
	}
}

// DoneAfter is Done for a key that has to be looked at again after d, as one
// that failed. If it was dirtied as Fresh meanwhile, it is queued at once; if
// it was dirtied as Background only, that is contained in the look after d.
// With d <= 0 it is queued at once in any case.
func (q *Queue[K]) DoneAfter(key K, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.finish(key)
	switch {
	case e == nil:
	case e.again && e.lane == Fresh:
		q.enqueue(e, Fresh, 0)
	case d <= 0:
		q.enqueue(e, Background, 0)
	default:
		q.wait(e, d)
		e.back = true
	}
}

// finish takes a key out of the running ones. It returns nil if it was none, or
// if nothing more is to be done about it.
func (q *Queue[K]) finish(key K) *entry[K] {
	e := q.entries[key]
	if e == nil || e.state != Running {
		return nil
	}
	q.running--
	if q.closed {
		q.forget(e)
		return nil
	}
	return e
}

// Close ends the queue: blocked and later Takes return ErrClosed, the timer is
// stopped, queued and waiting keys are dropped, and later Adds ignored. Keys
// that are running stay so, for Status and Stats, until their Done. Closing
// twice is harmless.
func (q *Queue[K]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, t := range q.takers {
		t.give(Item[K]{}, ErrClosed)
	}
	for key, e := range q.entries {
		if e.state != Running {
			delete(q.entries, key)
		}
	}
	q.takers, q.idle, q.waiting, q.free, q.nfree = nil, nil, nil, nil, 0
	q.lanes = [lanes]list[K]{}
}
