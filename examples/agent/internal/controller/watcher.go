package controller

import (
	"maps"
	"slices"
	"sync"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
)

// watcher is a facade.Watcher that is told by the controller.
type watcher[E any] struct {
	catacomb catacomb.Catacomb
	changes  chan E
	wake     chan struct{} // holds one while there is something pending
	event    func(names []string) E
	wants    func(name string) bool

	mu      sync.Mutex
	pending map[string]bool
}

// newWatcher returns one whose first event is about the baseline.
func newWatcher[E any](baseline []string, wants func(string) bool, event func([]string) E) (*watcher[E], error) {
	w := &watcher[E]{
		changes: make(chan E),
		wake:    make(chan struct{}, 1),
		event:   event,
		wants:   wants,
		pending: map[string]bool{},
	}
	err := catacomb.Invoke(catacomb.Plan{
		Site: &w.catacomb,
		Work: func() error { return w.loop(baseline) },
	})
	return w, err
}

// Changes is part of facade.Watcher.
func (w *watcher[E]) Changes() <-chan E { return w.changes }

// Kill is part of worker.Worker.
func (w *watcher[E]) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *watcher[E]) Wait() error { return w.catacomb.Wait() }

// tell adds names to the next event. It never blocks.
func (w *watcher[E]) tell(names []string) {
	names = w.wanted(names)
	if len(names) == 0 {
		return
	}
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

// wanted leaves out what the watcher is not about.
func (w *watcher[E]) wanted(names []string) []string {
	if w.wants == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !w.wants(name) })
}

func (w *watcher[E]) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.pending
	w.pending = map[string]bool{}
	return taken
}

// loop sends what is pending, and lets it grow while nobody takes it.
func (w *watcher[E]) loop(baseline []string) error {
	names := w.wanted(baseline)
	out := w.changes // the baseline is sent even when it is empty
	for {
		select {
		case <-w.catacomb.Dying():
			return w.catacomb.ErrDying()
		case <-w.wake:
			more := w.take()
			for _, name := range names {
				more[name] = true
			}
			names, out = slices.Sorted(maps.Keys(more)), w.changes
		case out <- w.event(names):
			names, out = nil, nil
		}
	}
}

// watchers are the living watchers of one kind.
type watchers[E any] struct {
	event func(names []string) E

	mu     sync.Mutex
	closed bool
	all    map[*watcher[E]]bool
}

// byName and byNothing are the two kinds of event: one that names what changed,
// and one that does not.
func byName(names []string) []string { return names }

func byNothing([]string) struct{} { return struct{}{} }

// add makes a watcher and tells it everything that it wants, by default all,
// until it ends. The baseline is read while nobody tells anything, so that what
// changes after it is told. After close it returns facade.ErrConnectionLost.
func (s *watchers[E]) add(baseline func() []string, wants func(string) bool) (facade.Watcher[E], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, facade.ErrConnectionLost
	}
	w, err := newWatcher(baseline(), wants, s.event)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if s.all == nil {
		s.all = map[*watcher[E]]bool{}
	}
	s.all[w] = true
	return w, nil
}

func (s *watchers[E]) tell(names []string) {
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
func (s *watchers[E]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for w := range s.all {
		w.catacomb.Kill(facade.ErrConnectionLost)
	}
}
