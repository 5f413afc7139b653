package report

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

// socketName is the socket's, in the agent's directory.
const socketName = "report.sock"

// maxPath is the longest path that a unix socket's address takes.
const maxPath = 107

// socketPath returns a path by which the socket in dir can be bound or reached,
// and what keeps it valid until it is closed.
func socketPath(dir string) (string, io.Closer, error) {
	path := filepath.Join(dir, socketName)
	if len(path) <= maxPath {
		return path, io.NopCloser(nil), nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, errors.Trace(err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketName), f, nil
}

// listen makes the socket in dir. The caller must have made sure that there is
// no other agent: a socket that is there was left by one that was killed.
func listen(ctx context.Context, dir string) (net.Listener, error) {
	path, keep, err := socketPath(dir)
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
		return nil, errors.Annotate(err, "opening the report's socket")
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

func (l *listener) Close() error {
	err := l.Listener.Close()
	_ = l.keep.Close()
	return err
}

// Fetch returns the report of the agent whose directory is dir, or an
// errors.NotFound when none runs there.
func Fetch(ctx context.Context, dir string) ([]byte, error) {
	path, keep, err := socketPath(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.NotFoundf("running agent")
	}
	if err != nil {
		return nil, err
	}
	defer keep.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errors.NotFoundf("running agent")
	}
	if err != nil {
		return nil, errors.Annotate(err, "asking for the report")
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	data, err := io.ReadAll(conn)
	if err == nil && len(data) == 0 {
		err = errors.New("the agent is stopping")
	}
	return data, errors.Annotate(err, "reading the report")
}
