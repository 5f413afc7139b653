package containersetup

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/internal/deadline"
)

// within makes a call with a deadline on the worker's clock.
func (w *Worker) within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	return deadline.Call(ctx, w.config.Clock, limit, call)
}

// ask makes a call of the facade, whose connection may be lost.
func (w *Worker) ask(ctx context.Context, call func(context.Context) error) error {
	err := w.within(ctx, w.config.CallTimeout, call)
	if err != nil && !w.isDying() && w.config.IsFatal(err) {
		w.catacomb.Kill(errors.Annotate(err, "talking to the controller"))
	}
	return err
}

// isDying reports whether the worker is ending, so that what fails now fails
// because of that.
func (w *Worker) isDying() bool {
	select {
	case <-w.catacomb.Dying():
		return true
	default:
		return false
	}
}

// wait returns true after d, or false when ctx ends. A signal on wake ends the
// wait, too; a negative d waits for that alone.
func (w *Worker) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	var due <-chan time.Time
	if d >= 0 {
		timer := w.config.Clock.NewTimer(d)
		defer timer.Stop()
		due = timer.Chan()
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-wake:
	}
	// Of several that are so, the end counts.
	return ctx.Err() == nil
}
