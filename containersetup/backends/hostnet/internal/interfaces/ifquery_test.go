package interfaces_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/interfaces"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

// What ifupdown itself reads in the files is compared: the options that the device
// had are now the bridge's, but for the port's own; both are brought up if the
// device was; and nobody else has other options.
func TestIfupdownReadsOfTheBridgeWhatItReadOfTheDevice(t *testing.T) {
	plantest.Program(t, "ifquery", "ifupdown")
	for _, c := range corpus(t) {
		if c.Err != "" || len(c.After) == 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			was, is := place(t, c.Before), place(t, c.Merged())
			for _, b := range c.Bridgings {
				compareOptions(t, was.options(t, b.Device), is.options(t, b.Device), is.options(t, b.Bridge), b)
				for _, class := range []string{"auto", "hotplug", "office"} {
					if was.list(t, class)[b.Device] && !is.list(t, class)[b.Device] {
						t.Errorf("%s is no longer in allow-%s", b.Device, class)
					}
				}
				if (was.list(t, "auto")[b.Device] || was.list(t, "hotplug")[b.Device]) && !is.list(t, "auto")[b.Bridge] {
					t.Errorf("%s is not brought up", b.Bridge)
				}
				if was.list(t, "office")[b.Device] != is.list(t, "office")[b.Bridge] {
					t.Errorf("%s is not in the class of %s", b.Bridge, b.Device)
				}
			}
			for name := range was.all(t) {
				kept := name
				for _, b := range c.Bridgings {
					switch {
					case name == b.Device:
						kept = ""
					case strings.HasPrefix(name, b.Device+":"):
						kept = b.Bridge + strings.TrimPrefix(name, b.Device)
						if !is.list(t, "auto")[kept] {
							t.Errorf("%s is not brought up", kept)
						}
					}
				}
				if kept == "" {
					continue
				}
				if diff := cmp.Diff(was.options(t, name), is.options(t, kept)); diff != "" {
					t.Errorf("options of %s (-want +got):\n%s", kept, diff)
				}
			}
		})
	}
}

func compareOptions(t *testing.T, was, port, bridge map[string]string, b interfaces.Bridging) {
	t.Helper()
	for key, want := range map[string]string{"bridge_ports": b.Device, "bridge_stp": "off", "bridge_fd": "0", "bridge_maxwait": "0"} {
		if bridge[key] != want {
			t.Errorf("%s of %s is %q, want %q", key, b.Bridge, bridge[key], want)
		}
	}
	if b.MAC != "" && bridge["bridge_hw"] != b.MAC {
		t.Errorf("bridge_hw of %s is %q, want %q", b.Bridge, bridge["bridge_hw"], b.MAC)
	}
	for key, value := range was {
		onPort, stays := port[key]
		onBridge, moves := bridge[key]
		switch {
		case stays && onPort != value:
			t.Errorf("%s of %s is %q, was %q", key, b.Device, onPort, value)
		case moves && onBridge != strings.ReplaceAll(value, "via 10.0.0.1 dev eth0", "via 10.0.0.1 dev "+b.Bridge) && onBridge != value:
			// Routes name the bridge, see the case "commands".
			if key != "up" || !strings.HasPrefix(onBridge, "ip route add 172.16.0.0/12 via 10.0.0.1 dev "+b.Bridge+"\n") {
				t.Errorf("%s of %s is %q, was %q", key, b.Bridge, onBridge, value)
			}
		case !stays && !moves:
			t.Errorf("%s is lost", key)
		}
	}
	for key := range port {
		if _, ok := was[key]; !ok {
			t.Errorf("%s of %s comes from nowhere", key, b.Device)
		}
	}
	for key := range bridge {
		if _, ok := was[key]; !ok && !strings.HasPrefix(key, "bridge_") {
			t.Errorf("%s of %s comes from nowhere", key, b.Bridge)
		}
	}
}

// placed are files in a folder of their own, with one that reads in them all.
type placed struct{ root, state string }

func place(t *testing.T, files []interfaces.File) placed {
	t.Helper()
	p := placed{root: t.TempDir(), state: t.TempDir()}
	plantest.Put(t, p.root, files)
	var all strings.Builder
	for _, f := range files {
		all.WriteString("source " + filepath.Join(p.root, f.Name) + "\n")
	}
	plantest.Put(t, p.root, []interfaces.File{{Name: "all", Data: []byte(all.String())}})
	return p
}

func (p placed) query(t *testing.T, args ...string) string {
	t.Helper()
	return plantest.Run(t, "ifquery", append([]string{"-i", filepath.Join(p.root, "all"), "--state-dir=" + p.state}, args...)...)
}

// list returns what is brought up in a class.
func (p placed) list(t *testing.T, class string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, name := range strings.Fields(p.query(t, "--list", "--allow="+class)) {
		names[name] = true
	}
	return names
}

// all returns what is in any class.
func (p placed) all(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, class := range []string{"auto", "hotplug", "office"} {
		maps.Copy(names, p.list(t, class))
	}
	delete(names, "lo")
	return names
}

// options returns what ifupdown knows of an interface, a value of several lines
// being several values.
func (p placed) options(t *testing.T, name string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	last := ""
	for line := range strings.Lines(p.query(t, name)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			found[last] += "\n" + strings.TrimSuffix(line, "\n")
			continue
		}
		if _, again := found[key]; again {
			found[key] += "\n" + value
		} else {
			found[key] = value
		}
		last = key
	}
	return found
}

// What ifupdown would not read is not rewritten either. In a file that is sourced
// ifupdown goes on with what it has read so far; here, nobody is to guess.
func TestWhatIfupdownRefusesIsRefused(t *testing.T) {
	plantest.Program(t, "ifquery", "ifupdown")
	good := "iface eth0 inet dhcp\n"
	for _, text := range []string{
		"foo bar\n" + good,
		good + "auto eth0\n foo bar\n",
		good + "iface\n",
		good + "iface eth1\n",
		good + "iface eth1 inet manual\n\tfoo\n",
		good + "mapping eth1\n\tfoo bar\n",
		"allow- eth0\n" + good,
		"Auto eth0\n" + good,
	} {
		file := interfaces.File{Name: "/etc/network/interfaces", Data: []byte(text)}
		if _, err := interfaces.Bridge([]interfaces.File{file}, []interfaces.Bridging{{Device: "eth0", Bridge: "br-eth0"}}); !errors.Is(err, errors.NotValid) {
			t.Errorf("%q gives %v, want NotValid", text, err)
		}
		root := t.TempDir()
		plantest.Put(t, root, []interfaces.File{file})
		out := plantest.Refuses(t, "ifquery", "-i", filepath.Join(root, file.Name), "--state-dir="+root, "--list", "--allow=auto")
		if !strings.Contains(out, "couldn't read interfaces file") {
			t.Errorf("ifupdown takes %q: %s", text, out)
		}
	}
}
