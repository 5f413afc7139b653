// Package socket makes and reaches unix sockets in directories of any length of
// name. A unix socket's address takes 107 bytes; a longer path is reached through
// the directory's file descriptor, which Linux has a short name for.
package socket

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/juju/errors"
)

// maxPath is the longest path that a unix socket's address takes.
const maxPath = 107

// shortPath returns a path by which the socket in dir can be bound or reached,
// and what keeps it valid until it is closed.
func shortPath(dir, name string) (string, io.Closer, error) {
	path := filepath.Join(dir, name)
	if len(path) <= maxPath {
		return path, io.NopCloser(nil), nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, errors.Trace(err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), name), f, nil
}

// Listen makes the socket with mode 0600. The caller must have made sure that
// nobody listens on it: one that is there was left by a process that was killed.
// Closing the listener removes the socket.
func Listen(ctx context.Context, dir, name string) (net.Listener, error) {
	path, keep, err := shortPath(dir, name)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		_ = keep.Close()
		return nil, errors.Trace(err)
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		_ = keep.Close()
		return nil, errors.Annotatef(err, "opening %s", name)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		_ = keep.Close()
		return nil, errors.Trace(err)
	}
	return &listener{l, keep}, nil
}

// listener keeps what its path needs: closing removes the socket by it.
type listener struct {
	net.Listener
	keep io.Closer
}

// Close is part of net.Listener.
func (l *listener) Close() error {
	err := l.Listener.Close()
	_ = l.keep.Close()
	return err
}

// Dial connects to the socket. It returns errors.NotFound when nobody listens.
func Dial(ctx context.Context, dir, name string) (net.Conn, error) {
	path, keep, err := shortPath(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.NotFoundf("listener on %s", name)
	}
	if err != nil {
		return nil, err
	}
	defer keep.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errors.NotFoundf("listener on %s", name)
	}
	return conn, errors.Annotatef(err, "connecting to %s", name)
}

// Read connects to the socket and returns all that is said there, or
// errors.NotFound when nobody listens.
func Read(ctx context.Context, dir, name string) ([]byte, error) {
	conn, err := Dial(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	data, err := io.ReadAll(conn)
	return data, errors.Annotatef(err, "reading from %s", name)
}
