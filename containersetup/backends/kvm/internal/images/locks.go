package images

import (
	"context"
	"hash/fnv"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// lockPoll is how often a lock that another process has is asked for again.
const lockPoll = 100 * time.Millisecond

// locks are by name, among the goroutines of this process and with all processes that have
// the same file. The file has nothing in it and stays, since removing it would let two
// processes have locks of two files; each name is a byte of it that is locked, and nobody's
// any longer when a process ends.
type locks struct {
	path  string
	clock clock.Clock

	mu   *sync.Mutex
	held map[string]chan struct{}
}

func newLocks(path string, c clock.Clock) locks {
	return locks{path: path, clock: c, mu: &sync.Mutex{}, held: map[string]chan struct{}{}}
}

// acquire returns when the name is the caller's, or when ctx ends. Waiting is called once
// if there is somebody else in another process.
func (l locks) acquire(ctx context.Context, name string, waiting func()) (release func(), err error) {
	forget, err := l.acquireHere(ctx, name)
	if err != nil {
		return nil, err
	}
	unlock, err := l.acquireFile(ctx, name, waiting)
	if err != nil {
		forget()
		return nil, err
	}
	return func() { unlock(); forget() }, nil
}

func (l locks) acquireHere(ctx context.Context, name string) (release func(), err error) {
	for {
		l.mu.Lock()
		held, ok := l.held[name]
		if !ok {
			freed := make(chan struct{})
			l.held[name] = freed
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, name)
				close(freed)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, errors.Annotatef(ctx.Err(), "waiting for %s", name)
		}
	}
}

func (l locks) acquireFile(ctx context.Context, name string, waiting func()) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(l.path), dirMode); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, privateMode)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	at := int64(h.Sum64() >> 2)
	for first := true; ; first = false {
		got, err := tryLock(f, at)
		if got {
			return func() { _ = f.Close() }, nil
		}
		if err != nil {
			_ = f.Close()
			return nil, errors.Annotatef(err, "locking %s", l.path)
		}
		if first && waiting != nil {
			waiting()
		}
		select {
		case <-l.clock.After(lockPoll):
		case <-ctx.Done():
			_ = f.Close()
			return nil, errors.Annotatef(ctx.Err(), "waiting for another process's %s", name)
		}
	}
}

// Hold has an instance be the caller's, among all goroutines and processes, until it is
// released; others wait for it as long as their contexts last.
func (s *Store) Hold(ctx context.Context, name string) (release func(), err error) {
	if _, err := s.Files(name); err != nil {
		return nil, err
	}
	return s.locks.acquire(ctx, "instance "+name, nil)
}
