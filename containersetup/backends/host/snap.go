package host

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// snapBusy is the code with which snap says that another change of the same snap is under
// way.
const snapBusy = 10

// snap waits for its own changes by itself, and has no lock to look at.
type snap struct {
	host  Host
	clock clock.Clock
}

func (snap) Name() string { return "snap" }

func (s snap) Version(ctx context.Context, name string) (string, error) {
	all, err := s.snaps(ctx)
	if err != nil {
		return "", err
	}
	if version, ok := all[name]; ok {
		return version, nil
	}
	return "", errors.NotFoundf("snap %q", name)
}

func (s snap) List(ctx context.Context) ([]string, error) {
	all, err := s.snaps(ctx)
	return slices.Sorted(maps.Keys(all)), err
}

// snaps returns the versions of all snaps. Of a single one, snap does not tell whether it
// is not there or cannot be asked about.
func (s snap) snaps(ctx context.Context) (map[string]string, error) {
	out, err := s.host.Run(ctx, Look("snap", "list"))
	if err != nil {
		return nil, errors.Annotate(err, "listing snaps")
	}
	all := map[string]string{}
	for i, line := range out.Lines() {
		if f := strings.Fields(line); i > 0 && len(f) > 1 { // the first is the heading
			all[f[0]] = f[1]
		}
	}
	return all, nil
}

func (s snap) Install(ctx context.Context, packages ...Package) (added []string, err error) {
	for _, p := range packages {
		if err := snapName(p.Name); err != nil {
			return nil, err
		}
	}
	for _, p := range packages {
		args := []string{"snap", "install"}
		if p.Channel != "" {
			args = append(args, "--channel="+p.Channel)
		}
		ran, err := s.change(ctx, p.Name, false, append(args, p.Name)...)
		if ran && err == nil {
			added = append(added, p.Name)
		}
		if err != nil {
			return added, errors.Annotatef(err, "installing %s", p.Name)
		}
	}
	slices.Sort(added)
	return added, nil
}

func (s snap) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := snapName(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := s.change(ctx, name, true, "snap", "remove", "--purge", name); err != nil {
			return errors.Annotatef(err, "removing %s", name)
		}
	}
	return nil
}

// change runs a command while a snap is, or is not, there, and tells whether it did. It
// waits while snapd is busy with the same snap.
func (s snap) change(ctx context.Context, name string, there bool, args ...string) (ran bool, err error) {
	for {
		all, err := s.snaps(ctx)
		if err != nil {
			return false, err
		}
		if _, ok := all[name]; ok != there {
			return false, nil
		}
		_, err = s.host.Run(ctx, Command{Args: args, Timeout: installTimeout})
		if code, _ := ExitCode(err); code != snapBusy {
			return true, errors.Trace(err)
		}
		select {
		case <-ctx.Done():
		case <-s.clock.After(lockPoll):
		}
		// Both may be so at once, and then the next command would not tell what was
		// waited for.
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return false, errors.Timeoutf("%v:", err)
		case ctx.Err() != nil:
			return false, errors.Annotate(ctx.Err(), err.Error())
		}
	}
}

// snapName returns errors.NotValid for what snap would take for an option or a file.
func snapName(name string) error {
	if name == "" || strings.Trim(name, lowercase+"-_") != "" || strings.HasPrefix(name, "-") {
		return errors.NotValidf("snap %q", cut(name, 100))
	}
	return nil
}
