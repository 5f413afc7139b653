package hostnet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
)

// undoer puts back what a journal tells. What it does twice does no harm, so it may begin
// anew wherever another one was cut short.
type undoer struct {
	host   host.Host
	clock  clock.Clock
	logger *slog.Logger
	open   func(namespace string) (kernel.Kernel, error)
}

// restorePasses is how often the kernel is told what is still not as it was: with some
// things others vanish.
const restorePasses = 3

// maxAttempts is how often a journal is tried. Something that cannot be put back must not
// keep the host from everything else for ever.
const maxAttempts = 3

// notPutBack is what could not be put back.
type notPutBack struct {
	what []string
	errs []error
}

// Error returns one line.
func (e *notPutBack) Error() string {
	words := e.what
	for _, err := range e.errs {
		words = append(words, err.Error())
	}
	return "could not be put back: " + strings.Join(words, "; ")
}

// Unwrap returns why.
func (e *notPutBack) Unwrap() []error { return e.errs }

// undo puts all back, as far as it can, and returns a *notPutBack for what it could not.
func (u undoer) undo(ctx context.Context, j *journal) error {
	log := u.logger.With(slog.String("devices", names(j.Bridgings)))
	log.WarnContext(ctx, "putting the network back as it was")
	failed := &notPutBack{}
	// Also where nothing seems to have changed: a tool that outlived its process may be
	// about to.
	u.tools(ctx, log, j.UndoBefore, j.ToolTimeout)
	for _, f := range j.Files {
		if isAs(ctx, u.host, f) {
			continue
		}
		var err error
		if f.Existed {
			err = u.host.WriteFile(ctx, f.Name, f.Data, privateFile)
		} else {
			err = u.host.Remove(ctx, f.Name)
		}
		if err != nil {
			failed.errs = append(failed.errs, errors.Annotate(err, f.Name))
		}
	}
	// Of the tools only what came of it counts, and that is looked at below.
	u.tools(ctx, log, j.UndoAfter, j.ToolTimeout)
	if j.Boot == boot(ctx, u.host) {
		u.restore(ctx, j, failed)
	}
	if len(failed.what)+len(failed.errs) > 0 {
		log.ErrorContext(ctx, "not all was put back", slog.String("error", failed.Error()))
		return failed
	}
	log.WarnContext(ctx, "all was put back")
	return nil
}

func (u undoer) tools(ctx context.Context, log *slog.Logger, commands [][]string, limit time.Duration) {
	for _, args := range commands {
		if _, err := u.host.Run(ctx, host.Command{Args: args, Timeout: limit}); err != nil {
			log.InfoContext(ctx, "a command failed while putting back", slog.String("error", err.Error()))
		}
	}
}

func (u undoer) restore(ctx context.Context, j *journal, failed *notPutBack) {
	k, err := u.open(j.Namespace)
	if err != nil {
		failed.errs = append(failed.errs, err)
		return
	}
	defer k.Close()
	var errs []error
	for range restorePasses {
		now, err := k.Look(ctx)
		if err != nil {
			failed.errs = append(failed.errs, err)
			return
		}
		changes := restoreChanges(j.Before, now, j.ContainerBridges, j.Bridgings, u.clock.Now().Sub(j.Began))
		if len(changes) == 0 {
			errs = nil
			break
		}
		errs = nil
		for _, c := range changes {
			if err := k.Do(ctx, c); err != nil {
				errs = append(errs, err)
			}
		}
	}
	// A link that is gone is told of once, below.
	for _, err := range errs {
		if !errors.Is(err, errors.NotFound) {
			failed.errs = append(failed.errs, err)
		}
	}
	now, err := k.Look(ctx)
	if err != nil {
		failed.errs = append(failed.errs, err)
		return
	}
	failed.what = append(failed.what, lost(j.Before, now, j.ContainerBridges)...)
	for _, b := range j.Bridgings {
		if _, ok := now.Link(b.Device); !ok {
			failed.what = append(failed.what, fmt.Sprintf("interface %s, which is gone", b.Device))
		}
	}
}

// boot returns the kernel's name for the time since it was started; empty where it has
// none.
func boot(ctx context.Context, files host.Files) string {
	data, err := files.ReadFile(ctx, "/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
