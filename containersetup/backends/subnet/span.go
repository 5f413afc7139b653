package subnet

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// span is a run of subnets of one length, by their numbers: the bits that all addresses
// of a subnet have in common. Both ends are in it.
type span struct{ first, last number }

// size returns how many there are; it fits, as no subnet has more than 126 bits.
func (s span) size() number { return s.last.minus(s.first).plus(number{lo: 1}) }

// spans returns the subnets of a length that have an address in common with each prefix.
// They are in order when the prefixes are.
func spans(prefixes []netip.Prefix, length int) []span {
	out := make([]span, 0, len(prefixes))
	for _, p := range prefixes {
		size := p.Addr().BitLen()
		first := numberOf(p.Addr()).right(size - length)
		last := first
		if p.Bits() < length {
			last = first.plus(number{lo: 1}.left(length - p.Bits())).minus(number{lo: 1})
		}
		out = append(out, span{first, last})
	}
	return out
}

// without returns what is left of some spans without others. Both are in order; those of
// the others may have an end in common.
func without(some, others []span) []span {
	var out []span
	for _, s := range some {
		// Those that are wholly before this one are before all that follow.
		for len(others) > 0 && others[0].last.less(s.first) {
			others = others[1:]
		}
		next, left := s.first, true // what is left begins here, if it does
		for _, o := range others {
			if s.last.less(o.first) {
				break
			}
			if next.less(o.first) {
				out = append(out, span{next, o.first.minus(number{lo: 1})})
			}
			if left = o.last.less(s.last); !left {
				break
			}
			next = o.last.plus(number{lo: 1})
		}
		if left {
			out = append(out, span{next, s.last})
		}
	}
	return out
}

// number is an unsigned one of 128 bits.
type number struct{ hi, lo uint64 }

func numberOf(addr netip.Addr) number {
	if addr.Is4() {
		a := addr.As4()
		return number{lo: uint64(binary.BigEndian.Uint32(a[:]))}
	}
	a := addr.As16()
	return number{binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])}
}

// prefix returns the subnet of a length that has this number.
func (n number) prefix(length int, is4 bool) netip.Prefix {
	if is4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(n.left(32-length).lo))
		return netip.PrefixFrom(netip.AddrFrom4(a), length)
	}
	n = n.left(128 - length)
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], n.hi)
	binary.BigEndian.PutUint64(a[8:], n.lo)
	return netip.PrefixFrom(netip.AddrFrom16(a), length)
}

func (n number) less(m number) bool { return n.hi < m.hi || n.hi == m.hi && n.lo < m.lo }

func (n number) plus(m number) number {
	lo, carry := bits.Add64(n.lo, m.lo, 0)
	hi, _ := bits.Add64(n.hi, m.hi, carry)
	return number{hi, lo}
}

func (n number) minus(m number) number {
	lo, borrow := bits.Sub64(n.lo, m.lo, 0)
	hi, _ := bits.Sub64(n.hi, m.hi, borrow)
	return number{hi, lo}
}

// left and right shift by 0 to 128; a shift of a word by its width or more is zero in Go,
// and one by less than nothing would be a very great one, as these are unsigned.
func (n number) left(by int) number {
	if by >= 64 {
		return number{n.lo << (by - 64), 0}
	}
	return number{n.hi<<by | n.lo>>(64-by), n.lo << by}
}

func (n number) right(by int) number {
	if by >= 64 {
		return number{0, n.hi >> (by - 64)}
	}
	return number{n.hi >> by, n.lo>>by | n.hi<<(64-by)}
}

// ones returns the least number of the form 2^k-1 that is not below n.
func (n number) ones() number {
	if n.hi > 0 {
		return number{^uint64(0) >> bits.LeadingZeros64(n.hi), ^uint64(0)}
	}
	return number{0, ^uint64(0) >> bits.LeadingZeros64(n.lo)}
}
