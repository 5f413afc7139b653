package facade_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// checkRefusal wants an error that can be told, whatever it was made from.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errors.NotValid) {
		t.Fatalf("%v is no NotValid", err)
	}
	if len(err.Error()) > 600 {
		t.Fatalf("an error of %d bytes", len(err.Error()))
	}
	if strings.ContainsAny(err.Error(), "\n\r\x00") {
		t.Fatalf("%q is more than a line", err.Error())
	}
}

// checkInterfaceName holds what a back end takes for granted of a name that
// passed: it becomes an element of a path, an argument, a word in a file.
func checkInterfaceName(t *testing.T, name string) {
	t.Helper()
	if name == "" || len(name) > 15 || name == "." || name == ".." {
		t.Fatalf("%q is no interface's name", name)
	}
	if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == '/' || c == ':' }) {
		t.Fatalf("%q has a character that it should not have", name)
	}
}

// FuzzHostChanges: whatever a controller answers, validating it does not panic,
// and what passes can be handed to a bridger.
func FuzzHostChanges(f *testing.F) {
	f.Add("eth0", "", "br-eth0", "eth1", "", "br-eth1", int64(0))
	f.Add("eth0", "00:16:3e:00:00:01", "br-eth0", "eth0", "", "br-eth0", int64(time.Minute))
	f.Add("", "", "", "", "", "", int64(-1))
	f.Add("../../etc", "x", "br eth0", "eth0\n", "", "br\x00", int64(1)<<62)
	f.Fuzz(func(t *testing.T, device1, mac1, bridge1, device2, mac2, bridge2 string, delay int64) {
		changes := facade.HostChanges{
			Devices: []facade.DeviceToBridge{
				{Device: device1, MAC: mac1, Bridge: bridge1},
				{Device: device2, MAC: mac2, Bridge: bridge2},
			},
			ReconfigureDelay: time.Duration(delay),
		}
		before := slices.Clone(changes.Devices)
		err := changes.Validate()
		if !slices.Equal(before, changes.Devices) {
			t.Fatalf("%+v became %+v", before, changes.Devices)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if device1 == device2 {
			t.Fatalf("%q is bridged twice", device1)
		}
		if changes.ReconfigureDelay < 0 || changes.ReconfigureDelay > 5*time.Minute {
			t.Fatalf("a delay of %s", changes.ReconfigureDelay)
		}
		for _, d := range changes.Devices {
			checkInterfaceName(t, d.Device)
			checkInterfaceName(t, d.Bridge)
			if _, err := net.ParseMAC(d.MAC); d.MAC != "" && err != nil {
				t.Fatalf("MAC %q", d.MAC)
			}
			if err := d.Validate(); err != nil {
				t.Fatalf("alone, %+v is %v", d, err)
			}
		}
	})
}

// FuzzObservedNetwork: whatever a host's network looks like, validating it does
// not panic, and of what passes the addresses are addresses.
func FuzzObservedNetwork(f *testing.F) {
	f.Add(2, "eth0", "00:16:3e:00:00:01", 1500, "ethernet", "br-eth0", "10.0.0.5/24,fd00::5/64", "10.0.0.1", "10.0.0.2,fd00::2")
	f.Add(1, "lo", "", 65536, "loopback", "", "127.0.0.1/8", "", "")
	f.Add(0, "", "", 0, "", "", "", "", "")
	f.Add(-1, "bond0.100", "x", -1, "vlan", "bond/0", "10.0.0.5", "fe80::1%eth0", ",")
	f.Fuzz(func(t *testing.T, index int, name, mac string, mtu int, kind, parent, addresses, gateway, dns string) {
		i := facade.NetworkInterface{
			Index: index, Name: name, MAC: mac, MTU: mtu, Type: facade.InterfaceType(kind), Parent: parent,
			Addresses: split(addresses), Gateway: gateway, DNS: split(dns),
		}
		if err := i.Validate(); err != nil {
			checkRefusal(t, err)
			return
		}
		checkInterfaceName(t, i.Name)
		if i.Parent != "" {
			checkInterfaceName(t, i.Parent)
		}
		if i.Index < 0 || i.MTU < 0 {
			t.Fatalf("%+v passed", i)
		}
		if _, err := net.ParseMAC(i.MAC); i.MAC != "" && err != nil {
			t.Fatalf("MAC %q", i.MAC)
		}
		for _, a := range i.Addresses {
			p, err := netip.ParsePrefix(a)
			if err != nil || !p.IsValid() || p.Addr().Zone() != "" {
				t.Fatalf("address %q", a)
			}
		}
		for _, a := range append(i.DNS, i.Gateway) {
			if _, err := netip.ParseAddr(a); a != "" && err != nil {
				t.Fatalf("address %q", a)
			}
		}
	})
}

// split makes a list of a fuzzed string; nil of an empty one.
func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
