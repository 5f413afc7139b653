package keyqueue

import (
	"context"
	"slices"
	"time"
)

// Item is what Take hands out.
type Item[K comparable] struct {
	// Key is what to look at.
	Key K
	// Lane is the one that it was taken from.
	Lane Lane
	// Ready is since when it could have run, by the queue's clock: the time
	// from then to the Take is queue wait.
	Ready time.Time
	// Delay is for how long it was held back on purpose before that, by
	// AddAfter or DoneAfter; 0 when an Add made it ready.
	Delay time.Duration
}

// Take returns the next key, and blocks while there is none. The key is the
// caller's until Done or DoneAfter, which must follow; nobody else gets it
// meanwhile. Callers are served in the order of their coming.
//
// The error is ctx.Err() or ErrClosed. A key that was handed over in the very
// moment in which ctx ended or the queue was closed is still returned, without
// an error.
func (q *Queue[K]) Take(ctx context.Context) (Item[K], error) {
	if err := ctx.Err(); err != nil {
		return Item[K]{}, err
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return Item[K]{}, ErrClosed
	}
	if q.queued() > 0 {
		defer q.mu.Unlock()
		return q.next(), nil
	}
	t := q.newTaker()
	q.takers = append(q.takers, t)
	q.mu.Unlock()

	select {
	case <-t.given:
		q.mu.Lock()
		defer q.mu.Unlock()
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		if i := slices.Index(q.takers, t); i >= 0 {
			q.takers = slices.Delete(q.takers, i, i+1)
			q.recycle(t)
			return Item[K]{}, ctx.Err()
		}
		// The key is running on our account already: to refuse it now
		// would lose it.
		<-t.given
	}
	item, err := t.item, t.err
	q.recycle(t)
	return item, err
}

// queued returns how many keys are ready in both lanes.
func (q *Queue[K]) queued() int {
	return q.lanes[Fresh].len + q.lanes[Background].len
}

// next moves the key whose turn it is from its lane to the running ones. There
// must be one.
func (q *Queue[K]) next() Item[K] {
	fresh, background := q.lanes[Fresh].len > 0, q.lanes[Background].len > 0
	lane := Fresh
	if !fresh || background && q.streak >= q.share {
		lane = Background
	}
	if lane == Fresh && background {
		q.streak++
	} else {
		q.streak = 0
	}
	e := q.lanes[lane].head
	q.lanes[lane].remove(e)
	e.state, e.again = Running, false
	q.running++
	return Item[K]{Key: e.key, Lane: lane, Ready: e.ready, Delay: e.delay}
}

// enqueue makes a key ready in a lane, and hands it over at once if somebody
// waits in Take. The handing over is complete under the lock: a taker that is
// cancelled finds out, so that no key is ever between the two.
func (q *Queue[K]) enqueue(e *entry[K], lane Lane, delay time.Duration) {
	e.state, e.lane, e.delay, e.back = Queued, lane, delay, false
	e.ready, _ = q.now()
	q.lanes[lane].push(e)
	if len(q.takers) > 0 {
		t := q.takers[0]
		q.takers = slices.Delete(q.takers, 0, 1)
		t.give(q.next(), nil)
	}
}

// taker is a caller blocked in Take.
type taker[K comparable] struct {
	given chan struct{} // has room for the one message that comes
	item  Item[K]
	err   error
}

// give answers the taker, which must have been removed from Queue.takers.
func (t *taker[K]) give(item Item[K], err error) {
	t.item, t.err = item, err
	t.given <- struct{}{}
}

func (q *Queue[K]) newTaker() *taker[K] {
	if n := len(q.idle); n > 0 {
		t := q.idle[n-1]
		q.idle = q.idle[:n-1]
		return t
	}
	return &taker[K]{given: make(chan struct{}, 1)}
}

func (q *Queue[K]) recycle(t *taker[K]) {
	t.item, t.err = Item[K]{}, nil
	q.idle = append(q.idle, t)
}
