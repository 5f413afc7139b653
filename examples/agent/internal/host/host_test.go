package host

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

func TestOwnNetworkIsSeen(t *testing.T) {
	seen, err := Network{}.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(seen, func(i facade.NetworkInterface) bool { return i.Type == facade.LoopbackInterface })
	if at < 0 || seen[at].Name == "" || seen[at].MTU == 0 || seen[at].Index == 0 {
		t.Errorf("got %+v, want a loopback device", seen)
	}
	for _, i := range seen {
		if err := i.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestCancelledObservationIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Network{}).Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestDevicesAreDescribed(t *testing.T) {
	sys := t.TempDir()
	for _, dir := range []string{"br0/bridge", "bond0/bonding", "eth0", "lo"} {
		if err := os.MkdirAll(filepath.Join(sys, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../devices/virtual/net/br0", filepath.Join(sys, "eth0/master")); err != nil {
		t.Fatal(err)
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	up := net.FlagUp | net.FlagRunning
	_, local, err := net.ParseCIDR("10.0.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	local.IP = net.IPv4(10, 0, 0, 5)
	for _, test := range []struct {
		device net.Interface
		addrs  []net.Addr
		want   facade.NetworkInterface
	}{
		{net.Interface{Index: 1, Name: "lo", MTU: 65536, Flags: up | net.FlagLoopback}, nil,
			facade.NetworkInterface{Index: 1, Name: "lo", MTU: 65536, Type: facade.LoopbackInterface, Up: true}},
		{net.Interface{Index: 2, Name: "br0", MTU: 1500, HardwareAddr: mac}, []net.Addr{local, &net.TCPAddr{}},
			facade.NetworkInterface{Index: 2, Name: "br0", MTU: 1500, MAC: "02:00:00:00:00:01", Type: facade.BridgeInterface,
				Addresses: []string{"10.0.0.5/24"}}},
		{net.Interface{Index: 3, Name: "bond0", MTU: 1500, Flags: up}, nil,
			facade.NetworkInterface{Index: 3, Name: "bond0", MTU: 1500, Type: facade.BondInterface, Up: true}},
		{net.Interface{Index: 4, Name: "eth0", MTU: 1500, Flags: up}, nil,
			facade.NetworkInterface{Index: 4, Name: "eth0", MTU: 1500, Type: facade.EthernetInterface, Parent: "br0", Up: true}},
		{net.Interface{Index: 5, Name: "tunl0", MTU: 1480, HardwareAddr: net.HardwareAddr{1, 2, 3, 4}}, nil,
			facade.NetworkInterface{Index: 5, Name: "tunl0", MTU: 1480, Type: facade.EthernetInterface}},
	} {
		got := describe(test.device, test.addrs, sys)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("got %+v\nwant %+v", got, test.want)
		}
		if err := got.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestNothingIsBridged(t *testing.T) {
	if err := (Bridges{}).Bridge(t.Context(), nil, 0); err != nil {
		t.Error(err)
	}
	err := Bridges{}.Bridge(t.Context(), []facade.DeviceToBridge{{Device: "eth0", Bridge: "br0"}}, 0)
	if !errors.Is(err, errors.NotSupported) {
		t.Errorf("got %v, want NotSupported", err)
	}
}
