package kubernetes

import (
	"context"
	"sync"

	"github.com/juju/errors"
)

// keyedLocks has a lock for each application, while somebody wants it. The zero
// value is ready.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	slot  chan struct{}
	users int
}

// lock takes the application's lock, and returns how to give it back.
func (l *keyedLocks) lock(ctx context.Context, app string) (unlock func(), err error) {
	l.mu.Lock()
	k, ok := l.held[app]
	if !ok {
		k = &keyedLock{slot: make(chan struct{}, 1)}
		if l.held == nil {
			l.held = make(map[string]*keyedLock)
		}
		l.held[app] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, app)
		}
	}
	select {
	case k.slot <- struct{}{}:
		return func() { <-k.slot; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, errors.Annotate(ctx.Err(), "waiting for another call for this application")
	}
}
