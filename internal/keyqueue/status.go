package keyqueue

import "time"

// State is what a key is doing.
type State uint8

const (
	// Idle is a key that the queue knows nothing of.
	Idle State = iota
	// Queued is one that is ready and waits for a Take.
	Queued
	// Running is one that was taken and is not done.
	Running
	// Waiting is one that becomes ready later.
	Waiting
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Idle:
		return "idle"
	case Queued:
		return "queued"
	case Running:
		return "running"
	case Waiting:
		return "waiting"
	}
	return "unknown"
}

// Status is what the queue says of one key.
type Status struct {
	// State is what it is doing.
	State State
	// Due is when a waiting key becomes ready, by the queue's clock; zero in
	// every other state.
	Due time.Time
}

// Status returns what a key is doing. The answer may be outdated when it
// arrives.
func (q *Queue[K]) Status(key K) Status {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil {
		return Status{}
	}
	s := Status{State: e.state}
	if e.state == Waiting {
		s.Due = q.start.Add(e.due - q.skew)
	}
	return s
}

// Stats counts the keys that are not idle.
type Stats struct {
	// Queued is how many are ready: QueuedFresh and QueuedBackground.
	Queued           int
	QueuedFresh      int
	QueuedBackground int
	// Running is how many are taken and not done.
	Running int
	// Waiting is how many become ready later.
	Waiting int
	// OldestReady is since when the key that is ready for longest is so;
	// zero if none is. If it only grows older, there are too few takers.
	OldestReady time.Time
}

// Stats returns the counts of one moment. It takes time in proportion to
// QueuedFresh.
func (q *Queue[K]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{
		Queued:           q.queued(),
		QueuedFresh:      q.lanes[Fresh].len,
		QueuedBackground: q.lanes[Background].len,
		Running:          q.running,
		Waiting:          len(q.waiting),
	}
	if e := q.lanes[Background].head; e != nil {
		s.OldestReady = e.ready
	}
	// In the fresh lane the first is not always the oldest: a key that comes
	// from the background brings its time along.
	for e := q.lanes[Fresh].head; e != nil; e = e.next {
		if s.OldestReady.IsZero() || e.ready.Before(s.OldestReady) {
			s.OldestReady = e.ready
		}
	}
	return s
}
