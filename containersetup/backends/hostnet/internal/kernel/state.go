package kernel

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// State is a network at one moment.
type State struct {
	// Links are in the order of their numbers.
	Links []Link
	// Addresses are in the kernel's order.
	Addresses []Address
	// Routes are those of all tables that somebody made; what the kernel makes by
	// itself, with an address or a link, is left out.
	Routes []Route
}

// Kinds of links, as the kernel calls them.
const (
	Device   = "device" // whose driver says no more
	Loopback = "loopback"
	Bridge   = "bridge"
	Bond     = "bond"
	VLAN     = "vlan"
	Veth     = "veth"
	Tun      = "tun"
)

// Link is one network interface.
type Link struct {
	// Index is the kernel's number of it.
	Index int
	// Name is at most 15 bytes.
	Name string
	// Kind is one of the constants, or another word of the kernel's.
	Kind string
	// Ethernet tells whether it speaks it.
	Ethernet bool
	// MAC is empty where it has none.
	MAC string
	MTU int
	Up  bool
	// Master is the bridge of a port or the bond of a member.
	Master string
	// Parent is the device that it is on top of, as of a VLAN.
	Parent string
	// PeerElsewhere tells that its other end is in another network namespace.
	PeerElsewhere bool
}

// Address is one address of a link.
type Address struct {
	Link string
	// Prefix is the address with its network's length.
	Prefix netip.Prefix
	// Peer is the other end's of a point-to-point link; else not valid.
	Peer netip.Addr
	// Dynamic tells that it has a lifetime, as one from DHCP or from a router.
	Dynamic bool
	// Temporary tells that the kernel made it for privacy, and will another.
	Temporary bool
	// Useless tells that another host has it already.
	Useless bool
	// Raw is the kernel's message.
	Raw []byte
}

// Key is the same for the same address of the same link.
func (a Address) Key() string {
	return fmt.Sprintf("%s %s %s", a.Link, a.Prefix, a.Peer)
}

// String returns it as in "10.0.0.5/24 of eth0".
func (a Address) String() string { return fmt.Sprintf("%s of %s", a.Prefix, a.Link) }

// On returns the address for another link.
func (a Address) On(link string) Address {
	a.Link = link
	return a
}

// Hop is one way that a route may take.
type Hop struct {
	// Link may be empty, as for a route that leads nowhere.
	Link string
	// Gateway is not valid for a network that is on the link itself.
	Gateway netip.Addr
}

// Route is one route.
type Route struct {
	// Dst is the network that it leads to; of length zero for a default route.
	Dst netip.Prefix
	// From is where packets come from that may take it; not valid for anywhere.
	From netip.Prefix
	// Src is the address that is preferred for packets of our own.
	Src    netip.Addr
	Table  uint32
	Metric uint32
	// Protocol, Type, Scope and TOS are the kernel's numbers.
	Protocol, Type, Scope, TOS uint8
	Hops                       []Hop
	// Raw is the kernel's message.
	Raw []byte
}

// TableMain is the table that is asked first for what no rule is about.
const TableMain = 254

// unicast is the type of a route that leads somewhere.
const unicast = 1

// Default tells whether it is for everything that no other route is for.
func (r Route) Default() bool {
	return r.Dst.Bits() == 0 && r.Type == unicast && !r.From.IsValid()
}

// Over tells whether it may go over a link.
func (r Route) Over(link string) bool {
	return slices.ContainsFunc(r.Hops, func(h Hop) bool { return h.Link == link })
}

// Direct tells whether it leads to networks that are on the link itself. Others need one
// of these before them.
func (r Route) Direct() bool {
	return !slices.ContainsFunc(r.Hops, func(h Hop) bool { return h.Gateway.IsValid() })
}

// On returns the route with one link in another's place.
func (r Route) On(from, to string) Route {
	r.Hops = slices.Clone(r.Hops)
	for i := range r.Hops {
		if r.Hops[i].Link == from {
			r.Hops[i].Link = to
		}
	}
	return r
}

// Key is the same for the same route over the same links.
func (r Route) Key() string {
	return fmt.Sprintf("%s hops %v", r.Way(), r.Hops)
}

// Way is the same for the same route whatever links it goes over, to gateways that are
// the same.
func (r Route) Way() string {
	gateways := make([]string, len(r.Hops))
	for i, h := range r.Hops {
		gateways[i] = h.Gateway.String()
	}
	return fmt.Sprintf("%s from %s src %s table %d metric %d tos %d type %d via %v", r.Dst, r.From, r.Src, r.Table, r.Metric, r.TOS, r.Type, gateways)
}

// String returns it as in "default via 10.0.0.1 dev eth0 metric 100".
func (r Route) String() string {
	words := []string{r.Dst.String()}
	if r.Dst.Bits() == 0 {
		words[0] = "default"
	}
	for _, h := range r.Hops {
		if h.Gateway.IsValid() {
			words = append(words, "via", h.Gateway.String())
		}
		if h.Link != "" {
			words = append(words, "dev", h.Link)
		}
	}
	if r.Metric != 0 {
		words = append(words, fmt.Sprintf("metric %d", r.Metric))
	}
	if r.Table != TableMain {
		words = append(words, fmt.Sprintf("table %d", r.Table))
	}
	return strings.Join(words, " ")
}

// Link returns the link of that name.
func (s State) Link(name string) (Link, bool) {
	i := slices.IndexFunc(s.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return Link{}, false
	}
	return s.Links[i], true
}

// AddressesOf returns the addresses of a link, in the kernel's order.
func (s State) AddressesOf(link string) []Address {
	var of []Address
	for _, a := range s.Addresses {
		if a.Link == link {
			of = append(of, a)
		}
	}
	return of
}

// RoutesOver returns the routes that may go over a link, those first on which others
// depend.
func (s State) RoutesOver(link string) []Route {
	var over []Route
	for _, r := range s.Routes {
		if r.Over(link) {
			over = append(over, r)
		}
	}
	SortRoutes(over)
	return over
}

// SortRoutes puts those first on which others depend.
func SortRoutes(routes []Route) {
	rank := func(r Route) int {
		if r.Direct() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Dst.Bits(), a.Dst.Bits()))
	})
}

// AddOrder returns addresses of one link in an order in which adding them gives the order
// that they are in: the kernel appends to IPv4's, and prepends to IPv6's.
func AddOrder(addresses []Address) []Address {
	var four, six []Address
	for _, a := range addresses {
		if a.Prefix.Addr().Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	slices.Reverse(six)
	return slices.Concat(four, six)
}

// Ports returns the names of the links that are under a bridge or in a bond.
func (s State) Ports(master string) []string {
	var names []string
	for _, l := range s.Links {
		if l.Master == master {
			names = append(names, l.Name)
		}
	}
	return names
}
