package simulation

import (
	"sync/atomic"
	"time"

	"github.com/juju/clock"
)

// steppedClock is the clock of a host that is set, now and then: what it shows
// jumps, and timers go on as they were. It has no monotonic reading by which
// one could tell, unlike clock.WallClock, with which only a certificate's dates
// can ever seem to jump.
type steppedClock struct {
	clock.Clock
	ahead atomic.Int64 // nanoseconds
}

// Now is part of clock.Clock.
func (c *steppedClock) Now() time.Time {
	return c.Clock.Now().Round(0).Add(time.Duration(c.ahead.Load()))
}

// set makes the clock be ahead of the time that it is.
func (c *steppedClock) set(ahead time.Duration) { c.ahead.Store(int64(ahead)) }
