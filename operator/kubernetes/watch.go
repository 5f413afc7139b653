package kubernetes

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"
	"k8s.io/klog/v2"

	"github.com/sutler-dev/sutler/facade"
)

// hub tells all watchers. The zero value is ready.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
}

func (h *hub) tell(app string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		w.add(app)
	}
}

func (h *hub) join(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = make(map[*watcher]bool)
	}
	h.watchers[w] = true
}

func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

// WatchOperators is part of operator.Watcher. It names applications of which an
// object was made, changed or deleted, by whomever; what controllers say of how
// things go is left out. The watcher ends with an error when the manager ends.
func (m *Manager) WatchOperators(ctx context.Context) (facade.StringsWatcher, error) {
	w := &watcher{manager: m, changes: make(chan []string), poke: make(chan struct{}, 1), pending: make(map[string]bool)}
	m.hub.join(w) // before the baseline: nothing falls in between
	baseline, err := m.Operators(ctx)
	if err == nil {
		err = catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: func() error { return w.loop(baseline) }})
	}
	if err != nil {
		m.hub.leave(w)
		return nil, errors.Annotate(err, "watching operators")
	}
	return w, nil
}

// watcher hands out the names of operators that changed, each once until it is
// read.
type watcher struct {
	catacomb catacomb.Catacomb
	manager  *Manager
	changes  chan []string
	poke     chan struct{}

	mu      sync.Mutex
	pending map[string]bool
}

func (w *watcher) add(app string) {
	w.mu.Lock()
	w.pending[app] = true
	w.mu.Unlock()
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// take returns what has gathered, added to what nobody read so far.
func (w *watcher) take(unread []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, app := range unread {
		w.pending[app] = true
	}
	out := slices.Sorted(maps.Keys(w.pending))
	clear(w.pending)
	return out
}

func (w *watcher) loop(baseline []string) error {
	defer w.manager.hub.leave(w)
	event, out := w.take(baseline), w.changes // also when it is empty
	for {
		select {
		case <-w.catacomb.Dying():
			return w.catacomb.ErrDying()
		case <-w.manager.catacomb.Dying():
			return errEnded()
		case <-w.poke:
			event = w.take(event)
			if len(event) > 0 {
				out = w.changes
			}
		case out <- event:
			event, out = nil, nil
		}
	}
}

// Changes is part of facade.Watcher.
func (w *watcher) Changes() <-chan []string { return w.changes }

// Kill is part of worker.Worker.
func (w *watcher) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *watcher) Wait() error { return w.catacomb.Wait() }

// quiet has client-go log where the manager does, and only what is worth a line of
// an agent's log.
func quiet(ctx context.Context, logger *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(loudOnly{logger.Handler()}))
}

// loudOnly drops what is below slog.LevelInfo.
type loudOnly struct{ slog.Handler }

func (h loudOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && h.Handler.Enabled(ctx, level)
}

// warnings has the manager log what the cluster warns of.
type warnings struct{ logger *slog.Logger }

// HandleWarningHeaderWithContext is part of rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const persistent = 299 // the only one in use
	if code == persistent && text != "" {
		w.logger.WarnContext(ctx, "the cluster warns", "text", text)
	}
}
