package fakes

import (
	"slices"
	"sync"

	"github.com/sutler-dev/sutler/facade"
)

// Watcher is a facade.Watcher that does as it is told. What is sent while the
// last event is unread is merged with it into one.
//
// It has no goroutine. It is safe for use by many goroutines.
type Watcher[T any] struct {
	merge   func(unread, next T) T
	changes chan T
	dead    chan struct{}

	mu     sync.Mutex
	silent bool
	closed bool
	ended  bool
	err    error
}

var (
	_ facade.StringsWatcher = (*Watcher[[]string])(nil)
	_ facade.NotifyWatcher  = (*Watcher[struct{}])(nil)
)

// NewWatcher returns a watcher that has nothing to tell yet, not even a
// baseline. merge makes one event of two.
func NewWatcher[T any](merge func(unread, next T) T) *Watcher[T] {
	return &Watcher[T]{merge: merge, changes: make(chan T, 1), dead: make(chan struct{})}
}

// NewStringsWatcher returns a facade.StringsWatcher whose baseline is the
// names given. Unread events merge into one that has each name once.
func NewStringsWatcher(baseline ...string) *Watcher[[]string] {
	w := NewWatcher(func(unread, next []string) []string {
		for _, name := range next {
			if !slices.Contains(unread, name) {
				unread = append(unread, name)
			}
		}
		return unread
	})
	w.Send(slices.Clone(baseline))
	return w
}

// NewNotifyWatcher returns a facade.NotifyWatcher whose baseline is sent.
func NewNotifyWatcher() *Watcher[struct{}] {
	w := NewWatcher(func(_, next struct{}) struct{} { return next })
	w.Send(struct{}{})
	return w
}

// Changes is part of facade.Watcher.
func (w *Watcher[T]) Changes() <-chan T { return w.changes }

// Send makes v the next event, merged with the one that is unread if there is
// one. It never blocks. A watcher that was silenced, closed or ended drops v.
// The watcher owns v.
func (w *Watcher[T]) Send(v T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent || w.closed || w.ended {
		return
	}
	select {
	case unread := <-w.changes:
		v = w.merge(unread, v)
	default:
	}
	// There is room: only Send puts events in, and it holds the lock.
	w.changes <- v
}

// Silence makes the watcher drop everything that is sent from now on. It looks
// alive.
func (w *Watcher[T]) Silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

// Close closes the channel of changes. The watcher goes on as a worker until
// it is killed or ended.
func (w *Watcher[T]) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.changes)
	}
}

// Fail ends the watcher with err, which Wait returns. The channel of changes
// stays open. A watcher that has ended is not changed.
func (w *Watcher[T]) Fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended, w.err = true, err
		close(w.dead)
	}
}

// End ends the watcher without error, as if it had nothing more to tell. The
// channel of changes stays open.
func (w *Watcher[T]) End() { w.Fail(nil) }

// Kill is part of worker.Worker. It ends the watcher.
func (w *Watcher[T]) Kill() { w.Fail(nil) }

// Wait is part of worker.Worker.
func (w *Watcher[T]) Wait() error {
	<-w.dead
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Ended reports whether the watcher was killed or has ended by itself.
func (w *Watcher[T]) Ended() bool {
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

// watchers are the live watchers that a fake has handed out. Its owner's lock
// guards it.
type watchers struct{ list []handedOut }

type handedOut struct {
	method  string
	faults  *Faults
	watcher *Watcher[[]string]
}

func (ws *watchers) add(method string, f *Faults, baseline []string) *Watcher[[]string] {
	w := NewStringsWatcher(baseline...)
	ws.prune()
	ws.list = append(ws.list, handedOut{method, f, w})
	return w
}

func (ws *watchers) send(method string, names ...string) {
	ws.prune()
	for _, h := range ws.list {
		if h.method == method {
			h.watcher.Send(slices.Clone(names))
		}
	}
}

// live returns the watchers that the method has handed out over that
// connection and that have not ended.
func (ws *watchers) live(method string, f *Faults) []*Watcher[[]string] {
	ws.prune()
	var out []*Watcher[[]string]
	for _, h := range ws.list {
		if h.method == method && h.faults == f {
			out = append(out, h.watcher)
		}
	}
	return out
}

func (ws *watchers) prune() {
	ws.list = slices.DeleteFunc(ws.list, func(h handedOut) bool { return h.watcher.Ended() })
}
