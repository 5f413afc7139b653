// Package deadline gives a call a deadline on a clock that is handed in, which
// package context cannot.
package deadline

import (
	"context"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// passed is why the context of a call that took too long was cancelled.
const passed = errors.ConstError("deadline of the call passed")

// Call calls f with a context that ends when ctx does, or after limit. An f that
// returns because of the latter gives an errors.Timeout that says so: its
// context.Canceled would make the caller believe that it was cancelled itself.
// What else f returns, late or not, is returned as it is.
func Call(ctx context.Context, clk clock.Clock, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := clk.AfterFunc(limit, func() { cancel(passed) })
	defer timer.Stop()
	err := f(ctx)
	if err != nil && context.Cause(ctx) == passed && (errors.Is(err, context.Canceled) || errors.Is(err, passed)) {
		return errors.WithType(errors.Errorf("no answer within %s", limit), errors.Timeout)
	}
	return err
}
