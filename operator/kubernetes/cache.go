package kubernetes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// cached is what is known of the objects of one kind: what an informer was told,
// and what the manager has written itself and the informer was not told yet.
type cached struct {
	kind      kind
	namespace string
	clock     clock.Clock
	logger    *slog.Logger
	informer  cache.SharedIndexInformer

	mu sync.Mutex
	// own has what was written and may not have come back, by name.
	own map[string]own
	// trouble is why the informer cannot list or watch at the moment.
	trouble error
	since   time.Time
	// changed is closed and made anew whenever trouble changes.
	changed chan struct{}
}

// own is a write of the manager's own.
type own struct {
	obj object // what is there now; nil for nothing
	uid types.UID
	// version is that of the write or, of a deletion, of what was deleted.
	version string
	deleted bool
	at      time.Time
}

// ownFor bounds for how long a write is remembered, should the informer never be
// told of it.
const ownFor = time.Minute

func newCached(k kind, e endpoint, client any, config Config, trim func(object) object) (*cached, error) {
	c := &cached{
		kind: k, namespace: config.Namespace, clock: config.Clock, logger: config.Logger,
		own: make(map[string]own), changed: make(chan struct{}),
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.LabelSelector = watched
			list, err := e.list(ctx, opts)
			if err != nil { // else it is for the watch to say that all is well
				c.noted(ctx, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.LabelSelector = watched
			w, err := e.watch(ctx, opts)
			c.noted(ctx, err)
			return w, err
		},
	}
	c.informer = cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(source, client), e.empty(), cache.SharedIndexInformerOptions{
			ObjectDescription: k.singular(),
		})
	err := c.informer.SetTransform(func(obj any) (any, error) {
		if o, ok := obj.(object); ok {
			intern(trim(o))
		}
		return obj, nil
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	// What there is to say is said by noted, once.
	err = c.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	return c, errors.Trace(err)
}

// noted takes note of how a list or watch went.
func (c *cached) noted(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // ended by us
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		err = errors.Annotatef(apiError(ctx, err), "watching %s in namespace %q", c.kind.resource(), c.namespace)
	}
	if c.trouble == nil && err == nil {
		return
	}
	if c.trouble == nil || err == nil {
		c.since = c.clock.Now()
	}
	if c.trouble == nil {
		c.logger.Warn("cannot watch the cluster", "kind", c.kind.singular(), "error", err.Error())
	} else if err == nil {
		c.logger.Info("watching the cluster again", "kind", c.kind.singular())
	}
	c.trouble = err
	close(c.changed)
	c.changed = make(chan struct{})
}

// state returns a channel that is closed when what the informer has trouble with
// changes, since when it is as it is, and why the informer cannot list or watch, if
// so.
func (c *cached) state() (changed <-chan struct{}, since time.Time, trouble error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed, c.since, c.trouble
}

// ready waits until the first listing is there. Without rights there is nothing to
// wait for, and what was listed before must not pass for what is there now.
func (c *cached) ready(ctx context.Context, dying <-chan struct{}) error {
	for {
		changed, _, trouble := c.state()
		if trouble != nil && (errors.Is(trouble, errors.Forbidden) || errors.Is(trouble, errors.Unauthorized)) {
			return trouble
		}
		if c.informer.HasSynced() {
			return nil
		}
		select {
		case <-c.informer.HasSyncedChecker().Done():
		case <-changed:
		case <-dying:
			return errEnded()
		case <-ctx.Done():
			if trouble != nil {
				return errors.Annotate(ctx.Err(), trouble.Error())
			}
			return errors.Annotatef(ctx.Err(), "waiting for the first listing of %s in namespace %q", c.kind.resource(), c.namespace)
		}
	}
}

// get returns the object of that name, or nil. It belongs to the cache.
func (c *cached) get(name string) object {
	// In this order: what is read second is never older than the first.
	seen := c.informer.GetStore().LastStoreSyncResourceVersion()
	item, _, _ := c.informer.GetStore().GetByKey(c.namespace + "/" + name)
	obj, _ := item.(object)
	return c.merge(name, seen, obj)
}

// all returns every object. They belong to the cache.
func (c *cached) all() []object {
	store := c.informer.GetStore()
	seen := store.LastStoreSyncResourceVersion()
	var out []object
	there := make(map[string]bool)
	for _, item := range store.List() {
		obj := item.(object)
		there[obj.GetName()] = true
		if obj = c.merge(obj.GetName(), seen, obj); obj != nil {
			out = append(out, obj)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, o := range c.own {
		if !there[name] && o.obj != nil && !o.caughtUp(seen, nil) {
			out = append(out, o.obj)
		}
	}
	return out
}

// merge returns what is there, from what the informer knows, which has seen that
// version, and the manager's own writes.
func (c *cached) merge(name, seen string, obj object) object {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.own[name]
	if !ok {
		return obj
	}
	if o.caughtUp(seen, obj) || c.clock.Now().Sub(o.at) > ownFor {
		delete(c.own, name)
		return obj
	}
	return o.obj
}

// caughtUp reports whether the informer, which has seen that version, and knows obj
// under the name, has been told of the write.
func (o own) caughtUp(seen string, obj object) bool {
	if o.deleted && obj != nil {
		return obj.GetUID() != o.uid || obj.GetDeletionTimestamp() != nil
	}
	return !older(seen, o.version) || obj != nil && !older(obj.GetResourceVersion(), o.version)
}

// older reports whether version a comes before b. What is no version, as before the
// first listing, is older than everything.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order < 0
}

// wrote remembers what a write returned, which is trimmed.
func (c *cached) wrote(obj object) {
	c.remember(obj.GetName(), own{obj: obj, uid: obj.GetUID(), version: obj.GetResourceVersion()})
}

// removed remembers the deletion of an object. Of one that takes time, it is there
// until the informer is told otherwise.
func (c *cached) removed(obj object, takesTime bool) {
	o := own{uid: obj.GetUID(), version: obj.GetResourceVersion(), deleted: true}
	if takesTime {
		o.obj = copyOf(obj)
		now := metav1.NewTime(c.clock.Now())
		o.obj.SetDeletionTimestamp(&now)
	}
	c.remember(obj.GetName(), o)
}

func (c *cached) remember(name string, o own) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.at = c.clock.Now()
	for name, old := range c.own {
		if len(c.own) < 1000 {
			break
		}
		if o.at.Sub(old.at) > ownFor {
			delete(c.own, name)
		}
	}
	c.own[name] = o
}

// forget drops what was remembered of a name: the API server said otherwise.
func (c *cached) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, name)
}
