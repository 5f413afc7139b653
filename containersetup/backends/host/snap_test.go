package host_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
)

// ubuntu is a scripted host with snaps.
type ubuntu struct {
	hosttest.Host
	mu    sync.Mutex
	snaps []string
}

func newUbuntu(snaps ...string) *ubuntu {
	u := &ubuntu{snaps: snaps}
	u.SetFile("/etc/os-release", "ID=ubuntu\n")
	u.On(func(context.Context, host.Command) (host.Output, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if len(u.snaps) == 0 {
			return host.Output{Stderr: []byte("No snaps are installed yet.\n")}, nil
		}
		lines := []string{"Name    Version         Rev    Tracking       Publisher   Notes"}
		for _, name := range u.snaps {
			lines = append(lines, name+"  5.21.3-c5ae129  33110  5.21/stable    canonical✓  -")
		}
		return host.Output{Stdout: []byte(strings.Join(lines, "\n"))}, nil
	}, "snap", "list")
	u.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		u.add(cmd.Args[len(cmd.Args)-1])
		return host.Output{}, nil
	}, "snap", "install")
	u.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.snaps = slices.DeleteFunc(u.snaps, func(name string) bool { return name == cmd.Args[3] })
		return host.Output{}, nil
	}, "snap", "remove", "--purge")
	return u
}

func (u *ubuntu) add(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.snaps = append(u.snaps, name)
}

func (u *ubuntu) packages(t *testing.T) host.PackageManager {
	t.Helper()
	packages, err := host.Packages(t.Context(), u, clock.WallClock)
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func TestSnaps(t *testing.T) {
	u := newUbuntu()
	packages := u.packages(t)
	if names, err := packages.List(t.Context()); err != nil || len(names) != 0 {
		t.Fatal(names, err)
	}
	if _, err := packages.Version(t.Context(), "lxd"); !errors.Is(err, errors.NotFound) || err.Error() != `snap "lxd" not found` {
		t.Fatal(err)
	}
	added, err := packages.Install(t.Context(), host.Package{Name: "lxd", Channel: "5.21/stable"}, host.Package{Name: "jq"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "added", added, "jq", "lxd")
	if version, err := packages.Version(t.Context(), "lxd"); err != nil || version != "5.21.3-c5ae129" {
		t.Fatal(version, err)
	}
	if names, err := packages.List(t.Context()); err != nil || strings.Join(names, " ") != "jq lxd" {
		t.Fatal(names, err)
	}
	// What is there stays as it is, of whatever channel.
	if added, err := packages.Install(t.Context(), host.Package{Name: "lxd", Channel: "6/edge"}); err != nil || len(added) != 0 {
		t.Fatal(added, err)
	}
	for range 2 {
		if err := packages.Remove(t.Context(), "lxd", "no-such"); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "changes", u.Changes(), "run snap install --channel=5.21/stable lxd", "run snap install jq", "run snap remove --purge lxd")
}

func TestASnapThatCannotBeInstalledOrRemoved(t *testing.T) {
	u := newUbuntu("core22")
	u.On(hosttest.Exit(1, `error: snap "no-such" not found`), "snap", "install", "no-such")
	u.On(hosttest.Exit(1, `error: cannot remove "core22"`), "snap", "remove", "--purge", "core22")
	added, err := u.packages(t).Install(t.Context(), host.Package{Name: "lxd"}, host.Package{Name: "no-such"}, host.Package{Name: "jq"})
	if want := `installing no-such: snap: error: snap "no-such" not found (exit code 1)`; err == nil || err.Error() != want || errors.Is(err, errors.NotFound) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	expect(t, "added", added, "lxd")
	err = u.packages(t).Remove(t.Context(), "core22")
	if want := `removing core22: snap: error: cannot remove "core22" (exit code 1)`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A daemon that cannot be asked does not mean that nothing is there.
func TestSnapdThatDoesNotAnswer(t *testing.T) {
	u := newUbuntu("lxd")
	u.On(hosttest.Exit(1, "error: cannot communicate with server"), "snap", "list")
	const why = "listing snaps: snap: error: cannot communicate with server (exit code 1)"
	_, versionErr := u.packages(t).Version(t.Context(), "lxd")
	_, listErr := u.packages(t).List(t.Context())
	_, installErr := u.packages(t).Install(t.Context(), host.Package{Name: "lxd"})
	for want, err := range map[string]error{
		why: versionErr, "installing lxd: " + why: installErr, "removing lxd: " + why: u.packages(t).Remove(t.Context(), "lxd"),
	} {
		if err == nil || err.Error() != want || errors.Is(err, errors.NotFound) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if listErr == nil {
		t.Error("listed")
	}
	expect(t, "changes", u.Changes())
}

// Another change of the same snap is waited for; it may be the very one that was wanted.
func TestASnapThatIsBusyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUbuntu()
		busy := hosttest.Exit(10, `error: snap "lxd" has "install-snap" change in progress`)
		u.On(busy, "snap", "install")
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		_, err := u.packages(t).Install(ctx, host.Package{Name: "lxd"})
		const want = `installing lxd: snap: error: snap "lxd" has "install-snap" change in progress (exit code 10): timeout`
		if !errors.Is(err, errors.Timeout) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}

		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := u.packages(t).Install(cancelled, host.Package{Name: "lxd"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}

		time.AfterFunc(5*time.Minute, func() { u.add("lxd") })
		began := time.Now()
		added, err := u.packages(t).Install(t.Context(), host.Package{Name: "lxd"})
		if err != nil || len(added) != 0 {
			t.Error(added, err)
		}
		if waited := time.Since(began); waited < 5*time.Minute || waited > 6*time.Minute {
			t.Error(waited)
		}
	})
}

func TestNamesOfSnaps(t *testing.T) {
	u := newUbuntu()
	for _, name := range []string{"", "-x", "./lxd.snap", "a b", "LXD", "lxd=5"} {
		if _, err := u.packages(t).Install(t.Context(), host.Package{Name: "jq"}, host.Package{Name: name}); !errors.Is(err, errors.NotValid) {
			t.Errorf("%q: %v", name, err)
		}
		if err := u.packages(t).Remove(t.Context(), name); !errors.Is(err, errors.NotValid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	expect(t, "changes", u.Changes())
}
