package hostnet

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
	"github.com/sutler-dev/sutler/facade"
)

// world is a host with a neighbour, and a bridger for the host.
type world struct {
	*nettest.Net
	bridger *Bridger
	config  BridgerConfig
	log     *logs
	// before is asked before each change of the kernel, with its number from 0.
	before func(n int, c kernel.Change) error

	mu   sync.Mutex
	done []string
	// under is when a device was put under a bridge last, last when the last change was
	// done.
	under, last time.Time
}

// logs collects what was logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWorld(t *testing.T, change ...func(*BridgerConfig)) *world {
	t.Helper()
	t.Parallel()
	w := &world{Net: nettest.New(t), log: &logs{}}
	w.config = BridgerConfig{
		Host:      host.New(host.Config{Prefix: w.Host.Prefix()}),
		Clock:     clock.WallClock,
		StateDir:  filepath.Join(t.TempDir(), "state"),
		Way:       Netlink,
		Namespace: w.Host.Path,
		Logger:    slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&w.config)
	}
	b, err := NewBridger(w.config)
	if err != nil {
		t.Fatal(err)
	}
	open := b.undoer.open
	b.undoer.open = func(namespace string) (kernel.Kernel, error) {
		k, err := open(namespace)
		return &watched{k, w}, err
	}
	w.bridger = b
	return w
}

// watched records what is done, and can refuse it.
type watched struct {
	kernel.Kernel
	w *world
}

func (k *watched) Do(ctx context.Context, c kernel.Change) error {
	k.w.mu.Lock()
	n := len(k.w.done)
	k.w.done = append(k.w.done, c.String())
	before := k.w.before
	if c.Verb == kernel.SetMaster && c.Master != "" {
		k.w.under = time.Now()
	}
	k.w.mu.Unlock()
	if before != nil {
		if err := before(n, c); err != nil {
			return err
		}
	}
	err := k.Kernel.Do(ctx, c)
	k.w.mu.Lock()
	k.w.last = time.Now()
	k.w.mu.Unlock()
	return err
}

func (w *world) changes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.done)
}

func (w *world) state(t *testing.T) kernel.State {
	t.Helper()
	k, err := kernel.Open(w.Host.Path, clock.WallClock)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	s, err := k.Look(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// static gives the host and the neighbour addresses on a cable of their own, and the
// host a default route over it: 10.N.0.5 and 10.N.0.1, fd00:N::5 and fd00:N::1.
func (w *world) static(t *testing.T, device, n string, route bool) {
	t.Helper()
	near := "near" + n
	w.Join(t, device, near)
	for _, line := range []string{
		"addr add 10." + n + ".0.1/24 dev " + near,
		"addr add fd00:" + n + "::1/64 dev " + near + " nodad",
	} {
		w.Neighbour.Do(t, "sh", "-c", "ip "+line)
	}
	w.ip(t, "addr add 10."+n+".0.5/24 brd + dev "+device, "addr add fd00:"+n+"::5/64 dev "+device+" nodad")
	if route {
		w.ip(t, "route add default via 10."+n+".0.1 dev "+device+" metric 10"+n, "-6 route add default via fd00:"+n+"::1 dev "+device+" metric 10"+n)
	}
}

// far gives the neighbour an address that is reached by a default route alone.
func (w *world) far(t *testing.T) {
	t.Helper()
	for _, line := range []string{"addr add 192.0.2.9/32 dev lo", "addr add fd00:ff::9/128 dev lo nodad"} {
		w.Neighbour.Do(t, "sh", "-c", "ip "+line)
	}
}

func (w *world) ip(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		w.Host.Do(t, "sh", "-c", "ip "+line)
	}
}

func device(name string) facade.DeviceToBridge {
	return facade.DeviceToBridge{Device: name, Bridge: BridgeName(name)}
}

func (w *world) bridge(t *testing.T, names ...string) error {
	t.Helper()
	var devices []facade.DeviceToBridge
	for _, name := range names {
		devices = append(devices, device(name))
	}
	return w.bridger.Bridge(t.Context(), devices, 0)
}

func (w *world) mustBridge(t *testing.T, names ...string) {
	t.Helper()
	if err := w.bridge(t, names...); err != nil {
		t.Fatalf("%v\n%s", err, w.log)
	}
}

// wantMoved wants a device under its bridge, which has all that the device had.
func (w *world) wantMoved(t *testing.T, before kernel.State, device string) {
	t.Helper()
	now := w.state(t)
	bridge := BridgeName(device)
	was, _ := before.Link(device)
	is, _ := now.Link(device)
	on, ok := now.Link(bridge)
	switch {
	case !ok || on.Kind != kernel.Bridge || is.Master != bridge:
		t.Fatalf("%s is not under %s: %+v", device, bridge, now.Links)
	case on.MAC != was.MAC || is.MAC != was.MAC:
		t.Errorf("MAC %s became %s on %s and %s on %s", was.MAC, on.MAC, bridge, is.MAC, device)
	case on.MTU != was.MTU || !on.Up || !is.Up:
		t.Errorf("became %+v and %+v, from %+v", on, is, was)
	}
	var want, got []string
	for _, a := range before.AddressesOf(device) {
		want = append(want, a.On(bridge).Key())
	}
	for _, r := range before.RoutesOver(device) {
		want = append(want, r.On(device, bridge).Key())
	}
	for _, a := range now.AddressesOf(bridge) {
		got = append(got, a.Key())
	}
	for _, r := range now.RoutesOver(bridge) {
		got = append(got, r.Key())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s has\n%s\nwant\n%s", bridge, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if left := now.RoutesOver(device); len(left) > 0 || len(now.AddressesOf(device)) > 0 {
		t.Errorf("left on %s: %v %v", device, left, now.AddressesOf(device))
	}
}

// wantClean wants no journal.
func (w *world) wantClean(t *testing.T) {
	t.Helper()
	for _, name := range []string{journalName, armedName} {
		if _, err := os.Stat(filepath.Join(w.config.StateDir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// wantSame wants the network as it was. IPv6 takes a moment to do what follows from a
// change.
func (w *world) wantSame(t *testing.T, before string) {
	t.Helper()
	var now string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if now = w.Host.Snapshot(t); now == before {
			return
		}
	}
	t.Fatalf("it differs:\n%s\nlog\n%s", difference(before, now), w.log)
}

// difference returns the lines of which one of two texts has fewer.
func difference(before, now string) string {
	count := map[string]int{}
	for _, line := range strings.Split(now, "\n") {
		count[line]++
	}
	for _, line := range strings.Split(before, "\n") {
		count[line]--
	}
	var out []string
	for line, n := range count {
		if n != 0 {
			out = append(out, fmt.Sprintf("%+d %s", n, line))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
