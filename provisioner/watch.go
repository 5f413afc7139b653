package provisioner

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/keyqueue"
	"github.com/sutler-dev/sutler/operator"
)

// watch is a watcher and what its events mean.
type watch struct {
	source  EventSource
	watcher facade.StringsWatcher
	changed func(app string, event *Event)
}

// watcherState is what the report tells of a watcher.
type watcherState struct {
	events  int
	last    time.Time
	missing string // why it is not there
}

// startWatchers asks for every watcher that there is. They are the catacomb's
// from then on, also when a later one cannot be had.
func (w *Worker) startWatchers(ctx context.Context) ([]watch, error) {
	changed := func(app string, event *Event) { w.dirty(keyqueue.Fresh, app, event) }
	var watches []watch
	start := func(source EventSource, changed func(string, *Event), get func(context.Context) (facade.StringsWatcher, error)) error {
		calls := w.newDeadline(ctx)
		defer calls.close()
		watcher, err := get(calls.begin())
		if err = calls.end(err); err != nil {
			return errors.Annotatef(err, "watching %s", source)
		}
		if watcher == nil {
			return errors.NotValidf("nil watcher of %s", source)
		}
		if err := w.catacomb.Add(watcher); err != nil {
			return errors.Trace(err)
		}
		watches = append(watches, watch{source: source, watcher: watcher, changed: changed})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers[string(source)] = &watcherState{}
		return nil
	}
	optional := func(source EventSource, err error) error {
		if !errors.Is(err, errors.NotSupported) {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers[string(source)] = &watcherState{missing: "not supported"}
		return nil
	}

	if err := start(SourceApplications, changed, w.config.Facade.WatchApplications); err != nil {
		if errors.Is(err, errors.NotSupported) {
			err = errors.WithType(err, errNoOperators)
		}
		return nil, err
	}
	if p, ok := w.config.Facade.(facade.ProvisioningWatcher); ok {
		if err := optional(SourceProvisioning, start(SourceProvisioning, changed, p.WatchProvisioning)); err != nil {
			return nil, err
		}
	}
	if o, ok := w.config.OperatorManager.(operator.Watcher); ok {
		if err := optional(SourceOperators, start(SourceOperators, w.drifted, o.WatchOperators)); err != nil {
			return nil, err
		}
	}
	return watches, nil
}

// drifted has the application of a changed operator looked at. The change may
// be the echo of what our own pass did: were it to cut the back-off of a
// failing application short, that would be tried without a pause.
func (w *Worker) drifted(app string, event *Event) {
	switch w.queue.Status(app).State {
	case keyqueue.Running:
		w.dirty(keyqueue.Background, app, event)
	case keyqueue.Waiting:
		if w.isTroubled(app) {
			return // looked at when its back-off ends
		}
		w.dirty(keyqueue.Fresh, app, event)
	default:
		w.dirty(keyqueue.Fresh, app, event)
	}
}

func (w *Worker) isTroubled(app string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.applications[app]
	return ok && a.troubled()
}

// follow passes a watcher's events on until the worker dies or the watcher
// ends, which is an error whatever way it ends.
func (w *Worker) follow(ctx context.Context, watch watch) error {
	// Wait ends at the latest when the catacomb, whose watcher it is, dies.
	ended := make(chan error, 1)
	go func() { ended <- watch.watcher.Wait() }()
	err := w.followChanges(ctx, watch, ended)
	if err == nil || w.isDying() {
		<-ended
		return nil
	}
	return errors.Annotatef(err, "%s watcher", watch.source)
}

func (w *Worker) followChanges(ctx context.Context, watch watch, ended chan error) error {
	changes := watch.watcher.Changes()
	if changes == nil {
		watch.watcher.Kill()
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
		case apps, ok := <-changes:
			if !ok {
				watch.watcher.Kill()
				err := <-ended
				ended <- err
				if err == nil {
					err = errors.New("closed its channel")
				}
				return err
			}
			w.heard(watch, apps, first)
		}
	}
}

// heard marks what an event names. The baseline is old news, and waits behind
// what is new.
func (w *Worker) heard(watch watch, apps []string, baseline bool) {
	w.mu.Lock()
	state := w.watchers[string(watch.source)]
	state.events++
	state.last = w.config.Clock.Now()
	w.mu.Unlock()
	event := w.event(watch.source, len(apps))
	for _, app := range apps {
		if baseline {
			w.dirty(keyqueue.Background, app, event)
		} else {
			watch.changed(app, event)
		}
	}
}
