package kernel

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"
)

// forever is a lifetime without an end.
const forever = ^uint32(0)

// Attributes that golang.org/x/sys does not name, or that are ours to change.
const (
	lengthIfaddrmsg = unix.SizeofIfAddrmsg
	lengthRtmsg     = unix.SizeofRtMsg
	lengthRtnexthop = unix.SizeofRtNexthop
	// ticks is how many of the kernel's units of time are a second, in what it tells.
	ticks = 100
	// rtaNHID is the number of an object that stands for next hops.
	rtaNHID = 30
	// typeMask takes flags off the type of an attribute.
	typeMask = uint16(0x3fff)
)

var native = binary.NativeEndian //nolint:gochecknoglobals // a constant in all but name

// attribute returns one with its header, padded.
func attribute(typ uint16, value []byte) []byte {
	b := make([]byte, unix.SizeofRtAttr, unix.SizeofRtAttr+len(value)+3)
	native.PutUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	native.PutUint16(b[2:], typ)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func uint32Attribute(typ uint16, value uint32) []byte {
	return attribute(typ, native.AppendUint32(nil, value))
}

// number reads one; 0 where there is none.
func number(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

// attr is one attribute.
type attr struct {
	typ   uint16
	value []byte
}

// parseAttributes refuses lengths that cannot be, as a journal that was damaged may have.
func parseAttributes(b []byte) ([]attr, error) {
	var out []attr
	for len(b) >= unix.SizeofRtAttr {
		n := int(native.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return nil, errors.NotValidf("attribute of %d bytes", n)
		}
		out = append(out, attr{native.Uint16(b[2:]), b[unix.SizeofRtAttr:n]})
		b = b[min(len(b), (n+3)&^3):]
	}
	return out, nil
}

func toAddr(b []byte) netip.Addr {
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

func toPrefix(family uint8, addr netip.Addr, bits uint8) netip.Prefix {
	if !addr.IsValid() {
		addr = netip.IPv4Unspecified()
		if family == unix.AF_INET6 {
			addr = netip.IPv6Unspecified()
		}
	}
	return netip.PrefixFrom(addr, int(bits))
}

func internet(family uint8) bool { return family == unix.AF_INET || family == unix.AF_INET6 }

// parseAddress reads a message about an address. That of a link which has no name is
// left out, as is what is not about the internet.
func parseAddress(raw []byte, names map[int]string) (Address, bool, error) {
	if len(raw) < lengthIfaddrmsg {
		return Address{}, false, errors.NotValidf("message about an address, of %d bytes,", len(raw))
	}
	family, bits := raw[0], raw[1]
	link, ok := names[int(native.Uint32(raw[4:]))]
	if !ok || !internet(family) {
		return Address{}, false, nil
	}
	attrs, err := parseAttributes(raw[lengthIfaddrmsg:])
	if err != nil {
		return Address{}, false, errors.Annotate(err, "message about an address")
	}
	a := Address{Link: link, Raw: bytes.Clone(raw)}
	flags := uint32(raw[2])
	var local, address netip.Addr
	for _, attr := range attrs {
		switch attr.typ & typeMask {
		case unix.IFA_LOCAL:
			local = toAddr(attr.value)
		case unix.IFA_ADDRESS:
			address = toAddr(attr.value)
		case unix.IFA_FLAGS:
			if len(attr.value) >= 4 {
				flags = native.Uint32(attr.value)
			}
		case unix.IFA_CACHEINFO:
			if len(attr.value) >= 8 {
				a.Dynamic = native.Uint32(attr.value[4:]) != forever
			}
		}
	}
	if !local.IsValid() {
		local = address
	}
	if !local.IsValid() {
		return Address{}, false, nil
	}
	if address != local {
		a.Peer = address
	}
	a.Prefix = netip.PrefixFrom(local, int(bits))
	a.Temporary = family == unix.AF_INET6 && flags&unix.IFA_F_TEMPORARY != 0
	a.Useless = flags&unix.IFA_F_DADFAILED != 0
	return a, true, nil
}

// encodeAddress returns the message for adding or removing the address on the link of
// that number. The flags are added to those that it has.
func encodeAddress(a Address, index int, age time.Duration, flags uint32) ([]byte, error) {
	if len(a.Raw) < lengthIfaddrmsg {
		return nil, errors.NotValidf("address %s", a)
	}
	attrs, err := parseAttributes(a.Raw[lengthIfaddrmsg:])
	if err != nil {
		return nil, errors.Annotatef(err, "address %s", a)
	}
	// What the kernel finds out by itself is not told to it.
	const own = unix.IFA_F_PERMANENT | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED | unix.IFA_F_SECONDARY
	all := uint32(a.Raw[2])
	out := bytes.Clone(a.Raw[:lengthIfaddrmsg])
	native.PutUint32(out[4:], uint32(index))
	for _, attr := range attrs {
		value := attr.value
		switch attr.typ & typeMask {
		case unix.IFA_FLAGS:
			if len(value) >= 4 {
				all = native.Uint32(value)
			}
			continue
		case unix.IFA_LABEL:
			if value = label(value, a.Link); value == nil {
				continue
			}
		case unix.IFA_CACHEINFO:
			value = aged(value, age)
		}
		out = append(out, attribute(attr.typ, value)...)
	}
	all = all&^own | flags
	out[2] = byte(all)
	return append(out, uint32Attribute(unix.IFA_FLAGS, all)...), nil
}

// label returns the label of an address for a link: what comes after a colon is kept
// where there is room. Nil is for the link's own name.
func label(value []byte, link string) []byte {
	_, tail, ok := strings.Cut(string(bytes.TrimRight(value, "\x00")), ":")
	if name := link + ":" + tail; ok && len(name) < unix.IFNAMSIZ {
		return append([]byte(name), 0)
	}
	return nil
}

// aged takes an age off the lifetimes of an address.
func aged(cacheinfo []byte, age time.Duration) []byte {
	if len(cacheinfo) < 8 {
		return cacheinfo
	}
	out := bytes.Clone(cacheinfo)
	seconds := uint32(max(0, age) / time.Second)
	for at, least := range map[int]uint32{0: 0, 4: 1} {
		left := native.Uint32(out[at:])
		if left == forever {
			continue
		}
		native.PutUint32(out[at:], max(least, left-min(left, seconds)))
	}
	return out
}

// parseRoute reads a message about a route. What the kernel makes by itself is left out.
func parseRoute(raw []byte, names map[int]string) (Route, bool, error) {
	if len(raw) < lengthRtmsg {
		return Route{}, false, errors.NotValidf("message about a route, of %d bytes,", len(raw))
	}
	family, dstLen, srcLen := raw[0], raw[1], raw[2]
	r := Route{TOS: raw[3], Table: uint32(raw[4]), Protocol: raw[5], Scope: raw[6], Type: raw[7], Raw: bytes.Clone(raw)}
	flags := native.Uint32(raw[8:])
	if !internet(family) || flags&unix.RTM_F_CLONED != 0 || r.Protocol == unix.RTPROT_KERNEL || r.Protocol == unix.RTPROT_REDIRECT {
		return Route{}, false, nil
	}
	attrs, err := parseAttributes(raw[lengthRtmsg:])
	if err != nil {
		return Route{}, false, errors.Annotate(err, "message about a route")
	}
	var hop Hop
	var dst, from netip.Addr
	for _, attr := range attrs {
		switch attr.typ & typeMask {
		case unix.RTA_DST:
			dst = toAddr(attr.value)
		case unix.RTA_SRC:
			from = toAddr(attr.value)
		case unix.RTA_PREFSRC:
			r.Src = toAddr(attr.value)
		case unix.RTA_TABLE:
			r.Table = number(attr.value)
		case unix.RTA_PRIORITY:
			r.Metric = number(attr.value)
		case unix.RTA_OIF:
			hop.Link = names[int(number(attr.value))]
			if hop.Link == "" {
				return Route{}, false, nil
			}
		case unix.RTA_GATEWAY, unix.RTA_VIA:
			hop.Gateway = gateway(attr)
		case unix.RTA_MULTIPATH:
			if r.Hops, err = parseHops(attr.value, names); err != nil || r.Hops == nil {
				return Route{}, false, err
			}
		}
	}
	if r.Table == unix.RT_TABLE_LOCAL {
		return Route{}, false, nil
	}
	if r.Hops == nil {
		r.Hops = []Hop{hop}
	}
	r.Dst = toPrefix(family, dst, dstLen)
	if srcLen > 0 {
		r.From = toPrefix(family, from, srcLen)
	}
	return r, true, nil
}

// gateway reads one of the route's own family, or of the other one, after which it then
// says so.
func gateway(attr attr) netip.Addr {
	if attr.typ&typeMask == unix.RTA_VIA && len(attr.value) > 2 {
		return toAddr(attr.value[2:])
	}
	return toAddr(attr.value)
}

// parseHops returns nil when the link of one is not there.
func parseHops(b []byte, names map[int]string) ([]Hop, error) {
	var hops []Hop
	for len(b) >= lengthRtnexthop {
		length := int(native.Uint16(b))
		if length < lengthRtnexthop || length > len(b) {
			return nil, errors.NotValidf("message about a route: next hop of %d bytes", length)
		}
		hop := Hop{Link: names[int(native.Uint32(b[4:]))]}
		if hop.Link == "" {
			return nil, nil
		}
		attrs, err := parseAttributes(b[lengthRtnexthop:length])
		if err != nil {
			return nil, errors.Annotate(err, "message about a route")
		}
		for _, attr := range attrs {
			if t := attr.typ & typeMask; t == unix.RTA_GATEWAY || t == unix.RTA_VIA {
				hop.Gateway = gateway(attr)
			}
		}
		hops = append(hops, hop)
		b = b[min(len(b), (length+3)&^3):]
	}
	return hops, nil
}

// encodeRoute returns the message for adding or removing the route over the links that
// its hops name.
func encodeRoute(r Route, index func(name string) (int, error)) ([]byte, error) {
	if len(r.Raw) < lengthRtmsg {
		return nil, errors.NotValidf("route %s", r)
	}
	attrs, err := parseAttributes(r.Raw[lengthRtmsg:])
	if err != nil {
		return nil, errors.Annotatef(err, "route %s", r)
	}
	indices := make([]int, len(r.Hops))
	for i, h := range r.Hops {
		if h.Link == "" {
			continue
		}
		if indices[i], err = index(h.Link); err != nil {
			return nil, err
		}
	}
	out := bytes.Clone(r.Raw[:lengthRtmsg])
	// Of the flags, only this one is the maker's; the rest tells how the route is.
	native.PutUint32(out[8:], native.Uint32(out[8:])&unix.RTNH_F_ONLINK)
	for _, attr := range attrs {
		value := bytes.Clone(attr.value)
		switch attr.typ & typeMask {
		case unix.RTA_OIF:
			if len(indices) == 0 {
				return nil, errors.NotValidf("route %s", r)
			}
			value = native.AppendUint32(nil, uint32(indices[0]))
		case unix.RTA_MULTIPATH:
			patchHops(value, indices)
		case rtaNHID:
			// Beside what it stands for it is refused.
			continue
		case unix.RTA_CACHEINFO:
			// How it was used; only when it expires is told on.
			if expires := expiry(value); expires > 0 {
				out = append(out, uint32Attribute(unix.RTA_EXPIRES, expires)...)
			}
			continue
		}
		out = append(out, attribute(attr.typ, value)...)
	}
	return out, nil
}

// expiry returns the seconds that a route has left; 0 for one that stays.
func expiry(cacheinfo []byte) uint32 {
	const at = 8
	if len(cacheinfo) < at+4 {
		return 0
	}
	left := int32(native.Uint32(cacheinfo[at:]))
	if left <= 0 {
		return 0
	}
	return max(1, uint32(left)/ticks)
}

func patchHops(b []byte, indices []int) {
	for _, index := range indices {
		if len(b) < lengthRtnexthop {
			return
		}
		length := int(native.Uint16(b))
		if length < lengthRtnexthop {
			return
		}
		b[2] &= unix.RTNH_F_ONLINK
		native.PutUint32(b[4:], uint32(index))
		b = b[min(len(b), (length+3)&^3):]
	}
}
