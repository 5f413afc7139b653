package kernel_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
)

func open(t *testing.T, ns nettest.Namespace) kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(ns.Path, clock.WallClock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func look(t *testing.T, k kernel.Kernel) kernel.State {
	t.Helper()
	s, err := k.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rich has everything that addresses and routes may have.
var rich = []string{
	"addr add 10.1.0.5/24 brd + dev eth0 label eth0:1",
	"addr add 10.1.0.6/24 dev eth0",
	"addr add 10.1.0.7/32 dev eth0 scope link",
	"addr add 10.2.0.5/24 dev eth0 metric 77 valid_lft 3600 preferred_lft 1800",
	"addr add 10.3.0.5 peer 10.3.0.6/32 dev eth0",
	"addr add fd00:1::5/64 dev eth0 nodad",
	"addr add fd00:1::6/64 dev eth0 nodad noprefixroute valid_lft 3600 preferred_lft 0",
	"route add default via 10.1.0.1 dev eth0 metric 100",
	"route add default via 10.1.0.2 dev eth0 metric 200 mtu 1400 initcwnd 20",
	"route add default via 192.0.2.1 dev eth0 onlink table 1000 proto static",
	"route add 10.9.0.0/16 via 10.1.0.3 src 10.1.0.6 tos 0x10",
	"route add 10.8.0.0/16 nexthop via 10.1.0.3 dev eth0 weight 3 nexthop via 10.4.0.3 dev eth1 weight 1",
	"route add blackhole 10.7.0.0/16",
	"route add unreachable 10.6.0.0/16 metric 9",
	"-6 route add default via fe80::1 dev eth0 metric 50 pref high",
	"-6 route add default via fd00:1::1 dev eth0 metric 60 proto ra expires 1800",
	"-6 route add fd00:9::/64 via fd00:1::3 src fd00:1::5 table 1000",
	"-6 route add fd00:8::/64 nexthop via fd00:1::3 dev eth0 weight 2 nexthop via fd00:4::3 dev eth1",
	"-6 route add fd00:7::/64 from fd00:1::/64 via fd00:1::3 dev eth0",
	"route add 10.5.0.0/16 via inet6 fe80::9 dev eth0",
}

// What is taken away by its own message and given back by it is as it was.
func TestEverythingComesBackAsItWas(t *testing.T) {
	net := nettest.New(t)
	net.Join(t, "eth0", "near0")
	net.Join(t, "eth1", "near1")
	net.Host.Do(t, "ip", "addr", "add", "10.4.0.5/24", "dev", "eth1")
	net.Host.Do(t, "ip", "addr", "add", "fd00:4::5/64", "dev", "eth1", "nodad")
	for _, line := range rich {
		net.Host.Do(t, "sh", "-c", "ip "+line)
	}
	k := open(t, net.Host)
	want := net.Host.Snapshot(t)
	s := look(t, k)
	for _, r := range s.RoutesOver("eth0") {
		do(t, k, kernel.Change{Verb: kernel.RemoveRoute, Route: r})
	}
	for _, a := range s.AddressesOf("eth0") {
		do(t, k, kernel.Change{Verb: kernel.RemoveAddress, Address: a})
	}
	if gone := look(t, k); len(gone.AddressesOf("eth0"))+len(gone.RoutesOver("eth0")) > 0 {
		t.Fatalf("left: %v %v", gone.AddressesOf("eth0"), gone.RoutesOver("eth0"))
	}
	for _, a := range kernel.AddOrder(s.AddressesOf("eth0")) {
		do(t, k, kernel.Change{Verb: kernel.AddAddress, Address: a})
	}
	for _, r := range s.RoutesOver("eth0") {
		do(t, k, kernel.Change{Verb: kernel.AddRoute, Route: r})
		do(t, k, kernel.Change{Verb: kernel.AddRoute, Route: r})
	}
	// IPv6 takes a moment to do what follows from an address.
	got := ""
	for end := time.Now().Add(5 * time.Second); got != want && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got = net.Host.Snapshot(t)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again := look(t, k)
	for i, a := range s.AddressesOf("eth0") {
		if got := again.AddressesOf("eth0")[i]; got.Key() != a.Key() || got.Dynamic != a.Dynamic {
			t.Errorf("address %d is %s, want %s", i, got, a)
		}
	}
}

func do(t *testing.T, k kernel.Kernel, c kernel.Change) {
	t.Helper()
	if err := k.Do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}
