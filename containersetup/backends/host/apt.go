package host

import (
	"context"
	"slices"
	"strings"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// dpkgLock is held by whoever installs something.
const dpkgLock = "/var/lib/dpkg/lock-frontend"

type apt struct {
	host  Host
	clock clock.Clock
}

func (apt) Name() string { return "apt" }

func (a apt) Version(ctx context.Context, name string) (string, error) {
	installed, err := a.installed(ctx)
	if err != nil {
		return "", err
	}
	version, ok := installed[name]
	if !ok {
		return "", errors.NotFoundf("package %q", name)
	}
	return version, nil
}

// installed returns the versions of the packages that are wholly there.
func (a apt) installed(ctx context.Context) (map[string]string, error) {
	out, err := a.host.Run(ctx, Look("dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package} ${Version}\n"))
	if err != nil {
		return nil, errors.Annotate(err, "listing packages")
	}
	versions := map[string]string{}
	for _, line := range out.Lines() {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "ii" {
			versions[f[1]] = f[2]
		}
	}
	return versions, nil
}

func (a apt) Install(ctx context.Context, packages ...Package) (added []string, err error) {
	before, err := a.installed(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, p := range packages {
		if _, ok := before[p.Name]; !ok {
			missing = append(missing, p.Name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	err = a.install(ctx, missing)
	// Also after a failure, and after the caller gave up: what is there now and
	// was not has to be known.
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultTimeout)
	defer cancel()
	after, lookErr := a.installed(looking)
	if lookErr != nil {
		after = nil
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			added = append(added, name)
		}
	}
	slices.Sort(added)
	if err == nil {
		err = lookErr
	}
	return added, errors.Annotatef(err, "installing %s", strings.Join(missing, ", "))
}

func (a apt) install(ctx context.Context, names []string) error {
	if err := a.repair(ctx); err != nil {
		return err
	}
	install := append([]string{"install", "--no-install-recommends"}, names...)
	err := a.run(ctx, install...)
	if code, ran := ExitCode(err); !ran || code != 100 {
		return err
	}
	// It may only not have heard of the package, or of its present version, yet.
	if updateErr := a.run(ctx, "update"); updateErr != nil {
		return errors.Annotate(err, "the lists of packages could not be read anew either")
	}
	return a.run(ctx, install...)
}

// repair completes what an installation that was cut short has left.
func (a apt) repair(ctx context.Context) error {
	out, err := a.host.Run(ctx, Look("dpkg", "--audit"))
	if _, ran := ExitCode(err); err != nil && !ran {
		return errors.Trace(err)
	}
	if len(out.Lines()) == 0 {
		return nil
	}
	return a.locked(ctx, Command{Args: []string{"dpkg", "--configure", "-a", "--force-confold"}, Env: noQuestions(), Timeout: installTimeout})
}

func noQuestions() []string {
	return []string{"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "APT_LISTCHANGES_FRONTEND=none"}
}

func (a apt) run(ctx context.Context, args ...string) error {
	return a.locked(ctx, Command{
		Args:    append([]string{"apt-get", "-q", "-y", "-o", "Dpkg::Options::=--force-confold", "-o", "APT::Get::Assume-Yes=true"}, args...),
		Env:     noQuestions(),
		Timeout: installTimeout,
	})
}

// locked runs a command that takes dpkg's lock, and waits while somebody else has it.
// The lock is never touched: whoever holds it is in the middle of something.
func (a apt) locked(ctx context.Context, cmd Command) error {
	for {
		if err := a.awaitLock(ctx); err != nil {
			return err
		}
		_, err := a.host.Run(ctx, cmd)
		if err == nil {
			return nil
		}
		if _, ran := ExitCode(err); !ran {
			return errors.Trace(err)
		}
		// Somebody may have been faster. A lock that is held now was held then, or
		// what failed will fail again.
		holder, lookErr := a.host.LockHolder(ctx, dpkgLock)
		if lookErr != nil || holder == nil {
			return errors.Trace(err)
		}
	}
}

func (a apt) awaitLock(ctx context.Context) error {
	for {
		holder, err := a.host.LockHolder(ctx, dpkgLock)
		if err != nil {
			return errors.Annotate(err, "dpkg's lock")
		}
		if holder == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return errors.Timeoutf("waiting for dpkg's lock, which %s holds,", holder)
			}
			return errors.Annotatef(ctx.Err(), "waiting for dpkg's lock, which %s holds", holder)
		case <-a.clock.After(lockPoll):
		}
	}
}

func (a apt) Remove(ctx context.Context, names ...string) error {
	installed, err := a.installed(ctx)
	if err != nil {
		return err
	}
	var there []string
	for _, name := range names {
		if _, ok := installed[name]; ok {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return nil
	}
	err = a.run(ctx, append([]string{"purge"}, there...)...)
	return errors.Annotatef(err, "removing %s", strings.Join(there, ", "))
}

