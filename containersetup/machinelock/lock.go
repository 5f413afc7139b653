package machinelock

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Lock is a machine lock; see the package's documentation. Make one with [New].
// It needs no closing.
type Lock struct {
	path   string
	clock  clock.Clock
	logger *slog.Logger
	poll   time.Duration

	turns turns

	// trying keeps this Lock's own looks at the file apart: a Status would
	// otherwise make an Acquire of the same process find the file locked.
	trying sync.Mutex

	mu   sync.Mutex
	held *held
	seen container.LockStatus // another process's, by whom the first in the queue was stopped last
}

// held is a lock that was acquired and not yet released. That it is reachable
// from the Lock keeps its file from being collected, and with that released,
// when a caller drops release.
type held struct {
	file   *os.File
	status container.LockStatus
}

var (
	_ container.Lock         = (*Lock)(nil)
	_ container.LockStatuser = (*Lock)(nil)
)

// New returns a lock, which it does not acquire. It returns errors.NotValid for
// an impossible config, errors.NotFound when the path's directory is not there,
// and errors.NotSupported on systems without flock.
func New(config Config) (*Lock, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "machine lock config")
	}
	if !supported {
		return nil, errors.NotSupportedf("machine lock on this system")
	}
	dir := filepath.Dir(config.Path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return nil, errors.NotFoundf("directory of machine lock %s", config.Path)
	case err != nil:
		return nil, errors.Annotatef(err, "machine lock %s", config.Path)
	case !info.IsDir():
		return nil, errors.NotValidf("machine lock config: Path %q (%s is no directory)", config.Path, dir)
	}
	l := &Lock{path: config.Path, clock: config.Clock, logger: config.Logger, poll: config.Poll}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.poll == 0 {
		l.poll = DefaultPoll
	}
	return l, nil
}

// Acquire returns when the lock is the caller's, or when ctx ends, with its
// error and without the lock; with a ctx that has ended it never acquires.
// release may be called from any goroutine, and again.
func (l *Lock) Acquire(ctx context.Context, holder container.Holder) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Annotatef(err, "machine lock %s", l.path)
	}
	if err := l.turns.take(ctx); err != nil {
		return nil, l.gaveUp(err)
	}
	defer func() {
		// Also when a logger or a clock panicked.
		if release == nil {
			l.turns.pass()
		}
	}()
	f, err := l.wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, l.gaveUp(err)
		}
		return nil, errors.Annotatef(err, "machine lock %s", l.path)
	}
	h := &held{file: f, status: container.LockStatus{
		Held: true, Holder: holder, PID: os.Getpid(), Since: l.clock.Now(),
	}}
	l.describe(f, h.status)
	l.mu.Lock()
	l.held, l.seen = h, container.LockStatus{}
	l.mu.Unlock()
	return sync.OnceFunc(func() { l.release(h) }), nil
}

// wait tries for the file until it is locked or ctx ends.
func (l *Lock) wait(ctx context.Context) (*os.File, error) {
	for told := false; ; {
		// Asked every time, since a timer and ctx that end together
		// may be seen in either order.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := l.try()
		if f != nil || err != nil {
			return f, err
		}
		s := l.read()
		l.mu.Lock()
		l.seen = s
		l.mu.Unlock()
		if !told {
			told = true
			l.logger.Info("waiting for the machine lock", append(attrs(s), slog.String("path", l.path))...)
		}
		if err := l.pause(ctx); err != nil {
			return nil, err
		}
	}
}

// pause lets about Config.Poll pass.
func (l *Lock) pause(ctx context.Context) error {
	timer := l.clock.NewTimer(l.poll/2 + rand.N(l.poll))
	defer timer.Stop()
	select {
	case <-timer.Chan():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives the lock back and lets the next goroutine have its turn.
func (l *Lock) release(h *held) {
	defer l.turns.pass()
	l.mu.Lock()
	l.held = nil
	l.mu.Unlock()
	replaced := !l.current(h.file)
	// An empty file for whoever looks; it would not be believed anyhow.
	_ = h.file.Truncate(0)
	unlock(h.file)
	if replaced {
		l.logger.Error("the machine lock's file was removed or replaced while the lock was held: others may have held it too",
			append(attrs(h.status), slog.String("path", l.path))...)
	}
}

// gaveUp says what was waited for in vain.
func (l *Lock) gaveUp(err error) error {
	l.mu.Lock()
	s := l.seen
	if l.held != nil {
		s = l.held.status
	}
	l.mu.Unlock()
	if !s.Held {
		return errors.Annotatef(err, "machine lock %s", l.path)
	}
	return errors.Annotatef(err, "machine lock %s, waiting for %s", l.path, who(s))
}
