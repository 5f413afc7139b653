package fakenode

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/juju/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
)

// DefaultName is the fake node's name.
const DefaultName = "fake-node"

// Config is what [Run] works with. Client is required.
type Config struct {
	// Client has all rights, and should have no limit of its own.
	Client kubernetes.Interface
	// Name is the node's; DefaultName by default.
	Name string
	// Logger hears of trouble; nil discards.
	Logger *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is missing,
// or nil.
func (c Config) Validate() error {
	if c.Client == nil {
		return errors.NotValidf("nil Client")
	}
	return nil
}

// Run is the fake node until the context ends, and then returns nil.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return errors.Trace(err)
	}
	if config.Name == "" {
		config.Name = DefaultName
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	pods, err := newPods(config)
	if err != nil {
		return errors.Annotate(err, "watching pods")
	}
	volumes, err := newVolumes(config)
	if err != nil {
		return errors.Annotate(err, "watching claims")
	}
	var all sync.WaitGroup
	for _, part := range []func(context.Context){newNode(config).run, pods.run, volumes.run} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	return nil
}

// A loop has workers take keys from a queue, each key in one of them at a time.
type loop struct {
	queue  workqueue.TypedRateLimitingInterface[string]
	logger *slog.Logger
	// sync brings one thing to where it should be. It is called again after
	// the time that it returns, unless that is zero, and, ever more slowly,
	// after an error.
	sync func(ctx context.Context, key string) (time.Duration, error)
}

func newLoop(logger *slog.Logger, sync func(context.Context, string) (time.Duration, error)) *loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 2*time.Second)
	return &loop{queue: workqueue.NewTypedRateLimitingQueue(limiter), logger: logger, sync: sync}
}

// run returns when the context has ended and the workers have.
func (l *loop) run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for l.one(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	all.Wait()
}

func (l *loop) one(ctx context.Context) bool {
	key, shutDown := l.queue.Get()
	if shutDown {
		return false
	}
	defer l.queue.Done(key)
	again, err := l.sync(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			l.logger.Info("not done, later again", "key", key, "error", err)
		}
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	if again > 0 {
		l.queue.AddAfter(key, again)
	}
	return true
}
