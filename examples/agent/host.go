package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/machinelock"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/facade"
)

// hostMain tells what the agent would do to this machine for LXD, or takes back what
// was done: agent host plan, agent host undo.
func hostMain(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] != "plan" && args[0] != "undo" {
		return errors.BadRequestf("host wants plan or undo (agent --help tells more)")
	}
	var path string
	flags := newFlags("host")
	flags.StringVar(&path, "model", "", "")
	install := flags.Bool("install-lxd", false, "")
	debug := flags.Bool("debug", false, "")
	if err := parse(flags, args[1:]); err != nil {
		return err
	}
	if path == "" {
		return errors.BadRequestf("--model DIR is missing (agent --help tells more)")
	}
	stateDir, l, settings, err := openHost(path, *install, newLogger(stderr, *debug))
	if err != nil {
		return err
	}
	initialiser, err := lxd.NewInitialiser(l.config)
	if err != nil {
		return err
	}
	if args[0] == "undo" {
		return errors.Annotate(undoHost(ctx, stateDir, initialiser, l.config.Logger, stdout), "undo")
	}
	if _, err := l.probe(ctx); err != nil {
		return errors.Annotate(err, "plan")
	}
	return errors.Annotate(planHost(ctx, initialiser, settings, stdout), "plan")
}

// openHost returns LXD on this machine as an agent on the model would have it, with the
// agent's own directory and the model's settings for LXD.
func openHost(path string, install bool, logger *slog.Logger) (string, lxdHost, facade.ContainerManagerConfig, error) {
	dir, m, err := openModel(path)
	switch {
	case err != nil:
		return "", lxdHost{}, nil, errors.NewBadRequest(err, "")
	case m.Machine == nil || !slices.Contains(m.Machine.Types, containersetup.LXD):
		return "", lxdHost{}, nil, errors.BadRequestf("%s: machine.yaml: does not list lxd: there is nothing to do to this machine", dir)
	}
	stateDir := filepath.Join(dir, controller.StateDir)
	// Whose containers these will be plays no part in preparing the machine. The
	// controller's UUID is not known before there was an agent.
	l := newLXD(m.UUID, m.UUID, stateDir, install, logger)
	return stateDir, l, m.Machine.Settings[containersetup.LXD], nil
}

// planHost prints the steps that are to be done to this machine when somebody asks for
// the first container.
func planHost(ctx context.Context, initialiser *lxd.Initialiser, settings facade.ContainerManagerConfig, out io.Writer) error {
	with, err := initialiser.WithSettings(settings)
	if err != nil {
		return errors.NewBadRequest(err, "machine.yaml: settings: lxd")
	}
	planner, ok := with.(*lxd.Initialiser)
	if !ok {
		return errors.Errorf("initialiser of type %T", with)
	}
	steps, err := planner.Plan(ctx)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		_, err = fmt.Fprintln(out, "there is nothing to do to this machine")
	}
	for i, step := range steps {
		_, err = fmt.Fprintf(out, "%d. %s\n", i+1, step)
	}
	return errors.Trace(err)
}

// undoHost takes back what agents on the model did to this machine. None may run, since
// it would do all of it again.
func undoHost(ctx context.Context, stateDir string, initialiser *lxd.Initialiser, logger *slog.Logger, out io.Writer) error {
	running, err := controller.Lock(stateDir)
	if errors.Is(err, errors.AlreadyExists) {
		return errors.Errorf("an agent runs on %s, and has to be stopped first", filepath.Dir(stateDir))
	}
	if err != nil {
		return err
	}
	defer running.Close()
	lock, err := newMachineLock(stateDir, logger)
	if err != nil {
		return err
	}
	release, err := lock.Acquire(ctx, containersetup.Holder{Worker: "agent host", Reason: "undo"})
	if err != nil {
		return err
	}
	defer release()
	if err := initialiser.Undo(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "nothing that was done to this machine for LXD is left")
	return errors.Trace(err)
}

// newMachineLock returns the lock that whoever changes this machine has meanwhile. A
// real agent names the one file that all of them have.
func newMachineLock(stateDir string, logger *slog.Logger) (*machinelock.Lock, error) {
	return machinelock.New(machinelock.Config{
		Path:   filepath.Join(stateDir, machineLockFile),
		Clock:  clock.WallClock,
		Logger: logger,
	})
}
