package hostnet

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/facade"
)

// bridging is one device that is to be put under a bridge.
type bridging struct {
	Device, Bridge string
	// MAC is the device's, and is to be the bridge's.
	MAC string
	// Bond tells that the device is one.
	Bond bool
}

// checkRequest returns errors.NotValid for what can be refused without a look at the
// network.
func checkRequest(devices []facade.DeviceToBridge, delay time.Duration) error {
	if delay < 0 {
		return errors.NotValidf("delay of %s", delay)
	}
	devicesSeen, bridgesSeen := map[string]bool{}, map[string]bool{}
	for _, d := range devices {
		if err := d.Validate(); err != nil {
			return errors.Annotatef(err, "device %q", shorten(d.Device))
		}
		switch {
		case devicesSeen[d.Device]:
			return errors.NotValidf("device %q: named twice:", d.Device)
		case bridgesSeen[d.Bridge]:
			return errors.NotValidf("device %q: bridge %q for two devices", d.Device, d.Bridge)
		}
		devicesSeen[d.Device], bridgesSeen[d.Bridge] = true, true
	}
	for _, d := range devices {
		if devicesSeen[d.Bridge] {
			return errors.NotValidf("device %q: bridge %q, which is to be bridged itself,", d.Device, d.Bridge)
		}
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// decide returns the devices that are not yet under their bridges. The error names the
// device and the rule that is against it.
func (r rules) decide(devices []facade.DeviceToBridge) ([]bridging, error) {
	var todo []bridging
	for _, d := range devices {
		b, done, err := r.decideOne(d)
		if err != nil {
			return nil, errors.Annotatef(err, "device %q", d.Device)
		}
		if !done {
			todo = append(todo, b)
		}
	}
	return todo, nil
}

func (r rules) decideOne(d facade.DeviceToBridge) (b bridging, done bool, err error) {
	l, ok := r.state.Link(d.Device)
	if !ok {
		return b, false, errors.NotFoundf("interface of that name")
	}
	if want, err := net.ParseMAC(d.MAC); d.MAC != "" && (err != nil || want.String() != l.MAC) {
		return b, false, errors.NotValidf("MAC %s, while the interface has %q,", d.MAC, l.MAC)
	}
	master, _ := r.state.Link(l.Master)
	switch {
	case l.Kind == kernel.Loopback:
		return b, false, errors.NotValidf("bridging the loopback interface")
	case r.containerBridge(l.Name):
		return b, false, errors.NotValidf("bridging a bridge that serves containers")
	case l.Kind == kernel.Bridge:
		return b, false, errors.NotValidf("bridging a bridge")
	case r.containerEnd(l):
		return b, false, errors.NotValidf("bridging what belongs to a container")
	case l.Master == d.Bridge && master.Kind == kernel.Bridge:
		return b, true, nil
	case master.Kind == kernel.Bond:
		return b, false, errors.NotValidf("bridging a member of bond %q", l.Master)
	case l.Master != "":
		return b, false, errors.NotValidf("bridging what is under %q already", l.Master)
	case !l.Ethernet:
		return b, false, errors.NotValidf("bridging an interface of kind %q", l.Kind)
	}
	b = bridging{Device: d.Device, Bridge: d.Bridge, MAC: l.MAC, Bond: l.Kind == kernel.Bond}
	return b, false, r.checkBridge(d.Bridge)
}

// checkBridge refuses a name that is not ours to use. A bridge that nobody has any use
// for may be what a change that was cut short has left.
func (r rules) checkBridge(name string) error {
	if slices.Contains(r.bridges, name) || containerBridge.MatchString(name) || dockerBridge.MatchString(name) {
		return errors.NotValidf("bridge %q, which serves containers,", name)
	}
	l, ok := r.state.Link(name)
	if !ok {
		return nil
	}
	if l.Kind != kernel.Bridge {
		return errors.NotValidf("bridge %q, which is an interface of kind %q,", name, l.Kind)
	}
	if ports := r.state.Ports(name); len(ports) > 0 {
		return errors.NotValidf("bridge %q, which is another's (it has port %q),", name, ports[0])
	}
	for _, a := range r.state.AddressesOf(name) {
		if !a.Prefix.Addr().IsLinkLocalUnicast() {
			return errors.NotValidf("bridge %q, which is another's (it has address %s),", name, a.Prefix)
		}
	}
	return nil
}

// bridgeChanges returns what the kernel is to do to put a device under its bridge. The
// bridge is complete before the device is under it; then addresses are added before they
// are removed, so that they are local throughout and nothing that depends on them is
// dropped; routes come last. Between the first and the last of it packets may be lost.
func bridgeChanges(s kernel.State, b bridging) []kernel.Change {
	device, _ := s.Link(b.Device)
	var out []kernel.Change
	add := func(c kernel.Change) { out = append(out, c) }
	if there, ok := s.Link(b.Bridge); !ok {
		add(kernel.Change{Verb: kernel.AddBridge, Link: b.Bridge, MAC: b.MAC, MTU: device.MTU})
	} else {
		if there.MAC != b.MAC {
			add(kernel.Change{Verb: kernel.SetMAC, Link: b.Bridge, MAC: b.MAC})
		}
		if there.MTU != device.MTU {
			add(kernel.Change{Verb: kernel.SetMTU, Link: b.Bridge, MTU: device.MTU})
		}
	}
	add(kernel.Change{Verb: kernel.SetUp, Link: b.Bridge})
	add(kernel.Change{Verb: kernel.SetMaster, Link: b.Device, Master: b.Bridge})
	addresses := slices.DeleteFunc(s.AddressesOf(b.Device), func(a kernel.Address) bool { return a.Useless })
	for _, a := range kernel.AddOrder(addresses) {
		add(kernel.Change{Verb: kernel.AddAddress, Address: a.On(b.Bridge)})
	}
	// From the end, since with the first one of a network its others go, too.
	for _, a := range slices.Backward(addresses) {
		add(kernel.Change{Verb: kernel.RemoveAddress, Address: a})
	}
	for _, route := range s.RoutesOver(b.Device) {
		add(kernel.Change{Verb: kernel.RemoveRoute, Route: route})
		add(kernel.Change{Verb: kernel.AddRoute, Route: route.On(b.Device, b.Bridge)})
	}
	add(kernel.Change{Verb: kernel.SetUp, Link: b.Device})
	return out
}

// restoreChanges returns what the kernel is to do so that the network is again what it
// was before, where the bridgings and whatever they brought about have changed it. Others
// may have changed it meanwhile, too: what is theirs stays.
func restoreChanges(before, now kernel.State, containers []string, bridgings []bridging, age time.Duration) []kernel.Change {
	own := rules{before, containers}
	var out, last []kernel.Change
	add := func(c kernel.Change) { out = append(out, c) }
	concerned, removed := map[string]bool{}, map[string]bool{}
	for _, b := range bridgings {
		concerned[b.Device], concerned[b.Bridge] = true, true
		if was, ok := before.Link(b.Device); ok {
			if is, ok := now.Link(b.Device); ok && is.Master != was.Master {
				add(kernel.Change{Verb: kernel.SetMaster, Link: b.Device, Master: was.Master})
			}
		}
		_, was := before.Link(b.Bridge)
		if is, ok := now.Link(b.Bridge); ok && !was && is.Kind == kernel.Bridge {
			removed[b.Bridge] = true
			add(kernel.Change{Verb: kernel.RemoveLink, Link: b.Bridge})
		}
	}
	// Links that were there and are, and are the host's own.
	there := map[string]bool{}
	for _, was := range before.Links {
		is, ok := now.Link(was.Name)
		if !ok || !own.own(was) {
			continue
		}
		there[was.Name] = true
		if !concerned[was.Name] {
			continue
		}
		if is.MAC != was.MAC && was.MAC != "" {
			add(kernel.Change{Verb: kernel.SetMAC, Link: was.Name, MAC: was.MAC})
		}
		if is.MTU != was.MTU {
			add(kernel.Change{Verb: kernel.SetMTU, Link: was.Name, MTU: was.MTU})
		}
		if was.Up && !is.Up {
			add(kernel.Change{Verb: kernel.SetUp, Link: was.Name})
		}
		if is.Up && !was.Up {
			last = append(last, kernel.Change{Verb: kernel.SetDown, Link: was.Name})
		}
	}
	addresses, routes := map[string]bool{}, map[string]bool{}
	for _, a := range now.Addresses {
		addresses[a.Key()] = !removed[a.Link]
	}
	for _, r := range now.Routes {
		routes[r.Key()] = !slices.ContainsFunc(r.Hops, func(h kernel.Hop) bool { return removed[h.Link] })
	}
	wanted := map[string]bool{}
	for _, was := range before.Links {
		if !there[was.Name] {
			continue
		}
		for _, a := range kernel.AddOrder(before.AddressesOf(was.Name)) {
			wanted[a.Key()] = true
			if !addresses[a.Key()] && !a.Useless && !(a.Temporary && !concerned[a.Link]) {
				add(kernel.Change{Verb: kernel.AddAddress, Address: a, Age: age})
			}
		}
	}
	keep := slices.Clone(before.Routes)
	kernel.SortRoutes(keep)
	for _, r := range keep {
		wanted[r.Key()] = true
		over := slices.ContainsFunc(r.Hops, func(h kernel.Hop) bool { return h.Link != "" && !there[h.Link] })
		if !over && !routes[r.Key()] {
			for _, rest := range remains(r, now.Routes) {
				add(kernel.Change{Verb: kernel.RemoveRoute, Route: rest})
			}
			add(kernel.Change{Verb: kernel.AddRoute, Route: r})
		}
	}
	// What is new on the devices, such as what a tool left that failed half way. What
	// the kernel or a router gives by itself may come at any time.
	for _, r := range now.Routes {
		ours := slices.ContainsFunc(r.Hops, func(h kernel.Hop) bool { return concerned[h.Link] && there[h.Link] })
		if ours && routes[r.Key()] && !wanted[r.Key()] && r.Protocol != protocolRA {
			add(kernel.Change{Verb: kernel.RemoveRoute, Route: r})
		}
	}
	for _, a := range now.Addresses {
		if concerned[a.Link] && there[a.Link] && !wanted[a.Key()] && !byItself(a) {
			add(kernel.Change{Verb: kernel.RemoveAddress, Address: a})
		}
	}
	return append(out, last...)
}

// remains returns what is left of a route over several links when one of them went: IPv6
// keeps the others, and takes the whole for there already.
func remains(r kernel.Route, now []kernel.Route) []kernel.Route {
	var out []kernel.Route
	for _, rest := range now {
		same := rest.Dst == r.Dst && rest.From == r.From && rest.Table == r.Table && rest.Metric == r.Metric && rest.TOS == r.TOS
		some := len(rest.Hops) < len(r.Hops) && !slices.ContainsFunc(rest.Hops, func(h kernel.Hop) bool { return !slices.Contains(r.Hops, h) })
		if same && some {
			out = append(out, rest)
		}
	}
	return out
}

// protocolRA is of routes that a router made known.
const protocolRA = 9

// byItself tells whether an address may appear and vanish without anybody's doing.
func byItself(a kernel.Address) bool {
	addr := a.Prefix.Addr()
	return addr.IsLinkLocalUnicast() && addr.Is6() || addr.Is6() && a.Dynamic
}

// lost returns what was there before and is not now, each for people: addresses of the
// host's own, wherever they are, and default routes, whatever they go over.
func lost(before, now kernel.State, containers []string) []string {
	own := rules{before, containers}
	mine := func(link string) bool {
		l, ok := before.Link(link)
		return ok && own.own(l)
	}
	var out []string
	for _, a := range before.Addresses {
		if !mine(a.Link) || a.Useless || a.Temporary || a.Prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if !slices.ContainsFunc(now.Addresses, func(b kernel.Address) bool { return stands(b, a) }) {
			out = append(out, "address "+a.String())
		}
	}
	ways := map[string]bool{}
	for _, r := range now.Routes {
		ways[r.Way()] = true
	}
	for _, r := range before.Routes {
		if !r.Default() || ways[r.Way()] || slices.ContainsFunc(r.Hops, func(h kernel.Hop) bool { return !mine(h.Link) }) {
			continue
		}
		out = append(out, "route "+r.String())
	}
	return out
}

// stands tells whether an address is as good as the one that was: the same, or, where the
// host made it up itself, another in the same network.
func stands(now, was kernel.Address) bool {
	if now.Prefix.Addr() == was.Prefix.Addr() {
		return true
	}
	return was.Dynamic && was.Prefix.Addr().Is6() && now.Prefix.Masked() == was.Prefix.Masked()
}

// missing returns what is not yet as asked for, each for people.
func missing(now kernel.State, bridgings []bridging) []string {
	var out []string
	for _, b := range bridgings {
		device, ok := now.Link(b.Device)
		bridge, is := now.Link(b.Bridge)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("interface %s", b.Device))
		case !is || device.Master != b.Bridge:
			out = append(out, fmt.Sprintf("%s under %s", b.Device, b.Bridge))
		case !bridge.Up:
			out = append(out, fmt.Sprintf("%s switched on", b.Bridge))
		case bridge.MAC != b.MAC:
			out = append(out, fmt.Sprintf("MAC %s on %s (it has %s)", b.MAC, b.Bridge, bridge.MAC))
		}
	}
	return out
}

// leftovers returns the addresses that a device still has although its bridge has them.
func leftovers(now kernel.State, bridgings []bridging) []kernel.Change {
	var out []kernel.Change
	for _, b := range bridgings {
		if device, _ := now.Link(b.Device); device.Master != b.Bridge {
			continue
		}
		on := now.AddressesOf(b.Bridge)
		for _, a := range slices.Backward(now.AddressesOf(b.Device)) {
			same := func(o kernel.Address) bool { return o.Prefix == a.Prefix }
			if !byItself(a) && slices.ContainsFunc(on, same) {
				out = append(out, kernel.Change{Verb: kernel.RemoveAddress, Address: a})
			}
		}
	}
	return out
}

// names returns what the bridgings are about, for people.
func names(bridgings []bridging) string {
	words := make([]string, len(bridgings))
	for i, b := range bridgings {
		words[i] = b.Device
	}
	return strings.Join(words, ", ")
}
