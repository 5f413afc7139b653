package virt

import (
	"context"
	"time"

	"github.com/juju/errors"
)

const (
	// firstPause and lastPause are between two attempts to reach a daemon.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
	// readyTimeout is for how long one of the questions of WaitReady may take.
	readyTimeout = 5 * time.Second
)

// WaitReady returns when the daemon answers. It asks again and again, whatever is
// wrong, until the context ends: just after an installation there is no socket, then
// a daemon that asks each emulator what it can, for seconds, before it answers others.
// Then the error is the context's and has the last one's text; it is errors.Timeout if
// the context had a deadline.
func (c *Client) WaitReady(ctx context.Context) error {
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := c.version(ctx, readyTimeout)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
			timer := c.config.Clock.NewTimer(pause)
			select {
			case <-timer.Chan():
			case <-ctx.Done():
			}
			timer.Stop()
		}
		ended := ctx.Err()
		if ended == nil {
			continue
		}
		err = errors.Annotate(ended, "waiting for libvirt")
		if last != nil {
			err = errors.Annotatef(ended, "waiting for libvirt (%v)", last)
		}
		if errors.Is(ended, context.DeadlineExceeded) {
			err = errors.WithType(err, errors.Timeout)
		}
		return err
	}
}
