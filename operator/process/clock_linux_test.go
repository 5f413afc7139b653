package process

import (
	"sync"
	"time"

	"github.com/juju/clock"
)

// fakeClock stands still until a test moves it. It has what the manager uses
// of a clock; anything else is a nil dereference.
type fakeClock struct {
	clock.Clock

	mu     sync.Mutex
	now    time.Time
	timers map[*fakeTimer]time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Unix(1_700_000_000, 0), timers: make(map[*fakeTimer]time.Time)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) NewTimer(d time.Duration) clock.Timer {
	t := &fakeTimer{clock: c, due: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// advance moves the clock and fires what is due.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for t, at := range c.timers {
		if !c.now.Before(at) {
			delete(c.timers, t)
			t.due <- c.now
		}
	}
}

// waits reports whether something waits for exactly this long from now.
func (c *fakeClock) waits(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.timers {
		if at.Equal(c.now.Add(d)) {
			return true
		}
	}
	return false
}

type fakeTimer struct {
	clock *fakeClock
	due   chan time.Time
}

func (t *fakeTimer) Chan() <-chan time.Time { return t.due }

func (t *fakeTimer) Reset(d time.Duration) bool {
	active := t.Stop()
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if d <= 0 {
		t.due <- t.clock.now
		return active
	}
	t.clock.timers[t] = t.clock.now.Add(d)
	return active
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, active := t.clock.timers[t]
	delete(t.clock.timers, t)
	select {
	case <-t.due:
	default:
	}
	return active
}
