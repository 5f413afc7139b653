package process

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
)

// signature is what a change of the stored files shows in. Of the record it is
// only whether there is one: its content changes with every start.
type signature struct {
	record          bool
	agentConf, info fileSignature
}

type fileSignature struct {
	size    int64
	changed time.Time
	mode    os.FileMode
}

// sign takes what cannot be looked at for absent: the watchers' looks find out.
func (m *Manager) sign(u *unit) signature {
	there, _ := m.hasRecord(u.app)
	return signature{
		record:    there,
		agentConf: m.signFile(u.path(templateName)),
		info:      m.signFile(u.path(infoName)),
	}
}

func (m *Manager) signFile(name string) fileSignature {
	info, err := m.disk.root.Lstat(name)
	if err != nil {
		return fileSignature{}
	}
	return fileSignature{size: info.Size(), changed: info.ModTime(), mode: info.Mode()}
}

// look tells the watchers when somebody else changed the unit's files. A unit
// that is in use is looked at the next time.
func (m *Manager) look(u *unit) {
	if !u.tryLock() {
		return
	}
	defer u.unlock()
	if u.gone {
		return
	}
	if now := m.sign(u); now != u.signature {
		u.signature = now
		m.notify(u.app)
	}
}

// notify tells every watcher that the application's operator changed.
func (m *Manager) notify(app string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.watchers {
		w.add(app)
	}
}

// WatchOperators implements operator.Watcher. It names operators whose
// configuration changed, by a call or behind the manager's back, and those that
// vanished. The end of a process is not a change: that is for the manager to
// see to. The watcher ends with an error when the manager ends.
func (m *Manager) WatchOperators(ctx context.Context) (facade.StringsWatcher, error) {
	w := &watcher{
		manager: m,
		changes: make(chan []string),
		poke:    make(chan struct{}, 1),
		pending: make(map[string]struct{}),
	}
	// First the registration, then the baseline: nothing falls in between.
	m.mu.Lock()
	first := len(m.watchers) == 0
	m.watchers[w] = struct{}{}
	m.mu.Unlock()
	for _, u := range m.snapshot() {
		if !first {
			break // the poll has looked all the time, and tells all
		}
		if err := u.lock(ctx, m.catacomb.Dying()); err != nil {
			m.unregister(w)
			return nil, errors.Annotate(err, "watching operators")
		}
		u.signature = m.sign(u)
		u.unlock()
	}
	baseline, err := m.names(ctx)
	if err == nil {
		err = catacomb.Invoke(catacomb.Plan{
			Site: &w.catacomb,
			Work: func() error { return w.loop(baseline) },
		})
	}
	if err != nil {
		m.unregister(w)
		return nil, errors.Annotate(err, "watching operators")
	}
	return w, nil
}

// unregister may be called twice.
func (m *Manager) unregister(w *watcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watchers, w)
}

// watcher is a facade.StringsWatcher. What nobody reads is kept as a set.
type watcher struct {
	catacomb catacomb.Catacomb
	manager  *Manager
	changes  chan []string
	poke     chan struct{}

	mu      sync.Mutex
	pending map[string]struct{}
}

// Kill is part of the worker.Worker interface.
func (w *watcher) Kill() { w.catacomb.Kill(nil) }

// Wait is part of the worker.Worker interface.
func (w *watcher) Wait() error { return w.catacomb.Wait() }

// Changes is part of the facade.Watcher interface.
func (w *watcher) Changes() <-chan []string { return w.changes }

// add never waits for the reader.
func (w *watcher) add(app string) {
	w.mu.Lock()
	w.pending[app] = struct{}{}
	w.mu.Unlock()
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// take merges what is pending into the batch.
func (w *watcher) take(batch []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, app := range batch {
		w.pending[app] = struct{}{}
	}
	batch = slices.Sorted(maps.Keys(w.pending))
	clear(w.pending)
	return batch
}

// loop offers a batch until somebody reads it, and meanwhile adds to it what
// happens. The baseline is offered even if it is empty.
func (w *watcher) loop(batch []string) error {
	defer w.manager.unregister(w)
	out := w.changes
	for {
		select {
		case <-w.catacomb.Dying():
			return w.catacomb.ErrDying()
		case <-w.manager.catacomb.Dying():
			return errStopped
		case <-w.poke:
			// A poke may be left of what was taken before.
			if batch = w.take(batch); len(batch) > 0 {
				out = w.changes
			}
		case out <- batch:
			batch, out = nil, nil
		}
	}
}
