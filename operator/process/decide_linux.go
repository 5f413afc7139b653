package process

import "time"

// action is what a supervisor does next.
type action uint8

const (
	rest      action = iota // nothing to do
	terminate               // ask the process to end
	kill                    // make it end
	start                   // start a process
	remove                  // remove the files of a deleted operator
)

// forever is the delay until the next look when only an event can change
// anything.
const forever time.Duration = -1

// situation is what an action depends on.
type situation struct {
	// What the record says.
	ensured  bool // the operator is to run
	deleting bool // it is to go
	halted   bool // no operator is to run: the agent ends
	// What was seen.
	alive   bool // its process runs
	current bool // and was started with the configuration that is wanted

	now         time.Time
	asked       time.Time // when the process was last told to end; zero for never
	nextStart   time.Time // not before this
	stopTimeout time.Duration
}

// decide says what to do, and how long to wait after it for the next look
// unless something happens.
func decide(s situation) (action, time.Duration) {
	unwanted := s.deleting || s.halted || s.ensured && !s.current
	switch {
	case s.alive && !s.asked.IsZero():
		// Once asked it is on its way out, whatever is wanted by now.
		if left := s.asked.Add(s.stopTimeout).Sub(s.now); left > 0 {
			return rest, left
		}
		// Again after another such time: the first one may have failed.
		return kill, s.stopTimeout
	case s.alive && unwanted:
		// The process's end wakes the supervisor; the time-out is for when
		// it does not come.
		return terminate, s.stopTimeout
	case s.alive:
		return rest, forever
	case s.deleting:
		// Also when the agent ends: it takes no process.
		return remove, forever
	case s.halted || !s.ensured:
		// Until somebody ensures it, or the next agent comes.
		return rest, forever
	case s.now.Before(s.nextStart):
		// Retried with the back-off of its earlier ends.
		return rest, s.nextStart.Sub(s.now)
	}
	return start, forever
}
