package host

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// aptLocks are held by whoever installs, unpacks, reads lists or downloads.
func aptLocks() []string {
	return []string{
		"/var/lib/dpkg/lock-frontend",
		"/var/lib/dpkg/lock",
		"/var/lib/apt/lists/lock",
		"/var/cache/apt/archives/lock",
	}
}

// mostRaces is how often somebody else may take a lock between the look at it and the
// command that needs it. A command that fails for a reason of its own while there is much
// traffic looks just like that, so there has to be an end.
const mostRaces = 5

type apt struct {
	host  Host
	clock clock.Clock
}

func (apt) Name() string { return "apt" }

func (a apt) Version(ctx context.Context, name string) (string, error) {
	all, err := a.packages(ctx)
	if err != nil {
		return "", err
	}
	if p := all[name]; p.whole {
		return p.version, nil
	}
	return "", errors.NotFoundf("package %q", name)
}

func (a apt) List(ctx context.Context) ([]string, error) {
	all, err := a.packages(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return !all[name].there }), nil
}

// deb is a package of which there is something.
type deb struct {
	version string
	// there is also one that was not installed to the end, but none that has left only
	// its configuration; whole is one that was.
	there, whole bool
}

func (a apt) packages(ctx context.Context) (map[string]deb, error) {
	out, err := a.host.Run(ctx, Look("dpkg-query", "--show", "--showformat=${db:Status-Abbrev} ${Package} ${Version}\n"))
	if err != nil {
		return nil, errors.Annotate(err, "listing packages")
	}
	all := map[string]deb{}
	for _, line := range out.Lines() {
		// What is wanted, what is so, and whether it is broken: "ii" is usual, "hi" is
		// held back, "rc" has left its configuration, "iU" is unpacked, "un" is only known.
		f := strings.Fields(line)
		if len(f) < 2 || len(f[0]) < 2 || f[0][1] == 'n' {
			continue
		}
		p := deb{there: f[0][1] != 'c', whole: f[0][1:] == "i"}
		if len(f) > 2 {
			p.version = f[2]
		}
		if !all[f[1]].there { // it may be there for two architectures
			all[f[1]] = p
		}
	}
	return all, nil
}

func (a apt) Install(ctx context.Context, packages ...Package) (added []string, err error) {
	var names []string
	for _, p := range packages {
		if err := debName(p.Name); err != nil {
			return nil, err
		}
		names = append(names, p.Name)
	}
	// Without a look at the locks: most often, all is there.
	all, err := a.packages(ctx)
	if err != nil {
		return nil, err
	}
	if names = missing(all, names); len(names) == 0 {
		return nil, nil
	}
	added, err = a.install(ctx, names)
	slices.Sort(added)
	return slices.Compact(added), errors.Annotatef(err, "installing %s", strings.Join(names, ", "))
}

func missing(all map[string]deb, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return all[name].whole })
}

func (a apt) install(ctx context.Context, names []string) (added []string, err error) {
	install := func() error {
		more, err := a.add(ctx, func(all map[string]deb) []string {
			names := missing(all, names)
			if len(names) == 0 {
				return nil // somebody else was faster
			}
			// What is in the way is somebody's: it is not removed.
			return aptGet(append([]string{"install", "--no-install-recommends", "--no-remove"}, names...)...)
		})
		added = append(added, more...)
		return err
	}
	more, err := a.repair(ctx)
	added = append(added, more...)
	if _, ran := ExitCode(err); ran {
		return added, errors.Annotate(err, "completing what was begun earlier")
	}
	if err != nil {
		return added, err
	}
	err = install()
	if code, ran := ExitCode(err); !ran || code != 100 {
		return added, err
	}
	// It may only not have heard of the package, or of its present version, yet.
	_, updateErr := a.add(ctx, func(map[string]deb) []string { return aptGet("update") })
	if _, ran := ExitCode(updateErr); updateErr != nil && !ran {
		return added, updateErr
	}
	if updateErr != nil {
		return added, errors.Annotatef(err, "the lists of packages cannot be read anew (%v), and", updateErr)
	}
	return added, install()
}

// repair completes what an installation that was cut short has left.
func (a apt) repair(ctx context.Context) (added []string, err error) {
	return a.add(ctx, func(map[string]deb) []string {
		out, err := a.host.Run(ctx, Look("dpkg", "--audit"))
		if err != nil || len(out.Lines()) == 0 {
			// If nothing can be said, the installation will say it.
			return nil
		}
		return []string{"dpkg", "--force-confold", "--configure", "-a"}
	})
}

func aptGet(args ...string) []string {
	return append([]string{"apt-get", "-q", "-y", "-o", "Dpkg::Options::=--force-confold"}, args...)
}

// add runs the command that decide returns for what is there, nil for none, and returns
// the packages that are there because of it, also when it failed. It waits while somebody
// else has a lock. A lock is never touched: whoever holds it is in the middle of
// something.
func (a apt) add(ctx context.Context, decide func(map[string]deb) []string) (added []string, err error) {
	for race := 0; ; race++ {
		if err := a.awaitLocks(ctx); err != nil {
			return nil, err
		}
		// Now, since whoever had the lock may have installed much.
		before, err := a.packages(ctx)
		if err != nil {
			return nil, err
		}
		args := decide(before)
		if args == nil {
			return nil, nil
		}
		_, err = a.host.Run(ctx, Command{
			Args:    args,
			Env:     []string{"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "APT_LISTCHANGES_FRONTEND=none"},
			Timeout: installTimeout,
		})
		if _, ran := ExitCode(err); ran && race < mostRaces {
			holder, lookErr := a.holder(ctx)
			if lookErr == nil && holder != nil {
				// Somebody was faster, and what there is now may be theirs. If the
				// command has failed for another reason, it will do so again.
				continue
			}
		}
		return a.since(ctx, before, err)
	}
}

// since returns what is there and was not before a command that ended with an error or
// nil. It has to be known also when the caller has given up.
func (a apt) since(ctx context.Context, before map[string]deb, err error) ([]string, error) {
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultTimeout)
	defer cancel()
	after, lookErr := a.packages(looking)
	var added []string
	for name, p := range after {
		if p.there && !before[name].there {
			added = append(added, name)
		}
	}
	if err == nil {
		err = lookErr
	}
	return added, errors.Trace(err)
}

func (a apt) holder(ctx context.Context) (*Process, error) {
	for _, lock := range aptLocks() {
		holder, err := a.host.LockHolder(ctx, lock)
		if err != nil {
			return nil, errors.Annotate(err, "dpkg's lock")
		}
		if holder != nil {
			return holder, nil
		}
	}
	return nil, nil
}

func (a apt) awaitLocks(ctx context.Context) error {
	for {
		holder, err := a.holder(ctx)
		if err != nil || holder == nil {
			return err
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
	for _, name := range names {
		if err := debName(name); err != nil {
			return err
		}
	}
	var there []string
	_, err := a.add(ctx, func(all map[string]deb) []string {
		there = nil
		for _, name := range names {
			if _, known := all[name]; known {
				there = append(there, name)
			}
		}
		if len(there) == 0 {
			return nil
		}
		// Not by apt-get, which would also remove whatever needs them by now: dpkg
		// leaves those that are needed, and fails.
		return append([]string{"dpkg", "--purge"}, there...)
	})
	if err == nil {
		return nil
	}
	left := slices.Clone(there)
	if all, lookErr := a.packages(ctx); lookErr == nil {
		left = slices.DeleteFunc(left, func(name string) bool { return !all[name].there })
	}
	if _, ran := ExitCode(err); ran && len(left) > 0 {
		err = errors.Annotatef(err, "%s stayed, as other packages may need it now", strings.Join(left, ", "))
	}
	return errors.Annotatef(err, "removing %s", strings.Join(names, ", "))
}

// debName returns errors.NotValid for what apt and dpkg would take for anything but the
// name of one package: an option, a pattern, or a request to remove it.
func debName(name string) error {
	if plain := strings.Trim(name, lowercase+"+-."); len(name) < 2 || plain != "" ||
		strings.ContainsAny(name[:1], "+-.") || strings.HasSuffix(name, "-") {
		return errors.NotValidf("package %q", cut(name, 100))
	}
	return nil
}
