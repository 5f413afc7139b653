package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/machinelock"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
)

// prepared is a back end that does things to this machine before it has containers.
type prepared struct {
	containerType containersetup.ContainerType
	// plan returns what is to be done, or why there can be no containers here.
	plan func(context.Context) ([]string, error)
	// undo takes back what was done.
	undo func(context.Context) error
}

// hostOptions is what host plan and host undo are called with.
type hostOptions struct {
	model        string
	installLXD   bool
	kvmEmulation bool
	logger       *slog.Logger
}

// hostMain tells what the agent would do to this machine for LXD and KVM, or takes back
// what was done: agent host plan, agent host undo.
func hostMain(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] != "plan" && args[0] != "undo" {
		return errors.BadRequestf("host wants plan or undo (agent --help tells more)")
	}
	var opts hostOptions
	flags := newFlags("host")
	flags.StringVar(&opts.model, "model", "", "")
	flags.BoolVar(&opts.installLXD, "install-lxd", false, "")
	flags.BoolVar(&opts.kvmEmulation, "kvm-emulation", false, "")
	debug := flags.Bool("debug", false, "")
	if err := parse(flags, args[1:]); err != nil {
		return err
	}
	if opts.model == "" {
		return errors.BadRequestf("--model DIR is missing (agent --help tells more)")
	}
	opts.logger = newLogger(stderr, *debug)
	stateDir, all, err := openHost(opts)
	if err != nil {
		return err
	}
	if args[0] == "undo" {
		return errors.Annotate(undoHost(ctx, stateDir, all, opts.logger, stdout), "undo")
	}
	return errors.Annotate(planHost(ctx, all, stdout), "plan")
}

// openHost returns the agent's own directory, and those of the model's types that
// something is done to this machine for, as an agent on the model would have them.
func openHost(opts hostOptions) (string, []prepared, error) {
	dir, m, err := openModel(opts.model)
	if err != nil {
		return "", nil, errors.NewBadRequest(err, "")
	}
	stateDir := filepath.Join(dir, controller.StateDir)
	var all []prepared
	if m.Machine != nil {
		// Whose containers these will be plays no part in preparing the machine. The
		// controller's UUID is not known before there was an agent.
		l := newLXD(m.UUID, m.UUID, stateDir, opts.installLXD, m.Machine.Settings[containersetup.LXD], opts.logger)
		k := newKVM(m.UUID, m.UUID, stateDir, opts.kvmEmulation, m.Machine.Settings[containersetup.KVM], opts.logger)
		all = []prepared{{containersetup.LXD, l.plan, l.undo}, {containersetup.KVM, k.plan, k.undo}}
		all = slices.DeleteFunc(all, func(p prepared) bool { return !slices.Contains(m.Machine.Types, p.containerType) })
	}
	if len(all) == 0 {
		return "", nil, errors.BadRequestf("%s: machine.yaml: lists neither lxd nor kvm: there is nothing to do to this machine", dir)
	}
	return stateDir, all, nil
}

// planHost prints the steps that are to be done to this machine when somebody asks for
// the first container of a type. A type that cannot be had here is an error only if there
// is no other.
func planHost(ctx context.Context, all []prepared, out io.Writer) error {
	var text strings.Builder
	failed := 0
	for _, p := range all {
		if len(all) > 1 {
			fmt.Fprintf(&text, "%s:\n", p.containerType)
		}
		steps, err := p.plan(ctx)
		if err != nil {
			if failed++; failed == len(all) || errors.Is(err, errors.BadRequest) {
				return err
			}
			fmt.Fprintf(&text, "cannot be had here: %v\n", err)
			continue
		}
		if len(steps) == 0 {
			fmt.Fprintln(&text, "there is nothing to do to this machine")
		}
		for i, step := range steps {
			fmt.Fprintf(&text, "%d. %s\n", i+1, step)
		}
	}
	_, err := io.WriteString(out, text.String())
	return errors.Trace(err)
}

// lines returns a plan's steps as they are told, or the plan's error.
func lines[S fmt.Stringer](steps []S, err error) ([]string, error) {
	out := make([]string, len(steps))
	for i, step := range steps {
		out[i] = step.String()
	}
	return out, err
}

// undoHost takes back what agents on the model did to this machine. None may run, since
// it would do all of it again. What cannot be taken back of one type, yet, keeps nothing
// of another.
func undoHost(ctx context.Context, stateDir string, all []prepared, logger *slog.Logger, out io.Writer) error {
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
	var failed error
	for _, p := range all {
		err := p.undo(ctx)
		if err == nil {
			_, err = fmt.Fprintf(out, "nothing that was done to this machine for %s is left\n", strings.ToUpper(string(p.containerType)))
		}
		if failed == nil {
			failed = err
		}
	}
	return errors.Trace(failed)
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
