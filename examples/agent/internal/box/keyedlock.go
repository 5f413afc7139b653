package box

import (
	"context"
	"sync"
)

// keyedLock has one lock for each key, for those who can give up waiting. A key
// that nobody has or waits for costs nothing. The zero value is ready.
type keyedLock struct {
	mu   sync.Mutex
	keys map[string]*keyHold
}

type keyHold struct {
	free  chan struct{} // has one while nobody has the lock
	users int           // who have it or wait for it
}

// lock returns when the key is the caller's, or with ctx's error.
func (l *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.keys == nil {
		l.keys = map[string]*keyHold{}
	}
	hold := l.keys[key]
	if hold == nil {
		hold = &keyHold{free: make(chan struct{}, 1)}
		hold.free <- struct{}{}
		l.keys[key] = hold
	}
	hold.users++
	l.mu.Unlock()
	select {
	case <-hold.free:
		return func() {
			hold.free <- struct{}{}
			l.leave(key, hold)
		}, nil
	case <-ctx.Done():
		l.leave(key, hold)
		return nil, ctx.Err()
	}
}

func (l *keyedLock) leave(key string, hold *keyHold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hold.users--; hold.users == 0 {
		delete(l.keys, key)
	}
}
