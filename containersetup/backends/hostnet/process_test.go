package hostnet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
	"github.com/sutler-dev/sutler/facade"
)

// TestMain lets the test's program be an agent and a watchdog, too: one that is killed
// has to be a process.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "agent":
			os.Exit(exit(agent(os.Args[2])))
		case "watchdog":
			os.Exit(exit(watchdog(os.Args[2])))
		}
	}
	os.Exit(m.Run())
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// script is what an agent of another process is to do.
type script struct {
	StateDir, Namespace, InterfacesFile, NetplanRoot string
	Prefix, IfupdownArgs, Watchdog                   []string
	Devices                                          []string
	// KillAt is the step, of those that change something, at which it ends by signal;
	// After tells whether after the step's effect or before.
	KillAt int
	After  bool
	// Signal is SIGKILL, or SIGSTOP for one that hangs.
	Signal syscall.Signal
	// Fast has hours pass in seconds.
	Fast bool
}

func (s script) clock() clock.Clock {
	if s.Fast {
		return fastClock{clock.WallClock}
	}
	return clock.WallClock
}

func read(name string) (s script, err error) {
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// fastClock's waits are a hundredth of what they should be.
type fastClock struct{ clock.Clock }

func (c fastClock) After(d time.Duration) <-chan time.Time { return c.Clock.After(d / 100) }
func (c fastClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.Clock.AfterFunc(d/100, f)
}

func watchdog(name string) error {
	s, err := read(name)
	if err != nil {
		return err
	}
	return RunWatchdog(context.Background(), WatchdogConfig{
		StateDir: s.StateDir, Clock: s.clock(), Host: host.New(host.Config{Prefix: s.Prefix}),
	})
}

func agent(name string) error {
	s, err := read(name)
	if err != nil {
		return err
	}
	step := 0
	at := func(after bool) error {
		if step == s.KillAt && after == s.After {
			return syscall.Kill(os.Getpid(), s.Signal)
		}
		return nil
	}
	machine := &steppedHost{Host: host.New(host.Config{Prefix: s.Prefix}), at: at, step: &step}
	b, err := NewBridger(BridgerConfig{
		Host: machine, Clock: clock.WallClock, StateDir: s.StateDir, Namespace: s.Namespace, Watchdog: s.Watchdog,
		InterfacesFile: s.InterfacesFile, IfupdownArgs: s.IfupdownArgs, NetplanRoot: s.NetplanRoot, VerifyTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	open := b.undoer.open
	b.undoer.open = func(namespace string) (kernel.Kernel, error) {
		k, err := open(namespace)
		return steppedKernel{k, at, &step}, err
	}
	var devices []facade.DeviceToBridge
	for _, name := range s.Devices {
		devices = append(devices, device(name))
	}
	return b.Bridge(context.Background(), devices, 0)
}

// steppedKernel and steppedHost tell of every change before and after.
type steppedKernel struct {
	kernel.Kernel
	at   func(after bool) error
	step *int
}

func (k steppedKernel) Do(ctx context.Context, c kernel.Change) error {
	return stepped(k.at, k.step, func() error { return k.Kernel.Do(ctx, c) })
}

type steppedHost struct {
	host.Host
	at   func(after bool) error
	step *int
}

func (h *steppedHost) Run(ctx context.Context, cmd host.Command) (out host.Output, err error) {
	if cmd.ReadOnly {
		return h.Host.Run(ctx, cmd)
	}
	err = stepped(h.at, h.step, func() error {
		out, err = h.Host.Run(ctx, cmd)
		return err
	})
	return out, err
}

func (h *steppedHost) WriteFile(ctx context.Context, name string, data []byte, perm os.FileMode) error {
	return stepped(h.at, h.step, func() error { return h.Host.WriteFile(ctx, name, data, perm) })
}

func stepped(at func(bool) error, step *int, do func() error) error {
	if err := at(false); err != nil {
		return err
	}
	err := do()
	if err := at(true); err != nil {
		return err
	}
	*step++
	return err
}

// play starts an agent. It is killed at the end of the test at the latest.
func (w *world) play(t *testing.T, s script) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.StateDir, s.Namespace, s.Prefix = w.config.StateDir, w.Host.Path, w.Host.Prefix()
	s.InterfacesFile, s.IfupdownArgs, s.NetplanRoot = w.config.InterfacesFile, w.config.IfupdownArgs, w.config.NetplanRoot
	if s.NetplanRoot == "" {
		s.NetplanRoot, s.InterfacesFile = t.TempDir(), filepath.Join(t.TempDir(), "none")
	}
	if s.Signal == 0 {
		s.Signal = syscall.SIGKILL
	}
	file := filepath.Join(t.TempDir(), "script")
	if s.Watchdog != nil && s.Watchdog[0] == "" {
		s.Watchdog = []string{self, "watchdog", file}
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "agent", file)
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if out.Len() > 0 {
			t.Logf("the agent said: %s", out.String())
		}
	})
	return cmd
}

// killed waits for an agent, and tells whether it was killed, rather than done.
func killed(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return true
	}
	if err != nil {
		t.Fatalf("the agent was not killed: %v", err)
	}
	return false
}

// own is for the watchdog that the test's own program is.
var own = []string{""}

// hosts are those on which an agent is killed.
var hosts = []struct {
	name    string
	lay     func(*testing.T) *world
	devices []string
	reached []string
}{{
	name: "netlink",
	lay: func(t *testing.T) *world {
		w := newWorld(t)
		networks[0].lay(t, w)
		return w
	},
	devices: []string{"eth0"},
	reached: networks[0].reached,
}, {
	name: "ifupdown",
	lay: func(t *testing.T) *world {
		w, _ := ifupdownWorld(t, staticStanzas)
		layIfupdown(t, w)
		return w
	},
	devices: []string{"eth0"},
	reached: []string{"10.1.0.1", "10.2.0.1", "fd00:1::1", "192.0.2.9"},
}}

// An agent is killed with -9 before and after each step. The watchdog puts all back
// without anybody asking for it.
func TestTheWatchdogPutsBackWhatAKilledAgentLeft(t *testing.T) {
	t.Parallel()
	for _, h := range hosts {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(h.name, ", after the step: ", after), func(t *testing.T) {
				w := h.lay(t)
				snapshot, text := w.Host.Snapshot(t), w.files(t)
				for step := 0; ; step++ {
					if !killed(t, w.play(t, script{Devices: h.devices, Watchdog: own, KillAt: step, After: after})) {
						t.Logf("%d steps", step)
						break
					}
					nettest.Wait(t, "the journal to go", func() bool {
						_, err := os.Stat(filepath.Join(w.config.StateDir, journalName))
						return os.IsNotExist(err)
					})
					w.wantSame(t, snapshot)
					if got := w.files(t); got != text {
						t.Errorf("step %d: the files are\n%s\nwere\n%s", step, got, text)
					}
				}
				w.wantBridged(t, h.devices...)
				w.Host.MustReach(t, h.reached...)
				w.wantClean(t)
			})
		}
	}
}

// files returns what is configured.
func (w *world) files(t *testing.T) string {
	t.Helper()
	if w.config.NetplanRoot == "" {
		return ""
	}
	return content(t, w.config.InterfacesFile)
}

// Without a watchdog the next process does, before anything else.
func TestTheNextProcessPutsBackWhatAKilledAgentLeft(t *testing.T) {
	t.Parallel()
	for _, h := range hosts {
		for _, after := range []bool{false, true} {
			if after && h.name == "ifupdown" {
				continue // it takes long, and the watchdog does the same there
			}
			t.Run(fmt.Sprint(h.name, ", after the step: ", after), func(t *testing.T) {
				w := h.lay(t)
				snapshot, text := w.Host.Snapshot(t), w.files(t)
				for step := 0; ; step++ {
					if !killed(t, w.play(t, script{Devices: h.devices, KillAt: step, After: after})) {
						break
					}
					if err := w.bridger.Recover(t.Context()); err != nil {
						t.Errorf("step %d: %v", step, err)
					}
					w.wantSame(t, snapshot)
					w.wantClean(t)
					if got := w.files(t); got != text {
						t.Errorf("step %d: the files are\n%s\nwere\n%s", step, got, text)
					}
				}
				w.wantBridged(t, h.devices...)
				w.Host.MustReach(t, h.reached...)
			})
		}
	}
}

// The next call to Bridge begins with putting back, and then does its work.
func TestBridgeBeginsWithPuttingBack(t *testing.T) {
	w := hosts[0].lay(t)
	before := w.state(t)
	if !killed(t, w.play(t, script{Devices: []string{"eth0"}, KillAt: 5})) {
		t.Fatal("it was not killed")
	}
	w.mustBridge(t, "eth0")
	w.wantMoved(t, before, "eth0")
	w.wantClean(t)
}

// A process that hangs in the middle is not waited for for ever. When it goes on, it
// finds out, and leaves the host alone.
func TestAnAgentThatHangsIsOvertaken(t *testing.T) {
	w := hosts[0].lay(t)
	snapshot := w.Host.Snapshot(t)
	cmd := w.play(t, script{Devices: []string{"eth0"}, Watchdog: own, KillAt: 6, Signal: syscall.SIGSTOP, Fast: true})
	nettest.Wait(t, "the change to begin", func() bool { return w.Host.Snapshot(t) != snapshot })
	nettest.Wait(t, "the journal to go", func() bool {
		_, err := os.Stat(filepath.Join(w.config.StateDir, journalName))
		return os.IsNotExist(err)
	})
	w.wantSame(t, snapshot)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it took what was put back for done")
	}
	w.wantSame(t, snapshot)
	w.wantClean(t)
	w.Host.MustReach(t, networks[0].reached...)
	w.mustBridge(t, "eth0")
}

// Nothing is changed unless somebody watches.
func TestWithoutTheWatchdogThatIsWantedNothingIsChanged(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"that is not there":   {[]string{"/nonexistent/watchdog"}, "no such file"},
		"that fails":          {[]string{"/bin/false"}, "exit status 1"},
		"that does not watch": {[]string{"/bin/sleep", "100"}, "it does not watch after 20s"},
		"that ends at once":   {[]string{"/bin/true"}, "it does not watch after 20s"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *BridgerConfig) {
				c.Watchdog = test.args
				c.Clock = impatientClock{c.Clock}
			})
			networks[0].lay(t, w)
			snapshot := w.Host.Snapshot(t)
			err := w.bridge(t, "eth0")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			w.wantSame(t, snapshot)
			if len(w.changes()) > 0 {
				t.Errorf("did %v", w.changes())
			}
			w.wantClean(t)
		})
	}
}

// impatientClock is ten minutes later at every look but the first few.
type impatientClock struct{ clock.Clock }

func (c impatientClock) Now() time.Time {
	return c.Clock.Now().Add(100 * time.Since(start))
}

var start = time.Now()

// A change that succeeds leaves no watchdog behind; one that dies does no harm.
func TestTheWatchdogEndsWithTheChange(t *testing.T) {
	w := hosts[0].lay(t)
	if killed(t, w.play(t, script{Devices: []string{"eth0"}, Watchdog: own, KillAt: -1})) {
		t.Fatal("it was killed")
	}
	w.wantBridged(t, "eth0")
	w.wantClean(t)
	out, err := exec.Command("ps", "-eo", "args").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " watchdog ") && strings.Contains(line, filepath.Base(t.Name())) {
			t.Errorf("still there: %s", line)
		}
	}
}
