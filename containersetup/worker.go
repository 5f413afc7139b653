package containersetup

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/facade"
)

// errNothingToDo is the kind of end of a worker whose machine can have no
// containers at all.
const errNothingToDo = errors.ConstError("this machine supports no containers")

// Worker prepares a machine for containers of each type the first time one is
// asked for, and is the parent of the types' provisioners. It is a
// worker.Worker and a worker.Reporter; all its methods may be called from many
// goroutines at once.
type Worker struct {
	catacomb catacomb.Catacomb
	config   Config
	teller   *teller // for containers that cannot be had
	runner   *worker.Runner
	prepared chan ContainerType // types whose provisioner was started

	events atomic.Uint64 // numbers them

	mu        sync.Mutex // guards what follows
	supported []ContainerType
	learned   bool // what is supported
	setups    map[ContainerType]*setup
	done      map[ContainerType]bool
	skipped   map[string]string // ids that are not ours, and why
	refused   map[string]bool   // ids of types that cannot be had here
	watching  bool
	lastError string // of learning what is supported
}

// New starts a worker. It returns errors.NotValid, naming the field, for a
// config that does not validate. The caller owns the worker: Kill it, and Wait
// for its end. The provisioners that it started end with it; nothing else that
// the config holds does.
func New(config Config) (*Worker, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "container setup config")
	}
	config = config.withDefaults()
	w := &Worker{
		config:   config,
		prepared: make(chan ContainerType),
		setups:   map[ContainerType]*setup{},
		done:     map[ContainerType]bool{},
		skipped:  map[string]string{},
		refused:  map[string]bool{},
	}
	w.teller = newTeller(w)
	w.runner = worker.NewRunner(worker.RunnerParams{
		// A provisioner that dies is started again, and it alone: the host
		// stays prepared. A lost connection is everybody's.
		IsFatal:      config.IsFatal,
		RestartDelay: config.RestartDelay,
		Clock:        config.Clock,
		Logger:       enginelog.New(config.Logger),
	})
	err := catacomb.Invoke(catacomb.Plan{
		Site: &w.catacomb,
		Work: w.loop,
		Init: []worker.Worker{w.runner},
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return w, nil
}

// Kill asks the worker to stop. It cancels every call under way and returns at
// once.
func (w *Worker) Kill() { w.catacomb.Kill(nil) }

// Wait returns when the worker has stopped, and the provisioners with it: nil
// when it was killed, else why it could not go on: its watcher ended, or the
// facade said that its connection is lost (kind facade.ErrConnectionLost), or
// this machine supports no containers (kind errors.NotSupported). A failed
// preparation is never a reason.
func (w *Worker) Wait() error { return w.catacomb.Wait() }

// loop learns what is supported, routes the containers that are asked for to
// their types, and waits for its end.
func (w *Worker) loop() error {
	// Cancelled before the teller is waited for, also on the way out of a
	// panic of the facade's, which kills the catacomb only after that.
	ctx, cancel := context.WithCancel(w.catacomb.Context(context.Background()))
	defer w.attach()()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { w.teller.run(ctx) })

	err := w.route(ctx)
	if w.isDying() {
		err = w.catacomb.ErrDying()
	}
	w.catacomb.Kill(err)
	return err
}

func (w *Worker) route(ctx context.Context) error {
	if !w.learnSupported(ctx) {
		return nil
	}
	watcher, err := w.watch(ctx)
	if err != nil {
		return err
	}
	if err := w.follow(ctx, watcher); err != nil {
		return err
	}
	// Every type is prepared: what is left is to be the provisioners' parent.
	<-ctx.Done()
	return nil
}

// learnSupported finds out which types the machine can have, however long that
// takes. It returns false when ctx ended first.
func (w *Worker) learnSupported(ctx context.Context) bool {
	var delay time.Duration
	for attempt := 0; ; attempt++ {
		types, err := w.supportedTypes(ctx)
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.supported, w.learned, w.lastError = types, true, ""
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		w.mu.Lock()
		repeated := w.lastError == err.Error()
		w.lastError = err.Error()
		w.mu.Unlock()
		if !repeated {
			w.config.Logger.Warn("supported container types not known", "error", err.Error())
		}
		// Retried with back-off.
		delay = w.config.Backoff(delay, attempt)
		if !w.wait(ctx, delay, nil) {
			return false
		}
	}
}

// supportedTypes returns each type once, and leaves out what cannot be one.
func (w *Worker) supportedTypes(ctx context.Context) (types []ContainerType, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.Errorf("panic: %v", r)
		}
	}()
	given := w.config.SupportedTypes
	if given == nil {
		err := w.ask(ctx, func(ctx context.Context) (err error) {
			given, err = w.config.Facade.SupportedContainers(ctx, w.config.MachineID)
			return err
		})
		if err != nil {
			return nil, errors.Annotate(err, "reading the supported types")
		}
	}
	for _, t := range given {
		if err := t.Validate(); err != nil {
			w.config.Logger.Warn("supported container type skipped", "error", err.Error())
			continue
		}
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types, nil
}

// watch asks for the watcher, which is the catacomb's from then on.
func (w *Worker) watch(ctx context.Context) (facade.StringsWatcher, error) {
	var watcher facade.StringsWatcher
	err := w.within(ctx, w.config.CallTimeout, func(ctx context.Context) (err error) {
		watcher, err = w.config.Facade.WatchAllContainers(ctx, w.config.MachineID)
		return err
	})
	if err != nil {
		return nil, errors.Annotate(err, "watching containers")
	}
	if watcher == nil {
		return nil, errors.NotValidf("nil watcher of containers")
	}
	if err := w.catacomb.Add(watcher); err != nil {
		return nil, errors.Trace(err)
	}
	return watcher, nil
}

// follow passes events on until every supported type is prepared, which ends
// the watcher, or until the watcher ends by itself, which is an error whatever
// way it ends.
func (w *Worker) follow(ctx context.Context, watcher facade.StringsWatcher) error {
	ended := make(chan error, 1)
	go func() { ended <- watcher.Wait() }()
	stop := func() error {
		watcher.Kill()
		return <-ended
	}
	changes := watcher.Changes()
	if changes == nil {
		_ = stop()
		return errors.NotValidf("container watcher: nil channel of changes")
	}
	w.setWatching(true)
	defer w.setWatching(false)
	for {
		select {
		case <-ctx.Done():
			_ = stop()
			return nil
		case err := <-ended:
			if err == nil {
				err = errors.New("ended without an error")
			}
			return errors.Annotate(err, "container watcher")
		case ids, ok := <-changes:
			if !ok {
				err := stop()
				if err == nil {
					err = errors.New("closed its channel")
				}
				return errors.Annotate(err, "container watcher")
			}
			if err := w.asked(ids); err != nil {
				_ = stop()
				return err
			}
		case t := <-w.prepared:
			if w.isPrepared(t) {
				return stop()
			}
		}
	}
}

func (w *Worker) setWatching(watching bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching = watching
}

// isPrepared takes note that a type is prepared, and reports whether all are.
func (w *Worker) isPrepared(t ContainerType) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[t] = true
	for _, supported := range w.supported {
		if !w.done[supported] {
			return false
		}
	}
	return true
}

// asked routes containers to their types. It does nothing that could take time.
func (w *Worker) asked(ids []string) error {
	event := w.event(len(ids))
	byType := map[ContainerType][]string{}
	for _, s := range ids {
		id, err := container.ParseID(s)
		switch {
		case err != nil:
			w.skip(s, err.Error())
		case id.Host != w.config.MachineID:
			// Nested, or another machine's.
			w.skip(s, fmt.Sprintf("not directly on machine %s", w.config.MachineID))
		default:
			byType[id.Type] = append(byType[id.Type], s)
		}
	}
	for t, ids := range byType {
		if err := w.askedFor(t, ids, event); err != nil {
			return err
		}
	}
	if len(w.supportedNow()) == 0 {
		return w.nothingToDo()
	}
	return nil
}

// askedFor hands the containers of one type to whoever prepares it.
func (w *Worker) askedFor(t ContainerType, ids []string, event Event) error {
	w.mu.Lock()
	s, done := w.setups[t], w.done[t]
	w.mu.Unlock()
	if done {
		return nil // its provisioner has a watcher of its own
	}
	if s == nil {
		backend, why := w.backend(t)
		if why != "" {
			w.refuse(t, why, ids)
			return nil
		}
		var err error
		if s, err = newSetup(w, t, backend, event); err != nil {
			return errors.Trace(err)
		}
		if err := w.catacomb.Add(s); err != nil {
			return errors.Trace(err)
		}
		w.mu.Lock()
		w.setups[t] = s
		w.mu.Unlock()
	}
	s.request(ids)
	return nil
}

// backend returns what there is for a type, or why there is nothing.
func (w *Worker) backend(t ContainerType) (Backend, string) {
	supported := w.supportedNow()
	if !slices.Contains(supported, t) {
		return Backend{}, fmt.Sprintf("this machine supports %s", list(supported))
	}
	backend, ok := w.config.Backends[t]
	if !ok {
		return Backend{}, fmt.Sprintf("this agent has a back end for %s", list(slices.Sorted(maps.Keys(w.config.Backends))))
	}
	return backend, ""
}

func list(types []ContainerType) string {
	if len(types) == 0 {
		return "none"
	}
	var out []string
	for _, t := range types {
		out = append(out, string(t))
	}
	return strings.Join(out, ", ")
}

func (w *Worker) supportedNow() []ContainerType {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.supported
}

// refuse tells containers of a type that cannot be had here, once.
func (w *Worker) refuse(t ContainerType, why string, ids []string) {
	message := fmt.Sprintf("%s containers cannot be had on this machine: %s", t, why)
	w.mu.Lock()
	var fresh, again []string
	for _, id := range ids {
		if w.refused[id] {
			again = append(again, id)
			continue
		}
		w.refused[id] = true
		fresh = append(fresh, id)
	}
	w.mu.Unlock()
	w.teller.doubt(again...)
	if len(fresh) == 0 {
		return
	}
	w.logger(t).Warn("containers refused", "error", message, "containers", len(fresh))
	w.teller.tell(facade.ContainerError, message, fresh...)
}

// maxSkipped bounds what is remembered of ids that are not ours.
const maxSkipped = 1000

// skip takes note of an id that is not ours, and logs it once.
func (w *Worker) skip(id, why string) {
	w.mu.Lock()
	_, known := w.skipped[id]
	full := len(w.skipped) >= maxSkipped
	if !known && !full {
		w.skipped[id] = why
	}
	w.mu.Unlock()
	if !known && !full {
		w.config.Logger.Warn("container skipped", "container", id[:min(len(id), 64)], "reason", why)
	}
}

// nothingToDo ends the worker on a machine that supports no containers, once
// whoever asked for one has been told.
func (w *Worker) nothingToDo() error {
	ctx := w.catacomb.Context(context.Background())
	_ = w.within(ctx, w.config.CallTimeout, func(ctx context.Context) error {
		w.teller.quiet(ctx)
		return nil
	})
	return errors.WithType(errors.NotSupportedf("containers on machine %s", w.config.MachineID), errNothingToDo)
}

// startProvisioner starts the provisioner of a type that is prepared, or leaves
// it as it is if it was started before.
func (w *Worker) startProvisioner(t ContainerType, config containerprovisioner.Config) error {
	err := w.runner.StartWorker(string(t)+"-provisioner", func() (started worker.Worker, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = errors.Errorf("panic: %v", r)
			}
		}()
		started, err = w.config.NewProvisioner(config)
		if err == nil && started == nil {
			err = errors.NotValidf("nil provisioner")
		}
		if err != nil {
			return nil, errors.Annotatef(err, "starting the %s provisioner", t)
		}
		return &kept{Worker: started}, nil
	})
	if err != nil && !errors.Is(err, errors.AlreadyExists) {
		return errors.Trace(err)
	}
	select {
	case w.prepared <- t:
	case <-w.catacomb.Dying():
	}
	return nil
}

// kept is a provisioner whose end, unless it was killed, is an error: the
// runner would take an end without one for the end of the task.
type kept struct {
	worker.Worker
	killed atomic.Bool
}

// Kill is part of worker.Worker.
func (k *kept) Kill() {
	k.killed.Store(true)
	k.Worker.Kill()
}

// Wait is part of worker.Worker.
func (k *kept) Wait() error {
	err := k.Worker.Wait()
	if err == nil && !k.killed.Load() {
		return errors.New("ended without an error")
	}
	return err
}

// Report is part of worker.Reporter.
func (k *kept) Report() map[string]any {
	if reporter, ok := k.Worker.(worker.Reporter); ok {
		return reporter.Report()
	}
	return nil
}

func (w *Worker) logger(t ContainerType) *slog.Logger {
	return w.config.Logger.With("type", string(t))
}

// Report describes the worker for people, as plain maps, lists and strings:
//
//   - supported: the types that the machine can have; with error while that is
//     not known.
//   - watching: whether new types are still waited for.
//   - types: for each type: phase, and once one was asked for: since, and where
//     there is one: waiting (containers), attempts, error, next, lock-wait.
//   - refused: how many containers cannot be had here.
//   - skipped: ids that are not this machine's, and why; at most 20, with
//     skipped-total for all.
//   - provisioners: their own reports.
//   - lock: who holds the machine lock, where the lock can tell.
//
// Times are in RFC 3339. It may be called at any time, also after the end.
func (w *Worker) Report() map[string]any {
	now := w.config.Clock.Now()
	w.mu.Lock()
	setups := maps.Clone(w.setups)
	report := map[string]any{"watching": w.watching}
	if w.learned {
		report["supported"] = list(w.supported)
	}
	if w.lastError != "" {
		report["error"] = w.lastError
	}
	if n := len(w.refused); n > 0 {
		report["refused"] = n
	}
	if n := len(w.skipped); n > 0 {
		shown := map[string]any{}
		for _, id := range slices.Sorted(maps.Keys(w.skipped))[:min(n, 20)] {
			shown[id[:min(len(id), 64)]] = w.skipped[id]
		}
		report["skipped"], report["skipped-total"] = shown, n
	}
	w.mu.Unlock()

	types := map[string]any{}
	for _, t := range w.supportedNow() {
		types[string(t)] = map[string]any{"phase": string(PhaseIdle)}
	}
	for t, s := range setups {
		types[string(t)] = s.report(now)
	}
	report["types"] = types
	report["provisioners"] = w.runner.Report()
	report["lock"] = w.reportLock(now)
	return report
}

// reportLock tells who holds the machine lock, as far as the lock can tell.
func (w *Worker) reportLock(now time.Time) map[string]any {
	switch lock := w.config.Lock.(type) {
	case worker.Reporter:
		return lock.Report()
	case container.LockStatuser:
		var status container.LockStatus
		err := w.within(context.Background(), time.Second, func(ctx context.Context) (err error) {
			status, err = lock.Status(ctx)
			return err
		})
		out := map[string]any{"held": status.Held}
		if err != nil {
			out["error"] = err.Error()
		}
		if status.Held {
			out["holder"], out["reason"] = status.Holder.Worker, status.Holder.Reason
			out["age"] = now.Sub(status.Since).Round(time.Second).String()
		}
		return out
	}
	return map[string]any{"held": "not known"}
}
