package hostnet

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/machinelock"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/deadline"
)

// Bridger puts devices of this host under bridges; see the package's documentation. It
// needs no closing.
type Bridger struct {
	config BridgerConfig
	store  store
	undoer undoer
}

var _ container.Bridger = (*Bridger)(nil)

// Times that nobody needs to set.
const (
	// lockPoll is how often a lock that another process has is tried.
	lockPoll = 50 * time.Millisecond
	// verifyPoll is how often the network is looked at while something is missing.
	verifyPoll = 100 * time.Millisecond
	// armPoll and armTimeout are for a watchdog that was started.
	armPoll    = 20 * time.Millisecond
	armTimeout = 20 * time.Second
	// watchdogGrace is how much later than it should be done a change is taken for
	// stuck.
	watchdogGrace = 10 * time.Second
)

// NewBridger returns a bridger. It changes nothing; see [Bridger.Recover]. It returns
// errors.NotValid for an impossible config.
func NewBridger(config BridgerConfig) (*Bridger, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "bridger config")
	}
	config = config.withDefaults()
	return &Bridger{config: config, store: store{config.StateDir}, undoer: undoer{
		host: config.Host, clock: config.Clock, logger: config.Logger,
		open: func(namespace string) (kernel.Kernel, error) { return kernel.Open(namespace, config.Clock) },
	}}, nil
}

// Bridge makes each device a port of its bridge, which gets the device's MAC, MTU,
// addresses and routes. What is already so is success, and touches nothing. delay is how
// long to wait for a bonded device.
//
// errors.NotFound and errors.NotValid name a device and what is against bridging it; then
// nothing was changed. Any other failure, and the end of ctx, has all put back as it was,
// which may take as long as Config.RollbackTimeout; the error says what failed, and what
// could not be put back.
func (b *Bridger) Bridge(ctx context.Context, devices []facade.DeviceToBridge, delay time.Duration) error {
	if err := checkRequest(devices, delay); err != nil {
		return errors.Trace(err)
	}
	if len(devices) == 0 {
		return nil
	}
	release, err := b.lock(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer release()
	if err := b.recover(ctx); err != nil {
		return errors.Annotate(err, "an earlier change of the network")
	}
	return b.bridge(ctx, devices, delay)
}

// Recover puts back what an earlier process left when it died in the middle of a change.
// Nothing left is success. Call it when the host starts, before the network is used;
// every Bridge begins with it, too. Once begun it goes on after the end of ctx, for
// Config.RollbackTimeout at most.
func (b *Bridger) Recover(ctx context.Context) error {
	release, err := b.lock(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer release()
	return errors.Annotate(b.recover(ctx), "an earlier change of the network")
}

// lock keeps others of this package from this StateDir, in whatever process.
func (b *Bridger) lock(ctx context.Context) (release func(), err error) {
	if err := b.store.make(); err != nil {
		return nil, err
	}
	return b.undoer.acquire(ctx, b.store, lockName)
}

func (u undoer) acquire(ctx context.Context, s store, name string) (func(), error) {
	lock, err := machinelock.New(machinelock.Config{Path: s.path(name), Clock: u.clock, Poll: lockPoll})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return lock.Acquire(ctx, container.Holder{Worker: "hostnet", Reason: "change the host's network"})
}

// recover is Recover, with the lock held.
func (b *Bridger) recover(ctx context.Context) error {
	// The caller's end must not leave it half done.
	ctx = context.WithoutCancel(ctx)
	return deadline.Call(ctx, b.config.Clock, b.config.RollbackTimeout, func(ctx context.Context) error {
		return b.undoer.finish(ctx, b.store, "")
	})
}

// finish puts back what the journal tells, unless it is about another change than that
// of the id; empty is for any. The lock is held, or its holder is stuck.
func (u undoer) finish(ctx context.Context, s store, id string) error {
	release, err := u.acquire(ctx, s, undoLockName)
	if err != nil {
		return errors.Trace(err)
	}
	defer release()
	j, err := s.begun()
	if err != nil || j == nil || id != "" && j.ID != id {
		return err
	}
	j.Attempts++
	if err := s.begin(j); err != nil {
		return errors.Trace(err)
	}
	err = u.undo(ctx, j)
	if err == nil || j.Attempts >= maxAttempts {
		return and(err, s.end())
	}
	return err
}

func (b *Bridger) bridge(ctx context.Context, devices []facade.DeviceToBridge, delay time.Duration) error {
	k, err := b.undoer.open(b.config.Namespace)
	if err != nil {
		return errors.Trace(err)
	}
	defer k.Close()
	before, err := k.Look(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	todo, err := rules{before, b.config.ContainerBridges}.decide(devices)
	if err != nil || len(todo) == 0 {
		return err
	}
	jobs, err := b.prepare(ctx, todo)
	if err != nil {
		return errors.Trace(err)
	}
	if !hasBond(todo) {
		delay = 0
	}
	j := &journal{
		ID:               newID(),
		Boot:             boot(ctx, b.config.Host),
		Began:            b.config.Clock.Now(),
		Limit:            b.limit(jobs, delay),
		Namespace:        b.config.Namespace,
		ContainerBridges: b.config.ContainerBridges,
		Bridgings:        todo,
		Before:           before,
		ToolTimeout:      b.config.ToolTimeout,
	}
	for _, job := range jobs {
		files, err := save(ctx, b.config.Host, job.files)
		if err != nil {
			return errors.Trace(err)
		}
		j.Files = append(j.Files, files...)
		j.UndoBefore = append(j.UndoBefore, job.undoBefore...)
		j.UndoAfter = append(j.UndoAfter, job.undoAfter...)
	}
	return b.guarded(ctx, k, j, jobs, delay)
}

func hasBond(todo []bridging) bool {
	for _, t := range todo {
		if t.Bond {
			return true
		}
	}
	return false
}

// limit is for how long the change may take, each tool at its slowest.
func (b *Bridger) limit(jobs []job, delay time.Duration) time.Duration {
	limit := delay + b.config.VerifyTimeout
	for _, job := range jobs {
		limit += time.Duration(len(job.before)+len(job.after)) * b.config.ToolTimeout
	}
	return limit + watchdogGrace
}

// guarded makes the change so that whatever happens, somebody puts it back: from before
// the first step until it is found good there is a journal that tells how.
func (b *Bridger) guarded(ctx context.Context, k kernel.Kernel, j *journal, jobs []job, delay time.Duration) error {
	log := b.config.Logger.With(slog.String("devices", names(j.Bridgings)))
	for _, f := range j.Files {
		if err := b.store.original(f); err != nil {
			return errors.Trace(err)
		}
	}
	if err := b.store.begin(j); err != nil {
		return and(err, b.store.end())
	}
	dog, err := b.watch(ctx, j)
	if err != nil {
		return and(errors.Annotate(err, "watchdog"), b.store.end())
	}
	defer dog.stop()
	err = deadline.Call(ctx, b.config.Clock, j.Limit, func(ctx context.Context) error {
		if err := b.carryOut(ctx, k, j, jobs, delay); err != nil {
			return err
		}
		return b.commit(ctx, j)
	})
	if err == nil {
		log.InfoContext(ctx, "devices are under bridges")
		b.tell(ctx, log, k, j)
		return nil
	}
	err = errors.Annotatef(err, "bridging %s", names(j.Bridgings))
	if undone := b.rollback(context.WithoutCancel(ctx), j); undone != nil {
		return and(err, undone)
	}
	return errors.Annotate(err, "all was put back after")
}

// and returns what there is of two errors.
func and(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return &both{first, second}
}

// both are two errors, of which the first matters more.
type both struct{ first, second error }

func (e *both) Error() string   { return e.first.Error() + "; and " + e.second.Error() }
func (e *both) Unwrap() []error { return []error{e.first, e.second} }

// commit says that the change is good. From here on nobody puts it back.
func (b *Bridger) commit(ctx context.Context, j *journal) error {
	release, err := b.undoer.acquire(ctx, b.store, undoLockName)
	if err != nil {
		return errors.Trace(err)
	}
	defer release()
	left, err := b.store.begun()
	if err != nil {
		return errors.Trace(err)
	}
	if left == nil || left.ID != j.ID {
		return errors.Timeoutf("the change: the watchdog has put all back:")
	}
	return errors.Annotate(b.store.end(), "forgetting what was before")
}

// rollback puts all back, also what this process did after a watchdog had put it back.
func (b *Bridger) rollback(ctx context.Context, j *journal) error {
	return deadline.Call(ctx, b.config.Clock, b.config.RollbackTimeout, func(ctx context.Context) error {
		release, err := b.undoer.acquire(ctx, b.store, undoLockName)
		if err != nil {
			return errors.Trace(err)
		}
		defer release()
		if err := b.undoer.undo(ctx, j); err != nil {
			j.Attempts++
			return and(err, b.store.begin(j))
		}
		return errors.Trace(b.store.end())
	})
}

// carryOut does the jobs, waits, and returns an error unless the network is then as asked
// for and has all that it had.
func (b *Bridger) carryOut(ctx context.Context, k kernel.Kernel, j *journal, jobs []job, delay time.Duration) error {
	wait := time.Duration(0)
	for _, job := range jobs {
		if job.way != Netlink {
			wait = b.config.VerifyTimeout
		}
		if err := b.do(ctx, k, job); err != nil {
			return err
		}
	}
	if err := b.pause(ctx, delay); err != nil {
		return errors.Annotate(err, "waiting for the bond")
	}
	return b.verify(ctx, k, j, wait)
}

func (b *Bridger) do(ctx context.Context, k kernel.Kernel, job job) error {
	if job.way == Netlink {
		for _, bridging := range job.bridgings {
			// Anew for each: a route may lead over two of them.
			now, err := k.Look(ctx)
			if err != nil {
				return errors.Trace(err)
			}
			for _, c := range bridgeChanges(now, bridging) {
				if err := k.Do(ctx, c); err != nil {
					return errors.Trace(err)
				}
			}
		}
		return nil
	}
	if err := b.run(ctx, job.before); err != nil {
		return err
	}
	for _, f := range job.files {
		if err := ctx.Err(); err != nil {
			return errors.Annotatef(err, "writing %s", f.Name)
		}
		if err := b.config.Host.WriteFile(ctx, f.Name, f.Data, privateFile); err != nil {
			return errors.Annotatef(err, "writing %s", f.Name)
		}
	}
	return b.run(ctx, job.after)
}

func (b *Bridger) run(ctx context.Context, commands [][]string) error {
	for _, args := range commands {
		if _, err := b.config.Host.Run(ctx, host.Command{Args: args, Timeout: b.config.ToolTimeout}); err != nil {
			return errors.Annotate(err, strings.Join(args, " "))
		}
	}
	return nil
}

func (b *Bridger) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.config.Clock.After(d):
		return nil
	}
}

// verify looks until the network is as asked for and has all that it had, for as long as
// wait.
func (b *Bridger) verify(ctx context.Context, k kernel.Kernel, j *journal, wait time.Duration) error {
	end := b.config.Clock.Now().Add(wait)
	for {
		now, err := k.Look(ctx)
		if err != nil {
			return errors.Annotate(err, "comparing")
		}
		for _, c := range leftovers(now, j.Bridgings) {
			if err := k.Do(ctx, c); err != nil {
				return errors.Trace(err)
			}
		}
		wrong := append(missing(now, j.Bridgings), lost(j.Before, now, j.ContainerBridges)...)
		if len(wrong) == 0 {
			return nil
		}
		if !b.config.Clock.Now().Before(end) {
			return errors.Errorf("afterwards there was no %s", strings.Join(wrong, ", no "))
		}
		if err := b.pause(ctx, verifyPoll); err != nil {
			return errors.Annotatef(err, "while there was no %s", strings.Join(wrong, ", no "))
		}
	}
}

// tell says what the one who looks after the host may want to know.
func (b *Bridger) tell(ctx context.Context, log *slog.Logger, k kernel.Kernel, j *journal) {
	warnings, err := b.Warnings(ctx)
	if err != nil {
		log.InfoContext(ctx, "whether a firewall is in the way could not be told", slog.String("error", err.Error()))
	}
	now, err := k.Look(ctx)
	if err == nil {
		warnings = append(warnings, gone(j.Before, now, j.Bridgings)...)
	}
	for _, w := range warnings {
		log.WarnContext(ctx, w)
	}
}

// gone returns a line for every route that is no longer there: made by hand, and not in
// any file.
func gone(before, now kernel.State, bridgings []bridging) []string {
	ways := map[string]bool{}
	for _, r := range now.Routes {
		ways[r.Way()] = true
	}
	var out []string
	for _, b := range bridgings {
		for _, r := range before.RoutesOver(b.Device) {
			if !ways[r.Way()] {
				out = append(out, "a route that is in no configuration file is gone: "+r.String())
			}
		}
	}
	return out
}
