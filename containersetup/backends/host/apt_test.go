package host_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
)

const (
	aptInstall = "run apt-get -q -y -o Dpkg::Options::=--force-confold install --no-install-recommends --no-remove "
	aptUpdate  = "run apt-get -q -y -o Dpkg::Options::=--force-confold update"
	dpkgFinish = "run dpkg --force-confold --configure -a"
	dpkgPurge  = "run dpkg --purge "
)

func upgrades() *host.Process { return &host.Process{PID: 4711, Name: "unattended-upgr"} }

func expect(t *testing.T, about string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", about, got, want)
	}
}

func TestInstallAddsWhatIsMissing(t *testing.T) {
	d := newDebian("rsync", "bash")
	d.status["liblxc1"] = "rc" // only its configuration was left
	added, err := d.packages(t).Install(t.Context(), host.Package{Name: "lxd", Channel: "5.21"}, host.Package{Name: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "added", added, "liblxc1", "lxd")
	expect(t, "changes", d.Changes(), aptInstall+"lxd")
	if got := d.there(); got != "ii bash, ii liblxc1, ii lxd, ii rsync" {
		t.Error(got)
	}
	version, err := d.packages(t).Version(t.Context(), "lxd")
	if err != nil || version != "1.0-lxd" {
		t.Error(version, err)
	}
}

// Not even the lock of somebody who installs something else is waited for.
func TestInstallDoesNothingWhenAllIsThere(t *testing.T) {
	d := newDebian("lxd", "rsync")
	d.status["rsync"] = "hi" // held at its version, and there
	d.HoldLock(frontendLock, upgrades())
	added, err := d.packages(t).Install(t.Context(), host.Package{Name: "lxd"}, host.Package{Name: "rsync"})
	if err != nil || len(added) != 0 || len(d.Changes()) != 0 {
		t.Fatal(added, err, d.Changes())
	}
	if added, err := d.packages(t).Install(t.Context()); err != nil || len(added) != 0 {
		t.Fatal(added, err)
	}
}

func TestStatesOfPackages(t *testing.T) {
	for _, test := range []struct {
		status       string
		whole, there bool
	}{
		{"ii", true, true}, {"hi", true, true}, {"ri", true, true}, {"pi", true, true},
		{"iiR", false, true}, {"iU", false, true}, {"iF", false, true}, {"iH", false, true}, {"iHR", false, true},
		{"iW", false, true}, {"it", false, true}, {"rc", false, false}, {"un", false, false}, {"pn", false, false},
	} {
		d := newDebian()
		d.status["some"] = test.status
		_, err := d.packages(t).Version(t.Context(), "some")
		if whole := err == nil; whole != test.whole || !whole && !errors.Is(err, errors.NotFound) {
			t.Errorf("%s: %v", test.status, err)
		}
		names, err := d.packages(t).List(t.Context())
		if err != nil || slices.Contains(names, "some") != test.there {
			t.Errorf("%s: listed as %q, %v", test.status, names, err)
		}
	}
	d := newDebian("b", "a")
	d.On(hosttest.Print("ii  b 1\n\nii\nrubbish\nun  b \nii  a 2\niU  a 3\nic  c\n"), "dpkg-query")
	if names, err := d.packages(t).List(t.Context()); err != nil || strings.Join(names, " ") != "a b" {
		t.Errorf("%q, %v", names, err)
	}
	if version, err := d.packages(t).Version(t.Context(), "a"); err != nil || version != "2" {
		t.Error(version, err)
	}
}

// H9: unattended upgrades hold a lock for minutes.
func TestH9AHeldLockIsWaitedFor(t *testing.T) {
	for _, lock := range []string{frontendLock, dpkgLock, listsLock, archivesLock} {
		synctest.Test(t, func(t *testing.T) {
			d := newDebian()
			d.HoldLock(lock, upgrades())
			const minutes = 7 * time.Minute
			time.AfterFunc(minutes, func() {
				// What the other has installed meanwhile is not ours.
				d.set("rsync", "ii")
				d.set("linux", "ii")
				d.HoldLock(lock, nil)
			})
			began := time.Now()
			added, err := d.packages(t).Install(t.Context(), host.Package{Name: "lxd"})
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited < minutes || waited > minutes+2*time.Second {
				t.Errorf("%s: waited for %s", lock, waited)
			}
			expect(t, "added", added, "liblxc1", "lxd")
			expect(t, "changes", d.Changes(), aptInstall+"lxd")
		})
	}
}

func TestH9ALockThatIsHeldUntilTheDeadlineNamesItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebian("bash")
		d.HoldLock(frontendLock, upgrades())
		for about, change := range map[string]func(context.Context) error{
			"installing lxd": func(ctx context.Context) error {
				_, err := d.packages(t).Install(ctx, host.Package{Name: "lxd"})
				return err
			},
			"removing bash": func(ctx context.Context) error { return d.packages(t).Remove(ctx, "bash") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			err := change(ctx)
			cancel()
			want := about + ": waiting for dpkg's lock, which unattended-upgr (process 4711) holds, timeout"
			if !errors.Is(err, errors.Timeout) || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		expect(t, "changes", d.Changes())
		for _, lock := range []string{frontendLock, dpkgLock} {
			if _, there := d.Files()[lock]; !there {
				t.Errorf("%s was removed", lock)
			}
		}
	})
}

func TestCancellingEndsTheWaitForALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebian()
		d.HoldLock(frontendLock, upgrades())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(90*time.Second, cancel)
		began := time.Now()
		_, err := d.packages(t).Install(ctx, host.Package{Name: "lxd"})
		const want = "installing lxd: waiting for dpkg's lock, which unattended-upgr (process 4711) holds: context canceled"
		if !errors.Is(err, context.Canceled) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if waited := time.Since(began); waited != 90*time.Second {
			t.Error(waited)
		}
		expect(t, "changes", d.Changes())
	})
}

// Between the look at a lock and the command that needs it, somebody else is faster.
func TestALostRaceForTheLockIsRunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebian("bash")
		lost := 0
		d.On(func(ctx context.Context, cmd host.Command) (host.Output, error) {
			if lost < 3 {
				lost++
				d.HoldLock(frontendLock, upgrades())
				d.set(fmt.Sprint("theirs", lost), "ii")
				time.AfterFunc(time.Minute, func() { d.HoldLock(frontendLock, nil) })
			}
			return d.aptGet(ctx, cmd)
		}, "apt-get")
		added, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "added", added, "hello")
		one := aptInstall + "hello"
		expect(t, "changes", d.Changes(), one, one, one, one)
	})
}

// A command that fails for reasons of its own, while somebody has the lock whenever it is
// looked at afterwards, comes to an end.
func TestLostRacesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebian()
		d.On(func(ctx context.Context, cmd host.Command) (host.Output, error) {
			d.HoldLock(listsLock, upgrades())
			time.AfterFunc(time.Minute, func() { d.HoldLock(listsLock, nil) })
			return hosttest.Exit(100, "E: no space left")(ctx, cmd)
		}, "apt-get")
		added, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"})
		const want = "installing hello: the lists of packages cannot be read anew (apt-get: E: no space left (exit code 100)), and: apt-get: E: no space left (exit code 100)"
		if err == nil || err.Error() != want || len(added) != 0 {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if n := len(d.Changes()); n != 12 { // six times each
			t.Errorf("%d commands", n)
		}
	})
}

func TestListsThatAreOldAreReadAnew(t *testing.T) {
	d := newDebian()
	d.unheard["new"] = []string{"hello"}
	added, err := d.packages(t).Install(t.Context(), host.Package{Name: "new"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "added", added, "hello", "new")
	expect(t, "changes", d.Changes(), aptInstall+"new", aptUpdate, aptInstall+"new")
}

func TestAnUnknownPackageIsNamed(t *testing.T) {
	d := newDebian()
	added, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"}, host.Package{Name: "no-such"})
	const want = "installing hello, no-such: apt-get: E: Unable to locate package no-such (exit code 100)"
	if err == nil || err.Error() != want || len(added) != 0 {
		t.Errorf("got  %v, %v\nwant %s", added, err, want)
	}
	if code, ran := host.ExitCode(err); !ran || code != 100 {
		t.Error(code, ran)
	}
	expect(t, "changes", d.Changes(), aptInstall+"hello no-such", aptUpdate, aptInstall+"hello no-such")
}

func TestListsThatCannotBeReadAnew(t *testing.T) {
	d := newDebian()
	d.On(hosttest.Exit(100, "E: Failed to fetch http://deb.debian.org"), "apt-get", "*", "*", "*", "*", "update")
	_, err := d.packages(t).Install(t.Context(), host.Package{Name: "no-such"})
	const want = "installing no-such: the lists of packages cannot be read anew (apt-get: E: Failed to fetch http://deb.debian.org (exit code 100)), and: apt-get: E: Unable to locate package no-such (exit code 100)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	expect(t, "changes", d.Changes(), aptInstall+"no-such", aptUpdate)
}

func TestOtherFailuresAreNotRunAnew(t *testing.T) {
	for about, answer := range map[string]hosttest.Handler{
		"apt-get: usage (exit code 1)":   hosttest.Exit(1, "usage"),
		"apt-get: killed (exit code -1)": hosttest.Exit(-1, "killed"),
		`program "apt-get" not found`: func(context.Context, host.Command) (host.Output, error) {
			return host.Output{}, errors.NotFoundf(`program "apt-get"`)
		},
		"apt-get, after 30m0s, timeout": func(context.Context, host.Command) (host.Output, error) {
			return host.Output{}, errors.Timeoutf("apt-get, after 30m0s,")
		},
		"apt-get: context deadline exceeded": func(context.Context, host.Command) (host.Output, error) {
			return host.Output{}, errors.Annotate(context.DeadlineExceeded, "apt-get")
		},
	} {
		d := newDebian()
		d.On(answer, "apt-get")
		_, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"})
		if want := "installing hello: " + about; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		expect(t, "changes", d.Changes(), aptInstall+"hello")
	}
}

func TestAnInterruptedInstallationIsCompletedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebian()
		d.audit = []string{"The following packages have been unpacked but not yet configured.", " theirs"}
		d.status["theirs"] = "iU"
		// While somebody is at it, half of a package is nothing odd.
		d.HoldLock(dpkgLock, upgrades())
		time.AfterFunc(time.Minute, func() { d.HoldLock(dpkgLock, nil) })
		added, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "added", added, "hello")
		expect(t, "changes", d.Changes(), dpkgFinish, aptInstall+"hello")
		if got := d.there(); got != "ii hello, ii theirs" {
			t.Error(got)
		}
	})
}

func TestWhatSomebodyElseIsDoingIsNotRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebian()
		d.audit = []string{"half done"}
		d.HoldLock(dpkgLock, upgrades())
		time.AfterFunc(time.Minute, func() {
			d.mu.Lock()
			d.audit = nil
			d.mu.Unlock()
			d.HoldLock(dpkgLock, nil)
		})
		if _, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"}); err != nil {
			t.Fatal(err)
		}
		expect(t, "changes", d.Changes(), aptInstall+"hello")
	})
}

func TestAnInterruptedInstallationThatCannotBeCompleted(t *testing.T) {
	d := newDebian()
	d.audit = []string{"half done"}
	d.On(hosttest.Exit(1, "dpkg: error processing theirs"), "dpkg", "--force-confold")
	_, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"})
	const want = "installing hello: completing what was begun earlier: dpkg: dpkg: error processing theirs (exit code 1)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	expect(t, "changes", d.Changes(), dpkgFinish)
}

// Whoever is to take it away again has to know what was added.
func TestWhatWasAddedIsToldAlsoWhenItFailsHalfWay(t *testing.T) {
	d := newDebian("rsync")
	d.onInstall = func(context.Context) error {
		return &host.ExitError{Program: "apt-get", Code: 1, Message: "E: postinst"}
	}
	added, err := d.packages(t).Install(t.Context(), host.Package{Name: "lxd"})
	if err == nil || err.Error() != "installing lxd: apt-get: E: postinst (exit code 1)" {
		t.Error(err)
	}
	expect(t, "added", added, "liblxc1", "lxd")

	// The next one completes it. What it finds it has not added.
	d.onInstall = nil
	d.audit = []string{"half done"}
	added, err = d.packages(t).Install(t.Context(), host.Package{Name: "lxd"})
	if err != nil || len(added) != 0 || d.there() != "ii liblxc1, ii lxd, ii rsync" {
		t.Error(added, err, d.there())
	}
	// Nothing was missing any more once it was completed.
	expect(t, "changes", d.Changes(), aptInstall+"lxd", dpkgFinish)
}

func TestCancellingInMidInstallation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDebian()
		d.onInstall = func(ctx context.Context) error {
			<-ctx.Done()
			return errors.Annotate(ctx.Err(), "apt-get")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		added, err := d.packages(t).Install(ctx, host.Package{Name: "lxd"})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		expect(t, "added", added, "liblxc1", "lxd", "rsync")
	})
}

func TestCancellingWhileListsAreReadAnew(t *testing.T) {
	d := newDebian()
	ctx, cancel := context.WithCancel(t.Context())
	d.On(func(ctx context.Context, _ host.Command) (host.Output, error) {
		cancel()
		return host.Output{}, errors.Annotate(ctx.Err(), "apt-get")
	}, "apt-get", "*", "*", "*", "*", "update")
	_, err := d.packages(t).Install(ctx, host.Package{Name: "no-such"})
	if !errors.Is(err, context.Canceled) || err.Error() != "installing no-such: apt-get: context canceled" {
		t.Error(err)
	}
}

// A name that apt would read as something else never gets there.
func TestNamesOfPackages(t *testing.T) {
	d := newDebian()
	for _, name := range []string{"", "a", "-y", "lxd-", "lxd:amd64", "lxd=5", "lxd/testing", "Lxd", "lxd*", "a b", ".lxd", "+lxd", "ü8", "../lxd", "lxd\n", "~nlxd", "?name(lxd)"} {
		_, err := d.packages(t).Install(t.Context(), host.Package{Name: "hello"}, host.Package{Name: name})
		want := fmt.Sprintf("package %q not valid", name)
		if !errors.Is(err, errors.NotValid) || err.Error() != want {
			t.Errorf("%q: %v", name, err)
		}
		if err := d.packages(t).Remove(t.Context(), "hello", name); !errors.Is(err, errors.NotValid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	expect(t, "changes", d.Changes())
	for _, name := range []string{"g++", "libstdc++6", "0ad", "a.b-c+d", "python3.11"} {
		if _, err := d.packages(t).Install(t.Context(), host.Package{Name: name}); errors.Is(err, errors.NotValid) {
			t.Error(err)
		}
	}
}

func TestRemove(t *testing.T) {
	d := newDebian("lxd", "liblxc1", "rsync", "bash")
	d.status["hello"] = "rc"
	if err := d.packages(t).Remove(t.Context(), "lxd", "liblxc1", "hello", "no-such"); err != nil {
		t.Fatal(err)
	}
	expect(t, "changes", d.Changes(), dpkgPurge+"lxd liblxc1 hello")
	if got := d.there(); got != "ii bash, ii rsync" {
		t.Error(got)
	}
	for range 2 {
		if err := d.packages(t).Remove(t.Context(), "lxd"); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.packages(t).Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, "changes", d.Changes(), dpkgPurge+"lxd liblxc1 hello")
}

func TestWhatOthersHaveComeToNeedStays(t *testing.T) {
	d := newDebian("lxd", "liblxc1", "rsync")
	d.archive["theirs"] = []string{"rsync"}
	d.status["theirs"] = "ii"
	err := d.packages(t).Remove(t.Context(), "liblxc1", "lxd", "rsync")
	const want = "removing liblxc1, lxd, rsync: rsync stayed, as other packages may need it now: dpkg: rsync (exit code 1)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if got := d.there(); got != "ii rsync, ii theirs" {
		t.Error(got)
	}
}

// Wherever the agent dies, the next one completes the work.
func TestInstallCutShortAnywhere(t *testing.T) {
	for n := 0; ; n++ {
		d := newDebian()
		d.unheard["new"] = []string{"rsync"}
		packages := d.packages(t)
		d.CrashAfter(n)
		_, err := packages.Install(t.Context(), host.Package{Name: "new"})
		d.CrashAfter(-1)
		if err != nil && !errors.Is(err, hosttest.ErrCrashed) {
			t.Fatal(err)
		}
		if _, err := packages.Install(t.Context(), host.Package{Name: "new"}); err != nil {
			t.Fatalf("after %d: %v", n, err)
		}
		if got := d.there(); got != "ii new, ii rsync" {
			t.Fatalf("after %d: %s", n, got)
		}
		if err == nil {
			if n < 3 {
				t.Fatalf("only %d changes", n)
			}
			return
		}
	}
}

func TestPackagesThatCannotBeListed(t *testing.T) {
	d := newDebian("bash")
	d.On(hosttest.Exit(2, "dpkg-query: error: the database is damaged"), "dpkg-query")
	packages := d.packages(t)
	_, versionErr := packages.Version(t.Context(), "bash")
	_, listErr := packages.List(t.Context())
	_, installErr := packages.Install(t.Context(), host.Package{Name: "hello"})
	const why = "listing packages: dpkg-query: dpkg-query: error: the database is damaged (exit code 2)"
	for i, err := range []error{versionErr, listErr, installErr} {
		if err == nil || err.Error() != why {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := packages.Remove(t.Context(), "bash"); err == nil || err.Error() != "removing bash: "+why {
		t.Error(err)
	}
	expect(t, "changes", d.Changes())
}

// A lock that cannot be looked at, as by who is not root, is not taken for free.
func TestALockThatCannotBeLookedAt(t *testing.T) {
	d := newDebian()
	packages, err := host.Packages(t.Context(), blind{d}, clock.WallClock)
	if err != nil {
		t.Fatal(err)
	}
	_, err = packages.Install(t.Context(), host.Package{Name: "hello"})
	if !errors.Is(err, fs.ErrPermission) || err.Error() != "installing hello: dpkg's lock: permission denied" {
		t.Error(err)
	}
	expect(t, "changes", d.Changes())
}

type blind struct{ host.Host }

func (blind) LockHolder(context.Context, string) (*host.Process, error) {
	return nil, errors.Trace(syscall.EACCES)
}

func TestWhichPackageManager(t *testing.T) {
	for _, test := range []struct{ file, content, want, err string }{
		{file: "/etc/os-release", content: "ID=debian\n", want: "apt"},
		{file: "/usr/lib/os-release", content: "ID=debian\n", want: "apt"},
		{file: "/etc/os-release", content: "ID=ubuntu\nID_LIKE=debian\n", want: "snap"},
		{file: "/etc/os-release", content: " ID='ubuntu' \n", want: "snap"},
		{file: "/etc/os-release", content: "ID=\"linuxmint\"\nID_LIKE=\"ubuntu debian\"\n", want: "apt"},
		{file: "/etc/os-release", content: "# ID=debian\nID=alpine\nrubbish", err: `installing packages on "alpine" (want Debian or Ubuntu) not supported`},
		{file: "/etc/os-release", content: "", err: `installing packages on "" (want Debian or Ubuntu) not supported`},
		{file: "/etc/other", content: "ID=debian", err: "installing packages on a system without os-release not supported"},
	} {
		var h hosttest.Host
		h.SetFile(test.file, test.content)
		packages, err := host.Packages(t.Context(), &h, clock.WallClock)
		switch {
		case test.err != "":
			if !errors.Is(err, errors.NotSupported) || err.Error() != test.err {
				t.Errorf("%q: %v", test.content, err)
			}
		case err != nil || packages.Name() != test.want:
			t.Errorf("%q: %v", test.content, err)
		}
		// What no snap has comes by apt, which is beside it.
		packages, again := host.DebianPackages(t.Context(), &h, clock.WallClock)
		if (again == nil) != (err == nil) || err == nil && packages.Name() != "apt" {
			t.Errorf("%q, without snaps: %v", test.content, again)
		}
	}
	var h hosttest.Host
	if _, err := host.Packages(t.Context(), &h, nil); !errors.Is(err, errors.NotValid) {
		t.Error(err)
	}
	h.CrashAfter(0)
	if _, err := host.Packages(t.Context(), &h, clock.WallClock); !errors.Is(err, hosttest.ErrCrashed) {
		t.Error(err)
	}
}
