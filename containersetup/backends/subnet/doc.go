// Package subnet chooses a subnet for a bridge that does not clash with anything its
// host knows of.
//
// [Choose] is a function of its arguments and nothing else: what is taken, what there is
// to choose from, and a seed. It finds a free subnet if and only if there is one, and
// every free one is as likely as any other; hosts with different seeds (see [SeedFrom])
// differ, and one host gets the same answer for the same question. What was chosen before
// should still be kept, not chosen again: when a route comes or goes, the answer changes.
//
// # What a clash is
//
// Two prefixes clash when they have an address in common, whichever of them is the wider:
// the bridge's subnet inside a route that leads elsewhere cuts the host off from a part of
// that network, and a route inside the bridge's subnet draws containers' traffic away.
// Only the default routes, 0.0.0.0/0 and ::/0, are none, since they are everywhere; two
// halves of one, such as 0.0.0.0/1 from a VPN, are routes like any other.
//
// # How prefixes are read
//
// An address with its prefix length, such as 10.1.2.3/24, stands for its network. An
// IPv4 prefix that is written as an IPv6 one, such as ::ffff:10.1.2.0/120, is the IPv4
// one. The other family is never in the way. A [netip.Prefix] has no zone, so none is
// regarded.
//
// # Errors
//
// errors.NotValid, naming the field, for what cannot be asked; errors.NotFound, naming
// what is in the way, when nothing is free. Nothing is changed by either.
//
// # Concurrency
//
// There is no state: everything may be called from many goroutines at once.
package subnet
