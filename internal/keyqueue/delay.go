package keyqueue

import (
	"container/heap"
	"math"
	"time"
)

// Delays are kept on a time scale of the queue's own: the time since it was
// made, made never to go backwards. A clock that is stepped back by an hour
// would otherwise hold every waiting key back by an hour.

// now returns the clock's time, and the time on the queue's scale.
func (q *Queue[K]) now() (time.Time, time.Duration) {
	t := q.clock.Now()
	at := t.Sub(q.start) + q.skew
	if at < q.last {
		q.skew += q.last - at
		at = q.last
	}
	q.last = at
	return t, at
}

// wait makes a key wait for d, which is positive.
func (q *Queue[K]) wait(e *entry[K], d time.Duration) {
	_, at := q.now()
	q.seq++
	e.state, e.delay, e.due, e.seq = Waiting, d, after(at, d), q.seq
	heap.Push(&q.waiting, e)
	q.arm(at)
}

// hasten makes a waiting key wait for d from now, if that is sooner.
func (q *Queue[K]) hasten(e *entry[K], d time.Duration) {
	_, at := q.now()
	due := after(at, d)
	if due >= e.due {
		return
	}
	// What is left of the delay is what the key will really have waited.
	e.delay -= e.due - due
	e.due = due
	heap.Fix(&q.waiting, e.index)
	q.arm(at)
}

// unwait takes a key out of the waiting ones. The timer may then fire for
// nobody, which is cheaper than setting it anew for each key; but it does not
// outlive the last one.
func (q *Queue[K]) unwait(e *entry[K]) {
	heap.Remove(&q.waiting, e.index)
	if len(q.waiting) == 0 && q.armed != 0 {
		q.timer.Stop()
		q.armed = 0
	}
}

// arm sets the timer to fire no later than the first waiting key is due.
func (q *Queue[K]) arm(at time.Duration) {
	if len(q.waiting) == 0 {
		return
	}
	due := q.waiting[0].due
	if q.armed != 0 && q.armed <= due {
		return
	}
	q.armed = due
	if q.timer == nil {
		q.timer = q.clock.AfterFunc(due-at, q.expire)
		return
	}
	q.timer.Reset(due - at)
}

// expire is the timer's callback. It may come too early (the timer was set for
// a key that waits no more, or the clock went backwards) and just looks.
func (q *Queue[K]) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	_, at := q.now()
	for len(q.waiting) > 0 && q.waiting[0].due <= at {
		e := heap.Pop(&q.waiting).(*entry[K])
		q.enqueue(e, Background, e.delay)
	}
	q.armed = 0
	q.arm(at)
}

// after returns at+d, or the end of time if that is beyond it.
func after(at, d time.Duration) time.Duration {
	if d > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + d
}

// waiting is the heap of the waiting keys, soonest first; of those due in the
// same moment, the one that waits for longer. Each entry knows its place.
type waiting[K comparable] []*entry[K]

func (w waiting[K]) Len() int { return len(w) }

func (w waiting[K]) Less(i, j int) bool {
	if w[i].due != w[j].due {
		return w[i].due < w[j].due
	}
	return w[i].seq < w[j].seq
}

func (w waiting[K]) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

func (w *waiting[K]) Push(x any) {
	e := x.(*entry[K])
	e.index = len(*w)
	*w = append(*w, e)
}

func (w *waiting[K]) Pop() any {
	last := len(*w) - 1
	e := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return e
}
