package contenders

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sutler-dev/sutler/facade"
)

// ControllerRuntime is a reconciler on sigs.k8s.io/controller-runtime.
type ControllerRuntime struct {
	// Tuned has as many workers as the world says, not one; a back-off from
	// a second to two minutes with jitter, not from 5 ms to 1,000 s
	// without; and puts what is
	// repeated behind what is new. Its priority queue is the default.
	Tuned bool
}

// Name is part of [Contender].
func (c ControllerRuntime) Name() string {
	if c.Tuned {
		return "controller-runtime, tuned"
	}
	return "controller-runtime, default"
}

// Start is part of [Contender].
func (c ControllerRuntime) Start(w World) (worker.Worker, error) {
	r, err := NewReconciler(w)
	if err != nil {
		return nil, err
	}
	return c.StartReconciler(r.world, r.Reconcile)
}

// StartReconciler is Start with another thing to do about each application, to
// measure what is the framework's own.
func (c ControllerRuntime) StartReconciler(w World, do func(context.Context, string) (Result, error)) (worker.Worker, error) {
	w, err := w.withDefaults()
	if err != nil {
		return nil, err
	}
	var retryPriority *int
	options := controller.TypedOptions[string]{
		// Its metrics are registered in the process for ever, by name.
		SkipNameValidation: new(true),
	}
	if c.Tuned {
		retryPriority = new(handler.LowPriority)
		options.MaxConcurrentReconciles = w.Workers
		options.RateLimiter = jittered{workqueue.NewTypedItemExponentialFailureRateLimiter[string](minBackoff, maxBackoff)}
	}
	options.Reconciler = reconcile.TypedFunc[string](func(ctx context.Context, app string) (reconcile.Result, error) {
		result, err := do(ctx, app)
		return reconcile.Result{RequeueAfter: result.After, Priority: retryPriority}, err
	})
	ctrl, err := controller.NewTypedUnmanaged("applications", options)
	if err != nil {
		return nil, errors.Trace(err)
	}
	running := &controllerRuntime{facade: w.Facade, controller: ctrl}
	err = catacomb.Invoke(catacomb.Plan{Site: &running.catacomb, Work: running.run})
	return running, errors.Trace(err)
}

// jittered is a rate limiter that counts as the one in it does, and has a jitter
// in its delays. Without, all that failed in one moment fail in one moment again.
type jittered struct {
	workqueue.TypedRateLimiter[string]
}

// When is part of workqueue.TypedRateLimiter.
func (j jittered) When(app string) time.Duration {
	j.TypedRateLimiter.When(app) // counts
	return backoff(j.NumRequeues(app))
}

// controllerRuntime makes a worker of a controller.
type controllerRuntime struct {
	catacomb   catacomb.Catacomb
	facade     facade.Applications
	controller controller.TypedController[string]
}

// Kill is part of worker.Worker.
func (c *controllerRuntime) Kill() { c.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (c *controllerRuntime) Wait() error { return c.catacomb.Wait() }

func (c *controllerRuntime) run() error {
	ctx := c.catacomb.Context(context.Background())
	watcher, err := c.facade.WatchApplications(ctx)
	if err != nil {
		return errors.Annotate(err, "watching applications")
	}
	if err := c.catacomb.Add(watcher); err != nil {
		return errors.Trace(err)
	}
	fed := make(chan struct{})
	err = c.controller.Watch(source.TypedFunc[string](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
		go func() {
			defer close(fed)
			c.feed(ctx, watcher, queue)
		}()
		return nil
	}))
	if err != nil {
		return errors.Trace(err)
	}
	if err := c.controller.Start(ctx); err != nil {
		return errors.Annotate(err, "controller")
	}
	<-fed
	return c.catacomb.ErrDying()
}

// feed puts the names of what changed into the queue.
func (c *controllerRuntime) feed(ctx context.Context, watcher facade.StringsWatcher, queue workqueue.TypedRateLimitingInterface[string]) {
	for {
		select {
		case <-ctx.Done():
			return
		case apps, ok := <-watcher.Changes():
			if !ok {
				c.catacomb.Kill(errors.New("the watcher of applications ended"))
				return
			}
			if priority, ok := queue.(priorityqueue.PriorityQueue[string]); ok {
				priority.AddWithOpts(priorityqueue.AddOpts{}, apps...)
				continue
			}
			for _, app := range apps {
				queue.Add(app)
			}
		}
	}
}
