package hostnet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
	"github.com/sutler-dev/sutler/facade"
)

func observe(t *testing.T, s kernel.State, change ...func(*ObserverConfig)) []facade.NetworkInterface {
	t.Helper()
	files := &hosttest.Host{}
	files.SetFile("/etc/resolv.conf", "# by hand\nnameserver 10.1.0.53\nsearch example.com\nnameserver fd00::53\n")
	config := ObserverConfig{Host: files, ContainerBridges: []string{"mybr"}}
	for _, c := range change {
		c(&config)
	}
	o, err := NewObserver(config)
	if err != nil {
		t.Fatal(err)
	}
	o.open = func() (kernel.Kernel, error) { return &memory{s: s}, nil }
	seen, err := o.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range seen {
		if err := i.Validate(); err != nil {
			t.Error(err)
		}
	}
	return seen
}

func TestWhatIsObserved(t *testing.T) {
	dns := []string{"10.1.0.53", "fd00::53"}
	bridge := facade.NetworkInterface{MTU: 1500, Type: facade.BridgeInterface, Up: true}
	of := func(i facade.NetworkInterface, index int, name, mac string) facade.NetworkInterface {
		i.Index, i.Name, i.MAC = index, name, mac
		return i
	}
	want := []facade.NetworkInterface{
		{Index: 1, Name: "lo", MTU: 65536, Type: facade.LoopbackInterface, Addresses: []string{"127.0.0.1/8"}, Up: true},
		{Index: 2, Name: "eth0", MAC: mac0, MTU: 1500, Type: facade.EthernetInterface, Addresses: []string{"10.1.0.5/24", "fd00:1::5/64", "fe80::5/64"}, Gateway: "10.1.0.1", DNS: dns, Up: true},
		{Index: 3, Name: "eth1", MAC: mac1, MTU: 1500, Type: facade.EthernetInterface, Parent: "bond0", Up: true},
		{Index: 4, Name: "bond0", MAC: mac1, MTU: 1500, Type: facade.BondInterface, Addresses: []string{"10.2.0.5/24"}, Gateway: "fd00:2::1", DNS: dns, Up: true},
		{Index: 5, Name: "eth0.5", MAC: mac0, MTU: 1500, Type: facade.VLANInterface, Parent: "eth0", Addresses: []string{"10.5.0.5/24"}, DNS: dns, Up: true},
		{Index: 6, Name: "br-eth2", MAC: mac2, MTU: 1500, Type: facade.BridgeInterface, Addresses: []string{"10.3.0.5/24"}, DNS: dns, Up: true},
		{Index: 7, Name: "eth2", MAC: mac2, MTU: 1500, Type: facade.EthernetInterface, Parent: "br-eth2", Up: true},
		// Bridges that serve containers: there, but not with addresses.
		of(bridge, 8, "lxdbr0", "00:16:3e:00:00:01"),
		of(bridge, 9, "virbr7", "52:54:00:00:00:01"),
		of(bridge, 10, "mybr", "52:54:00:00:00:02"),
		{Index: 16, Name: "eth9", MAC: "00:16:3e:00:00:09", MTU: 1500, Type: facade.EthernetInterface, Addresses: []string{"10.9.0.9/24"}, DNS: dns, Up: true},
		{Index: 17, Name: "wg0", MTU: 1420, Type: "wireguard", Addresses: []string{"10.99.0.1/32"}, DNS: dns, Up: true},
		of(bridge, 18, "br-0123456789ab", "02:42:00:00:00:01"),
		{Index: 19, Name: "br-used", MAC: "02:00:00:00:00:19", MTU: 1500, Type: facade.BridgeInterface, Addresses: []string{"10.44.0.1/24"}, DNS: dns, Up: true},
		{Index: 20, Name: "br-empty", MAC: "02:00:00:00:00:20", MTU: 1500, Type: facade.BridgeInterface, Addresses: []string{"fe80::20/64"}, Up: true},
		{Index: 21, Name: "tun0", MTU: 1400, Type: "tun", Up: true},
	}
	if diff := cmp.Diff(want, observe(t, zoo())); diff != "" {
		t.Error(diff)
	}
	// In whatever order the kernel tells of them.
	s := zoo()
	slices.Reverse(s.Links)
	if diff := cmp.Diff(want, observe(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestAddressesThatAreOfNoUseAreLeftOut(t *testing.T) {
	s := kernel.State{Links: []kernel.Link{card(2, "eth0", mac0)}, Addresses: []kernel.Address{
		addr("eth0", "10.1.0.5/24"), {Link: "eth0", Prefix: addr("eth0", "fd00::1/64").Prefix, Useless: true}, addr("gone0", "10.7.0.5/24"),
	}}
	if got := observe(t, s); len(got) != 1 || !slices.Equal(got[0].Addresses, []string{"10.1.0.5/24"}) {
		t.Errorf("got %+v", got)
	}
}

// A name that the controller would refuse does not cost the others.
func TestAnInterfaceThatCannotBeToldIsLeftOut(t *testing.T) {
	var log logs
	s := kernel.State{Links: []kernel.Link{card(2, "eth\xe9", mac0), card(3, "eth1", mac1), card(4, "a:b", mac2)}}
	got := observe(t, s, func(c *ObserverConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	if len(got) != 1 || got[0].Name != "eth1" || strings.Count(log.String(), "an interface is left out") != 2 {
		t.Errorf("got %+v\n%s", got, &log)
	}
}

func TestResolvers(t *testing.T) {
	const stub = "nameserver 127.0.0.53\noptions edns0 trust-ad\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"no file", nil, nil},
		{"nothing in it", map[string]string{"/etc/resolv.conf": "search x\n# nameserver 10.0.0.1\n"}, nil},
		{"some", map[string]string{"/etc/resolv.conf": "nameserver 10.0.0.1\n\tnameserver  10.0.0.2 # second\nnameserver 10.0.0.1\n"}, []string{"10.0.0.1", "10.0.0.2"}},
		{"a stub", map[string]string{"/etc/resolv.conf": stub, "/run/systemd/resolve/resolv.conf": "nameserver 10.0.0.3\n"}, []string{"10.0.0.3"}},
		{"a stub alone", map[string]string{"/etc/resolv.conf": stub}, nil},
		{"a stub, and one beside it", map[string]string{"/etc/resolv.conf": stub + "nameserver 10.0.0.4\n", "/run/systemd/resolve/resolv.conf": "nameserver 10.0.0.3\n"}, []string{"10.0.0.4"}},
		{"other loopbacks", map[string]string{"/etc/resolv.conf": "nameserver ::1\nnameserver 127.1.2.3\nnameserver 0.0.0.0\nnameserver ::ffff:10.0.0.5\n"}, []string{"::ffff:10.0.0.5"}},
		{"with a zone", map[string]string{"/etc/resolv.conf": "nameserver fe80::1%eth0\nnameserver fe80::2\n"}, []string{"fe80::2"}},
		{"no addresses", map[string]string{"/etc/resolv.conf": "nameserver\nnameserver x\nnameserver 10.0.0\nnameservers 10.0.0.1\n\x00\xff\n"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := &hosttest.Host{}
			for name, text := range test.files {
				h.SetFile(name, text)
			}
			got, err := resolvers(t.Context(), h)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
	h := &hosttest.Host{}
	h.CrashAfter(0)
	if _, err := resolvers(t.Context(), h); !errors.Is(err, hosttest.ErrCrashed) {
		t.Errorf("got %v", err)
	}
}

func TestTheGateway(t *testing.T) {
	for want, routes := range map[string][]kernel.Route{
		"":         nil,
		"10.0.0.1": {defaultRoute("eth0", "fe80::1", 1), defaultRoute("eth0", "10.0.0.2", 5), defaultRoute("eth0", "10.0.0.1", 0)},
		"fe80::1":  {defaultRoute("eth1", "10.0.0.1", 0), defaultRoute("eth0", "fe80::2", 5), defaultRoute("eth0", "fe80::1", 1)},
		"10.0.0.3": {{Dst: defaultRoute("", "10.0.0.1", 0).Dst, Table: kernel.TableMain, Type: 1, Hops: []kernel.Hop{
			{Link: "eth1", Gateway: defaultRoute("", "10.0.0.4", 0).Hops[0].Gateway}, {Link: "eth0", Gateway: defaultRoute("", "10.0.0.3", 0).Hops[0].Gateway},
		}}},
	} {
		other := defaultRoute("eth0", "10.9.9.9", 0)
		other.Table = 1000
		r := rules{state: kernel.State{Routes: append(routes, other)}}
		if got := r.gateway("eth0"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The real thing: a host that is bridged, with a container.
func TestAHostIsObserved(t *testing.T) {
	w := newWorld(t)
	w.static(t, "eth0", "1", true)
	w.ip(t, "link add lxdbr0 type bridge", "addr add 10.77.0.1/24 dev lxdbr0", "link set lxdbr0 up", "link add dead0 type veth peer name dead1")
	inside := nettest.New(t).Host
	w.ip(t, "link add veth1a2b3c4d type veth peer name eth0 netns "+inside.Name, "link set veth1a2b3c4d master lxdbr0", "link set veth1a2b3c4d up")
	inside.Do(t, "sh", "-c", "ip addr add 10.77.0.5/24 dev eth0 && ip link set eth0 up && ip route add default via 10.77.0.1")
	see := func(ns nettest.Namespace) map[string]facade.NetworkInterface {
		o, err := NewObserver(ObserverConfig{Host: host.New(host.Config{}), Namespace: ns.Path})
		if err != nil {
			t.Fatal(err)
		}
		seen, err := o.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]facade.NetworkInterface{}
		for n, i := range seen {
			if err := i.Validate(); err != nil {
				t.Error(err)
			}
			if n > 0 && seen[n-1].Index >= i.Index {
				t.Errorf("%s comes after %s", i.Name, seen[n-1].Name)
			}
			out[i.Name] = i
		}
		return out
	}
	seen := see(w.Host)
	// By a file that is open, too.
	f, err := os.Open(w.Host.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if diff := cmp.Diff(seen, see(nettest.Namespace{Path: fmt.Sprint("/proc/self/fd/", f.Fd())})); diff != "" {
		t.Error(diff)
	}
	eth0 := seen["eth0"]
	if eth0.MAC != w.Host.MAC(t, "eth0") || eth0.Gateway != "10.1.0.1" || !slices.Contains(eth0.Addresses, "10.1.0.5/24") || !slices.Contains(eth0.Addresses, "fd00:1::5/64") ||
		eth0.Type != facade.EthernetInterface || eth0.MTU != 1500 || !eth0.Up || eth0.Parent != "" {
		t.Errorf("got %+v", eth0)
	}
	if lxdbr0 := seen["lxdbr0"]; lxdbr0.Type != facade.BridgeInterface || len(lxdbr0.Addresses) > 0 || !lxdbr0.Up {
		t.Errorf("got %+v", lxdbr0)
	}
	if _, ok := seen["veth1a2b3c4d"]; ok || seen["dead0"].Up || seen["dead0"].Name == "" || seen["lo"].Type != facade.LoopbackInterface {
		t.Errorf("got %+v", seen)
	}
	// The container, were it itself a host.
	if eth0 := see(inside)["eth0"]; eth0.Gateway != "10.77.0.1" || !slices.Equal(eth0.Addresses[:1], []string{"10.77.0.5/24"}) {
		t.Errorf("got %+v", eth0)
	}
	w.mustBridge(t, "eth0")
	seen = see(w.Host)
	if br := seen["br-eth0"]; br.Gateway != "10.1.0.1" || !slices.Contains(br.Addresses, "10.1.0.5/24") || br.MAC != eth0.MAC {
		t.Errorf("got %+v", br)
	}
	if port := seen["eth0"]; port.Parent != "br-eth0" || len(port.Addresses) > 0 || port.Gateway != "" {
		t.Errorf("got %+v", port)
	}
}

// Interfaces come and go while they are read.
func TestInterfacesThatVanishAreLeftOut(t *testing.T) {
	w := newWorld(t)
	w.static(t, "eth0", "1", true)
	o, err := NewObserver(ObserverConfig{Host: host.New(host.Config{}), Namespace: w.Host.Path})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_, _ = w.Host.Try("sh", "-c", fmt.Sprintf("ip link add dev%d type veth peer name peer%d; ip addr add 10.200.0.1/24 dev dev%d; ip link set dev%d up; ip link del dev%d", n, n, n, n, n))
		}
	})
	for range 300 {
		seen, err := o.Observe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(seen, func(i facade.NetworkInterface) bool { return i.Name == "eth0" && i.Gateway == "10.1.0.1" }) {
			t.Fatalf("without eth0: %+v", seen)
		}
	}
	cancel()
	all.Wait()
}

func TestObservingWhatIsNotThere(t *testing.T) {
	o, err := NewObserver(ObserverConfig{Host: &hosttest.Host{}, Namespace: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "network namespace") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, err = NewObserver(ObserverConfig{Host: &hosttest.Host{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
