package containerprovisioner

import (
	"context"
	"log/slog"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// harvestState is what is known of the harvest mode.
type harvestState struct {
	mode facade.HarvestMode // empty while it is not known
	err  string             // why it is not, or not any more
}

// readHarvest reads the harvest mode whenever it has changed, until ctx ends.
// The one that was in force stays so until the new one is known; before the
// first, nothing is taken away.
func (w *Worker) readHarvest(ctx context.Context, source facade.HarvestWatcher, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		var delay time.Duration
		for attempt := 0; ; attempt++ {
			err := w.readHarvestOnce(ctx, source)
			if err == nil {
				break
			}
			delay = w.config.Backoff(delay, attempt)
			if !w.wait(ctx, delay) {
				return
			}
		}
	}
}

func (w *Worker) readHarvestOnce(ctx context.Context, source facade.HarvestWatcher) (err error) {
	var mode facade.HarvestMode
	defer func() {
		if r := recover(); r != nil {
			err = errors.Errorf("panic: %v", r)
		}
		if !w.isDying() {
			w.noteHarvest(ctx, err)
		}
	}()
	err = w.ask(ctx, w.config.CallTimeout, func(ctx context.Context) (err error) {
		mode, err = source.HarvestMode(ctx)
		return err
	})
	switch {
	case errors.Is(err, errors.NotSupported):
		mode = w.config.HarvestMode
	case err != nil:
		return err
	}
	if err := mode.Validate(); err != nil {
		return err
	}
	w.setHarvest(ctx, mode)
	return nil
}

// noteHarvest tells of a failure once.
func (w *Worker) noteHarvest(ctx context.Context, err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	w.mu.Lock()
	repeated := w.harvest.err == reason
	w.harvest.err = reason
	w.mu.Unlock()
	if err != nil && !repeated {
		w.config.Logger.WarnContext(ctx, "harvest mode not known", "error", reason)
	}
}

// setHarvest puts a mode in force, which may change what is to be done about
// every container.
func (w *Worker) setHarvest(ctx context.Context, mode facade.HarvestMode) {
	w.mu.Lock()
	before := w.harvest.mode
	w.harvest.mode = mode
	var ids []string
	if before != mode {
		for id := range w.containers {
			ids = append(ids, id)
		}
	}
	w.mu.Unlock()
	if before == mode {
		return
	}
	w.config.Logger.LogAttrs(ctx, slog.LevelInfo, "harvest mode", slog.String("mode", string(mode)))
	event := w.event(SourceHarvestMode, len(ids))
	for _, id := range ids {
		w.dirty(keyqueue.Fresh, id, event)
	}
}
