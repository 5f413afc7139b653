package host

import (
	"context"
	"strings"

	"github.com/juju/errors"
)

// snap waits for its own changes by itself, and has no lock to look at.
type snap struct{ host Host }

func (snap) Name() string { return "snap" }

func (s snap) Version(ctx context.Context, name string) (string, error) {
	out, err := s.host.Run(ctx, Look("snap", "list", name))
	if _, ran := ExitCode(err); ran {
		return "", errors.NotFoundf("snap %q", name)
	}
	if err != nil {
		return "", errors.Trace(err)
	}
	for _, line := range out.Lines() {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[1], nil
		}
	}
	return "", errors.NotFoundf("snap %q", name)
}

func (s snap) Install(ctx context.Context, packages ...Package) (added []string, err error) {
	for _, p := range packages {
		_, err := s.Version(ctx, p.Name)
		if err == nil {
			continue
		}
		if !errors.Is(err, errors.NotFound) {
			return added, err
		}
		args := []string{"snap", "install", p.Name}
		if p.Channel != "" {
			args = append(args, "--channel="+p.Channel)
		}
		if _, err := s.host.Run(ctx, Command{Args: args, Timeout: installTimeout}); err != nil {
			return added, errors.Annotatef(err, "installing %s", p.Name)
		}
		added = append(added, p.Name)
	}
	return added, nil
}

func (s snap) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := s.Version(ctx, name); errors.Is(err, errors.NotFound) {
			continue
		}
		if _, err := s.host.Run(ctx, Command{Args: []string{"snap", "remove", "--purge", name}, Timeout: installTimeout}); err != nil {
			return errors.Annotatef(err, "removing %s", name)
		}
	}
	return nil
}
