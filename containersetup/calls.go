package containersetup

import (
	"context"
	"time"

	"github.com/juju/errors"
)

// errDeadline is why the context of a call that took too long was cancelled.
const errDeadline = errors.ConstError("deadline of the call passed")

// within makes a call with a deadline on the worker's clock.
func (w *Worker) within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := w.config.Clock.AfterFunc(limit, func() { cancel(errDeadline) })
	defer timer.Stop()
	err := call(ctx)
	if err != nil && context.Cause(ctx) == errDeadline && errors.Is(err, context.Canceled) {
		return errors.WithType(errors.Errorf("no answer within %s", limit), errors.Timeout)
	}
	return err
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
