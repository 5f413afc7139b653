package hostnet

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
)

// ifupdownWorld is a host that is configured by ifupdown, with a file of its own.
func ifupdownWorld(t *testing.T, text string, change ...func(*BridgerConfig)) (w *world, file string) {
	t.Helper()
	nettest.Need(t, "ifup", "ifdown", "brctl")
	dir := t.TempDir()
	file = filepath.Join(dir, "interfaces")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "run")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, append([]func(*BridgerConfig){func(c *BridgerConfig) {
		c.Way = Auto
		c.InterfacesFile = file
		c.NetplanRoot = dir
		c.IfupdownArgs = []string{"--state-dir=" + state}
		c.VerifyTimeout = 10 * time.Second
	}}, change...)...)
	return w, file
}

// ifup brings up what the file says.
func (w *world) ifup(t *testing.T, names ...string) {
	t.Helper()
	args := append([]string{"ifup", "-i", w.config.InterfacesFile}, w.config.IfupdownArgs...)
	_, err := w.config.Host.Run(t.Context(), host.Do(append(args, names...)...))
	if err != nil {
		t.Fatal(err)
	}
}

// up tells what ifupdown takes for up.
func (w *world) up(t *testing.T) string {
	t.Helper()
	args := append([]string{"ifquery", "-i", w.config.InterfacesFile, "--state"}, w.config.IfupdownArgs...)
	out, err := w.config.Host.Run(t.Context(), host.Look(args...))
	if err != nil {
		t.Fatal(err)
	}
	lines := out.Lines()
	slices.Sort(lines) // which is up first is a matter of what was put back
	return strings.Join(lines, "\n")
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const staticStanzas = `# as the installer wrote it
auto lo eth0
iface lo inet loopback

iface eth0 inet static
	address 10.1.0.5/24
	gateway 10.1.0.1 # the neighbour
iface eth0 inet6 static
	address fd00:1::5/64
	gateway fd00:1::1
	dad-attempts 0

iface eth0:1 inet static
	address 10.1.0.6/24

auto eth1
iface eth1 inet static
	address 10.2.0.5/24
`

// lay is a neighbour for staticStanzas.
func layIfupdown(t *testing.T, w *world) {
	t.Helper()
	w.Join(t, "eth0", "near1")
	w.Join(t, "eth1", "near2")
	w.far(t)
	for _, line := range []string{"10.1.0.1/24 dev near1", "10.2.0.1/24 dev near2", "fd00:1::1/64 dev near1 nodad"} {
		w.Neighbour.Do(t, "sh", "-c", "ip addr add "+line)
	}
	w.ifup(t, "eth0", "eth0:1", "eth1")
}

func TestADeviceIsBridgedByIfupdown(t *testing.T) {
	w, file := ifupdownWorld(t, staticStanzas)
	layIfupdown(t, w)
	all := []string{"10.1.0.1", "10.2.0.1", "fd00:1::1", "192.0.2.9", "fd00:ff::9"}
	w.Host.MustReach(t, all...)
	before := w.state(t)
	w.mustBridge(t, "eth0")
	w.wantBridged(t, "eth0")
	w.wantClean(t)
	w.Host.MustReach(t, all...)
	if gone := lost(before, w.state(t), nil); len(gone) > 0 {
		t.Errorf("lost: %v", gone)
	}
	if text := content(t, file); !strings.Contains(text, "iface br-eth0 inet static") || !strings.Contains(text, "# the neighbour") {
		t.Errorf("the file is now\n%s", text)
	}
	if up := w.up(t); !strings.Contains(up, "br-eth0=br-eth0") {
		t.Errorf("up is\n%s", up)
	}
	// The original is kept, for people, and private.
	kept := filepath.Join(w.config.StateDir, originalsName, strings.ReplaceAll(strings.TrimPrefix(file, "/"), "/", "%"))
	if content(t, kept) != staticStanzas {
		t.Error("the original is not as it was")
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// Again is success, and nothing.
	text, snapshot := content(t, file), w.Host.Snapshot(t)
	w.mustBridge(t, "eth0")
	if content(t, file) != text || w.Host.Snapshot(t) != snapshot {
		t.Error("something was done again")
	}
	// A boot later it comes up by itself.
	w.ip(t, "link del br-eth0", "addr flush dev eth0", "link set eth0 down")
	if err := os.RemoveAll(strings.TrimPrefix(w.config.IfupdownArgs[0], "--state-dir=")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(strings.TrimPrefix(w.config.IfupdownArgs[0], "--state-dir="), 0o700); err != nil {
		t.Fatal(err)
	}
	w.ifup(t, "eth0", "br-eth0", "br-eth0:1")
	w.wantBridged(t, "eth0")
	w.Host.MustReach(t, all...)
}

func TestSeveralDevicesAreBridgedByIfupdown(t *testing.T) {
	w, _ := ifupdownWorld(t, staticStanzas)
	layIfupdown(t, w)
	before := w.state(t)
	w.mustBridge(t, "eth1", "eth0")
	w.wantBridged(t, "eth0", "eth1")
	if gone := lost(before, w.state(t), nil); len(gone) > 0 {
		t.Errorf("lost: %v", gone)
	}
	w.Host.MustReach(t, "10.1.0.1", "10.2.0.1", "fd00:1::1", "192.0.2.9")
}

func TestAnAddressFromDHCPMovesByIfupdown(t *testing.T) {
	w, _ := ifupdownWorld(t, "auto eth0\niface eth0 inet dhcp\n")
	nettest.Need(t, "udhcpc")
	w.dhcp(t, "eth0")
	w.ifup(t, "eth0")
	before := w.state(t)
	w.Host.MustReach(t, "10.1.0.1")
	w.mustBridge(t, "eth0")
	w.wantBridged(t, "eth0")
	if gone := lost(before, w.state(t), nil); len(gone) > 0 {
		t.Errorf("lost: %v", gone)
	}
	w.Host.MustReach(t, "10.1.0.1")
}

// faultyHost fails a step of changing it, or does something instead.
type faultyHost struct {
	host.Host
	n      int
	before func(n int, step string) error
}

func (h *faultyHost) step(step string) error {
	n := h.n
	h.n++
	if h.before == nil {
		return nil
	}
	return h.before(n, step)
}

func (h *faultyHost) Run(ctx context.Context, cmd host.Command) (host.Output, error) {
	if !cmd.ReadOnly {
		if err := h.step(cmd.String()); err != nil {
			return host.Output{}, err
		}
	}
	return h.Host.Run(ctx, cmd)
}

func (h *faultyHost) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	if err := h.step("write " + name); err != nil {
		return err
	}
	return h.Host.WriteFile(ctx, name, data, perm)
}

// Each command and each file fails, before and after it had its effect.
func TestAFailureAtEveryStepOfIfupdownPutsAllBack(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after its effect: ", after), func(t *testing.T) {
			faulty := &faultyHost{}
			w, file := ifupdownWorld(t, staticStanzas, func(c *BridgerConfig) {
				faulty.Host, c.Host = c.Host, faulty
			})
			layIfupdown(t, w)
			snapshot := w.Host.Snapshot(t)
			up := w.up(t)
			for step := 0; ; step++ {
				failed, at := "", faulty.n+step
				faulty.before = func(n int, what string) error {
					if n != at {
						return nil
					}
					failed = what
					if after && strings.HasPrefix(what, "if") {
						if _, err := faulty.Host.Run(t.Context(), host.Do(strings.Fields(what)...)); err != nil {
							t.Error(err)
						}
					}
					return errBoom
				}
				err := w.bridge(t, "eth0")
				if failed == "" {
					if err != nil {
						t.Errorf("without a failure: %v", err)
					}
					if step != 6 {
						t.Errorf("%d steps", step)
					}
					break
				}
				if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), strings.TrimPrefix(failed, "write ")) || !strings.HasPrefix(err.Error(), "all was put back after: bridging ") {
					t.Errorf("step %d, %s: got %v", step, failed, err)
				}
				w.wantSame(t, snapshot)
				w.wantClean(t)
				if content(t, file) != staticStanzas {
					t.Errorf("%s: the file is now\n%s", failed, content(t, file))
				}
				if got := w.up(t); got != up {
					t.Errorf("%s: up is\n%s\nwas\n%s", failed, got, up)
				}
				w.Host.MustReach(t, "10.1.0.1", "192.0.2.9", "fd00:1::1", "10.2.0.1")
			}
		})
	}
}

// H6, H7: what was there by other means than the files is lost with them.
func TestWhatIfupdownLosesIsPutBack(t *testing.T) {
	t.Parallel()
	for want, line := range map[string]string{
		"no address 10.1.0.9/24 of eth0":                    "addr add 10.1.0.9/24 dev eth0",
		"no route default via 10.1.0.1 dev eth0 metric 5":   "route add default via 10.1.0.1 dev eth0 metric 5",
		"no route default via 10.1.0.1 dev eth0 table 1000": "route add default via 10.1.0.1 dev eth0 table 1000",
	} {
		t.Run(want, func(t *testing.T) {
			w, file := ifupdownWorld(t, staticStanzas, func(c *BridgerConfig) { c.VerifyTimeout = time.Millisecond })
			layIfupdown(t, w)
			w.ip(t, line)
			snapshot := w.Host.Snapshot(t)
			err := w.bridge(t, "eth0")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			w.wantSame(t, snapshot)
			if content(t, file) != staticStanzas {
				t.Errorf("the file is now\n%s", content(t, file))
			}
		})
	}
}

// A route that is in no file and not a default one is told of.
func TestARouteThatNoFileHasIsToldOf(t *testing.T) {
	w, _ := ifupdownWorld(t, staticStanzas)
	layIfupdown(t, w)
	w.ip(t, "route add 10.99.0.0/16 via 10.1.0.1")
	w.mustBridge(t, "eth0")
	if !strings.Contains(w.log.String(), "a route that is in no configuration file is gone: 10.99.0.0/16 via 10.1.0.1 dev eth0") {
		t.Error(w.log)
	}
}

// A device that the files do not mention is bridged by the kernel alone, beside one that
// they do.
func TestEachDeviceByItsOwnMeans(t *testing.T) {
	w, file := ifupdownWorld(t, staticStanzas)
	layIfupdown(t, w)
	w.static(t, "eth2", "3", false)
	w.mustBridge(t, "eth2", "eth1")
	w.wantBridged(t, "eth1", "eth2")
	w.Host.MustReach(t, "10.1.0.1", "10.2.0.1", "10.3.0.1")
	if strings.Contains(content(t, file), "eth2") {
		t.Error(content(t, file))
	}
}

func TestAFileThatDoesNotParseChangesNothing(t *testing.T) {
	w, file := ifupdownWorld(t, staticStanzas)
	layIfupdown(t, w)
	broken := staticStanzas + "\niface eth7 inet static\n\taddress 10.7.0.5/24\n\niface\n"
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot := w.Host.Snapshot(t)
	err := w.bridge(t, "eth0")
	if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if w.Host.Snapshot(t) != snapshot || content(t, file) != broken {
		t.Error("something was changed")
	}
}

// The agent is killed while ifup runs, which goes on without it.
func TestAToolThatOutlivesTheAgentIsPutBackToo(t *testing.T) {
	text := strings.Replace(staticStanzas, "\tgateway 10.1.0.1 # the neighbour\n", "\tgateway 10.1.0.1 # the neighbour\n\tup [ $IFACE = eth0 ] || sleep 5\n\tup ip addr add 10.66.0.1/24 dev $IFACE\n", 1)
	w, file := ifupdownWorld(t, text)
	layIfupdown(t, w)
	snapshot := w.Host.Snapshot(t)
	for _, moment := range []string{"br-eth0", "10.1.0.5/24 brd 10.1.0.255 scope global br-eth0"} {
		cmd := w.play(t, script{Devices: []string{"eth0"}, Watchdog: own, KillAt: -1})
		nettest.Wait(t, moment, func() bool { return strings.Contains(w.Host.Snapshot(t), moment) })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if !killed(t, cmd) {
			t.Fatal("it was done already")
		}
		nettest.Wait(t, "the journal to go", func() bool {
			_, err := os.Stat(filepath.Join(w.config.StateDir, journalName))
			return os.IsNotExist(err)
		})
		w.wantSame(t, snapshot)
		if content(t, file) != text {
			t.Error(content(t, file))
		}
	}
	w.Host.MustReach(t, "10.1.0.1", "192.0.2.9", "fd00:1::1", "10.2.0.1")
}

// The context ends while ifup runs, which ends with it.
func TestTheEndOfTheContextWhileAToolRunsPutsAllBack(t *testing.T) {
	text := strings.Replace(staticStanzas, "\tgateway 10.1.0.1 # the neighbour\n", "\tgateway 10.1.0.1\n\tup [ $IFACE = eth0 ] || sleep 600\n", 1)
	w, file := ifupdownWorld(t, text)
	layIfupdown(t, w)
	snapshot := w.Host.Snapshot(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if out, _ := w.Host.Try("ip", "-o", "addr", "show", "dev", "br-eth0"); strings.Contains(out, "10.1.0.5/24") {
				return
			}
		}
	}()
	err := w.bridger.Bridge(ctx, eth0(), 0)
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "all was put back after: bridging eth0: ifup") {
		t.Errorf("got %v", err)
	}
	w.wantSame(t, snapshot)
	if content(t, file) != text {
		t.Error(content(t, file))
	}
}
