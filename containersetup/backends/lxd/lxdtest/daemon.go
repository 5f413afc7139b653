// Package lxdtest finds a real LXD daemon for tests, and starts others for those that
// have to break one.
//
// [Need] returns the daemon of the test bed, which testbed/lxd-up starts; many tests and
// packages use it at once, so each names its instances after a model of its own ([Model]).
// [Private] starts one for a single test, which may kill it, fill its pool, and look at
// its whole network. A new daemon has an image, [Image], and neither pool nor network.
//
// Where there is none, tests are skipped and say how to bring it up; where SUTLER_REQUIRE,
// a list with commas, has "lxd", they fail.
package lxdtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
)

// Image is the alias of an image of a megabyte that every daemon here has. It asks for
// addresses by DHCP, and runs user data that is a shell script.
const Image = "tiny"

// Daemon is an LXD daemon in namespaces of its own.
type Daemon struct {
	// Dir is its folder.
	Dir string
	// Socket is where its API is.
	Socket string
	// Host is the machine as the daemon sees it: with its processes, mounts and
	// interfaces.
	Host host.Host

	state   string
	scripts string
}

// Need returns the test bed's daemon, for tests that share it.
func Need(t testing.TB) *Daemon {
	t.Helper()
	root := os.Getenv("SUTLER_TESTBED_STATE")
	if root == "" {
		root = fmt.Sprintf("/tmp/sutler-testbed-%d", os.Getuid())
	}
	d := open(t, filepath.Join(root, "lxd"))
	if _, err := d.run(t.Context(), "true"); err != nil {
		need.Missing(t, "lxd", "no LXD: testbed/lxd-up (or make testbed) starts one, as root")
	}
	return d
}

// Private starts a daemon for this test alone. It is gone at the end, with all that it
// has.
func Private(t testing.TB) *Daemon {
	t.Helper()
	if os.Getuid() != 0 {
		need.Missing(t, "lxd", "LXD needs root")
	}
	for _, program := range []string{"lxd", "lxc"} {
		if _, err := exec.LookPath(program); err != nil {
			need.Missing(t, "lxd", "no "+program+": testbed/lxd-up (or make testbed) installs it")
		}
	}
	// Paths of sockets have to be short.
	folder, err := os.MkdirTemp("/tmp", "lxd") //nolint:usetesting // t.TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o711); err != nil { //nolint:gosec // containers' users have to get through
		t.Fatal(err)
	}
	d := open(t, filepath.Join(folder, "s"))
	t.Cleanup(func() {
		if out, err := d.script(context.Background(), "lxd-down"); err != nil {
			t.Errorf("stopping LXD: %v: %s", err, out)
		}
		_ = os.Remove(folder)
	})
	if out, err := d.script(t.Context(), "lxd-up"); err != nil {
		t.Fatalf("starting LXD: %v: %s", err, out)
	}
	return d
}

func open(t testing.TB, state string) *Daemon {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	scripts := filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "testbed")
	d := &Daemon{
		Dir:     filepath.Join(state, "var"),
		Socket:  filepath.Join(state, "var", "unix.socket"),
		state:   state,
		scripts: scripts,
	}
	d.Host = host.New(host.Config{Prefix: d.Prefix()})
	return d
}

// Debian has the daemon have an image of Debian with systemd and netplan, under the alias
// "debian". It is made the first time, which takes some minutes.
func (d *Daemon) Debian(t testing.TB) {
	t.Helper()
	if out, err := d.script(t.Context(), "lxd-debian"); err != nil {
		t.Fatalf("an image of Debian: %v: %s", err, out)
	}
}

// Prefix stands before a command that is to run where the daemon is.
func (d *Daemon) Prefix() []string {
	return []string{filepath.Join(d.scripts, "in-lxd"), "--state", d.state}
}

func (d *Daemon) script(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(d.scripts, name), "--state", d.state)
	// By a file: what the script has started would hold a pipe open.
	log, err := os.CreateTemp("", "lxd")
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close(); _ = os.Remove(log.Name()) }()
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	out, _ := os.ReadFile(log.Name())
	return string(bytes.TrimSpace(out)), err
}

func (d *Daemon) run(ctx context.Context, args ...string) (string, error) {
	out, err := d.Host.Run(ctx, host.Command{Args: args})
	return string(bytes.TrimSpace(out.Stdout)), err
}

// Run runs a command where the daemon is, and returns what it printed. The command lxc
// talks to this daemon.
func (d *Daemon) Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := d.run(context.WithoutCancel(t.Context()), args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

// Kill ends the daemon with SIGKILL; its containers go on. It is started again at once,
// unless it is held.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.Run(t, "kill", "-KILL", d.pid(t))
}

// Hold keeps the daemon from being started again until release is called.
func (d *Daemon) Hold(t testing.TB) (release func()) {
	t.Helper()
	hold := filepath.Join(d.state, "hold")
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() { _ = os.Remove(hold) }
}

// Freeze stops the daemon without ending it, so that it answers nothing; thaw has it go
// on.
func (d *Daemon) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	pid := d.pid(t)
	d.Run(t, "kill", "-STOP", pid)
	return func() { d.Run(t, "kill", "-CONT", pid) }
}

func (d *Daemon) pid(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.state, "daemon"))
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(data))
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatalf("the daemon's number is %q", pid)
	}
	return pid
}

// AwaitReady returns when the daemon answers.
func (d *Daemon) AwaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, "an answer of LXD", func() bool {
		_, err := d.run(t.Context(), "timeout", "5", "lxc", "query", "/1.0")
		return err == nil
	})
}

// Model returns a UUID that no other test has.
func Model() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Eventually fails the test when something has not come about after a minute.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within a minute", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
