package fakes

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Lock is an in-memory container.Lock, and a container.LockStatuser. Who asked
// first gets it first. The lock of a connection that was cut is free, as that
// of a process that died.
//
// A Lock is a view of the lock over one connection, its [Faults]; [Lock.Session]
// makes another view of the same lock. All of its methods may be called from
// many goroutines at once. An Acquire that fails never has the lock, whatever
// its effect says about having acted.
type Lock struct {
	faults *Faults
	state  *lockState
}

var (
	_ container.Lock         = (*Lock)(nil)
	_ container.LockStatuser = (*Lock)(nil)
)

// Hold is one time that somebody had, or wanted, the lock.
type Hold struct {
	Holder container.Holder
	// PID is 0 for one that [Lock.Occupy] was told nothing else about.
	PID int
	// Asked is when it was asked for, Acquired when it was had, and Freed
	// when it was given back or its connection was found to be cut; zero
	// when not yet, or never.
	Asked, Acquired, Freed time.Time
	// Releases is how often it was given back; more than once is harmless.
	Releases int
}

type lockState struct {
	mu      sync.Mutex
	now     func() time.Time
	holder  *claim
	waiting []*claim
	history []*claim
	// changed is closed, and made anew, when the lock has another holder.
	changed chan struct{}
}

// claim is somebody who has or wants the lock. faults is nil for others.
type claim struct {
	Hold
	faults  *Faults
	granted chan struct{}
}

func (c *claim) dead() bool { return c.faults != nil && c.faults.isCut() }

// severed is nil, and never closed, for others.
func (c *claim) severed() <-chan struct{} {
	if c == nil || c.faults == nil {
		return nil
	}
	return c.faults.severed
}

// NewLock returns a free lock whose calls go through the faults given.
func NewLock(faults *Faults) *Lock {
	return &Lock{faults: faults, state: &lockState{now: faults.clock.Now, changed: make(chan struct{})}}
}

// Session returns a view of the same lock over another connection.
func (l *Lock) Session(faults *Faults) *Lock { return &Lock{faults: faults, state: l.state} }

// Faults returns what this view's calls go through.
func (l *Lock) Faults() *Faults { return l.faults }

// Acquire is part of container.Lock.
func (l *Lock) Acquire(ctx context.Context, holder container.Holder) (release func(), err error) {
	// The wait is outside of the faults' own steps, which must not block;
	// so this does by itself what run does for others.
	f, s := l.faults, l.state
	rec, p := f.begin(Call{Method: "Acquire", Args: []any{holder}})
	e := p.whole
	acted, finished := false, false
	var mine *claim
	defer func() {
		if !finished {
			err = errPanicked
		}
		if err != nil && mine != nil {
			s.drop(mine)
		}
		f.end(rec, acted, err)
	}()
	give := func(err error) (func(), error) {
		finished = true
		if err != nil {
			return nil, err
		}
		return func() { s.release(mine) }, nil
	}

	if err := f.pass(ctx, e, e.Delay, e.Gate); err != nil {
		return give(err)
	}
	if e.Before != nil {
		e.Before()
	}
	if e.Panic != nil {
		panic(e.Panic)
	}
	if e.Err != nil {
		return give(e.Err)
	}
	if !f.isCut() {
		mine = s.claim(holder, f)
		done := ctx.Done()
		if e.Deaf {
			done = nil
		}
		if s.wait(mine, done) {
			f.act(rec, func() {}, &acted)
		}
		if e.Then != nil {
			e.Then()
		}
		if err := f.pass(ctx, e, e.Late, nil); err != nil {
			return give(err)
		}
	}
	if f.isCut() {
		<-ctx.Done()
		return give(ctx.Err())
	}
	return give(nil)
}

// Status is part of container.LockStatuser.
func (l *Lock) Status(ctx context.Context) (container.LockStatus, error) {
	return run(ctx, l.faults, Call{Method: "Status"}, func(plan) (container.LockStatus, error) {
		l.state.mu.Lock()
		defer l.state.mu.Unlock()
		l.state.dispatch()
		h := l.state.holder
		if h == nil {
			return container.LockStatus{}, nil
		}
		return container.LockStatus{Held: true, Holder: h.Holder, PID: h.PID, Since: h.Acquired}, nil
	})
}

// Occupy makes others, in another process, take the lock: at once if it is
// free, else before all who wait. free gives it back, or gives up wanting it;
// calling it again is harmless.
func (l *Lock) Occupy(holder container.Holder, pid int) (free func()) {
	s := l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.newClaim(holder, pid, nil)
	s.waiting = slices.Insert(s.waiting, 0, c)
	s.dispatch()
	return func() { s.release(c) }
}

// Held tells who has the lock.
func (l *Lock) Held() (Hold, bool) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.state.dispatch()
	if l.state.holder == nil {
		return Hold{}, false
	}
	return l.state.holder.Hold, true
}

// Waiting returns those who wait for the lock, first who gets it first.
func (l *Lock) Waiting() []Hold {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.state.dispatch()
	return holds(slices.DeleteFunc(slices.Clone(l.state.waiting), (*claim).dead))
}

// History returns everybody who ever had the lock, first who had it first.
func (l *Lock) History() []Hold {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.state.dispatch()
	return holds(l.state.history)
}

// CheckFree returns an error that tells who has the lock, if anybody does.
func (l *Lock) CheckFree() error {
	if h, ok := l.Held(); ok {
		return errors.Errorf("lock held by %s since %s", describe(h.Holder), h.Acquired.Format(time.RFC3339Nano))
	}
	return nil
}

func describe(h container.Holder) string { return fmt.Sprintf("%q for %q", h.Worker, h.Reason) }

// heldBy tells whether somebody has the lock over that connection.
func (l *Lock) heldBy(f *Faults) bool {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	return l.state.holder != nil && l.state.holder.faults == f
}

func holds(claims []*claim) []Hold {
	var out []Hold
	for _, c := range claims {
		out = append(out, c.Hold)
	}
	return out
}

func (s *lockState) claim(holder container.Holder, f *Faults) *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.newClaim(holder, os.Getpid(), f)
	s.waiting = append(s.waiting, c)
	s.dispatch()
	return c
}

func (s *lockState) newClaim(holder container.Holder, pid int, f *Faults) *claim {
	return &claim{
		Hold:    Hold{Holder: holder, PID: pid, Asked: s.now()},
		faults:  f,
		granted: make(chan struct{}),
	}
}

// dispatch takes the lock from the dead and gives it to the first who waits. It
// is called with mu held.
func (s *lockState) dispatch() {
	if s.holder != nil && s.holder.dead() {
		s.free()
	}
	for s.holder == nil && len(s.waiting) > 0 {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		if next.dead() {
			continue
		}
		s.holder, next.Acquired = next, s.now()
		s.history = append(s.history, next)
		close(next.granted)
	}
}

func (s *lockState) free() {
	s.holder.Freed = s.now()
	s.holder = nil
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait returns true once the claim is granted, and false when done is closed or
// its own connection is cut before.
func (s *lockState) wait(c *claim, done <-chan struct{}) bool {
	for {
		s.mu.Lock()
		s.dispatch()
		holder, changed := s.holder, s.changed
		s.mu.Unlock()
		select {
		case <-c.granted:
			return true
		default:
		}
		select {
		case <-c.granted:
			return true
		case <-done:
			return false
		case <-c.severed():
			return false
		case <-holder.severed(): // it died with the lock
		case <-changed:
		}
	}
}

// release gives the lock back, or gives up wanting it.
func (s *lockState) release(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.dead() {
		return // a process that is gone does nothing any more
	}
	c.Releases++
	s.leave(c)
}

// drop is release for a claim whose Acquire fails.
func (s *lockState) drop(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(c)
}

func (s *lockState) leave(c *claim) {
	s.waiting = slices.DeleteFunc(s.waiting, func(other *claim) bool { return other == c })
	if s.holder == c {
		s.free()
	}
	s.dispatch()
}
