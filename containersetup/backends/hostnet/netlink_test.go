package hostnet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
	"github.com/sutler-dev/sutler/facade"
)

// Networks of hosts, each as what is done to a world.
var networks = []struct {
	name string
	lay  func(*testing.T, *world)
	// devices are bridged, reached can be before, throughout and after.
	devices, reached []string
}{{
	name: "IPv4 and IPv6, both with a default route",
	lay: func(t *testing.T, w *world) {
		w.static(t, "eth0", "1", true)
		w.far(t)
	},
	devices: []string{"eth0"},
	reached: []string{"10.1.0.1", "fd00:1::1", "192.0.2.9", "fd00:ff::9"},
}, {
	name:    "no default route",
	lay:     func(t *testing.T, w *world) { w.static(t, "eth0", "1", false) },
	devices: []string{"eth0"},
	reached: []string{"10.1.0.1", "fd00:1::1"},
}, {
	name: "several devices, two default routes",
	lay: func(t *testing.T, w *world) {
		w.static(t, "eth0", "1", true)
		w.static(t, "eth1", "2", true)
		w.static(t, "eth2", "3", false)
		w.far(t)
	},
	devices: []string{"eth1", "eth0"},
	reached: []string{"10.1.0.1", "10.2.0.1", "10.3.0.1", "fd00:1::1", "fd00:2::1", "192.0.2.9"},
}, {
	name: "no address at all, and switched off",
	lay: func(t *testing.T, w *world) {
		w.static(t, "eth0", "1", true)
		w.Join(t, "eth1", "near1b")
		w.ip(t, "link set eth1 down")
	},
	devices: []string{"eth1"},
	reached: []string{"10.1.0.1"},
}, {
	name: "an MTU of its own, a bridge that is there already",
	lay: func(t *testing.T, w *world) {
		w.static(t, "eth0", "1", true)
		w.Neighbour.Do(t, "ip", "link", "set", "near1", "mtu", "9000")
		w.ip(t, "link set eth0 mtu 9000", "link add br-eth0 address 02:00:00:00:00:09 type bridge")
	},
	devices: []string{"eth0"},
	reached: []string{"10.1.0.1", "fd00:1::1"},
}, {
	name: "all that addresses and routes may have",
	lay: func(t *testing.T, w *world) {
		w.static(t, "eth0", "1", true)
		w.static(t, "eth1", "4", false)
		w.far(t)
		w.ip(t,
			"addr add 10.1.0.6/24 dev eth0 label eth0:1",
			"addr add 10.1.0.7/32 dev eth0 scope link",
			"addr add 10.2.0.5/24 dev eth0 metric 77 valid_lft 3600 preferred_lft 1800",
			"addr add 10.3.0.5 peer 10.3.0.6/32 dev eth0",
			"addr add fd00:1::6/64 dev eth0 nodad noprefixroute valid_lft 3600 preferred_lft 0",
			"route add default via 10.1.0.2 dev eth0 metric 200 mtu 1400",
			"route add default via 192.0.2.1 dev eth0 onlink table 1000 proto static",
			"rule add from 10.1.0.6 lookup 1000",
			"route add 10.9.0.0/16 via 10.1.0.3 src 10.1.0.6 tos 0x10",
			"route add 10.8.0.0/16 nexthop via 10.1.0.3 dev eth0 weight 3 nexthop via 10.4.0.3 dev eth1 weight 1",
			"route add 10.7.0.0/16 via 10.4.0.3 dev eth1 src 10.1.0.6",
			"route add blackhole 10.6.0.0/16",
			"-6 route add default via fe80::1 dev eth0 metric 50 pref high",
			"-6 route add default via fd00:1::1 dev eth0 metric 60 proto ra expires 1800",
			"-6 route add fd00:9::/64 via fd00:1::3 src fd00:1::5 table 1000",
			"-6 route add fd00:8::/64 nexthop via fd00:1::3 dev eth0 weight 2 nexthop via fd00:4::3 dev eth1",
			"-6 route add fd00:7::/64 from fd00:1::/64 via fd00:1::3 dev eth0",
		)
	},
	devices: []string{"eth0"},
	reached: []string{"10.1.0.1", "fd00:1::1", "10.4.0.1", "192.0.2.9"},
}}

func TestDevicesAreBridgedByNetlink(t *testing.T) {
	t.Parallel()
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			w := newWorld(t)
			network.lay(t, w)
			before := w.state(t)
			untouched := others(w.Host.Snapshot(t), network.devices)
			w.Host.MustReach(t, network.reached...)
			w.mustBridge(t, network.devices...)
			t.Logf("packets could be lost for %s", w.last.Sub(w.under))
			for _, name := range network.devices {
				// A device that two routes share has moved for each.
				if len(network.devices) == 1 {
					was, _ := before.Link(name)
					if !was.Up {
						continue
					}
					w.wantMoved(t, before, name)
				}
			}
			w.wantBridged(t, network.devices...)
			w.wantClean(t)
			w.Host.MustReach(t, network.reached...)
			if got := others(w.Host.Snapshot(t), network.devices); got != untouched {
				t.Errorf("what is not the devices' became\n%s\nfrom\n%s", got, untouched)
			}
			// Again is success, and nothing.
			n := len(w.changes())
			w.mustBridge(t, network.devices...)
			if got := w.changes(); len(got) != n {
				t.Errorf("did %v", got[n:])
			}
		})
	}
}

// others returns the lines of a snapshot that name none of the devices.
func others(snapshot string, devices []string) string {
	var out []string
	for line := range strings.Lines(snapshot) {
		if !slices.ContainsFunc(devices, func(d string) bool { return strings.Contains(line, d) }) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func (w *world) wantBridged(t *testing.T, devices ...string) {
	t.Helper()
	now := w.state(t)
	for _, name := range devices {
		device, _ := now.Link(name)
		on, _ := now.Link(BridgeName(name))
		if device.Master != BridgeName(name) || !device.Up || !on.Up || on.MAC != device.MAC || on.MTU != device.MTU {
			t.Errorf("%+v is not under %+v", device, on)
		}
	}
}

// IPv6 looks for others who have an address for a second or two. One that moves is not
// without use meanwhile; that which the kernel gives every link may be.
func TestIPv6IsThereAtOnce(t *testing.T) {
	w := newWorld(t)
	w.Host.DetectDuplicates(t, true)
	w.Join(t, "eth0", "near1")
	w.Neighbour.Do(t, "sh", "-c", "ip addr add fd00:1::1/64 dev near1 nodad")
	w.ip(t, "addr add fd00:1::5/64 dev eth0")
	nettest.Wait(t, "the address to be usable", func() bool {
		return !strings.Contains(w.Host.Do(t, "ip", "-6", "addr", "show"), "tentative")
	})
	w.ip(t, "-6 route add default via fd00:1::1 dev eth0 src fd00:1::5")
	before := w.state(t)
	w.mustBridge(t, "eth0")
	if now := w.Host.Do(t, "ip", "-6", "addr", "show", "scope", "global"); strings.Contains(now, "tentative") {
		t.Error(now)
	}
	w.wantMoved(t, before, "eth0")
	w.Host.MustReach(t, "fd00:1::1")
}

const errBoom = errors.ConstError("boom")

// Each step of each network fails, once before it was done and once after. All is as it
// was, and the error says which step.
func TestAFailureAtEveryStepPutsAllBack(t *testing.T) {
	t.Parallel()
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			w := newWorld(t)
			network.lay(t, w)
			w.Host.MustReach(t, network.reached...)
			snapshot := w.Host.Snapshot(t)
			for step := 0; ; step++ {
				failed := ""
				at := len(w.changes()) + step
				w.before = func(n int, c kernel.Change) error {
					if n == at {
						failed = c.String()
						return fmt.Errorf("%s: %w", c, errBoom)
					}
					return nil
				}
				err := w.bridge(t, network.devices...)
				if failed == "" {
					if err != nil {
						t.Errorf("without a failure: %v", err)
					}
					t.Logf("%d steps", step)
					break
				}
				if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), failed) || !strings.HasPrefix(err.Error(), "all was put back after: bridging ") {
					t.Errorf("step %d, %s: got %v", step, failed, err)
				}
				w.wantSame(t, snapshot)
				w.wantClean(t)
			}
			w.Host.MustReach(t, network.reached...)
		})
	}
}

func TestAHostThatWasPutBackIsReachable(t *testing.T) {
	w := newWorld(t)
	networks[0].lay(t, w)
	snapshot := w.Host.Snapshot(t)
	w.before = func(_ int, c kernel.Change) error {
		if c.Verb == kernel.SetUp && c.Link == "eth0" {
			return errBoom
		}
		return nil
	}
	if err := w.bridge(t, "eth0"); !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	w.Host.MustReach(t, networks[0].reached...)
	w.wantSame(t, snapshot)
}

// The context ends at every step.
func TestTheEndOfTheContextAtEveryStepPutsAllBack(t *testing.T) {
	w := newWorld(t)
	networks[0].lay(t, w)
	snapshot := w.Host.Snapshot(t)
	for step := 0; ; step++ {
		ctx, cancel := context.WithCancel(t.Context())
		at := len(w.changes()) + step
		ended := false
		w.before = func(n int, _ kernel.Change) error {
			if n == at {
				ended = true
				cancel()
			}
			return nil
		}
		err := w.bridger.Bridge(ctx, []facade.DeviceToBridge{device("eth0")}, 0)
		cancel()
		if !ended {
			if err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("step %d: got %v", step, err)
		}
		w.wantSame(t, snapshot)
	}
}

// H6, github.com/juju/juju/issues/17419: the bridge got another MAC, and DHCP dropped the
// host.
func TestH6ABridgeWithAnotherMACIsPutBack(t *testing.T) {
	w := newWorld(t)
	networks[0].lay(t, w)
	snapshot := w.Host.Snapshot(t)
	w.before = func(_ int, c kernel.Change) error {
		if c.Verb == kernel.SetMaster && c.Master != "" {
			w.ip(t, "link set br-eth0 address 02:00:00:00:00:09")
		}
		return nil
	}
	err := w.bridge(t, "eth0")
	if err == nil || !strings.Contains(err.Error(), "afterwards there was no MAC") {
		t.Errorf("got %v", err)
	}
	w.wantSame(t, snapshot)
}

// H7, github.com/canonical/lxd/issues/3778: the default route was lost in mid-change. Here
// somebody takes it, and an address, as soon as they are on the bridge.
func TestH7WhatIsLostIsPutBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ steal, want string }{
		"default route":      {"route del default", "no route default via 10.1.0.1 dev eth0 metric 101"},
		"IPv6 default route": {"-6 route del default", "no route default via fd00:1::1 dev eth0 metric 101"},
		"address":            {"addr del 10.1.0.5/24 dev br-eth0", "no address 10.1.0.5/24 of eth0"},
		"bridge":             {"link del br-eth0", "no eth0 under br-eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			networks[0].lay(t, w)
			snapshot := w.Host.Snapshot(t)
			w.before = func(_ int, c kernel.Change) error {
				if c.Verb == kernel.SetUp && c.Link == "eth0" {
					w.ip(t, test.steal)
				}
				return nil
			}
			err := w.bridge(t, "eth0")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			w.wantSame(t, snapshot)
			w.Host.MustReach(t, networks[0].reached...)
		})
	}
}

// What others do to what is theirs, meanwhile, is neither a loss nor put back.
func TestWhatIsOthersIsLeftToThem(t *testing.T) {
	w := newWorld(t)
	networks[0].lay(t, w)
	w.ip(t, "link add lxdbr0 type bridge", "addr add 10.77.0.1/24 dev lxdbr0", "link set lxdbr0 up")
	w.before = func(_ int, c kernel.Change) error {
		if c.Verb == kernel.SetMaster && c.Master != "" {
			w.ip(t, "link del lxdbr0", "link add other0 type bridge", "addr add 10.78.0.1/24 dev other0")
		}
		return nil
	}
	w.mustBridge(t, "eth0")
	now := w.Host.Snapshot(t)
	if strings.Contains(now, "lxdbr0") || !strings.Contains(now, "10.78.0.1/24") {
		t.Error(now)
	}
}

func TestAnInterfaceThatVanishesInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, verb := range []kernel.Verb{kernel.AddBridge, kernel.SetMaster, kernel.AddAddress, kernel.AddRoute} {
		t.Run(string(verb), func(t *testing.T) {
			w := newWorld(t)
			w.static(t, "eth0", "1", false)
			w.static(t, "eth1", "2", true)
			want := others(w.Host.Snapshot(t), []string{"eth0"})
			w.before = func(_ int, c kernel.Change) error {
				if c.Verb == verb && len(w.state(t).Links) > 2 {
					_, _ = w.Host.Try("ip", "link", "del", "eth0")
				}
				return nil
			}
			err := w.bridge(t, "eth1", "eth0")
			if err == nil || !strings.Contains(err.Error(), "could not be put back: ") || !strings.Contains(err.Error(), "interface eth0, which is gone") {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
			w.before = nil
			w.wantSame(t, want)
			w.Host.MustReach(t, "10.2.0.1", "fd00:2::1")
			// It does not keep the rest from being bridged for ever.
			for range maxAttempts {
				err = w.bridge(t, "eth1")
			}
			if err != nil {
				t.Error(err)
			}
			w.wantBridged(t, "eth1")
		})
	}
}

func TestConcurrentCallsBridgeEachDeviceOnce(t *testing.T) {
	w := newWorld(t)
	for n := range 3 {
		w.static(t, fmt.Sprint("eth", n), fmt.Sprint(n+1), n == 0)
	}
	before := w.state(t)
	other, err := NewBridger(w.config)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			b := []*Bridger{w.bridger, other}[n%2]
			if err := b.Bridge(t.Context(), []facade.DeviceToBridge{device(fmt.Sprint("eth", n%3))}, 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for n := range 3 {
		w.wantMoved(t, before, fmt.Sprint("eth", n))
		w.Host.MustReach(t, fmt.Sprintf("10.%d.0.1", n+1))
	}
	w.wantClean(t)
}

// The neighbour's DHCP server gave the address; its lifetime goes with it.
func TestAnAddressFromDHCPMovesByNetlink(t *testing.T) {
	w := newWorld(t)
	w.dhcp(t, "eth0")
	w.lease(t, "eth0")
	before := w.state(t)
	address := before.AddressesOf("eth0")[0]
	if !address.Dynamic {
		t.Fatalf("%s has no lifetime", address)
	}
	w.mustBridge(t, "eth0")
	w.wantMoved(t, before, "eth0")
	if now := w.state(t).AddressesOf("br-eth0")[0]; !now.Dynamic || now.Prefix != address.Prefix {
		t.Errorf("became %+v, from %+v", now, address)
	}
	w.Host.MustReach(t, "10.1.0.1")
}

// dhcp lays a cable with a DHCP server at the other end, which gives 10.1.0.50.
func (w *world) dhcp(t *testing.T, device string) {
	t.Helper()
	nettest.Need(t, "dnsmasq", "busybox")
	w.Join(t, device, "near1")
	w.Neighbour.Do(t, "ip", "addr", "add", "10.1.0.1/24", "dev", "near1")
	dir := t.TempDir()
	w.Neighbour.Start(t, "dnsmasq", "--keep-in-foreground", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=near1", "--bind-interfaces", "--user=root",
		"--dhcp-range=10.1.0.100,10.1.0.200,10m", "--dhcp-option=3,10.1.0.1", "--dhcp-authoritative",
		"--dhcp-host="+w.Host.MAC(t, device)+",10.1.0.50", "--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file=")
}

// lease has a client get an address once, as a client does that a host has running.
func (w *world) lease(t *testing.T, device string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	text := "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\nip addr add $ip/$mask dev $interface valid_lft $lease preferred_lft $lease\nip route add default via $router dev $interface\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	nettest.Wait(t, "an address by DHCP", func() bool {
		_, err := w.Host.Try("busybox", "udhcpc", "-f", "-q", "-n", "-t", "3", "-T", "1", "-i", device, "-s", script)
		return err == nil
	})
}

func TestABondIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	if !w.Has("bond") {
		t.Log("this kernel has no bonds; that they are waited for is held by the kernel in memory")
		return
	}
	w.static(t, "eth0", "1", false)
	w.Join(t, "eth1", "near2")
	w.ip(t, "link add bond0 type bond mode active-backup", "link set eth1 down", "link set eth1 master bond0", "link set bond0 up", "addr add 10.9.0.5/24 dev bond0")
	w.Neighbour.Do(t, "ip", "addr", "add", "10.9.0.1/24", "dev", "near2")
	before := w.state(t)
	begun := time.Now()
	if err := w.bridger.Bridge(t.Context(), []facade.DeviceToBridge{device("bond0")}, time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("took %s", took)
	}
	w.wantMoved(t, before, "bond0")
	w.Host.MustReach(t, "10.9.0.1")
	if err := w.bridge(t, "eth1"); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), `member of bond "bond0"`) {
		t.Errorf("a member: %v", err)
	}
}

func TestAVLANIsBridged(t *testing.T) {
	w := newWorld(t)
	if !w.Has("vlan") {
		t.Log("this kernel has no VLANs; what is decided about them is held by the kernel in memory")
		return
	}
	w.static(t, "eth0", "1", true)
	w.ip(t, "link add link eth0 name eth0.5 type vlan id 5", "link set eth0.5 up", "addr add 10.5.0.5/24 dev eth0.5")
	w.Neighbour.Do(t, "sh", "-c", "ip link add link near1 name near1.5 type vlan id 5 && ip link set near1.5 up && ip addr add 10.5.0.1/24 dev near1.5")
	before := w.state(t)
	w.mustBridge(t, "eth0.5")
	w.wantMoved(t, before, "eth0.5")
	w.Host.MustReach(t, "10.5.0.1", "10.1.0.1")
	w.mustBridge(t, "eth0")
	w.Host.MustReach(t, "10.5.0.1", "10.1.0.1")
}

// A container that is put under the bridge reaches the neighbour, and is no interface of
// the host's.
func TestAContainerUnderTheBridgeReachesTheNeighbour(t *testing.T) {
	w := newWorld(t)
	networks[0].lay(t, w)
	w.mustBridge(t, "eth0")
	inside := nettest.New(t).Host
	w.ip(t, "link add veth1a2b3c4d type veth peer name eth0 netns "+inside.Name, "link set veth1a2b3c4d master br-eth0", "link set veth1a2b3c4d up")
	inside.Do(t, "sh", "-c", "ip addr add 10.1.0.77/24 dev eth0 && ip link set eth0 up")
	inside.MustReach(t, "10.1.0.1", "10.1.0.5")
	w.Neighbour.MustReach(t, "10.1.0.77")
}
