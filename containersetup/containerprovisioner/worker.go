package containerprovisioner

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// lookers is how many containers are looked at at once, besides those that are
// being started and stopped.
const lookers = 32

// Worker creates and removes the containers of one type on one machine. It is a
// worker.Worker and a worker.Reporter; all its methods may be called from many
// goroutines at once.
type Worker struct {
	catacomb catacomb.Catacomb
	config   Config
	queue    *keyqueue.Queue[string]
	turns    *turns
	baseline chan struct{} // closed when the first event has come

	// Set up before any pass runs.
	batchers batchers
	lister   *lister // set with mu held, for the report

	events atomic.Uint64 // numbers them

	mu         sync.Mutex // guards what follows
	containers map[string]*tracked
	orphans    map[string]struct{}
	skipped    skipped
	watchers   map[string]*watcherState
	harvest    harvestState
	resyncs    resyncState
}

// New starts a worker. It returns errors.NotValid, naming the field, for a
// config that does not validate. The caller owns the worker: Kill it, and Wait
// for its end. Nothing that the config holds is stopped with it, and instances
// run on.
func New(config Config) (*Worker, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "container provisioner config")
	}
	config = config.withDefaults()
	queue, err := keyqueue.New[string](keyqueue.Config{Clock: config.Clock})
	if err != nil {
		return nil, errors.Trace(err)
	}
	w := &Worker{
		config:     config,
		queue:      queue,
		baseline:   make(chan struct{}),
		containers: make(map[string]*tracked),
		orphans:    make(map[string]struct{}),
		skipped:    skipped{ids: make(map[string]struct{})},
		watchers:   make(map[string]*watcherState),
	}
	w.turns = newTurns(config.Clock, config.Concurrency, func(id string) {
		w.queue.Add(keyqueue.Fresh, id)
	})
	if err := catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: w.loop}); err != nil {
		return nil, errors.Trace(err)
	}
	return w, nil
}

// Kill asks the worker to stop. It cancels every call under way and returns at
// once.
func (w *Worker) Kill() { w.catacomb.Kill(nil) }

// Wait returns when the worker has stopped: nil when it was killed, else why it
// could not go on: a watcher ended, or the facade said that its connection is
// lost (kind facade.ErrConnectionLost). A container's failure is never a
// reason, nor is one of the back end.
func (w *Worker) Wait() error { return w.catacomb.Wait() }

// loop owns every goroutine of the worker.
func (w *Worker) loop() error {
	ctx := w.catacomb.Context(context.Background())
	defer w.attach()()
	if err := w.makeBatchers(ctx); err != nil {
		return err
	}
	lister, err := w.newLister(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.lister = lister
	w.mu.Unlock()
	follow, err := w.startWatchers(ctx)
	if err != nil {
		if w.isDying() {
			return w.catacomb.ErrDying()
		}
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	defer w.queue.Close()
	defer w.turns.close()
	for range 2*w.config.Concurrency + lookers {
		wg.Go(func() { w.serve(ctx) })
	}
	for _, f := range follow {
		wg.Go(func() { w.catacomb.Kill(f(ctx)) })
	}
	wg.Go(func() { w.resync(ctx) })
	<-ctx.Done()
	return w.catacomb.ErrDying()
}

// isDying reports whether the worker is ending, so that what fails now fails
// because of that. Its context is cancelled a moment later than its watchers
// may be killed, and does not tell.
func (w *Worker) isDying() bool {
	select {
	case <-w.catacomb.Dying():
		return true
	default:
		return false
	}
}

// serve runs passes, one after the other, until the worker dies.
func (w *Worker) serve(ctx context.Context) {
	for {
		item, err := w.queue.Take(ctx)
		if err != nil {
			return
		}
		began := w.config.Clock.Now()
		t, start := w.begin(item, began)
		passCtx, done := w.starting(ctx, start)
		res := w.runPass(passCtx, item.Key, &t.memory)
		duration := w.config.Clock.Now().Sub(began)
		if w.isDying() {
			// The pass was cut short: there is nothing to conclude.
			done(passOf(start, OutcomeCancelled, result{}, duration))
			w.queue.Done(item.Key)
			return
		}
		outcome, next := w.conclude(passCtx, item.Key, t, res)
		// Before the key is given back, since then the next pass over the
		// container may ask for a turn, which must not be taken for this one's;
		// and before anybody hears that the pass is over.
		w.turns.leave(item.Key, res.turn)
		pass := passOf(start, outcome, res, duration)
		done(pass)
		// Before the next pass over this container can be told of.
		w.heardBy("PassDone", func() { w.config.Metrics.PassDone(pass) })
		w.giveBack(item.Key, next)
	}
}

// runPass runs one pass and keeps a panic in it from being anybody else's.
func (w *Worker) runPass(ctx context.Context, id string, m *memory) (res result) {
	p := &pass{w: w, id: id, ctx: ctx, memory: m}
	defer func() {
		if r := recover(); r != nil {
			res = w.panicked(ctx, id, r)
			res.step = p.acting
			res.attempt = p.acting == startInstance
		}
		if res.start = p.started; res.attempt {
			res.start = m.attempts + 1
		}
	}()
	return p.run()
}

// panicked logs the stack of a panic, unless the container's last pass ended in
// the same one.
func (w *Worker) panicked(ctx context.Context, id string, r any) result {
	err := errors.Errorf("panic: %v", r)
	w.mu.Lock()
	t := w.containers[id]
	repeated := t != nil && t.reason == err.Error()
	w.mu.Unlock()
	if !repeated {
		w.log(ctx, slog.LevelError, "pass panicked", id,
			slog.String("error", err.Error()), slog.String("stack", string(debug.Stack())))
	}
	return result{outcome: OutcomePanicked, err: err}
}

// harvestMode returns the mode in force, empty while it is not known.
func (w *Worker) harvestMode() facade.HarvestMode {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.harvest.mode
}

// wait returns after d, or at once with false when ctx ends.
func (w *Worker) wait(ctx context.Context, d time.Duration) bool {
	timer := w.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.Chan():
		return true
	}
}
