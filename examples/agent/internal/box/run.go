package box

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
)

// missInterval is how often a box looks whether its directory is still its own.
const missInterval = 2 * time.Second

// RunConfig is what a box is started with; all of it is required.
type RunConfig struct {
	// Dir is the instance's directory.
	Dir string
	// Ready is where the box says that it is.
	Ready  io.Writer
	Logger *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing.
func (c RunConfig) Validate() error {
	switch {
	case c.Dir == "":
		return errors.NotValidf("empty Dir")
	case c.Ready == nil:
		return errors.NotValidf("nil Ready")
	case c.Logger == nil:
		return errors.NotValidf("nil Logger")
	}
	return nil
}

// Run is a box, until ctx is cancelled: it lives, and says so to whoever
// connects to its socket. It returns errors.AlreadyExists when the instance has
// a process already, and nil also when its directory is removed.
func Run(ctx context.Context, config RunConfig) error {
	if err := config.Validate(); err != nil {
		return err
	}
	r, err := readRecord(config.Dir)
	if err != nil {
		return err
	}
	lock, err := takeLock(filepath.Join(config.Dir, lockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	p, err := self()
	if err != nil {
		return err
	}
	// Before anybody can hear of it, so that whoever comes after a crash of
	// the agent finds it.
	if err := p.write(config.Dir); err != nil {
		return err
	}
	l, err := socket.Listen(ctx, config.Dir, socketFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := yaml.Marshal(Answer{Container: r.Container, PID: p.PID, Since: time.Now().UTC()})
	if err != nil {
		_ = l.Close()
		return errors.Trace(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		serve(ctx, l, answer)
	}()
	defer func() { <-served }()
	defer l.Close()

	config.Logger.Info("this is a box", "container", r.Container, "pid", p.PID)
	// Whoever started it may be gone by now.
	_, _ = fmt.Fprintln(config.Ready, ready)
	untilMissed(ctx, lock)
	config.Logger.Info("the box ends")
	return nil
}

// untilMissed returns when ctx ends, or when the directory has gone, or has
// become another box's.
func untilMissed(ctx context.Context, lock *os.File) {
	ticker := time.NewTicker(missInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		own, err := lock.Stat()
		if err != nil {
			continue // what cannot be told has not gone
		}
		now, err := os.Lstat(lock.Name())
		if os.IsNotExist(err) || err == nil && !os.SameFile(own, now) {
			return
		}
	}
}

// serve answers whoever connects, until the listener is closed.
func serve(ctx context.Context, l net.Listener, answer []byte) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-time.After(100 * time.Millisecond): // out of descriptors, say
			case <-ctx.Done():
			}
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(answerTimeout))
		_, _ = conn.Write(answer)
		_ = conn.Close()
	}
}

// takeLock locks the file for the life of this process.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Trace(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.AlreadyExistsf("process of this box")
	}
	return nil, errors.Annotate(err, "locking the box")
}
