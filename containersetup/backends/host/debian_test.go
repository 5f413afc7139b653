package host_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
)

// The locks of apt and dpkg.
const (
	frontendLock = "/var/lib/dpkg/lock-frontend"
	dpkgLock     = "/var/lib/dpkg/lock"
	listsLock    = "/var/lib/apt/lists/lock"
	archivesLock = "/var/cache/apt/archives/lock"
)

// debian is a scripted host whose apt and dpkg know packages and what they need, and fail
// while somebody has a lock.
type debian struct {
	hosttest.Host

	mu sync.Mutex
	// status is of packages by name, as in "ii".
	status map[string]string
	// archive has the packages that can be installed, with what they need.
	archive map[string][]string
	// unheard are in the archive once the lists have been read anew.
	unheard map[string][]string
	// audit is what dpkg finds to be half done.
	audit []string
	// onInstall is called when apt-get has the lock; an error ends it half-way.
	onInstall func(ctx context.Context) error
	locked    bool
}

func newDebian(installed ...string) *debian {
	d := &debian{
		status:  map[string]string{},
		archive: map[string][]string{"lxd": {"liblxc1", "rsync"}, "liblxc1": nil, "rsync": nil, "hello": nil},
		unheard: map[string][]string{},
	}
	for _, name := range installed {
		d.status[name] = "ii"
	}
	d.SetFile("/etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n")
	for _, lock := range []string{frontendLock, dpkgLock, listsLock, archivesLock} {
		d.SetFile(lock, "")
	}
	d.On(d.query, "dpkg-query", "--show")
	d.On(d.auditing, "dpkg", "--audit")
	d.On(d.configure, "dpkg", "--force-confold", "--configure", "-a")
	d.On(d.purge, "dpkg", "--purge")
	d.On(d.aptGet, "apt-get")
	return d
}

func (d *debian) packages(t *testing.T) host.PackageManager {
	t.Helper()
	packages, err := host.Packages(t.Context(), d, clock.WallClock)
	if err != nil {
		t.Fatal(err)
	}
	if packages.Name() != "apt" {
		t.Fatal(packages.Name())
	}
	return packages
}

func (d *debian) set(name, status string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status[name] = status
}

// there are the packages that are installed, in whatever state.
func (d *debian) there() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var words []string
	for _, name := range slices.Sorted(maps.Keys(d.status)) {
		words = append(words, d.status[name]+" "+name)
	}
	return strings.Join(words, ", ")
}

func (d *debian) query(context.Context, host.Command) (host.Output, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out strings.Builder
	for name, status := range d.status {
		fmt.Fprintf(&out, "%-3s %s 1.0-%s\n", status, name, name)
	}
	return host.Output{Stdout: []byte(out.String())}, nil
}

func (d *debian) auditing(context.Context, host.Command) (host.Output, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return host.Output{Stdout: []byte(strings.Join(d.audit, "\n"))}, nil
}

// lock is what every program that changes something does first.
func (d *debian) lock(ctx context.Context, cmd host.Command, code int) (release func(), out host.Output, err error) {
	for _, env := range []string{"DEBIAN_FRONTEND=noninteractive"} {
		if !slices.Contains(cmd.Env, env) {
			panic("it may ask questions: " + cmd.String())
		}
	}
	for _, lock := range []string{frontendLock, dpkgLock, listsLock, archivesLock} {
		if p, err := d.LockHolder(ctx, lock); err == nil && p != nil {
			out, err := hosttest.Exit(code, fmt.Sprintf("E: Could not get lock %s. It is held by %s", lock, p))(ctx, cmd)
			return nil, out, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked {
		panic("two at once")
	}
	d.locked = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.locked = false
	}, host.Output{}, nil
}

func (d *debian) configure(ctx context.Context, cmd host.Command) (host.Output, error) {
	release, out, err := d.lock(ctx, cmd, 2)
	if err != nil {
		return out, err
	}
	defer release()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.audit = nil
	for name, status := range d.status {
		if status == "iU" || status == "iF" {
			d.status[name] = "ii"
		}
	}
	return host.Output{}, nil
}

func (d *debian) purge(ctx context.Context, cmd host.Command) (host.Output, error) {
	release, out, err := d.lock(ctx, cmd, 2)
	if err != nil {
		return out, err
	}
	defer release()
	d.mu.Lock()
	defer d.mu.Unlock()
	var needed []string
	for _, name := range cmd.Args[2:] {
		for other, needs := range d.archive {
			if d.status[other] == "ii" && slices.Contains(needs, name) && !slices.Contains(cmd.Args, other) {
				needed = append(needed, name)
			}
		}
		if !slices.Contains(needed, name) {
			delete(d.status, name)
		}
	}
	if len(needed) > 0 {
		return hosttest.Exit(1, "Errors were encountered while processing:\n "+strings.Join(needed, "\n "))(ctx, cmd)
	}
	return host.Output{}, nil
}

func (d *debian) aptGet(ctx context.Context, cmd host.Command) (host.Output, error) {
	release, out, err := d.lock(ctx, cmd, 100)
	if err != nil {
		return out, err
	}
	defer release()
	var verb string
	var names []string
	for i, arg := range cmd.Args[1:] {
		switch {
		case strings.HasPrefix(arg, "-"), cmd.Args[i] == "-o":
		case verb == "":
			verb = arg
		default:
			names = append(names, arg)
		}
	}
	if verb == "update" {
		d.mu.Lock()
		defer d.mu.Unlock()
		maps.Copy(d.archive, d.unheard)
		return host.Output{}, nil
	}
	d.mu.Lock()
	var todo []string
	for _, name := range names {
		needs, known := d.archive[name]
		if !known {
			d.mu.Unlock()
			return hosttest.Exit(100, "Reading package lists...\nE: Unable to locate package "+name)(ctx, cmd)
		}
		todo = append(append(todo, needs...), name)
	}
	for _, name := range todo {
		if d.status[name] != "ii" {
			d.status[name] = "iU"
		}
	}
	d.mu.Unlock()
	if d.onInstall != nil {
		if err := d.onInstall(ctx); err != nil {
			return host.Output{}, err
		}
	}
	for _, name := range todo {
		d.set(name, "ii")
	}
	return host.Output{}, nil
}
