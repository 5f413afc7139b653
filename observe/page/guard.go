package page

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// guard asks something that may panic, or never answer. There is one call at a
// time: who asks while one is out gets its answer. The zero guard is one that
// nobody has asked through.
type guard[T any] struct {
	mu  sync.Mutex // guards out
	out *call[T]
}

// call is one that is out, or has ended.
type call[T any] struct {
	since  time.Time
	done   chan struct{} // closed when what follows is set
	answer T
	err    error
}

// errNoAnswer is the kind of error of a call that takes too long.
const errNoAnswer = errors.ConstError("no answer")

// ask returns what f returns, or an error when it panics, when it has not
// returned timeout after it was called, or when ctx ends. The goroutine that
// calls f lives until that returns.
func (g *guard[T]) ask(ctx context.Context, clk clock.Clock, timeout time.Duration, f func() (T, error)) (T, error) {
	c := g.begin(clk, f)
	var zero T
	select {
	case <-c.done:
		return c.answer, c.err
	default:
	}
	left := timeout - clk.Now().Sub(c.since)
	if left > 0 {
		timer := clk.NewTimer(left)
		defer timer.Stop()
		select {
		case <-c.done:
			return c.answer, c.err
		case <-ctx.Done():
			return zero, ctx.Err()
		case <-timer.Chan():
		}
	}
	out := clk.Now().Sub(c.since)
	return zero, errors.WithType(errors.Errorf("no answer for %s", roughly(out)), errNoAnswer)
}

// begin returns the call that is out, and makes one if there is none.
func (g *guard[T]) begin(clk clock.Clock, f func() (T, error)) *call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.out != nil {
		return g.out
	}
	c := &call[T]{since: clk.Now(), done: make(chan struct{})}
	g.out = c
	go func() {
		// Also when f ends its goroutine.
		c.err = errors.New("ended without an answer")
		defer func() {
			if r := recover(); r != nil {
				c.err = panicError{sprint(r)}
			}
			g.mu.Lock()
			g.out = nil
			g.mu.Unlock()
			close(c.done)
		}()
		c.answer, c.err = f()
	}()
	return c
}

// panicError is a panic that was recovered.
type panicError struct{ value string }

// Error is part of error.
func (e panicError) Error() string { return "panic: " + e.value }

// sprint shows a value as it prints, which for an error is its message.
func sprint(v any) string { return fmt.Sprint(v) }
