package subnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Overlaps returns the first of the taken prefixes, as it was given, that has an address
// in common with the candidate, and whether there is one. A default route overlaps
// nothing, and neither does a prefix that is not valid.
func Overlaps(candidate netip.Prefix, taken []netip.Prefix) (netip.Prefix, bool) {
	candidate = normal(candidate)
	for _, given := range taken {
		if clash(candidate, normal(given)) {
			return given, true
		}
	}
	return netip.Prefix{}, false
}

// clash is for normal prefixes.
func clash(candidate, taken netip.Prefix) bool {
	return taken.Bits() > 0 && candidate.Overlaps(taken)
}

// normal returns a prefix without its host bits, as an IPv4 one if that is what it is;
// the zero one if it is not valid.
func normal(p netip.Prefix) netip.Prefix {
	const mapped = 128 - 32
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

// clashing returns those of taken that are in the way somewhere in the pool.
func clashing(taken, pool []netip.Prefix) []netip.Prefix {
	var in []netip.Prefix
	for _, t := range taken {
		if slices.ContainsFunc(pool, func(p netip.Prefix) bool { return clash(p, t) }) {
			in = append(in, t)
		}
	}
	return in
}

// widest returns prefixes in the order of their addresses, without those that are inside
// another: what is left has no address in common.
func widest(prefixes []netip.Prefix) []netip.Prefix {
	// A prefix sorts right before all that are inside it.
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	var out []netip.Prefix
	for _, p := range prefixes {
		if len(out) == 0 || !out[len(out)-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// mostNamed is how many prefixes an error names.
const mostNamed = 5

// list names prefixes, the widest first.
func list(prefixes []netip.Prefix) string {
	byWidth := slices.Clone(prefixes)
	slices.SortStableFunc(byWidth, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() })
	var words []string
	for _, p := range byWidth[:min(len(byWidth), mostNamed)] {
		words = append(words, p.String())
	}
	if more := len(byWidth) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words, ", "), more)
	}
	return strings.Join(words, ", ")
}
