package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
)

// tiny packages need nothing that is not everywhere, and start nothing.
func tiny() []string { return []string{"hello", "tree", "sl", "nyancat"} }

// realPackages returns the package manager of this machine.
func realPackages(t *testing.T) host.PackageManager {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Missing(t, "lxd", "packages are installed by root: run the tests as root")
	}
	packages, err := host.Packages(t.Context(), machine(), clock.WallClock)
	if err != nil || packages.Name() != "apt" {
		need.Missing(t, "lxd", "no apt: run the tests on Debian")
	}
	return packages
}

// realApt returns also a tiny package that is not installed; it is removed at the end.
func realApt(t *testing.T) (packages host.PackageManager, name string) {
	t.Helper()
	packages = realPackages(t)
	for _, name := range tiny() {
		_, err := packages.Version(t.Context(), name)
		if err == nil {
			continue // it is somebody's
		}
		if !errors.Is(err, errors.NotFound) {
			t.Fatal(err)
		}
		if _, err := machine().Run(t.Context(), host.Look("apt-get", "-q", "--print-uris", "download", name)); err != nil {
			// The lists of packages may never have been read.
			if _, err := machine().Run(t.Context(), host.Command{Args: []string{"apt-get", "-q", "update"}, Timeout: 10 * time.Minute}); err != nil {
				need.Missing(t, "lxd", "apt has nowhere to install from: "+err.Error())
			}
		}
		t.Cleanup(func() {
			if err := packages.Remove(context.WithoutCancel(t.Context()), name); err != nil {
				t.Error(err)
			}
		})
		return packages, name
	}
	need.Missing(t, "lxd", "there is "+strings.Join(tiny(), " and ")+" already: remove one")
	return nil, ""
}

// H9, for real: somebody else has dpkg's lock; it is waited for, and stays in its place.
func TestRealAptWaitsForTheLockOfAnotherProcess(t *testing.T) {
	packages, name := realApt(t)
	before, err := packages.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	holder := start(t, lockRole, frontendLock)
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = packages.Install(short, host.Package{Name: name})
	if !errors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), fmt.Sprintf("(process %d) holds", holder.Process.Pid)) {
		t.Fatal(err)
	}
	if _, err := packages.Version(t.Context(), name); !errors.Is(err, errors.NotFound) {
		t.Fatal(err)
	}
	if _, err := os.Stat(frontendLock); err != nil {
		t.Fatal(err)
	}

	type result struct {
		added []string
		err   error
	}
	done := make(chan result, 1)
	go func() {
		added, err := packages.Install(t.Context(), host.Package{Name: name})
		done <- result{added, err}
	}()
	// It waits for as long as the lock is held, and is done once it is not.
	select {
	case r := <-done:
		t.Fatalf("the lock was not waited for: %+v", r)
	case <-time.After(2 * time.Second):
	}
	_ = holder.stdin.Close()
	_ = holder.Wait()
	r := <-done
	if r.err != nil || !slices.Equal(r.added, []string{name}) {
		t.Fatalf("%+v", r)
	}
	if version, err := packages.Version(t.Context(), name); err != nil || version == "" {
		t.Fatal(version, err)
	}

	if err := packages.Remove(t.Context(), r.added...); err != nil {
		t.Fatal(err)
	}
	after, err := packages.List(t.Context())
	if err != nil || !slices.Equal(after, before) {
		t.Fatalf("%d packages before, %d after: %v", len(before), len(after), err)
	}
}

// A package that was only unpacked when its installer died is completed first.
func TestRealAptCompletesWhatWasInterrupted(t *testing.T) {
	packages, name := realApt(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // apt downloads as a user of its own
		t.Fatal(err)
	}
	for _, args := range [][]string{{"apt-get", "-q", "download", name}, {"sh", "-c", "dpkg --unpack *.deb"}} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	if _, err := packages.Version(t.Context(), name); !errors.Is(err, errors.NotFound) {
		t.Fatal("it counts as installed:", err)
	}
	if names, err := packages.List(t.Context()); err != nil || !slices.Contains(names, name) {
		t.Fatal("it is not in the list:", err)
	}
	added, err := packages.Install(t.Context(), host.Package{Name: name})
	if err != nil || len(added) != 0 { // it was there, if not wholly
		t.Fatal(added, err)
	}
	if _, err := packages.Version(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func TestRealAptNamesWhatIsUnknown(t *testing.T) {
	packages, _ := realApt(t)
	added, err := packages.Install(t.Context(), host.Package{Name: "sutler-no-such-package"})
	const want = "installing sutler-no-such-package: apt-get: E: Unable to locate package sutler-no-such-package (exit code 100)"
	if err == nil || err.Error() != want || len(added) != 0 {
		t.Fatalf("got  %v, %v\nwant %s", added, err, want)
	}
}

// realDpkg returns the package manager of this machine while dpkg minds an empty folder
// instead of it, where packages may be in any state.
func realDpkg(t *testing.T) host.PackageManager {
	t.Helper()
	packages := realPackages(t)
	root := t.TempDir()
	for _, sub := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at(t, "", root, "var/lib/dpkg/status")
	t.Setenv("DPKG_ROOT", root)
	if names, err := packages.List(t.Context()); err != nil || len(names) != 0 {
		t.Fatalf("it still is the machine itself: %d packages, %v", len(names), err)
	}
	return packages
}

// build makes a package of the test's own, and returns its file. A script cannot run in a
// folder without a shell, so one that has any cannot be completed.
func build(t *testing.T, name, control string, script bool) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "tree", "DEBIAN")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("Package: %s\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: for a test\n%s", name, control)
	at(t, text, folder, "control")
	// dpkg-deb is particular about permissions, whatever the umask.
	public := []string{filepath.Dir(folder), folder}
	if script {
		public = append(public, at(t, "#!/bin/sh\nexit 3\n", folder, "postinst"))
	}
	for _, name := range public {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, name+".deb")
	if _, err := machine().Run(t.Context(), host.Do("dpkg-deb", "--build", filepath.Dir(folder), file)); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRealDpkgLeavesWhatOthersNeed(t *testing.T) {
	packages := realDpkg(t)
	const ours, theirs = "sutler-test-ours", "sutler-test-theirs"
	for _, file := range []string{build(t, ours, "", false), build(t, theirs, "Depends: "+ours+"\n", false)} {
		if _, err := machine().Run(t.Context(), host.Do("dpkg", "--install", file)); err != nil {
			t.Fatal(err)
		}
	}

	err := packages.Remove(t.Context(), ours)
	const want = "removing sutler-test-ours: sutler-test-ours stayed, as other packages may need it now: dpkg: sutler-test-ours (exit code 1)"
	if err == nil || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	names, err := packages.List(t.Context())
	if err != nil || !slices.Contains(names, ours) || !slices.Contains(names, theirs) {
		t.Fatal("gone", err)
	}
	// In whatever order, as long as all are named.
	if err := packages.Remove(t.Context(), ours, theirs); err != nil {
		t.Fatal(err)
	}
	names, err = packages.List(t.Context())
	if err != nil || slices.Contains(names, ours) || slices.Contains(names, theirs) {
		t.Fatal("still there", err)
	}
}

// Somebody's package that cannot be completed is in everybody's way; it is named, and
// nothing is installed.
func TestRealDpkgThatCannotCompleteSaysSo(t *testing.T) {
	packages := realDpkg(t)
	const broken = "sutler-test-broken"
	if _, err := machine().Run(t.Context(), host.Do("dpkg", "--unpack", build(t, broken, "", true))); err != nil {
		t.Fatal(err)
	}
	added, err := packages.Install(t.Context(), host.Package{Name: "hello"})
	const want = "installing hello: completing what was begun earlier: dpkg: sutler-test-broken (exit code 1)"
	if err == nil || err.Error() != want || len(added) != 0 {
		t.Fatalf("got  %v, %v\nwant %s", added, err, want)
	}
	if err := packages.Remove(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if names, err := packages.List(t.Context()); err != nil || len(names) != 0 {
		t.Fatal(names, err)
	}
}
