package virt

import (
	"context"
	"io/fs"
	"net"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/internal/deadline"
)

// session is a connection to the daemon that has been opened for the driver.
type session struct {
	lv   *libvirt.Libvirt
	wire *wire
	// users are the calls that are under way and waited for, and retired says
	// that no new one may begin. Both are the client's, under its lock.
	users   int
	retired bool
}

// result is what a call gave.
type result[T any] struct {
	value T
	err   error
}

// ask has f ask the daemon one thing, which changes nothing, and returns the
// answer.
func ask[T any](ctx context.Context, c *Client, f func(*libvirt.Libvirt) (T, error)) (T, error) {
	return timed(ctx, c, c.config.CallTimeout, f)
}

// change has f change one thing.
func change[T any](ctx context.Context, c *Client, f func(*libvirt.Libvirt) (T, error)) (T, error) {
	return timed(ctx, c, c.config.OperationTimeout, f)
}

// act is change without a value.
func act(ctx context.Context, c *Client, f func(*libvirt.Libvirt) error) error {
	_, err := change(ctx, c, func(lv *libvirt.Libvirt) (struct{}, error) { return struct{}{}, f(lv) })
	return err
}

// timed calls f with a session, within a time.
func timed[T any](ctx context.Context, c *Client, limit time.Duration, f func(*libvirt.Libvirt) (T, error)) (T, error) {
	var value T
	err := c.within(ctx, limit, func(ctx context.Context) error {
		var err error
		value, err = do(ctx, c, f)
		return err
	})
	return value, err
}

// within calls f with a context that ends after limit.
func (c *Client) within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	err := deadline.Call(ctx, c.config.Clock, limit, f)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errors.Timeout):
		return errors.Annotatef(err, "libvirt at socket %s", c.config.Socket)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.WithType(err, errors.Timeout)
	}
	return err
}

// do calls f with a session, in a goroutine of its own, since f knows no context.
// When the context ends first, the session is retired: its connection is closed,
// which ends f, once the other calls on it have come to their ends.
func do[T any](ctx context.Context, c *Client, f func(*libvirt.Libvirt) (T, error)) (T, error) {
	var none T
	s, err := c.acquire(ctx)
	if err != nil {
		return none, err
	}
	done := make(chan result[T], 1)
	if err := c.spawn(func() {
		value, err := f(s.lv)
		done <- result[T]{value, err}
	}); err != nil {
		c.release(s, true)
		return none, err
	}
	select {
	case r := <-done:
		if r.err == nil {
			c.release(s, false)
			return r.value, nil
		}
		broken, err := c.classify(r.err)
		c.release(s, broken)
		return none, err
	case <-ctx.Done():
		c.release(s, true)
		return none, ctx.Err()
	}
}

// spawn has a goroutine do what Close waits for. Once it may wait, none begins.
func (c *Client) spawn(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.isClosed()
	}
	c.work.Go(f)
	return nil
}

func (c *Client) isClosed() error {
	return errors.Errorf("client of libvirt at socket %s is closed", c.config.Socket)
}

// acquire returns the session for a call, to be released, and makes one if there is
// none.
func (c *Client) acquire(ctx context.Context) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s, err := c.reuse(); s != nil || err != nil {
		return s, err
	}
	select {
	case c.dialling <- struct{}{}:
		defer func() { <-c.dialling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Whoever was before has perhaps made one.
	if s, err := c.reuse(); s != nil || err != nil {
		return s, err
	}
	return c.connect(ctx)
}

func (c *Client) reuse() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, c.isClosed()
	}
	s := c.current
	if s == nil {
		return nil, nil
	}
	if s.wire.broken() {
		c.retire(s)
		return nil, nil
	}
	s.users++
	return s, nil
}

// connect makes a session, which is the current one from then on, for one call.
func (c *Client) connect(ctx context.Context) (*session, error) {
	conn, err := c.dialer.DialContext(ctx, "unix", c.config.Socket)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	s := &session{wire: newWire(conn), users: 1}
	s.lv = libvirt.NewWithDialer(s.wire)

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		_ = s.wire.Close()
		return nil, c.isClosed()
	}
	c.sessions[s] = struct{}{}
	c.mu.Unlock()

	done := make(chan error, 1)
	err = c.spawn(func() {
		err := s.lv.ConnectToURI(libvirt.ConnectURI(c.config.URI))
		s.wire.handshaken()
		done <- err
		if err == nil {
			// So that Close waits for go-libvirt's own goroutines as well.
			<-s.lv.Disconnected()
		}
	})
	if err == nil {
		select {
		case err = <-done:
			if err != nil {
				_, err = c.classify(err)
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		c.release(s, true)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.current = s
	}
	return s, nil
}

// release ends a call's use of a session. One that is broken, or that a call is
// left behind on, serves no other.
func (c *Client) release(s *session, spent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users--
	if spent {
		c.retire(s)
	}
	if s.retired && s.users == 0 {
		c.drop(s)
	}
}

// retire keeps new calls from a session, with the lock held.
func (c *Client) retire(s *session) {
	s.retired = true
	if c.current == s {
		c.current = nil
	}
	if s.users == 0 {
		c.drop(s)
	}
}

// drop closes a session's connection, with the lock held. Whatever still waits for
// an answer on it fails.
func (c *Client) drop(s *session) {
	if _, ok := c.sessions[s]; !ok {
		return
	}
	delete(c.sessions, s)
	_ = s.wire.Close()
}

// unreachable is the error of a connection that could not be made.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	why := err
	var op *net.OpError
	if errors.As(err, &op) {
		why = op.Err
	}
	if errors.Is(err, fs.ErrPermission) {
		return errors.WithType(errors.Errorf("socket %s: %v", c.config.Socket, why), errors.Forbidden)
	}
	return errors.WithType(errors.Errorf("libvirt does not answer at socket %s: %v", c.config.Socket, why), errors.NotYetAvailable)
}
