package lxd

import (
	"context"
	"sync"

	"github.com/juju/errors"
)

// keyed is a lock for each key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

func newKeyed() *keyed { return &keyed{held: map[string]chan struct{}{}} }

// acquire returns when the key is the caller's, or when ctx ends.
func (k *keyed) acquire(ctx context.Context, key string) (release func(), err error) {
	for {
		k.mu.Lock()
		held, ok := k.held[key]
		if !ok {
			freed := make(chan struct{})
			k.held[key] = freed
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.held, key)
				close(freed)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, errors.Annotatef(ctx.Err(), "waiting for another call about %s", key)
		}
	}
}
