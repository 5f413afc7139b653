package containerprovisioner

import (
	"slices"
	"sync"
	"time"

	"github.com/juju/clock"
)

// patience is for how long starts wait for dead instances of which none comes to
// its end.
const patience = 2 * time.Minute

// turns says when a pass may start or stop instances: so many at once, first
// come first served, and what is dead before what is pending.
//
// A pass that may not go on ends, without holding anybody up, and the container
// is called when its turn has come. It has the turn until it leaves.
//
// A start waits until every container that was named before it asked has been
// read, since one of them may be dead, and until everything dead has been tried
// to stop. It waits for the dead only as long as these make progress: one that
// does not end must not hold up all the others.
type turns struct {
	clock clock.Clock
	max   int // of starts, and of stops
	call  func(id string)

	mu     sync.Mutex
	closed bool
	starts line
	stops  line

	// dead were found so and not yet tried to stop.
	dead     map[string]struct{}
	progress time.Time // when the last one of them left, or the first came
	timer    clock.Timer

	// event counts the events; marks has the event that first named each
	// container not read since, and unread how many of them each has.
	event  uint64
	marks  map[string]uint64
	unread map[uint64]int
}

// line is who waits for a turn of one kind, and who has one.
type line struct {
	waiting []request
	has     map[string]bool // true for a turn, false for waiting
	turns   int
}

// request is a container that waits, and the last event before it asked.
type request struct {
	id    string
	event uint64
}

func newTurns(clk clock.Clock, most int, call func(string)) *turns {
	return &turns{
		clock: clk, max: most, call: call,
		starts: line{has: make(map[string]bool)},
		stops:  line{has: make(map[string]bool)},
		dead:   make(map[string]struct{}),
		marks:  make(map[string]uint64),
		unread: make(map[uint64]int),
	}
}

// heard takes note of the containers that one event named.
func (t *turns) heard(ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.event++
	for _, id := range ids {
		if t.starts.has[id] || t.stops.has[id] {
			// Its turn: it looks at its own life as it goes on, and others
			// must not wait until it is through.
			continue
		}
		if _, ok := t.marks[id]; !ok {
			t.marks[id] = t.event
			t.unread[t.event]++
		}
	}
}

// read says that the container was read, or could not be. One that is dead
// holds up the starts until it leaves.
func (t *turns) read(id string, dead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dead {
		if len(t.dead) == 0 {
			t.progress = t.clock.Now()
		}
		t.dead[id] = struct{}{}
	}
	t.unmark(id)
	t.dispatch("")
}

func (t *turns) unmark(id string) {
	event, ok := t.marks[id]
	if !ok {
		return
	}
	delete(t.marks, id)
	if t.unread[event]--; t.unread[event] == 0 {
		delete(t.unread, event)
	}
	if len(t.marks) == 0 {
		t.marks = make(map[string]uint64) // a map never shrinks
	}
}

// mayStart reports whether it is the container's turn to start. Otherwise it is
// called later.
func (t *turns) mayStart(id string) bool { return t.may(&t.starts, &t.stops, id) }

// mayStop is mayStart for stopping.
func (t *turns) mayStop(id string) bool { return t.may(&t.stops, &t.starts, id) }

func (t *turns) may(l, other *line, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	other.leave(id)
	if _, ok := l.has[id]; !ok {
		l.has[id] = false
		l.waiting = append(l.waiting, request{id: id, event: t.event})
	}
	t.dispatch(id)
	return l.has[id]
}

// leave says that a pass has ended: its turn is over, unless it waits for one.
func (t *turns) leave(id string, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if waits {
		return
	}
	t.unmark(id)
	t.starts.leave(id)
	t.stops.leave(id)
	if _, ok := t.dead[id]; ok {
		delete(t.dead, id)
		t.progress = t.clock.Now()
	}
	t.dispatch("")
}

func (l *line) leave(id string) {
	turn, ok := l.has[id]
	switch {
	case !ok:
		return
	case turn:
		l.turns--
	default:
		l.waiting = slices.DeleteFunc(l.waiting, func(r request) bool { return r.id == id })
	}
	delete(l.has, id)
}

// dispatch gives out the turns that there are. The one that asks is not called.
func (t *turns) dispatch(asks string) {
	if t.closed {
		return
	}
	for _, l := range []*line{&t.stops, &t.starts} {
		for len(l.waiting) > 0 && l.turns < t.max {
			next := l.waiting[0]
			if l == &t.starts && !t.startable(next) {
				break
			}
			l.waiting = slices.Delete(l.waiting, 0, 1)
			l.has[next.id] = true
			l.turns++
			t.unmark(next.id)
			if next.id != asks {
				t.call(next.id)
			}
		}
	}
}

// startable reports whether nothing comes before a start.
func (t *turns) startable(r request) bool {
	for event, unread := range t.unread {
		if t.marks[r.id] == event {
			unread-- // it looks at itself before it starts
		}
		if event <= r.event && unread > 0 {
			return false
		}
	}
	if len(t.dead) == 0 {
		return true
	}
	left := patience - t.clock.Now().Sub(t.progress)
	if left <= 0 {
		return true
	}
	if t.timer == nil {
		t.timer = t.clock.AfterFunc(left, t.lookAgain)
	} else {
		t.timer.Reset(left)
	}
	return false
}

// lookAgain is the timer's callback. It may come too early, and just looks.
func (t *turns) lookAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dispatch("")
}

// close stops the timer; nobody is called any more.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// counts returns how many have a turn, for the report.
func (t *turns) counts() (starting, stopping int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.starts.turns, t.stops.turns
}
