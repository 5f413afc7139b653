//go:build linux

package controlplane

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"
)

// sleeper returns a process that would go on, and a channel that is closed when it
// has ended.
func sleeper(t *testing.T) (process, <-chan struct{}) {
	t.Helper()
	return started(t, "sleep", "600")
}

// started is sleeper with a command.
func started(t *testing.T, name string, args ...string) (process, <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		cmd.Wait() //nolint:errcheck // It is killed.
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // It may have been.
		<-done
	})
	p, ok := lookUp(cmd.Process.Pid)
	if !ok {
		t.Fatal("the process is not found")
	}
	return p, done
}

func TestProcessIsKilledAndWaitedFor(t *testing.T) {
	t.Parallel()
	p, done := sleeper(t)
	if !p.alive() {
		t.Error("it is not alive")
	}
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	if p.alive() {
		t.Error("it is alive after kill")
	}
	<-done
	if err := p.kill(); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
}

// A signal alone is on its way while the process goes on: what it had begun was answered.
func TestFrozenProcessHasStoppedWhenFreezeReturns(t *testing.T) {
	t.Parallel()
	p, _ := started(t, "sh", "-c", "while :; do :; done")
	ticks := func() string {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "stat"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(data))[13:15], " ") // utime, stime
	}
	for range 20 {
		if err := p.freeze(); err != nil {
			t.Fatal(err)
		}
		if !p.frozen() {
			t.Fatal("it runs after freeze")
		}
		before := ticks()
		time.Sleep(30 * time.Millisecond)
		if after := ticks(); after != before {
			t.Fatalf("it went on after freeze: %s ticks, then %s", before, after)
		}
		if err := syscall.Kill(p.pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.freeze(); err == nil {
		t.Error("what has ended is frozen")
	}
}

func TestOtherProcessOfTheSameIDIsSpared(t *testing.T) {
	t.Parallel()
	p, done := sleeper(t)
	earlier := process{pid: p.pid, started: "1"}
	if earlier.alive() {
		t.Error("a process that ended long ago is alive")
	}
	if err := earlier.kill(); err != nil {
		t.Error(err)
	}
	select {
	case <-done:
		t.Error("another process was killed")
	default:
	}
}

func TestRecordIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, ok := recorded(dir, etcd); ok {
		t.Error("there is a record before any")
	}
	p := process{pid: 42, started: "4711"}
	if err := p.record(dir, etcd); err != nil {
		t.Fatal(err)
	}
	if got, ok := recorded(dir, etcd); !ok || got != p {
		t.Errorf("got %v, %v", got, ok)
	}
	if err := os.WriteFile(recordPath(dir, etcd), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := recorded(dir, etcd); ok {
		t.Errorf("half a record is %v", got)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]Config{
		"Dir":     {Bin: "/bin"},
		"Bin":     {Dir: "/tmp/x"},
		"Address": {Dir: "/tmp/x", Bin: "/bin", Address: "localhost"},
		"Port":    {Dir: "/tmp/x", Bin: "/bin", Port: 70000},
	} {
		if err := config.Validate(); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want something about %s", config, err, want)
		}
		if _, err := Start(t.Context(), config); !errors.Is(err, errors.NotValid) {
			t.Errorf("Start: %v", err)
		}
	}
}

func TestOnlyItsOwnFolderIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Stop(filepath.Join(dir, "nothing")); err != nil {
		t.Errorf("no folder: %v", err)
	}
	if err := Stop(dir); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	file := filepath.Join(dir, "thesis")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Stop(dir); !errors.Is(err, errors.NotValid) {
		t.Errorf("a folder with other things: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestFailedStartLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	dir, bin := filepath.Join(t.TempDir(), "state"), t.TempDir()
	script := "#!/bin/sh\necho it is no use\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, apiServer), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, etcd), []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Dir: dir, Bin: bin})
	if err == nil || !strings.Contains(err.Error(), "it is no use") {
		t.Errorf("the error does not say what the program said: %v", err)
	}
	p, ok := recorded(dir, etcd)
	if !ok || p.alive() {
		t.Errorf("etcd's stand-in is recorded %v and alive %v", ok, p.alive())
	}
	// Its logs are there to be read, until the next start.
	if _, err := os.Stat(filepath.Join(dir, "log", apiServer+".log")); err != nil {
		t.Error(err)
	}
	if _, err := Open(dir); !errors.Is(err, errors.NotFound) {
		t.Errorf("what has not come up is open: %v", err)
	}
	if err := Stop(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder is there after Stop: %v", err)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir, bin := filepath.Join(t.TempDir(), "state"), t.TempDir()
	for _, program := range []string{etcd, apiServer} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Dir: dir, Bin: bin}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, program := range []string{etcd, apiServer} {
		if p, ok := recorded(dir, program); !ok || p.alive() {
			t.Errorf("%s is recorded %v and alive %v", program, ok, p.alive())
		}
	}
}

func TestFreePortIsNoneOfTheKernels(t *testing.T) {
	t.Parallel()
	limits, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	lowest, err := strconv.Atoi(strings.Fields(string(limits))[0])
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for range 20 {
		port, err := freePort("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if port >= lowest {
			t.Fatalf("port %d may be given to a client", port)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			// Other tests look for ports, too, and may have been faster.
			taken++
			continue
		}
		listener.Close()
	}
	if taken > 5 {
		t.Errorf("%d of 20 ports were not free", taken)
	}
}

func TestLockIsHeldByOneAtATime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "state")
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(dir + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	try := func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	if err := try(); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("while it is locked: %v", err)
	}
	unlock()
	if err := try(); err != nil {
		t.Errorf("when it is unlocked: %v", err)
	}
}

func TestOnlyTheirOwnerReadsKeysAndTokens(t *testing.T) {
	t.Parallel()
	state := State{Dir: t.TempDir(), Address: "127.0.0.1", Port: 6443}
	if err := writePKI(state); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(state.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", entry.Name(), info.Mode().Perm())
		}
	}
	if len(entries) != 5+len(users()) {
		t.Errorf("%d files", len(entries))
	}
}
