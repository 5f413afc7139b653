package subnet

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"

	"github.com/juju/errors"
)

// Lengths of the subnets of a [Request] that names none.
const (
	DefaultBitsIPv4 = 24
	DefaultBitsIPv6 = 64
)

// Request says what to choose.
type Request struct {
	// Taken are all prefixes that must not be overlapped: the host's addresses with
	// their prefix lengths, and its routes. Both families may be mixed, in any order.
	Taken []netip.Prefix
	// Pool are the ranges to choose from, all of one family; they may overlap each
	// other. [DefaultPool] by default. They are taken at their word: nothing keeps
	// loopback or multicast ranges out.
	Pool []netip.Prefix
	// Bits is the prefix length of the result, from that of the narrowest range of the
	// pool to 30 for IPv4 or 126 for IPv6; 24 or 64 by default.
	Bits int
	// Seed makes hosts that are neighbours differ.
	Seed uint64
}

// DefaultPool returns 10.0.0.0/8, which has 65536 subnets of the default length. The other
// private ranges are left to home networks (192.168.0.0/16) and to other container
// managers (172.16.0.0/12).
func DefaultPool() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), 8)}
}

// SeedFrom returns a seed that is always the same for the same parts in the same order:
// the machine-id and the model's UUID, and, since machines cloned from one image may share
// a machine-id, best also the machine's number in its model. The parts cannot be told from
// the seed.
func SeedFrom(parts ...string) uint64 {
	h := sha256.New()
	for _, part := range parts {
		// With its length before it, so that "a", "bc" is not "ab", "c".
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// Validate returns errors.NotValid, naming the field.
func (r Request) Validate() error {
	_, err := r.question()
	return err
}

// question is a request with all defaults filled in and all prefixes normal.
type question struct {
	taken, pool []netip.Prefix // each without one that is inside another, in order
	bits        int
	seed        uint64
}

func (r Request) question() (question, error) {
	q := question{bits: r.Bits, seed: r.Seed}
	pool := r.Pool
	if len(pool) == 0 {
		pool = DefaultPool()
	}
	for i, given := range pool {
		p := normal(given)
		switch {
		case !p.IsValid():
			return q, errors.NotValidf("Pool[%d] of %d ranges", i, len(pool))
		case i > 0 && p.Addr().Is4() != q.pool[0].Addr().Is4():
			return q, errors.NotValidf("Pool[%d]: %s beside %s (want one family)", i, p, q.pool[0])
		}
		q.pool = append(q.pool, p)
	}
	if q.bits == 0 {
		q.bits = DefaultBitsIPv6
		if q.pool[0].Addr().Is4() {
			q.bits = DefaultBitsIPv4
		}
	}
	// Two addresses are a network's own, and a bridge and a container need one each.
	most := q.pool[0].Addr().BitLen() - 2
	for i, p := range q.pool {
		switch {
		case p.Bits() > most:
			return q, errors.NotValidf("Pool[%d]: %s (want /%d at the narrowest)", i, p, most)
		case q.bits < p.Bits() || q.bits > most:
			return q, errors.NotValidf("Bits %d for Pool[%d] %s (want %d to %d)", q.bits, i, p, p.Bits(), most)
		}
	}
	for i, given := range r.Taken {
		p := normal(given)
		if !p.IsValid() {
			return q, errors.NotValidf("Taken[%d] of %d prefixes", i, len(r.Taken))
		}
		q.taken = append(q.taken, p)
	}
	q.pool, q.taken = widest(q.pool), widest(clashing(q.taken, q.pool))
	return q, nil
}

// Choose returns a subnet that is inside the pool and overlaps nothing that is taken. It
// returns errors.NotFound if and only if there is none; the error then names what is in
// the way, the widest first.
func Choose(r Request) (netip.Prefix, error) {
	q, err := r.question()
	if err != nil {
		return netip.Prefix{}, err
	}
	free := without(spans(q.pool, q.bits), spans(q.taken, q.bits))
	var count number
	for _, s := range free {
		count = count.plus(s.size())
	}
	if count == (number{}) {
		return netip.Prefix{}, errors.NotFoundf("free subnet of length /%d in %s (in the way: %s)",
			q.bits, list(q.pool), list(q.taken))
	}
	n := draw(q.seed, count)
	for !n.less(free[0].size()) {
		n, free = n.minus(free[0].size()), free[1:]
	}
	return free[0].first.plus(n).prefix(q.bits, q.pool[0].Addr().Is4()), nil
}

// draw returns a number below count, each as likely as any other.
func draw(seed uint64, count number) number {
	mask := count.minus(number{lo: 1}).ones()
	for turn := uint64(0); ; turn++ {
		// A digest, since neighbouring seeds must not give neighbouring subnets. It is
		// masked to less than twice the count, so that a second turn or so is enough.
		in := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seed), turn)
		sum := sha256.Sum256(in)
		n := number{binary.BigEndian.Uint64(sum[:8]) & mask.hi, binary.BigEndian.Uint64(sum[8:16]) & mask.lo}
		if n.less(count) {
			return n
		}
	}
}
