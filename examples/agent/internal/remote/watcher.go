package remote

import (
	"context"
	"encoding/json"
	"io"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
)

// watcher is a facade.StringsWatcher on an answer that goes on. What happens while
// nobody reads it, the other end makes one event of.
type watcher struct {
	catacomb catacomb.Catacomb
	changes  chan []string
	cancel   context.CancelFunc
	body     io.ReadCloser
}

func (c *Controller) watch(ctx context.Context, name string) (facade.StringsWatcher, error) {
	// The answer outlives the call, but not when the call is given up.
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	body, err := c.post(long, name, nil)
	if !stop() { // it was given up
		if err == nil {
			_ = body.Close()
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watcher{changes: make(chan []string), cancel: cancel, body: body}
	if err := catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: w.loop}); err != nil {
		cancel()
		_ = body.Close()
		return nil, errors.Trace(err)
	}
	return w, nil
}

// Changes is part of facade.Watcher.
func (w *watcher) Changes() <-chan []string { return w.changes }

// Kill is part of worker.Worker.
func (w *watcher) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *watcher) Wait() error { return w.catacomb.Wait() }

func (w *watcher) loop() error {
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for dec := json.NewDecoder(w.body); ; {
			var names []string
			if dec.Decode(&names) != nil {
				return
			}
			select {
			case w.changes <- names:
			case <-w.catacomb.Dying():
				return
			}
		}
	}()
	defer func() {
		w.cancel()
		_ = w.body.Close()
		<-lost
	}()
	select {
	case <-w.catacomb.Dying():
		return w.catacomb.ErrDying()
	case <-lost:
	}
	select {
	case <-w.catacomb.Dying():
		return w.catacomb.ErrDying() // which is why it was lost
	default:
		return errors.Trace(facade.ErrConnectionLost)
	}
}
