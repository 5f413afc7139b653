package hostnet

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
)

func TestBridgerConfigValidateNamesTheField(t *testing.T) {
	for _, test := range []struct {
		change func(*BridgerConfig)
		want   string
	}{
		{func(*BridgerConfig) {}, ""},
		{func(c *BridgerConfig) { c.Host = nil }, "nil Host"},
		{func(c *BridgerConfig) { c.Clock = nil }, "nil Clock"},
		{func(c *BridgerConfig) { c.StateDir = "" }, `StateDir ""`},
		{func(c *BridgerConfig) { c.StateDir = "state" }, `StateDir "state"`},
		{func(c *BridgerConfig) { c.StateDir = "/" }, `StateDir "/"`},
		{func(c *BridgerConfig) { c.StateDir = "/var/../etc" }, `StateDir "/var/../etc"`},
		{func(c *BridgerConfig) { c.Watchdog = []string{"agent", "watch"} }, `Watchdog[0] "agent"`},
		{func(c *BridgerConfig) { c.Watchdog = []string{""} }, `Watchdog[0] ""`},
		{func(c *BridgerConfig) { c.Way = "nmcli" }, `Way "nmcli"`},
		{func(c *BridgerConfig) { c.Way = Way(strings.Repeat("x", 999)) }, "Way"},
		{func(c *BridgerConfig) { c.Namespace = "x" }, `Namespace "x"`},
		{func(c *BridgerConfig) { c.InterfacesFile = "x" }, `InterfacesFile "x"`},
		{func(c *BridgerConfig) { c.NetplanRoot = "x" }, `NetplanRoot "x"`},
		{func(c *BridgerConfig) { c.VerifyTimeout = -1 }, "negative VerifyTimeout"},
		{func(c *BridgerConfig) { c.ToolTimeout = -1 }, "negative ToolTimeout"},
		{func(c *BridgerConfig) { c.RollbackTimeout = -1 }, "negative RollbackTimeout"},
		{func(c *BridgerConfig) { *c = BridgerConfig{} }, "nil Host"},
	} {
		c := BridgerConfig{Host: &hosttest.Host{}, Clock: clock.WallClock, StateDir: "/var/lib/agent/network", Watchdog: []string{"/usr/bin/agent", "watch"}, Way: Netplan}
		test.change(&c)
		wantNotValid(t, c.Validate(), test.want)
		if _, err := NewBridger(c); test.want != "" || err != nil {
			wantNotValid(t, err, "bridger config: "+test.want)
		}
	}
}

func TestTheOtherConfigsValidateNameTheField(t *testing.T) {
	h := &hosttest.Host{}
	wantNotValid(t, ObserverConfig{}.Validate(), "nil Host")
	wantNotValid(t, ObserverConfig{Host: h, Namespace: "x"}.Validate(), "Namespace")
	wantNotValid(t, ObserverConfig{Host: h, Namespace: "/proc/self/fd/7"}.Validate(), "")
	if _, err := NewObserver(ObserverConfig{}); err == nil || !strings.Contains(err.Error(), "observer config: nil Host") {
		t.Errorf("got %v", err)
	}
	wantNotValid(t, WatchdogConfig{}.Validate(), "nil Host")
	wantNotValid(t, WatchdogConfig{Host: h}.Validate(), "nil Clock")
	wantNotValid(t, WatchdogConfig{Host: h, Clock: clock.WallClock}.Validate(), "StateDir")
	wantNotValid(t, RunWatchdog(t.Context(), WatchdogConfig{}), "watchdog config: nil Host")
	// Nothing to watch over is success, also where there never was anything.
	if err := RunWatchdog(t.Context(), WatchdogConfig{Host: h, Clock: clock.WallClock, StateDir: filepath.Join(t.TempDir(), "none")}); err != nil {
		t.Error(err)
	}
}

func TestBridgeNames(t *testing.T) {
	seen := map[string]string{}
	for device, want := range map[string]string{
		"eth0": "br-eth0", "eth0.5": "br-eth0.5", "123456789012": "br-123456789012", "enx001122334455": "", "enx001122334456": "", "wlp0s20f0u1u2i3": "", "1234567890123": "",
	} {
		got := BridgeName(device)
		if want != "" && got != want || len(got) > maxName || !strings.HasPrefix(got, "br-") || got != BridgeName(device) {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
		if want == "" && (len(got) != maxName || dockerBridge.MatchString(got)) {
			t.Errorf("%s: %q", device, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are both under %s", other, device, got)
		}
		seen[got] = device
	}
}

// What is written down is for the owner alone, folders included.
func TestTheStateIsPrivate(t *testing.T) {
	s := newScripted(t)
	s.apply = func() error {
		for name, want := range map[string]fs.FileMode{".": 0o700, journalName: 0o600, originalsName: 0o700} {
			info, err := os.Stat(filepath.Join(s.dir, name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		return s.applyFiles()
	}
	if err := s.Bridge(t.Context(), eth0(), 0); err != nil {
		t.Fatal(err)
	}
	// The original stays what it was when the file changes again.
	if err := s.store.original(savedFile{Name: netplanFile, Existed: true, Data: []byte("later")}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(s.dir, originalsName, "etc%netplan%50-cloud-init.yaml")); got != netplanText {
		t.Errorf("the original is %q", got)
	}
}

func TestWithoutAStateNothingIsChanged(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newScripted(t, func(c *BridgerConfig) { c.StateDir = filepath.Join(blocked, "state") })
	if err := s.Bridge(t.Context(), eth0(), 0); err == nil || !strings.Contains(err.Error(), "StateDir") {
		t.Errorf("got %v", err)
	}
	if len(s.host.Changes())+len(s.kernel.done) > 0 {
		t.Error("something was changed")
	}
	s = newScripted(t)
	if err := os.MkdirAll(filepath.Join(s.dir, journalName, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Bridge(t.Context(), eth0(), 0); err == nil || errors.Is(err, errors.NotFound) {
		t.Errorf("got %v", err)
	}
	if len(s.host.Changes())+len(s.kernel.done) > 0 {
		t.Error("something was changed")
	}
}
