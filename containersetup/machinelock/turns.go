package machinelock

import (
	"container/list"
	"context"
	"sync"
)

// turns lets one goroutine at a time try for the file, in the order in which
// they came. Without it, the goroutines of a process would all poll, and who is
// lucky would go first.
type turns struct {
	mu      sync.Mutex
	taken   bool
	waiting list.List // of chan struct{}, closed when the turn comes
}

// take returns nil when it is the caller's turn, or ctx's error when that ends
// first.
func (t *turns) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := t.waiting.PushBack(turn)
	t.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn:
		// It came all the same: somebody else can use it.
		t.next()
	default:
		t.waiting.Remove(place)
	}
	return ctx.Err()
}

// pass ends the caller's turn.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

func (t *turns) next() {
	front := t.waiting.Front()
	if front == nil {
		t.taken = false
		return
	}
	close(t.waiting.Remove(front).(chan struct{}))
}

// queued returns how many wait for their turn.
func (t *turns) queued() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting.Len()
}
