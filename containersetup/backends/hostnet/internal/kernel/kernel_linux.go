package kernel

import (
	"context"
	"net"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// answerTimeout is for how long the kernel may take to answer.
const answerTimeout = 10 * time.Second

// settlePoll and settleTries bound the wait for an IPv6 address to be usable, which the
// kernel sees to on the side.
const (
	settlePoll  = 5 * time.Millisecond
	settleTries = 200
)

// lookTries is how often a look is begun anew that a change cut short.
const lookTries = 10

type netlinkKernel struct {
	links *netlink.Handle
	raw   *nl.SocketHandle
	clock clock.Clock
}

// Open returns the network of the namespace of that path, such as /run/netns/NAME or
// /proc/self/fd/N, or of this process if it is empty. It is to be closed.
func Open(namespace string, clk clock.Clock) (Kernel, error) {
	ns := netns.None()
	if namespace != "" {
		var err error
		if ns, err = netns.GetFromPath(namespace); err != nil {
			return nil, errors.Annotatef(err, "network namespace %s", namespace)
		}
		defer func() { _ = ns.Close() }()
	}
	links, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Annotate(err, "asking the kernel about links")
	}
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		links.Close()
		return nil, errors.Annotate(err, "asking the kernel about addresses")
	}
	k := &netlinkKernel{links: links, raw: &nl.SocketHandle{Socket: socket}, clock: clk}
	limit := unix.NsecToTimeval(int64(answerTimeout))
	for _, set := range []error{links.SetSocketTimeout(answerTimeout), socket.SetReceiveTimeout(&limit), socket.SetSendTimeout(&limit)} {
		if set != nil {
			k.Close()
			return nil, errors.Trace(set)
		}
	}
	return k, nil
}

func (k *netlinkKernel) Close() {
	k.links.Close()
	k.raw.Close()
}

func (k *netlinkKernel) Look(ctx context.Context) (State, error) {
	var err error
	for range lookTries {
		if err = ctx.Err(); err != nil {
			return State{}, errors.Trace(err)
		}
		var s State
		if s, err = k.look(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return s, errors.Annotate(err, "looking at the network")
		}
	}
	return State{}, errors.Annotate(err, "looking at the network, which does not hold still")
}

func (k *netlinkKernel) look() (State, error) {
	links, err := k.links.LinkList()
	if err != nil {
		return State{}, err
	}
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var s State
	for _, l := range links {
		s.Links = append(s.Links, toLink(l, names))
	}
	addresses, err := k.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, make([]byte, lengthIfaddrmsg))
	if err != nil {
		return State{}, err
	}
	for _, raw := range addresses {
		a, ok, err := parseAddress(raw, names)
		if err != nil {
			return State{}, err
		}
		if ok {
			s.Addresses = append(s.Addresses, a)
		}
	}
	routes, err := k.dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, make([]byte, lengthRtmsg))
	if err != nil {
		return State{}, err
	}
	for _, raw := range routes {
		r, ok, err := parseRoute(raw, names)
		if err != nil {
			return State{}, err
		}
		if ok {
			s.Routes = append(s.Routes, r)
		}
	}
	return s, nil
}

func toLink(l netlink.Link, names map[int]string) Link {
	a := l.Attrs()
	out := Link{
		Index:    a.Index,
		Name:     a.Name,
		Kind:     l.Type(),
		Ethernet: a.EncapType == "ether",
		MTU:      a.MTU,
		Up:       a.Flags&net.FlagUp != 0,
		Master:   names[a.MasterIndex],
	}
	if a.Flags&net.FlagLoopback != 0 {
		out.Kind = Loopback
	}
	switch len(a.HardwareAddr) {
	case 6, 8, 20: // those that package net reads
		if out.Kind != Loopback {
			out.MAC = a.HardwareAddr.String()
		}
	}
	elsewhere := a.NetNsID >= 0
	if out.Kind == Veth {
		// Its "parent" is the other end.
		out.PeerElsewhere = elsewhere
	} else if !elsewhere {
		out.Parent = names[a.ParentIndex]
	}
	return out
}

func (k *netlinkKernel) dump(get int, want uint16, header []byte) ([][]byte, error) {
	return k.request(get, unix.NLM_F_DUMP, header, want)
}

func (k *netlinkKernel) request(typ, flags int, data []byte, want uint16) ([][]byte, error) {
	req := nl.NewNetlinkRequest(typ, flags)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: k.raw}
	req.AddRawData(data)
	return req.Execute(unix.NETLINK_ROUTE, want)
}

func (k *netlinkKernel) send(typ, flags int, data []byte) error {
	_, err := k.request(typ, unix.NLM_F_ACK|flags, data, 0)
	return err
}

func (k *netlinkKernel) index(name string) (int, error) {
	l, err := k.links.LinkByName(name)
	if err != nil {
		return 0, kind(err, name)
	}
	return l.Attrs().Index, nil
}

// kind says what an error of the kernel means for a link.
func kind(err error, link string) error {
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		return errors.NotFoundf("interface %q", link)
	}
	return err
}

func (k *netlinkKernel) Do(ctx context.Context, c Change) error {
	if err := ctx.Err(); err != nil {
		return errors.Annotate(err, c.String())
	}
	var err error
	switch c.Verb {
	case AddAddress, RemoveAddress:
		err = k.doAddress(c)
	case AddRoute, RemoveRoute:
		err = k.doRoute(ctx, c)
	default:
		err = k.doLink(c)
	}
	return errors.Annotate(err, c.String())
}

func (k *netlinkKernel) doLink(c Change) error {
	if c.Verb == AddBridge {
		return k.addBridge(c)
	}
	l, err := k.links.LinkByName(c.Link)
	if err != nil {
		if err = kind(err, c.Link); c.Verb == RemoveLink && errors.Is(err, errors.NotFound) {
			return nil
		}
		return err
	}
	switch c.Verb {
	case RemoveLink:
		err = k.links.LinkDel(l)
	case SetMaster:
		master := 0
		if c.Master != "" {
			if master, err = k.index(c.Master); err != nil {
				return err
			}
		}
		err = k.links.LinkSetMasterByIndex(l, master)
	case SetUp:
		err = k.links.LinkSetUp(l)
	case SetDown:
		err = k.links.LinkSetDown(l)
	case SetMTU:
		err = k.links.LinkSetMTU(l, c.MTU)
	case SetMAC:
		var mac net.HardwareAddr
		if mac, err = net.ParseMAC(c.MAC); err == nil {
			err = k.links.LinkSetHardwareAddr(l, mac)
		}
	default:
		err = errors.NotValidf("change %q", c.Verb)
	}
	return kind(err, c.Link)
}

func (k *netlinkKernel) addBridge(c Change) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = c.Link, c.MTU
	if c.MAC != "" {
		mac, err := net.ParseMAC(c.MAC)
		if err != nil {
			return err
		}
		attrs.HardwareAddr = mac
	}
	err := k.links.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	if errors.Is(err, unix.EEXIST) {
		return errors.AlreadyExistsf("interface %q", c.Link)
	}
	return err
}

func (k *netlinkKernel) doAddress(c Change) error {
	index, err := k.index(c.Address.Link)
	if err != nil {
		return err
	}
	six := c.Address.Prefix.Addr().Is6()
	// It was in use until now, so nobody else has it: the second in which IPv6 would
	// look for that is one without a network.
	var flags uint32
	if six {
		flags = unix.IFA_F_NODAD
	}
	data, err := encodeAddress(c.Address, index, c.Age, flags)
	if err != nil {
		return err
	}
	if c.Verb == RemoveAddress {
		err = k.send(unix.RTM_DELADDR, 0, data)
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			return nil
		}
		return kind(err, c.Address.Link)
	}
	const replace = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	if err = k.send(unix.RTM_NEWADDR, replace, data); err != nil || !six {
		return kind(err, c.Address.Link)
	}
	// And now as it was, without that flag.
	if data, err = encodeAddress(c.Address, index, c.Age, 0); err != nil {
		return err
	}
	return kind(k.send(unix.RTM_NEWADDR, replace, data), c.Address.Link)
}

func (k *netlinkKernel) doRoute(ctx context.Context, c Change) error {
	data, err := encodeRoute(c.Route, k.index)
	if err != nil {
		return err
	}
	if c.Verb == RemoveRoute {
		err = k.send(unix.RTM_DELROUTE, 0, data)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	}
	for range settleTries {
		err = k.send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, data)
		if errors.Is(err, unix.EEXIST) {
			// The same destination and metric, over something else, may be there
			// beside it.
			err = k.send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, data)
		}
		switch {
		case err == nil, errors.Is(err, unix.EEXIST):
			return nil
		case !errors.Is(err, unix.EINVAL) || !c.Route.Src.Is6():
			return err
		}
		// Its preferred address is not quite there.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.clock.After(settlePoll):
		}
	}
	return err
}
