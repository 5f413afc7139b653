package box

import (
	"context"
	stderrors "errors"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/retry"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

const (
	// lookInterval is how often boxes are looked at that are to run.
	lookInterval = time.Second
	// minBackoff and maxBackoff are between two starts of one that ends by
	// itself.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// endPoll is how often a box that was told to end is looked at.
	endPoll = 10 * time.Millisecond
	// killGrace is how long a box that was killed is waited for.
	killGrace = 5 * time.Second
)

// Host looks after the boxes of a model on this machine. It is a worker; its
// [Host.Backend] is what makes and removes boxes.
type Host struct {
	catacomb catacomb.Catacomb
	config   Config
	logger   *slog.Logger
	clock    clock.Clock
	prefix   string // of the names of the model's instances
	locks    keyedLock

	mu       sync.Mutex
	warnings map[string]string // the last one about each instance
}

// New returns a Host over Config.Dir, which need not be there yet. Boxes that
// run are adopted; those that are to run and do not are started. The caller
// owns the worker.
func New(config Config) (*Host, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "boxes")
	}
	prefix, err := container.InstancePrefix(config.ModelUUID)
	if err != nil {
		return nil, errors.Trace(err)
	}
	h := &Host{config: config, logger: config.Logger, clock: config.Clock, prefix: prefix}
	h.sweep()
	if err := catacomb.Invoke(catacomb.Plan{Site: &h.catacomb, Work: h.loop}); err != nil {
		return nil, errors.Trace(err)
	}
	return h, nil
}

// Kill is part of worker.Worker. Boxes run on.
func (h *Host) Kill() { h.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (h *Host) Wait() error { return h.catacomb.Wait() }

// Backend returns the back end. It works as long as the process does; only what
// looks after boxes that end by themselves ends with the worker.
func (h *Host) Backend() container.Backend {
	return container.Backend{Initialiser: initialiser{h}, NewBroker: h.newBroker}
}

// loop starts boxes again that ended by themselves.
func (h *Host) loop() error {
	ctx := h.catacomb.Context(context.Background())
	after := map[string]*backoff{}
	for {
		h.startEnded(ctx, after)
		timer := h.clock.NewTimer(lookInterval)
		select {
		case <-timer.Chan():
		case <-ctx.Done():
			timer.Stop()
			return h.catacomb.ErrDying()
		}
	}
}

// warn logs what is wrong with an instance, once: it is looked at every second.
func (h *Host) warn(name, message string, err error) {
	text := message + err.Error()
	h.mu.Lock()
	repeated := h.warnings[name] == text
	if h.warnings == nil {
		h.warnings = map[string]string{}
	}
	h.warnings[name] = text
	h.mu.Unlock()
	if !repeated {
		h.logger.Warn(message, "instance", name, "error", err.Error())
	}
}

// backoff is when a box may be started again.
type backoff struct {
	next  time.Time
	delay time.Duration
	n     int
}

// startEnded starts those that are to run, do not, and have waited for long
// enough. after is the memory of that, by name.
func (h *Host) startEnded(ctx context.Context, after map[string]*backoff) {
	all, err := h.list()
	if err != nil {
		h.warn("", "boxes cannot be looked after", err)
		return
	}
	there := map[string]bool{}
	for _, f := range all {
		there[f.name] = true
		if !f.record.Started || f.record.Stopping {
			continue
		}
		b, now := after[f.name], h.clock.Now()
		switch {
		case f.process.alive():
			if b != nil && now.Sub(b.next) > maxBackoff {
				delete(after, f.name) // it has run for long enough
			}
			continue
		case b == nil:
			b = &backoff{}
			after[f.name] = b
		case now.Before(b.next):
			continue
		}
		b.delay = retry.ExpBackoff(minBackoff, maxBackoff, 2, true)(b.delay, b.n)
		b.n++
		b.next = now.Add(b.delay)
		if err := h.startAgain(ctx, f.instance); err != nil && ctx.Err() == nil {
			h.warn(f.name, "box not started again", err)
		}
	}
	for name := range after {
		if !there[name] {
			delete(after, name)
		}
	}
}

// startAgain looks once more, now that nobody else is at it.
func (h *Host) startAgain(ctx context.Context, i instance) error {
	unlock, err := h.locks.lock(ctx, i.name)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := i.look()
	if errors.Is(err, errors.NotFound) || err == nil && (!f.record.Started || f.record.Stopping || f.process.alive()) {
		return nil
	}
	if err != nil {
		return err
	}
	p, err := i.spawn(ctx)
	if err != nil {
		return err
	}
	h.logger.Info("box started again", "instance", i.name, "container", f.record.Container, "pid", p.PID)
	return nil
}

// Stop stops every box and keeps its directory: the next Host starts it again.
// It is called after the worker has ended.
func (h *Host) Stop(ctx context.Context) error {
	all, err := h.list()
	if err != nil {
		return err
	}
	failures := make([]error, len(all))
	var wg sync.WaitGroup
	for n, f := range all {
		wg.Go(func() { failures[n] = h.end(ctx, f.process, DefaultStopTimeout) })
	}
	wg.Wait()
	return stderrors.Join(failures...)
}

// end has a process end: it is asked, and after a time made to.
func (h *Host) end(ctx context.Context, p process, timeout time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, step := range []struct {
		sig  syscall.Signal
		wait time.Duration
	}{{syscall.SIGTERM, timeout}, {syscall.SIGKILL, killGrace}} {
		if err := p.signal(step.sig); err != nil {
			return errors.Annotatef(err, "sending %s to process %d", step.sig, p.PID)
		}
		if ended, err := h.ended(ctx, p, step.wait); ended || err != nil {
			return err
		}
	}
	return errors.Timeoutf("end of process %d, which was killed,", p.PID)
}

// ended waits for the end of a process, that long.
func (h *Host) ended(ctx context.Context, p process, wait time.Duration) (bool, error) {
	for deadline := h.clock.Now().Add(wait); ; {
		if !p.alive() {
			return true, nil
		}
		if !h.clock.Now().Before(deadline) {
			return false, nil
		}
		timer := h.clock.NewTimer(endPoll)
		select {
		case <-timer.Chan():
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		}
	}
}

// settings are the controller's for boxes.
type settings struct{ stopTimeout time.Duration }

// parseSettings ignores keys that are not known: a controller has some for
// every type.
func parseSettings(config facade.ContainerManagerConfig) (settings, error) {
	s := settings{stopTimeout: DefaultStopTimeout}
	text, ok := config[StopTimeoutSetting]
	if !ok {
		return s, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxStopTimeout {
		return s, errors.NotValidf("setting %s (want a duration from 0s to %s)", StopTimeoutSetting, maxStopTimeout)
	}
	s.stopTimeout = d
	return s, nil
}

// newBroker is the back end's NewBroker.
func (h *Host) newBroker(ctx context.Context, config facade.ContainerManagerConfig) (container.Broker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := parseSettings(config)
	if err != nil {
		return nil, err
	}
	if prepared, err := h.prepared(); err != nil || !prepared {
		return nil, errors.NewNotYetAvailable(err, "boxes are not prepared")
	}
	return &broker{h, s}, nil
}

// preparedPath is that of the file that says so.
func (h *Host) preparedPath() string { return filepath.Join(h.config.Dir, preparedFile) }
