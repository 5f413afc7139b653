package controller

import (
	"maps"
	"slices"
	"sync"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
)

// watcher is a facade.StringsWatcher that is told by the controller.
type watcher struct {
	catacomb catacomb.Catacomb
	changes  chan []string
	wake     chan struct{} // holds one while there is something pending

	mu      sync.Mutex
	pending map[string]bool
}

// newWatcher returns one whose first event is the baseline.
func newWatcher(baseline []string) (*watcher, error) {
	w := &watcher{
		changes: make(chan []string),
		wake:    make(chan struct{}, 1),
		pending: map[string]bool{},
	}
	err := catacomb.Invoke(catacomb.Plan{
		Site: &w.catacomb,
		Work: func() error { return w.loop(baseline) },
	})
	return w, err
}

// Changes is part of facade.Watcher.
func (w *watcher) Changes() <-chan []string { return w.changes }

// Kill is part of worker.Worker.
func (w *watcher) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *watcher) Wait() error { return w.catacomb.Wait() }

// tell adds names to the next event. It never blocks.
func (w *watcher) tell(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.pending[name] = true
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.pending
	w.pending = map[string]bool{}
	return taken
}

// loop sends what is pending, and lets it grow while nobody takes it.
func (w *watcher) loop(event []string) error {
	out := w.changes // the baseline is sent even when it is empty
	for {
		select {
		case <-w.catacomb.Dying():
			return w.catacomb.ErrDying()
		case <-w.wake:
			more := w.take()
			for _, name := range event {
				more[name] = true
			}
			event, out = slices.Sorted(maps.Keys(more)), w.changes
		case out <- event:
			event, out = nil, nil
		}
	}
}

// watchers are the living watchers of one kind.
type watchers struct {
	mu     sync.Mutex
	closed bool
	all    map[*watcher]bool
}

// add makes a watcher and tells it everything until it ends. The baseline is
// read while nobody tells anything, so that what changes after it is told.
// After close it returns facade.ErrConnectionLost.
func (s *watchers) add(baseline func() []string) (facade.StringsWatcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, facade.ErrConnectionLost
	}
	w, err := newWatcher(baseline())
	if err != nil {
		return nil, errors.Trace(err)
	}
	if s.all == nil {
		s.all = map[*watcher]bool{}
	}
	s.all[w] = true
	return w, nil
}

func (s *watchers) tell(names []string) {
	if len(names) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.all {
		select {
		case <-w.catacomb.Dead():
			delete(s.all, w)
		default:
			w.tell(names)
		}
	}
}

// close ends every watcher: there is nobody to tell it anything.
func (s *watchers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for w := range s.all {
		w.catacomb.Kill(facade.ErrConnectionLost)
	}
}
