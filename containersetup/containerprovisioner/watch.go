package containerprovisioner

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// watcherState is what the report tells of a watcher.
type watcherState struct {
	events int
	last   time.Time
}

// startWatchers asks for every watcher that there is, and returns what follows
// them. They are the catacomb's from then on, also when a later one cannot be
// had.
func (w *Worker) startWatchers(ctx context.Context) ([]func(context.Context) error, error) {
	containers, err := start(ctx, w, string(SourceContainers), func(ctx context.Context) (facade.StringsWatcher, error) {
		return w.config.Facade.WatchContainers(ctx, w.config.MachineID, w.config.Type)
	})
	if err != nil {
		return nil, err
	}
	follow := []func(context.Context) error{func(ctx context.Context) error {
		return followWatcher(ctx, w, string(SourceContainers), containers, func(ids []string, first bool) { w.heard(ctx, ids, first) })
	}}

	source, ok := w.config.Facade.(facade.HarvestWatcher)
	if !ok {
		w.setHarvest(ctx, w.config.HarvestMode)
		return follow, nil
	}
	changes, err := start(ctx, w, string(SourceHarvestMode), source.WatchHarvestMode)
	switch {
	case errors.Is(err, errors.NotSupported):
		w.setHarvest(ctx, w.config.HarvestMode)
		return follow, nil
	case err != nil:
		return nil, err
	}
	changed := make(chan struct{}, 1)
	return append(follow, func(ctx context.Context) error {
		return followWatcher(ctx, w, string(SourceHarvestMode), changes, func(struct{}, bool) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}, func(ctx context.Context) error {
		w.readHarvest(ctx, source, changed)
		return nil
	}), nil
}

// start asks for a watcher.
func start[T any](
	ctx context.Context, w *Worker, name string, get func(context.Context) (facade.Watcher[T], error),
) (facade.Watcher[T], error) {
	var watcher facade.Watcher[T]
	err := w.within(ctx, w.config.CallTimeout, func(ctx context.Context) (err error) {
		watcher, err = get(ctx)
		return err
	})
	if err != nil {
		return nil, errors.Annotatef(err, "watching %s", name)
	}
	if watcher == nil {
		return nil, errors.NotValidf("nil watcher of %s", name)
	}
	if err := w.catacomb.Add(watcher); err != nil {
		return nil, errors.Trace(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchers[name] = &watcherState{}
	return watcher, nil
}

// followWatcher passes a watcher's events on until the worker dies or the
// watcher ends, which is an error whatever way it ends.
func followWatcher[T any](ctx context.Context, w *Worker, name string, watcher facade.Watcher[T], event func(T, bool)) error {
	// Wait ends at the latest when the catacomb, whose watcher it is, dies.
	ended := make(chan error, 1)
	go func() { ended <- watcher.Wait() }()
	err := followChanges(ctx, w, name, watcher, event, ended)
	if err == nil || w.isDying() {
		<-ended
		return nil
	}
	return errors.Annotatef(err, "%s watcher", name)
}

func followChanges[T any](
	ctx context.Context, w *Worker, name string, watcher facade.Watcher[T], event func(T, bool), ended chan error,
) error {
	changes := watcher.Changes()
	if changes == nil {
		watcher.Kill()
		ended <- <-ended
		return errors.NotValidf("nil channel of changes")
	}
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- err
			if err == nil {
				err = errors.New("ended without an error")
			}
			return err
		case change, ok := <-changes:
			if !ok {
				watcher.Kill()
				err := <-ended
				ended <- err
				if err == nil {
					err = errors.New("closed its channel")
				}
				return err
			}
			w.mu.Lock()
			state := w.watchers[name]
			state.events++
			state.last = w.config.Clock.Now()
			w.mu.Unlock()
			event(change, first)
		}
	}
}

// heard has the containers that an event names looked at. The baseline is old
// news, and waits behind what is new.
func (w *Worker) heard(ctx context.Context, ids []string, baseline bool) {
	ids = w.ours(ctx, ids)
	w.turns.heard(ids)
	lane := keyqueue.Fresh
	if baseline {
		lane = keyqueue.Background
	}
	event := w.event(SourceContainers, len(ids))
	for _, id := range ids {
		w.dirty(lane, id, event)
	}
	if baseline {
		close(w.baseline)
	}
}
