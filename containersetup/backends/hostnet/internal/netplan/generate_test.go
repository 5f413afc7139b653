package netplan_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/netplan"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

// What netplan makes of the files for systemd-networkd is compared: the device's
// addresses, names and routes are now the bridge's, the device is its port, and
// what is made for everybody else is the same to the byte.
func TestNetplanMakesOfTheBridgeWhatItMadeOfTheDevice(t *testing.T) {
	plantest.Program(t, "netplan", "netplan.io")
	for _, c := range corpus(t) {
		if c.Err != "" || len(c.After) == 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			was, is := generate(t, c.Before), generate(t, c.Merged())
			for _, b := range c.Bridgings {
				bridge := "10-netplan-" + b.Bridge + ".network"
				if was[bridge] != nil {
					continue // it was there
				}
				if is[bridge] == nil {
					t.Fatalf("nothing was made for %s: %v", b.Bridge, keys(is))
				}
				port := portOf(t, is, b.Bridge)
				// A bridge is configured before it has a carrier: netplan adds
				// that itself.
				got := without(is[bridge], "Match", "Link", "ConfigureWithoutCarrier=yes")
				want := without(was[port], "Match", "Link", "VLAN=", "ConfigureWithoutCarrier=yes")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s differs from what %s was (-want +got):\n%s", bridge, port, diff)
				}
				if diff := cmp.Diff(with(was[port], "VLAN="), with(is[port], "VLAN=")); diff != "" {
					t.Errorf("VLANs on %s (-want +got):\n%s", port, diff)
				}
				if b.MAC != "" && !slices.Contains(is["10-netplan-"+b.Bridge+".netdev"], "NetDev: MACAddress="+strings.ToLower(b.MAC)) {
					t.Errorf("the bridge does not keep %s: %v", b.MAC, is["10-netplan-"+b.Bridge+".netdev"])
				}
				for _, name := range []string{bridge, "10-netplan-" + b.Bridge + ".netdev", port} {
					delete(is, name)
					delete(was, name)
				}
			}
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("others changed (-want +got):\n%s", diff)
			}
		})
	}
}

// portOf returns the only file that makes something a port of the bridge.
func portOf(t *testing.T, made map[string][]string, bridge string) string {
	t.Helper()
	var ports []string
	for name, lines := range made {
		if slices.Contains(lines, "Network: Bridge="+bridge) {
			ports = append(ports, name)
		}
	}
	if len(ports) != 1 {
		t.Fatalf("%s has the ports %v, want one", bridge, ports)
	}
	return ports[0]
}

// generate returns what netplan makes for systemd-networkd: by file, the lines
// with their section before them.
func generate(t *testing.T, files []netplan.File) map[string][]string {
	t.Helper()
	root := t.TempDir()
	plantest.Put(t, root, files)
	plantest.Run(t, "netplan", "generate", "--root-dir", root)
	names, err := filepath.Glob(filepath.Join(root, "run/systemd/network/*"))
	if err != nil {
		t.Fatal(err)
	}
	made := make(map[string][]string)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		section := ""
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "["):
				section = strings.Trim(line, "[]")
			case line != "":
				made[filepath.Base(name)] = append(made[filepath.Base(name)], section+": "+line)
			}
		}
	}
	return made
}

// without leaves out sections, and lines that begin with a word.
func without(lines []string, what ...string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return begins(line, what) })
}

// with keeps only those.
func with(lines []string, what ...string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !begins(line, what) })
}

func begins(line string, what []string) bool {
	section, rest, _ := strings.Cut(line, ": ")
	return slices.ContainsFunc(what, func(w string) bool { return section == w || strings.HasPrefix(rest, w) })
}

func keys(m map[string][]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
