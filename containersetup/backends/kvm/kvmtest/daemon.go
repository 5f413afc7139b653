// Package kvmtest finds a real libvirtd for tests, and starts others for those that have to
// break one.
//
// [Need] returns the daemon of the test bed, which testbed/libvirt-up starts; many tests and
// packages use it at once, so each names its instances after a model of its own ([Model]),
// and pools and networks likewise. [Private] starts one for a single test, which may kill
// it, freeze it, and look at its whole network. A new daemon has no storage pool, and a
// network "default" that is not active, as just after libvirt's installation. There is no
// /dev/kvm for it, whatever the machine has, so that tests find the same everywhere:
// guests are domains of type "qemu".
//
// [Image] is a virtual machine that boots in seconds without acceleration.
//
// Where there is no daemon, tests are skipped and say how to bring it up; where
// SUTLER_REQUIRE, a list with commas, has "kvm", they fail.
package kvmtest

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

// Daemon is a libvirtd in namespaces of its own.
type Daemon struct {
	// Dir is its folder, which is there for as long as the daemon is. Tests that share
	// one keep their files elsewhere; it sees the machine's.
	Dir string
	// Socket is where it answers.
	Socket string
	// Host runs commands where the daemon is, among its processes, mounts and
	// interfaces, with its /etc/libvirt, /var/lib/libvirt and /dev. Files are the
	// machine's: what is to be read of the daemon's is read by a command.
	Host host.Host

	scripts string
}

// Need returns the test bed's daemon, for tests that share it.
func Need(t testing.TB) *Daemon {
	t.Helper()
	root := os.Getenv("SUTLER_TESTBED_STATE")
	if root == "" {
		root = fmt.Sprintf("/tmp/sutler-testbed-%d", os.Getuid())
	}
	d := open(filepath.Join(root, "libvirt"))
	if _, err := d.run(t.Context(), "true"); err != nil {
		need.Missing(t, "kvm", "no libvirt: testbed/libvirt-up (or make testbed) starts one, as root")
	}
	return d
}

// Private starts a daemon for this test alone. It is gone at the end, with its guests and
// all that it has in its folder.
func Private(t testing.TB) *Daemon {
	t.Helper()
	if os.Getuid() != 0 {
		need.Missing(t, "kvm", "libvirt needs root")
	}
	for _, program := range []string{"libvirtd", "virsh", "qemu-img"} {
		if _, err := exec.LookPath(program); err != nil {
			need.Missing(t, "kvm", "no "+program+": testbed/libvirt-up (or make testbed) installs it")
		}
	}
	// Paths of sockets have to be short.
	folder, err := os.MkdirTemp("/tmp", "kvm") //nolint:usetesting // t.TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	d := open(filepath.Join(folder, "s"))
	t.Cleanup(func() {
		if out, err := d.script(context.Background(), "libvirt-down"); err != nil {
			t.Errorf("stopping libvirt: %v: %s", err, out)
		}
		_ = os.Remove(folder)
	})
	if out, err := d.script(t.Context(), "libvirt-up"); err != nil {
		t.Fatalf("starting libvirt: %v: %s", err, out)
	}
	return d
}

func open(dir string) *Daemon {
	d := &Daemon{Dir: dir, Socket: filepath.Join(dir, "run", "libvirt-sock"), scripts: scripts()}
	d.Host = host.New(host.Config{Prefix: d.Prefix()})
	return d
}

// scripts is the test bed's folder.
func scripts() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "testbed")
}

// Prefix stands before a command that is to run where the daemon is.
func (d *Daemon) Prefix() []string {
	return []string{filepath.Join(d.scripts, "in-libvirt"), "--state", d.Dir}
}

func (d *Daemon) script(ctx context.Context, name string) (string, error) {
	return output(exec.CommandContext(ctx, filepath.Join(d.scripts, name), "--state", d.Dir))
}

// output returns what a command printed, by a file: what the command has started would
// hold a pipe open.
func output(cmd *exec.Cmd) (string, error) {
	log, err := os.CreateTemp("", "kvm")
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

// Run runs a command where the daemon is, and returns what it printed. The command virsh
// talks to this daemon.
func (d *Daemon) Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := d.run(context.WithoutCancel(t.Context()), args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

// Kill ends the daemon with SIGKILL; its guests go on. It is started again at once, unless
// it is held. Several seconds may pass until it answers again.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.Run(t, "kill", "-KILL", d.pid(t))
}

// Hold keeps the daemon from being started again until release is called.
func (d *Daemon) Hold(t testing.TB) (release func()) {
	t.Helper()
	hold := filepath.Join(d.Dir, "hold")
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
	data, err := os.ReadFile(filepath.Join(d.Dir, "daemon"))
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
	Eventually(t, "an answer of libvirt", func() bool {
		_, err := d.run(t.Context(), "timeout", "5", "virsh", "--quiet", "version")
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

// Eventually fails the test when something has not come about after two minutes, in which
// a guest boots even where much else is going on.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within two minutes", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
