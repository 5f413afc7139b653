package hostnet

import (
	"context"
	"log/slog"
	"os/exec"
	"syscall"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/internal/deadline"
)

// WatchdogConfig is what [RunWatchdog] works with. All but Logger is required.
type WatchdogConfig struct {
	// StateDir, Host and Clock are as in [BridgerConfig].
	StateDir string
	Host     host.Host
	Clock    clock.Clock
	// Logger hears what was put back; nil discards. The process has no terminal.
	Logger *slog.Logger
}

// Validate returns errors.NotValid, naming the field.
func (c WatchdogConfig) Validate() error {
	switch {
	case c.Host == nil:
		return errors.NotValidf("nil Host")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	}
	return validateStateDir(c.StateDir)
}

// RunWatchdog watches over the change that is under way in the StateDir, and returns when
// that is done. When the process that makes it dies, or takes too long, it puts all back.
// Nothing under way is success. It is what the program in [BridgerConfig.Watchdog] calls.
func RunWatchdog(ctx context.Context, config WatchdogConfig) error {
	if err := config.Validate(); err != nil {
		return errors.Annotate(err, "watchdog config")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	u := undoer{host: config.Host, clock: config.Clock, logger: config.Logger, open: func(namespace string) (kernel.Kernel, error) {
		return kernel.Open(namespace, config.Clock)
	}}
	return errors.Annotate(u.watch(ctx, store{config.StateDir}), "watchdog")
}

func (u undoer) watch(ctx context.Context, s store) error {
	j, err := s.begun()
	if err != nil || j == nil {
		return err
	}
	if err := s.arm(j.ID); err != nil {
		return errors.Trace(err)
	}
	// Whoever makes the change holds the lock for as long as it lives.
	var release func()
	err = deadline.Call(ctx, u.clock, j.Limit+watchdogGrace, func(ctx context.Context) error {
		release, err = u.acquire(ctx, s, lockName)
		return err
	})
	switch {
	case err == nil:
		defer release()
	case !errors.Is(err, errors.Timeout):
		return err
	}
	for {
		err = deadline.Call(ctx, u.clock, DefaultRollbackTimeout, func(ctx context.Context) error { return u.finish(ctx, s, j.ID) })
		left, readErr := s.begun()
		if err == nil || readErr != nil || left == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-u.clock.After(time.Second):
		}
	}
}

// dog is a watchdog that was started; nil is for none.
type dog struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// watch starts the watchdog, if there is to be one, and returns when it watches.
func (b *Bridger) watch(ctx context.Context, j *journal) (*dog, error) {
	if len(b.config.Watchdog) == 0 {
		return nil, nil
	}
	// Neither with this call nor with this process does it end.
	cmd := exec.Command(b.config.Watchdog[0], b.config.Watchdog[1:]...) //nolint:noctx // it outlives the context
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Trace(err)
	}
	d := &dog{cmd: cmd, done: make(chan struct{})}
	var ended error
	go func() {
		defer close(d.done)
		ended = cmd.Wait()
	}()
	done := d.done
	end := b.config.Clock.Now().Add(armTimeout)
	for !b.store.armed(j.ID) {
		select {
		case <-done:
			// It may have handed over to another, as systemd-run does.
			if done = nil; ended != nil {
				return nil, errors.Annotate(ended, b.config.Watchdog[0])
			}
			continue
		case <-ctx.Done():
			d.stop()
			return nil, ctx.Err()
		case <-b.config.Clock.After(armPoll):
		}
		if b.config.Clock.Now().After(end) {
			d.stop()
			return nil, errors.Timeoutf("%s: it does not watch after %s,", b.config.Watchdog[0], armTimeout)
		}
	}
	return d, nil
}

// stop ends the watchdog, when there is nothing to watch over any more, or this process
// has itself done what could be done. The lock is held.
func (d *dog) stop() {
	if d == nil {
		return
	}
	select {
	case <-d.done: // its number may be another's by now
	default:
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		<-d.done
	}
}
