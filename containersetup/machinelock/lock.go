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

	// mu also keeps this Lock's own looks at the file apart: a Status would
	// otherwise make an Acquire of the same process find the file locked, or
	// see it locked and not yet described. It is never held while something
	// is waited for.
	mu   sync.Mutex
	held *held
	seen container.LockStatus // another's, by whom the first in the queue was stopped last
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
	if err := l.turns.take(ctx); err != nil {
		return nil, l.gaveUp(err)
	}
	defer func() {
		// Also when a logger or a clock panicked.
		if release == nil {
			l.turns.pass()
		}
	}()
	h, err := l.wait(ctx, holder)
	if err != nil {
		if ctx.Err() != nil {
			return nil, l.gaveUp(err)
		}
		return nil, errors.Annotatef(err, "machine lock %s", l.path)
	}
	return sync.OnceFunc(func() { l.release(h) }), nil
}

// wait tries for the lock until it has it or ctx ends.
func (l *Lock) wait(ctx context.Context, holder container.Holder) (*held, error) {
	for told := false; ; {
		// Asked every time: a turn or a timer may come in the instant in
		// which ctx ends, or after.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, seen, err := l.try(holder)
		if h != nil || err != nil {
			return h, err
		}
		if !told {
			told = true
			l.logger.Info("waiting for the machine lock", append(attrs(seen), slog.String("path", l.path))...)
		}
		if err := l.pause(ctx); err != nil {
			return nil, err
		}
	}
}

// try returns the lock when it is free; when another has it, nil and what is
// known of that one.
func (l *Lock) try(holder container.Holder) (*held, container.LockStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now() // before anything is locked, as a stub may panic
	f, err := l.lockFile()
	if err != nil {
		return nil, container.LockStatus{}, err
	}
	if f == nil {
		l.seen = l.read()
		return nil, l.seen, nil
	}
	h := &held{file: f, status: container.LockStatus{
		Held: true, Holder: holder, PID: os.Getpid(), Since: now,
	}}
	describe(f, h.status)
	l.held, l.seen = h, container.LockStatus{}
	return h, h.status, nil
}

// pause lets about Config.Poll pass.
func (l *Lock) pause(ctx context.Context) error {
	timer := l.clock.NewTimer(l.poll/2 + rand.N(l.poll)) //nolint:gosec // it only spreads the tries
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
	if !l.giveBack(h) {
		l.logger.Error("the machine lock's file was removed or replaced while the lock was held: others may have held it too",
			append(attrs(h.status), slog.String("path", l.path))...)
	}
}

// giveBack returns whether the lock was worth something until now.
func (l *Lock) giveBack(h *held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.current(h.file)
	// An empty file for whoever looks; it would not be believed anyhow.
	_ = h.file.Truncate(0)
	unlock(h.file)
	l.held = nil
	return current
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
