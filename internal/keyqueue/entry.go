package keyqueue

import (
	"reflect"
	"time"

	"github.com/juju/errors"
)

// keep is how many unused entries are kept for reuse, and up to which size the
// map is: more would hold memory for keys that are idle.
const keep = 1024

// entry is what the queue knows of a key that is not idle.
type entry[K comparable] struct {
	key   K
	state State
	// lane is where a queued key stands, or where a running one goes next
	// if it was dirtied (again).
	lane  Lane
	again bool
	back  bool          // waiting: put back by DoneAfter, so that it has its pause
	ready time.Time     // queued, running: see Item
	delay time.Duration // queued, running, waiting: see Item
	due   time.Duration // waiting: when it becomes ready, on the queue's time scale
	seq   uint64        // waiting: tells which of two due in one moment came first
	index int           // waiting: its place in the heap

	prev, next *entry[K] // queued: its neighbours in the lane
}

// remember returns a new entry for a key that has none.
func (q *Queue[K]) remember(key K) *entry[K] {
	e := q.free
	if e == nil {
		e = new(entry[K])
	} else {
		q.free, e.next = e.next, nil
		q.nfree--
	}
	e.key = key
	q.entries[key] = e
	q.peak = max(q.peak, len(q.entries))
	return e
}

// forget makes a key idle. It must be in no lane and not in the heap.
func (q *Queue[K]) forget(e *entry[K]) {
	delete(q.entries, e.key)
	if len(q.entries) == 0 && q.peak > keep {
		// A map never shrinks.
		q.entries, q.peak = make(map[K]*entry[K]), 0
	}
	*e = entry[K]{}
	if q.nfree < keep {
		e.next, q.free = q.free, e
		q.nfree++
	}
}

// list is a lane: entries linked in the order of their coming.
type list[K comparable] struct {
	head, tail *entry[K]
	len        int
}

func (l *list[K]) push(e *entry[K]) {
	e.prev, e.next = l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.len++
}

func (l *list[K]) remove(e *entry[K]) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.len--
}

// validKeyType returns an errors.NotValid for a key type whose values may
// differ though they name the same thing.
func validKeyType[K comparable]() error {
	t := reflect.TypeFor[K]()
	if !byValue(t) {
		return errors.NotValidf("key type %s (keys are compared by value)", t)
	}
	return nil
}

func byValue(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Chan, reflect.Interface,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return false
	case reflect.Array:
		return byValue(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !byValue(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}
