package interfaces_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/interfaces"
)

// bridge puts eth0 under br0.
func bridge(text string) (string, error) {
	changed, err := interfaces.Bridge(
		[]interfaces.File{{Name: "/etc/network/interfaces", Data: []byte(text)}},
		[]interfaces.Bridging{{Device: "eth0", Bridge: "br0", MAC: "52:54:00:12:34:56"}})
	var all strings.Builder
	for _, f := range changed {
		all.Write(f.Data)
	}
	return all.String(), err
}

const dhcp = "iface eth0 inet dhcp\n"

func TestWhoDecidesOnTheDeviceDecidesWhatIsDone(t *testing.T) {
	for _, c := range []struct {
		name, text string
		kind       error
	}{
		{"ports by name", dhcp + "iface br1 inet dhcp\n bridge_ports eth1 eth0\n", errors.AlreadyExists},
		{"ports by expression", dhcp + "iface br1 inet dhcp\n bridge_ports none regex e.*\n", errors.AlreadyExists},
		{"ports by expression for others", dhcp + "iface br1 inet dhcp\n bridge_ports regex wl.* noregex eth1\n", nil},
		{"ports by a part of an expression", dhcp + "iface br1 inet dhcp\n bridge_ports regex th0\n", nil},
		{"ports by malformed expression", dhcp + "iface br1 inet dhcp\n bridge_ports regex (\n", nil},
		{"name after noregex", dhcp + "iface br1 inet dhcp\n bridge_ports regex x noregex eth0\n", errors.AlreadyExists},
		{"name that is an expression", dhcp + "iface br1 inet dhcp\n bridge_ports e.*\n", nil},
		{"old name of slaves", dhcp + "iface bond0 inet dhcp\n slaves eth0\n", errors.AlreadyExists},
		{"no bond", dhcp + " bond-master none\n", nil},
		{"other is mapped", "mapping eth1 wl*\n script x\n" + dhcp, nil},
		{"bridge is mapped", "mapping br?\n script x\n" + dhcp, errors.NotSupported},
		{"set is mapped", "mapping [!w]*\n script x\n" + dhcp, errors.NotSupported},
		{"by address as another", "auto mac/52:54:00:12:34:56=lan\n" + dhcp, errors.NotSupported},
		{"by pattern as another", "allow-hotplug /e*=lan\n" + dhcp, errors.NotSupported},
		{"by pattern as itself", "auto /e*=eth0\n" + dhcp, nil},
		{"others by pattern", "auto /w*=lan /dev/eth0=lan\n" + dhcp, nil},
		{"inherits nothing", "iface eth0 inherits office\n", errors.NotValid},
		{"inherits itself", "iface eth0 inherits eth0\n", errors.NotValid},
		{"inherits in a circle", "iface eth0 inherits a\niface a inherits b\niface b inherits a\n", errors.NotValid},
		{"other family", "iface eth0 ipx static\n", errors.NotSupported},
		{"no method", "iface eth0 inet\n", errors.NotValid},
		{"other method", "iface eth0 inet6 v4tunnel\n", errors.NotSupported},
		{"Open vSwitch", dhcp + " ovs_type OVSPort\n", errors.NotSupported},
		{"bridge's alias is there", dhcp + "iface br0:1 inet dhcp\n", errors.AlreadyExists},
		{"scripts for others only", "no-scripts eth* br1\n" + dhcp, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := bridge(c.text)
			switch {
			case c.kind == nil && (err != nil || !strings.Contains(out, "iface br0 inet dhcp\n")):
				t.Fatalf("%v\n%s", err, out)
			case c.kind != nil && (!errors.Is(err, c.kind) || !strings.HasPrefix(err.Error(), "/etc/network/interfaces:")):
				t.Fatalf("%v, want %v with file and line", err, c.kind)
			}
		})
	}
}

func TestTheBridgeComesUpWhereTheDeviceDoes(t *testing.T) {
	for _, c := range []struct{ before, want string }{
		{"auto eth0\n", "auto eth0 br0\n"},
		{"allow-auto  eth1\teth0 eth2\n", "allow-auto  eth1\teth0 br0 eth2\n"},
		{"auto eth0 eth0\nauto eth0\n", "auto eth0 eth0 br0\nauto eth0 br0\n"},
		{"auto eth01 xeth0\n", "auto eth01 xeth0\n"},
		{"auto eth0=eth0\n", "auto eth0=eth0 br0\n"},
		{"auto \\\n  eth0 \\\n  eth1\n", "auto eth0 br0 eth1\n"},
		{"allow-hotplug eth0\n", "allow-hotplug eth0\nauto br0\n"},
		{"allow-hotplug eth0\nauto eth0\n", "allow-hotplug eth0\nauto eth0 br0\n"},
		{"allow-hotplug /e*\n", "allow-hotplug /e*\nauto br0\n"},
		{"auto mac/52:54:00:*\n", "auto mac/52:54:00:*\nauto br0\n"},
		{"auto /w*\n", "auto /w*\n"},
		{"no-auto-down eth0\n", "no-auto-down eth0 br0\n"},
		{"rename x=eth0\n", "rename x=eth0\n"},
		{"auto\n", "auto\n"},
	} {
		out, err := bridge(c.before + dhcp)
		if got, _, _ := strings.Cut(out, "iface eth0"); err != nil || got != c.want {
			t.Errorf("%q becomes %q, want %q (%v)", c.before, got, c.want, err)
		}
	}
}

func TestCommandsNameTheBridgeForAddressesAndRoutes(t *testing.T) {
	for _, c := range []struct{ before, want string }{
		{"up ip route add default via 10.0.0.1 dev eth0", "up ip route add default via 10.0.0.1 dev br0"},
		{"post-up /sbin/ip -6 addr add fd00::1/64 dev eth0 || true", "post-up /sbin/ip -6 addr add fd00::1/64 dev br0 || true"},
		{"down route del -net 10.0.0.0/8 dev eth0", "down route del -net 10.0.0.0/8 dev br0"},
		{"pre-down /sbin/route del default dev eth0", "pre-down /sbin/route del default dev br0"},
		{"up ip link set dev eth0 up", "up ip link set dev eth0 up"},
		{"pre-up ethtool -s eth0 wol g", "pre-up ethtool -s eth0 wol g"},
		{"up ip route add 10.0.0.0/8 dev eth1", "up ip route add 10.0.0.0/8 dev eth1"},
		{"description route of dev eth0", "description route of dev eth0"},
	} {
		out, err := bridge(dhcp + "  " + c.before + "\n")
		if err != nil || !strings.HasSuffix(out, "\n  "+c.want+"\n") {
			t.Errorf("%q: %v\n%s", c.before, err, out)
		}
	}
}

func TestBothFamiliesShareWhatStaysWithThePort(t *testing.T) {
	out, err := bridge("iface eth0 inet dhcp\n # one\n hwaddress 02:00:00:00:00:01\n mtu 1400\niface eth0 inet6 auto\n # two\n hwaddress 02:00:00:00:00:01\n mtu 1400\n")
	want := "iface eth0 inet manual\n # one\n hwaddress 02:00:00:00:00:01\n # two\n mtu 1400\n\niface br0 inet dhcp\n"
	if err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	if strings.Count(out, "hwaddress") != 1 || strings.Count(out, "mtu 1400") != 3 {
		t.Errorf("options are lost or doubled in\n%s", out)
	}
}

// A stanza may come to stand before others; what asked for one more line at the end
// of the file must not get one.
func TestABackslashAtTheEndOfTheFileJoinsNothing(t *testing.T) {
	for _, end := range []string{"\\", "\\\n", "", "\n"} {
		out, err := bridge("iface eth0 inet static\n address 10.0.0.2/24\n hwaddress 02:00:00:00:00:01" + end)
		if err != nil || !strings.Contains(out, "\n hwaddress 02:00:00:00:00:01\n\niface br0 inet static\n bridge_ports eth0\n") {
			t.Errorf("%q: %v\n%s", end, err, out)
		}
		out, err = bridge("iface eth0 inet dhcp" + end)
		if err != nil || !strings.Contains(out, "iface br0 inet dhcp\n    bridge_ports eth0\n") {
			t.Errorf("%q: %v\n%s", end, err, out)
		}
	}
}

func TestLargeFilesAreReadInNoTime(t *testing.T) {
	for name, text := range map[string]string{
		"stanzas":   strings.Repeat("iface a inet dhcp\n", 14000) + dhcp,
		"options":   dhcp + strings.Repeat(" up x\n", 40000),
		"lines":     strings.Repeat("\n", 200000) + dhcp,
		"backslash": strings.Repeat("\\\n", 100000) + dhcp,
		"templates": templates(6000) + "iface eth0 inet manual inherits t0\n",
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := bridge(text); err != nil && !errors.Is(err, errors.NotValid) {
				t.Errorf("%v, %d bytes", err, len(out))
			}
		})
	}
}

func templates(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "iface t%d inherits t%d\n", i, i+1)
	}
	return text.String()
}
