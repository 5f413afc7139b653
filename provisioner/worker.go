package provisioner

import (
	"context"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/batch"
	"github.com/sutler-dev/sutler/internal/keyqueue"
	"github.com/sutler-dev/sutler/operator"
)

// Worker keeps one operator running for every application of a model. It is a
// worker.Worker and a worker.Reporter; all its methods may be called from many
// goroutines at once.
type Worker struct {
	catacomb catacomb.Catacomb
	config   Config
	seed     maphash.Seed // of the digests in the applications' memories
	queue    *keyqueue.Queue[string]
	stager   optional[operator.Stager]
	glancer  optional[operator.Glancer]

	// Set up before any pass runs.
	passwords *batch.Batcher[facade.ApplicationPassword, struct{}]
	bulk      optional[*batch.Batcher[string, facade.ApplicationInfo]]
	status    optional[facade.StatusSetter]
	lister    optional[operator.Lister]

	events atomic.Uint64 // numbers them

	mu           sync.Mutex // guards what follows
	applications map[string]*application
	watchers     map[string]*watcherState
	resyncs      resyncState
}

// New starts a worker. It returns errors.NotValid, naming the field, for a
// config that does not validate. The caller owns the worker: Kill it, and Wait
// for its end. Nothing that the config holds is stopped with it.
func New(config Config) (*Worker, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "operator provisioner config")
	}
	config = config.withDefaults()
	queue, err := keyqueue.New[string](keyqueue.Config{Clock: config.Clock})
	if err != nil {
		return nil, errors.Trace(err)
	}
	w := &Worker{
		config:       config,
		seed:         maphash.MakeSeed(),
		queue:        queue,
		applications: make(map[string]*application),
		watchers:     make(map[string]*watcherState),
	}
	w.stager.find(config.OperatorManager)
	w.glancer.find(config.OperatorManager)
	w.lister.find(config.OperatorManager)
	w.status.find(config.Facade)
	err = catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: w.loop})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return w, nil
}

// Kill asks the worker to stop. It cancels every call under way and returns at
// once.
func (w *Worker) Kill() { w.catacomb.Kill(nil) }

// Wait returns when the worker has stopped: nil when it was killed, else why it
// could not go on: a watcher ended, or the facade said that its connection is
// lost (kind facade.ErrConnectionLost). An application's failure is never a
// reason.
func (w *Worker) Wait() error { return w.catacomb.Wait() }

// Trigger has the application looked at now, whatever it waits for. It returns
// errors.NotValid for what cannot be an application's name; for one that does
// not exist, the look finds out.
func (w *Worker) Trigger(app string) error {
	if err := facade.ValidateApplicationName(app); err != nil {
		return err
	}
	w.dirty(keyqueue.Fresh, app, w.event(SourceTrigger, 1))
	return nil
}

// loop owns every goroutine of the worker.
func (w *Worker) loop() error {
	ctx := w.catacomb.Context(context.Background())
	defer w.attach()()
	if err := w.makeBatchers(ctx); err != nil {
		return errors.Trace(err)
	}
	watches, err := w.startWatchers(ctx)
	if err != nil {
		if w.isDying() {
			return w.catacomb.ErrDying()
		}
		return err
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	defer w.queue.Close()
	for range w.config.Concurrency {
		wg.Go(func() { w.serve(ctx) })
	}
	for _, watch := range watches {
		wg.Go(func() { w.catacomb.Kill(w.follow(ctx, watch)) })
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

// makeBatchers joins the calls that the facade takes for many at once.
func (w *Worker) makeBatchers(ctx context.Context) (err error) {
	w.passwords, err = batch.New(batch.Config[facade.ApplicationPassword, struct{}]{
		Call:    measured(w, "SetPasswords", w.setPasswords),
		Context: ctx,
		Timeout: w.config.CallTimeout,
		Clock:   w.config.Clock,
		Splits:  batch.AboutAnItem,
	})
	if err != nil {
		return errors.Trace(err)
	}
	if bulk, ok := w.config.Facade.(facade.BulkApplications); ok {
		infos, err := batch.New(batch.Config[string, facade.ApplicationInfo]{
			Call: measured(w, "ApplicationsInfo", func(ctx context.Context, apps []string) ([]batch.Result[facade.ApplicationInfo], error) {
				infos, err := bulk.ApplicationsInfo(ctx, apps)
				return matchInfos(apps, infos), err
			}),
			Context: ctx,
			Timeout: w.config.CallTimeout,
			Clock:   w.config.Clock,
			Splits:  batch.AboutAnItem,
		})
		if err != nil {
			return errors.Trace(err)
		}
		w.bulk.set(infos)
	}
	return nil
}

func (w *Worker) setPasswords(ctx context.Context, in []facade.ApplicationPassword) ([]batch.Result[struct{}], error) {
	answers, err := w.config.Facade.SetPasswords(ctx, in)
	if len(answers) > len(in) {
		w.config.Logger.WarnContext(ctx, "too many answers to SetPasswords", "asked", len(in), "answered", len(answers))
	}
	results := make([]batch.Result[struct{}], len(answers))
	for i, err := range answers {
		results[i].Err = err
	}
	return results, err
}

// matchInfos puts answers that name their application in the order of the
// questions. An application that no answer names has an error of its own.
func matchInfos(apps []string, infos []facade.ApplicationInfo) []batch.Result[facade.ApplicationInfo] {
	byName := make(map[string]facade.ApplicationInfo, len(infos))
	for _, info := range infos {
		byName[info.Name] = info
	}
	results := make([]batch.Result[facade.ApplicationInfo], len(apps))
	for i, app := range apps {
		info, ok := byName[app]
		switch {
		case !ok:
			results[i].Err = errors.NotValidf("answer without application %q", app)
		case info.Err != nil:
			results[i].Err = info.Err
		default:
			results[i].Value = info
		}
	}
	return results
}

// serve runs passes, one after the other, until the worker dies.
func (w *Worker) serve(ctx context.Context) {
	for {
		item, err := w.queue.Take(ctx)
		if err != nil {
			return
		}
		if w.isDying() {
			// Handed over in the very moment: no pass begins any more.
			w.queue.Done(item.Key)
			return
		}
		began := w.config.Clock.Now()
		a, start := w.begin(item, began)
		passCtx, done := w.starting(ctx, start)
		res := w.runPass(passCtx, item.Key, &a.memory)
		if w.isDying() {
			// The pass was cut short: there is nothing to conclude.
			done(passOf(start, result{outcome: OutcomeCancelled}, w.config.Clock.Now().Sub(began)))
			w.queue.Done(item.Key)
			return
		}
		w.tellStatus(passCtx, item.Key, a, res)
		now := w.config.Clock.Now()
		delay := w.conclude(item.Key, a, res, now)
		pass := passOf(start, res, now.Sub(began))
		done(pass)
		// Before the next pass over this application can be told of.
		w.heardBy("PassDone", func() { w.config.Metrics.PassDone(pass) })
		w.giveBack(item.Key, res, delay)
	}
}

// runPass runs one pass and keeps a panic in it from being anybody else's.
func (w *Worker) runPass(ctx context.Context, app string, m *memory) (res result) {
	calls := w.newDeadline(ctx)
	defer calls.close()
	defer func() {
		if r := recover(); r != nil {
			res = w.panicked(ctx, app, r)
		}
	}()
	p := &pass{w: w, app: app, ctx: calls.ctx, calls: calls, memory: m}
	return p.run()
}

// panicked logs the stack of a panic, unless the application's last pass ended
// in the same one.
func (w *Worker) panicked(ctx context.Context, app string, r any) result {
	err := errors.Errorf("panic: %v", r)
	w.mu.Lock()
	a := w.applications[app]
	repeated := a != nil && a.outcome == OutcomePanicked && a.reason == err.Error()
	w.mu.Unlock()
	if !repeated {
		w.log(ctx, slog.LevelError, "pass panicked", app,
			slog.String("error", err.Error()), slog.String("stack", string(debug.Stack())))
	}
	return result{outcome: OutcomePanicked, err: err}
}

// tellStatus lets the application's users see what is wrong, once for each
// change. A status that could not be set is set after the next pass.
func (w *Worker) tellStatus(ctx context.Context, app string, a *application, res result) {
	setter, ok := w.status.get()
	if !ok || w.config.DryRun || res.outcome == OutcomeForgotten {
		return
	}
	status, message := facade.StatusProvisioned, ""
	if res.err != nil {
		message = res.err.Error()
	}
	switch res.outcome {
	case OutcomeWaiting, OutcomeStuck:
		status = facade.StatusWaiting
	case OutcomeFailed, OutcomePermanent, OutcomePanicked:
		status = facade.StatusError
	}
	said := string(status) + " " + message
	if a.status == said || facade.ValidateApplicationName(app) != nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			w.panicked(ctx, app, r)
		}
	}()
	// Unknown until there is an answer: a call that seems to fail may have
	// set it.
	a.status = ""
	calls := w.newDeadline(ctx)
	defer calls.close()
	err := calls.endFacade(setter.SetProvisioningStatus(calls.begin(), app, status, message))
	if w.status.refused(err) {
		return
	}
	if err != nil && !errors.Is(err, errors.NotFound) {
		if !w.isDying() {
			w.log(ctx, slog.LevelDebug, "status not set", app, slog.String("error", err.Error()))
		}
		return
	}
	a.status = said
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
