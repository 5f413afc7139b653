package facade_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

func TestContainerTypes(t *testing.T) {
	for _, kind := range []facade.ContainerType{"lxd", "kvm", "a", "podman", "k8s", "x0123456789", facade.ContainerType(strings.Repeat("a", 32))} {
		checkNotValid(t, kind.Validate(), "")
	}
	for _, kind := range []facade.ContainerType{
		"", "LXD", "0", "1lxd", "lxd/1", "../lxd", "lxd-2", "lxd_2", "lx d", "lxd\n", "\nlxd", "lxd\x00", "-lxd", "é", "\xff",
		facade.ContainerType(strings.Repeat("a", 33)),
	} {
		checkNotValid(t, kind.Validate(), "container type")
	}
	err := facade.ContainerType(strings.Repeat("A", 10_000)).Validate()
	checkNotValid(t, err, `AAA..."`)
	if len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestHarvestModes(t *testing.T) {
	for _, test := range []struct {
		mode          facade.HarvestMode
		dead, unknown bool
	}{
		{facade.HarvestNone, false, false},
		{facade.HarvestUnknown, false, true},
		{facade.HarvestDestroyed, true, false},
		{facade.HarvestAll, true, true},
	} {
		checkNotValid(t, test.mode.Validate(), "")
		if test.mode.Dead() != test.dead || test.mode.Unknown() != test.unknown {
			t.Errorf("%s takes away dead ones: %v, unknown ones: %v", test.mode, test.mode.Dead(), test.mode.Unknown())
		}
	}
	for _, mode := range []facade.HarvestMode{"", "All", "all ", "dead", "all\n", facade.HarvestMode(strings.Repeat("x", 10_000))} {
		checkNotValid(t, mode.Validate(), "want none, unknown, destroyed or all")
		// What is not known takes nothing away.
		if mode.Dead() || mode.Unknown() {
			t.Errorf("%.20q takes something away", mode)
		}
	}
}

func TestContainerProvisioningInfoValidateNamesTheField(t *testing.T) {
	type info = facade.ContainerProvisioningInfo
	for _, test := range []struct {
		name   string
		change func(*info)
		want   string
	}{
		{"base only", func(*info) {}, ""},
		{"no base", func(i *info) { i.Base = facade.Base{} }, "empty Base.Name"},
		{"no name", func(i *info) { i.Base.Name = "" }, "empty Base.Name"},
		{"no channel", func(i *info) { i.Base.Channel = "" }, "empty Base.Channel"},
		{"nothing", func(i *info) { *i = info{UserData: facade.NewSecret(canary)} }, "empty Base.Name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := info{Base: facade.Base{Name: "ubuntu", Channel: "22.04"}}
			test.change(&i)
			err := i.Validate()
			checkNotValid(t, err, test.want)
			if strings.Contains(fmt.Sprintf("%v %+v", err, i), canary) {
				t.Error("the user data is shown")
			}
		})
	}
}

// aNetworkInterface has every field set, and passes.
func aNetworkInterface() facade.NetworkInterface {
	return facade.NetworkInterface{
		Index:     2,
		Name:      "eth0",
		MAC:       "00:16:3e:00:00:01",
		MTU:       1500,
		Type:      facade.EthernetInterface,
		Parent:    "br-eth0",
		Addresses: []string{"10.0.0.5/24", "fd00::5/64"},
		Gateway:   "10.0.0.1",
		DNS:       []string{"10.0.0.2", "fd00::2"},
		Up:        true,
	}
}

func TestNetworkInterfaceValidateNamesTheField(t *testing.T) {
	type iface = facade.NetworkInterface
	for _, test := range []struct {
		name   string
		change func(*iface)
		want   string
	}{
		{"all there", func(*iface) {}, ""},
		{"only a name", func(i *iface) { *i = iface{Name: "lo"} }, ""},
		{"nothing", func(i *iface) { *i = iface{} }, "Name: interface name"},
		{"the longest name", func(i *iface) { i.Name = strings.Repeat("a", 15) }, ""},
		{"a longer name", func(i *iface) { i.Name = strings.Repeat("a", 16) }, "Name: interface name"},
		{"a name of ten thousand bytes", func(i *iface) { i.Name = strings.Repeat("a", 10_000) }, "Name: interface name"},
		{"a dot", func(i *iface) { i.Name = "." }, "Name: interface name"},
		{"the parent directory", func(i *iface) { i.Name = ".." }, "Name: interface name"},
		{"a VLAN's name", func(i *iface) { i.Name = "bond0.100" }, ""},
		{"a path", func(i *iface) { i.Name = "a/b" }, "Name: interface name"},
		{"an alias", func(i *iface) { i.Name = "eth0:1" }, "Name: interface name"},
		{"a space", func(i *iface) { i.Name = "eth 0" }, "Name: interface name"},
		{"a line break", func(i *iface) { i.Name = "eth0\n" }, "Name: interface name"},
		{"a zero byte", func(i *iface) { i.Name = "eth0\x00" }, "Name: interface name"},
		{"not ASCII", func(i *iface) { i.Name = "éth0" }, "Name: interface name"},
		{"a deletion", func(i *iface) { i.Name = "eth0\x7f" }, "Name: interface name"},
		{"negative index", func(i *iface) { i.Index = -1 }, `"eth0": negative Index or MTU`},
		{"negative MTU", func(i *iface) { i.MTU = -1 }, `"eth0": negative Index or MTU`},
		{"no MAC", func(i *iface) { i.MAC = "" }, ""},
		{"another form of MAC", func(i *iface) { i.MAC = "0016.3e00.0001" }, ""},
		{"an Infiniband MAC", func(i *iface) { i.MAC = strings.Repeat("00:", 19) + "01" }, ""},
		{"half a MAC", func(i *iface) { i.MAC = "00:16:3e" }, `"eth0": MAC`},
		{"a long MAC", func(i *iface) { i.MAC = strings.Repeat("00:", 10_000) }, `"eth0": MAC`},
		{"a type of its own", func(i *iface) { i.Type = "tunnel" }, ""},
		{"a parent that is none", func(i *iface) { i.Parent = "br/eth0" }, `"eth0": Parent`},
		{"no addresses", func(i *iface) { i.Addresses = nil }, ""},
		{"an empty address", func(i *iface) { i.Addresses[0] = "" }, "Addresses[0]"},
		{"an address without its network", func(i *iface) { i.Addresses[1] = "fd00::5" }, "Addresses[1]"},
		{"too wide a network", func(i *iface) { i.Addresses[1] = "10.0.0.5/33" }, "Addresses[1]"},
		{"an address in a zone", func(i *iface) { i.Addresses[1] = "fe80::1%eth0/64" }, "Addresses[1]"},
		{"a long address", func(i *iface) { i.Addresses[1] = strings.Repeat("1", 10_000) }, "Addresses[1]"},
		{"no gateway", func(i *iface) { i.Gateway = "" }, ""},
		{"a gateway in its own network", func(i *iface) { i.Gateway = "fe80::1" }, ""},
		{"a gateway with a network", func(i *iface) { i.Gateway = "10.0.0.1/24" }, "Gateway"},
		{"a gateway's name", func(i *iface) { i.Gateway = "router" }, "Gateway"},
		{"an empty name server", func(i *iface) { i.DNS[0] = "" }, "DNS[0]"},
		{"a name server's name", func(i *iface) { i.DNS[1] = "dns.example.com" }, "DNS[1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := aNetworkInterface()
			test.change(&i)
			err := i.Validate()
			checkNotValid(t, err, test.want)
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestDeviceToBridgeValidateNamesTheField(t *testing.T) {
	type device = facade.DeviceToBridge
	for _, test := range []struct {
		device device
		want   string
	}{
		{device{Device: "eth0", Bridge: "br-eth0", MAC: "00:16:3e:00:00:01"}, ""},
		{device{Device: "eth0", Bridge: "br-eth0"}, ""},
		{device{}, "Device: interface name"},
		{device{Bridge: "br-eth0"}, "Device: interface name"},
		{device{Device: "eth0"}, "Bridge: interface name"},
		{device{Device: "../eth0", Bridge: "br-eth0"}, "Device: interface name"},
		{device{Device: "eth0", Bridge: strings.Repeat("b", 16)}, "Bridge: interface name"},
		{device{Device: "eth0", Bridge: "br-eth0", MAC: "00:16"}, "MAC"},
	} {
		checkNotValid(t, test.device.Validate(), test.want)
	}
}

func TestHostChangesValidateNamesTheField(t *testing.T) {
	type changes = facade.HostChanges
	type devices = []facade.DeviceToBridge
	eth0, eth1 := facade.DeviceToBridge{Device: "eth0", Bridge: "br0"}, facade.DeviceToBridge{Device: "eth1", Bridge: "br1"}
	for _, test := range []struct {
		name    string
		changes changes
		want    string
	}{
		{"nothing", changes{}, ""},
		{"an empty list", changes{Devices: devices{}}, ""},
		{"two", changes{Devices: devices{eth0, eth1}, ReconfigureDelay: 20 * time.Second}, ""},
		{"two under one bridge", changes{Devices: devices{eth0, {Device: "eth1", Bridge: "br0"}}}, ""},
		{"the longest delay", changes{ReconfigureDelay: 5 * time.Minute}, ""},
		{"a longer delay", changes{ReconfigureDelay: 5*time.Minute + 1}, "ReconfigureDelay 5m0.000000001s (want 0 to 5m0s)"},
		{"a negative delay", changes{ReconfigureDelay: -1}, "ReconfigureDelay -1ns"},
		{"an empty device", changes{Devices: devices{eth0, {}}}, "Devices[1]: Device"},
		{"a device without a bridge", changes{Devices: devices{{Device: "eth0"}}}, "Devices[0]: Bridge"},
		{"a device twice", changes{Devices: devices{eth0, eth1, eth0}}, `Devices[2]: device "eth0" named twice`},
		{"a device under two bridges", changes{Devices: devices{eth0, {Device: "eth0", Bridge: "br1"}}}, `Devices[1]: device "eth0" named twice`},
	} {
		t.Run(test.name, func(t *testing.T) { checkNotValid(t, test.changes.Validate(), test.want) })
	}
}

func TestAddressesWithZonesAreRefused(t *testing.T) {
	for _, i := range []facade.NetworkInterface{
		{Name: "eth0", Gateway: "fe80::1%x\ny"},
		{Name: "eth0", DNS: []string{"fe80::1%eth0"}},
	} {
		if err := i.Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("Validate() of %+v = %v, want NotValid", i, err)
		}
	}
}

func TestBridgesOfThemselvesAreRefused(t *testing.T) {
	for _, devices := range [][]facade.DeviceToBridge{
		{{Device: "br0", Bridge: "br0"}},
		{{Device: "eth0", Bridge: "br0"}, {Device: "br0", Bridge: "br1"}},
	} {
		if err := (facade.HostChanges{Devices: devices}).Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("Validate() of %v = %v, want NotValid", devices, err)
		}
	}
}
