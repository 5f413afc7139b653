package hostnet

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
)

// memory is a kernel in memory, for what the kernel of a test's machine may not have. It
// knows nothing of what follows from a change, but that with a link its addresses, routes
// and ports' bonds go.
type memory struct {
	mu sync.Mutex
	s  kernel.State
	// before is asked before each change.
	before func(c kernel.Change) error
	done   []kernel.Change
}

func (m *memory) Close() {}

func (m *memory) Look(ctx context.Context) (kernel.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return kernel.State{Links: slices.Clone(m.s.Links), Addresses: slices.Clone(m.s.Addresses), Routes: slices.Clone(m.s.Routes)}, ctx.Err()
}

func (m *memory) Do(ctx context.Context, c kernel.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.before != nil {
		if err := m.before(c); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = append(m.done, c)
	return m.do(c)
}

func (m *memory) do(c kernel.Change) error {
	s := &m.s
	switch c.Verb {
	case kernel.AddBridge:
		s.Links = append(s.Links, kernel.Link{Index: 100 + len(m.done), Name: c.Link, Kind: kernel.Bridge, Ethernet: true, MAC: c.MAC, MTU: c.MTU})
		return nil
	case kernel.AddAddress:
		if !slices.ContainsFunc(s.Addresses, func(a kernel.Address) bool { return a.Key() == c.Address.Key() }) {
			s.Addresses = append(s.Addresses, c.Address)
		}
		return nil
	case kernel.RemoveAddress:
		s.Addresses = slices.DeleteFunc(s.Addresses, func(a kernel.Address) bool { return a.Key() == c.Address.Key() })
		return nil
	case kernel.AddRoute:
		if !slices.ContainsFunc(s.Routes, func(r kernel.Route) bool { return r.Key() == c.Route.Key() }) {
			s.Routes = append(s.Routes, c.Route)
		}
		return nil
	case kernel.RemoveRoute:
		s.Routes = slices.DeleteFunc(s.Routes, func(r kernel.Route) bool { return r.Key() == c.Route.Key() })
		return nil
	case kernel.RemoveLink:
		s.Links = slices.DeleteFunc(s.Links, func(l kernel.Link) bool { return l.Name == c.Link })
		s.Addresses = slices.DeleteFunc(s.Addresses, func(a kernel.Address) bool { return a.Link == c.Link })
		s.Routes = slices.DeleteFunc(s.Routes, func(r kernel.Route) bool { return r.Over(c.Link) })
		for i := range s.Links {
			if s.Links[i].Master == c.Link {
				s.Links[i].Master = ""
			}
		}
		return nil
	}
	for i := range s.Links {
		l := &s.Links[i]
		if l.Name != c.Link {
			continue
		}
		switch c.Verb {
		case kernel.SetMaster:
			l.Master = c.Master
		case kernel.SetUp:
			l.Up = true
		case kernel.SetDown:
			l.Up = false
		case kernel.SetMAC:
			l.MAC = c.MAC
		case kernel.SetMTU:
			l.MTU = c.MTU
		}
		return nil
	}
	return errors.NotFoundf("interface %q", c.Link)
}

// card returns a network card.
func card(index int, name, mac string) kernel.Link {
	return kernel.Link{Index: index, Name: name, Kind: kernel.Device, Ethernet: true, MAC: mac, MTU: 1500, Up: true}
}

func with(l kernel.Link, change func(*kernel.Link)) kernel.Link {
	change(&l)
	return l
}

func addr(link, prefix string) kernel.Address {
	return kernel.Address{Link: link, Prefix: netip.MustParsePrefix(prefix)}
}

func defaultRoute(link, gateway string, metric uint32) kernel.Route {
	gw := netip.MustParseAddr(gateway)
	any4 := netip.MustParsePrefix("0.0.0.0/0")
	if gw.Is6() {
		any4 = netip.MustParsePrefix("::/0")
	}
	return kernel.Route{Dst: any4, Table: kernel.TableMain, Metric: metric, Type: 1, Hops: []kernel.Hop{{Link: link, Gateway: gw}}}
}

const (
	mac0 = "02:00:00:00:00:10"
	mac1 = "02:00:00:00:00:11"
	mac2 = "02:00:00:00:00:12"
)

// zoo has a link of each kind.
func zoo() kernel.State {
	return kernel.State{
		Links: []kernel.Link{
			{Index: 1, Name: "lo", Kind: kernel.Loopback, MTU: 65536, Up: true},
			card(2, "eth0", mac0),
			with(card(3, "eth1", mac1), func(l *kernel.Link) { l.Master = "bond0" }),
			with(card(4, "bond0", mac1), func(l *kernel.Link) { l.Kind = kernel.Bond }),
			with(card(5, "eth0.5", mac0), func(l *kernel.Link) { l.Kind, l.Parent = kernel.VLAN, "eth0" }),
			with(card(6, "br-eth2", mac2), func(l *kernel.Link) { l.Kind = kernel.Bridge }),
			with(card(7, "eth2", mac2), func(l *kernel.Link) { l.Master = "br-eth2" }),
			with(card(8, "lxdbr0", "00:16:3e:00:00:01"), func(l *kernel.Link) { l.Kind = kernel.Bridge }),
			with(card(9, "virbr7", "52:54:00:00:00:01"), func(l *kernel.Link) { l.Kind = kernel.Bridge }),
			with(card(10, "mybr", "52:54:00:00:00:02"), func(l *kernel.Link) { l.Kind = kernel.Bridge }),
			with(card(11, "veth12ab34cd", "fe:00:00:00:00:01"), func(l *kernel.Link) {
				l.Kind, l.PeerElsewhere, l.Master = kernel.Veth, true, "br-eth2"
			}),
			with(card(12, "custom0", "fe:00:00:00:00:02"), func(l *kernel.Link) {
				l.Kind, l.PeerElsewhere, l.Master = kernel.Veth, true, "br-eth2"
			}),
			with(card(13, "local0", "fe:00:00:00:00:03"), func(l *kernel.Link) { l.Kind, l.Master = kernel.Veth, "lxdbr0" }),
			with(card(14, "vnet0", "fe:54:00:00:00:01"), func(l *kernel.Link) { l.Kind, l.Master = kernel.Tun, "virbr7" }),
			with(card(15, "veth0000aaaa", "fe:00:00:00:00:04"), func(l *kernel.Link) { l.Kind, l.PeerElsewhere = kernel.Veth, true }),
			with(card(16, "eth9", "00:16:3e:00:00:09"), func(l *kernel.Link) { l.Kind, l.PeerElsewhere = kernel.Veth, true }),
			{Index: 17, Name: "wg0", Kind: "wireguard", MTU: 1420, Up: true},
			with(card(18, "br-0123456789ab", "02:42:00:00:00:01"), func(l *kernel.Link) { l.Kind = kernel.Bridge }),
			with(card(19, "br-used", "02:00:00:00:00:19"), func(l *kernel.Link) { l.Kind = kernel.Bridge }),
			with(card(20, "br-empty", "02:00:00:00:00:20"), func(l *kernel.Link) { l.Kind = kernel.Bridge }),
			{Index: 21, Name: "tun0", Kind: kernel.Tun, MTU: 1400, Up: true},
		},
		Addresses: []kernel.Address{
			addr("lo", "127.0.0.1/8"), addr("eth0", "10.1.0.5/24"), addr("eth0", "fd00:1::5/64"), addr("eth0", "fe80::5/64"),
			addr("bond0", "10.2.0.5/24"), addr("eth0.5", "10.5.0.5/24"), addr("br-eth2", "10.3.0.5/24"), addr("lxdbr0", "10.77.0.1/24"),
			addr("virbr7", "192.168.122.1/24"), addr("mybr", "10.88.0.1/24"), addr("eth9", "10.9.0.9/24"), addr("wg0", "10.99.0.1/32"),
			addr("br-0123456789ab", "172.18.0.1/16"), addr("br-used", "10.44.0.1/24"), addr("br-empty", "fe80::20/64"),
		},
		Routes: []kernel.Route{
			defaultRoute("eth0", "10.1.0.2", 200), defaultRoute("eth0", "10.1.0.1", 100), defaultRoute("eth0", "fe80::1", 50),
			defaultRoute("bond0", "fd00:2::1", 10), defaultRoute("lxdbr0", "10.77.0.9", 1),
		},
	}
}
