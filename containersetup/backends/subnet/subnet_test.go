package subnet_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/subnet"
)

func prefixes(words ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, word := range words {
		out = append(out, netip.MustParsePrefix(word))
	}
	return out
}

func TestOverlaps(t *testing.T) {
	for _, test := range []struct {
		about, candidate string
		taken            []string
		want             string // empty for none
	}{
		{about: "nothing is taken", candidate: "10.1.2.0/24"},
		{about: "neighbours on both sides", candidate: "10.1.2.0/24", taken: []string{"10.1.1.0/24", "10.1.3.0/24"}},
		{about: "the same", candidate: "10.1.2.0/24", taken: []string{"10.1.2.0/24"}, want: "10.1.2.0/24"},
		{about: "a wider one around it", candidate: "10.1.2.0/24", taken: []string{"10.0.0.0/15"}, want: "10.0.0.0/15"},
		{about: "a host inside it", candidate: "10.1.2.0/24", taken: []string{"10.1.2.255/32"}, want: "10.1.2.255/32"},
		{about: "an address with host bits, as it was given", candidate: "10.1.2.0/24", taken: []string{"10.1.7.9/21"}, want: "10.1.7.9/21"},
		{about: "a candidate with host bits", candidate: "10.1.2.77/24", taken: []string{"10.1.2.3/32"}, want: "10.1.2.3/32"},
		{about: "the first of two", candidate: "10.1.2.0/24", taken: []string{"192.168.0.0/16", "10.1.2.3/32", "10.0.0.0/8"}, want: "10.1.2.3/32"},
		{about: "default routes", candidate: "10.1.2.0/24", taken: []string{"0.0.0.0/0", "::/0", "::ffff:0:0/96"}},
		{about: "half a default route", candidate: "10.1.2.0/24", taken: []string{"0.0.0.0/1"}, want: "0.0.0.0/1"},
		{about: "the other family", candidate: "10.1.2.0/24", taken: []string{"fd00::/8", "::/1"}},
		{about: "IPv4 in IPv6's clothes", candidate: "10.1.2.0/24", taken: []string{"::ffff:10.1.2.9/128"}, want: "::ffff:10.1.2.9/128"},
		{about: "a candidate in them", candidate: "::ffff:10.1.2.0/120", taken: []string{"10.0.0.0/8"}, want: "10.0.0.0/8"},
		{about: "IPv6, inside", candidate: "fd00:1:2:3::/64", taken: []string{"fe80::1/64", "fd00:1:2:3::9/128"}, want: "fd00:1:2:3::9/128"},
		{about: "IPv6, around", candidate: "fd00:1:2:3::/64", taken: []string{"fd00::/8"}, want: "fd00::/8"},
		{about: "IPv6, default routes", candidate: "fd00:1:2:3::/64", taken: []string{"::/0", "0.0.0.0/0"}},
	} {
		t.Run(test.about, func(t *testing.T) {
			got, found := subnet.Overlaps(netip.MustParsePrefix(test.candidate), prefixes(test.taken...))
			if found != (test.want != "") || found && got.String() != test.want {
				t.Fatalf("%v, %v", got, found)
			}
		})
	}
}

func TestWhatIsNotValidOverlapsNothing(t *testing.T) {
	broken := netip.PrefixFrom(netip.MustParseAddr("10.1.2.3"), 33)
	for _, pair := range [][2]netip.Prefix{
		{broken, netip.MustParsePrefix("10.0.0.0/8")},
		{netip.MustParsePrefix("10.0.0.0/8"), broken},
		{{}, {}},
	} {
		if got, found := subnet.Overlaps(pair[0], pair[1:]); found {
			t.Fatalf("%v overlaps %v", pair[0], got)
		}
	}
}

func TestBadRequestsNameTheField(t *testing.T) {
	broken := netip.PrefixFrom(netip.MustParseAddr("10.1.2.3"), 33)
	for _, test := range []struct {
		request subnet.Request
		want    string
	}{
		{subnet.Request{Taken: append(prefixes("10.0.0.0/8"), netip.Prefix{})}, "Taken[1] of 2 prefixes not valid"},
		{subnet.Request{Taken: []netip.Prefix{broken}}, "Taken[0] of 1 prefixes not valid"},
		{subnet.Request{Pool: []netip.Prefix{broken}}, "Pool[0] of 1 ranges not valid"},
		{subnet.Request{Pool: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.0"), -1)}}, "Pool[0] of 1 ranges not valid"},
		{subnet.Request{Pool: prefixes("10.0.0.0/8", "fd00::/8")}, "Pool[1]: fd00::/8 beside 10.0.0.0/8 (want one family) not valid"},
		{subnet.Request{Pool: prefixes("10.0.0.0/31")}, "Pool[0]: 10.0.0.0/31 (want /30 at the narrowest) not valid"},
		{subnet.Request{Pool: prefixes("fd00::/127")}, "Pool[0]: fd00::/127 (want /126 at the narrowest) not valid"},
		{subnet.Request{Pool: prefixes("10.1.2.0/25")}, "Bits 24 for Pool[0] 10.1.2.0/25 (want 25 to 30) not valid"},
		{subnet.Request{Pool: prefixes("10.0.0.0/8", "10.1.2.0/28"), Bits: 27}, "Bits 27 for Pool[1] 10.1.2.0/28 (want 28 to 30) not valid"},
		{subnet.Request{Bits: 31}, "Bits 31 for Pool[0] 10.0.0.0/8 (want 8 to 30) not valid"},
		{subnet.Request{Bits: 7}, "Bits 7 for Pool[0] 10.0.0.0/8 (want 8 to 30) not valid"},
		{subnet.Request{Bits: -1}, "Bits -1 for Pool[0] 10.0.0.0/8 (want 8 to 30) not valid"},
		{subnet.Request{Pool: prefixes("fd00::/8"), Bits: 127}, "Bits 127 for Pool[0] fd00::/8 (want 8 to 126) not valid"},
	} {
		err := test.request.Validate()
		if !errors.Is(err, errors.NotValid) || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
		if _, err := subnet.Choose(test.request); !errors.Is(err, errors.NotValid) {
			t.Errorf("chosen all the same: %v", err)
		}
	}
}

func TestWhatIsGivenIsNotChanged(t *testing.T) {
	taken := prefixes("10.9.0.0/16", "10.1.2.3/24", "10.0.0.0/9")
	pool := prefixes("10.200.0.0/16", "10.128.5.1/9")
	request := subnet.Request{Taken: slices.Clone(taken), Pool: slices.Clone(pool)}
	if _, err := subnet.Choose(request); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(taken, request.Taken) || !slices.Equal(pool, request.Pool) {
		t.Fatal(request)
	}
}

// The last free one is found, at either end and in the middle.
func TestTheOnlyFreeSubnetIsFound(t *testing.T) {
	for _, free := range []int{0, 1, 2, 100, 254, 255} {
		var request subnet.Request
		request.Pool = prefixes("10.77.0.0/16")
		for i := range 256 {
			if i != free {
				// One address of each is enough.
				request.Taken = append(request.Taken, netip.MustParsePrefix(fmt.Sprintf("10.77.%d.%d/32", i, 255-i)))
			}
		}
		for seed := range uint64(5) {
			request.Seed = seed
			got, err := subnet.Choose(request)
			if want := fmt.Sprintf("10.77.%d.0/24", free); err != nil || got.String() != want {
				t.Fatalf("seed %d: %v, %v (want %s)", seed, got, err, want)
			}
		}
	}
}

func TestTheWholePoolMayBeTheResult(t *testing.T) {
	for _, word := range []string{"10.1.2.0/24", "10.1.2.4/30", "0.0.0.0/0", "255.255.255.252/30", "fd00::/64", "::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"} {
		pool := netip.MustParsePrefix(word)
		request := subnet.Request{Pool: []netip.Prefix{pool}, Bits: pool.Bits()}
		if pool.Bits() == 0 { // which asks for the default
			continue
		}
		if got, err := subnet.Choose(request); err != nil || got != pool {
			t.Errorf("%s: %v, %v", word, got, err)
		}
	}
}

func TestIPv6(t *testing.T) {
	taken := prefixes("fd00::1/64", "fd80::/9", "fe80::1/64", "::/0", "10.0.0.0/8")
	seen := map[netip.Prefix]bool{}
	for seed := range uint64(100) {
		got, err := subnet.Choose(subnet.Request{Taken: taken, Pool: prefixes("fd00::/8"), Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if got.Bits() != 64 || got != got.Masked() || !netip.MustParsePrefix("fd00::/9").Overlaps(got) {
			t.Fatal(got)
		}
		seen[got] = true
	}
	if len(seen) != 100 {
		t.Fatalf("%d of 100 differ", len(seen))
	}
}

func TestNothingFreeNamesWhatIsInTheWay(t *testing.T) {
	for _, test := range []struct {
		about   string
		request subnet.Request
		want    string
	}{
		{
			about: "what others around it hold is not named twice",
			request: subnet.Request{
				Pool:  prefixes("10.5.0.0/16"),
				Taken: prefixes("10.5.1.0/24", "10.5.0.1/17", "10.5.128.0/17", "10.5.0.0/17", "10.5.200.3/32"),
			},
			want: "free subnet of length /24 in 10.5.0.0/16 (in the way: 10.5.0.0/17, 10.5.128.0/17) not found",
		},
		{
			about: "what is elsewhere is not named",
			request: subnet.Request{
				Pool:  prefixes("192.168.4.0/23"),
				Bits:  24,
				Taken: prefixes("0.0.0.0/0", "10.0.0.0/8", "192.168.4.1/32", "fd00::/8", "::ffff:192.168.5.9/128", "192.168.6.0/24"),
			},
			want: "free subnet of length /24 in 192.168.4.0/23 (in the way: 192.168.4.1/32, 192.168.5.9/32) not found",
		},
		{
			about: "IPv6, and the ranges of the pool in order",
			request: subnet.Request{
				Pool:  prefixes("fd02::/32", "fd01::/32"),
				Taken: prefixes("fc00::/7"),
			},
			want: "free subnet of length /64 in fd01::/32, fd02::/32 (in the way: fc00::/7) not found",
		},
	} {
		t.Run(test.about, func(t *testing.T) {
			_, err := subnet.Choose(test.request)
			if !errors.Is(err, errors.NotFound) || err.Error() != test.want {
				t.Fatalf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestAnErrorStaysShort(t *testing.T) {
	request := subnet.Request{Pool: prefixes("10.0.0.0/8"), Bits: 16, Taken: prefixes("10.64.0.0/10")}
	for i := range 256 {
		request.Taken = append(request.Taken, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 3, 1}), 30))
	}
	_, err := subnet.Choose(request)
	const want = "free subnet of length /16 in 10.0.0.0/8 (in the way: " +
		"10.64.0.0/10, 10.0.3.0/30, 10.1.3.0/30, 10.2.3.0/30, 10.3.3.0/30 and 188 more) not found"
	if err == nil || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
}

// The parts are told apart, and their order matters.
func TestSeedFrom(t *testing.T) {
	seeds := map[uint64]string{}
	for _, parts := range [][]string{
		{}, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"c", "ab"}, {"abc", ""}, {"", "abc"}, {"a", "b", "c"},
	} {
		seed := subnet.SeedFrom(parts...)
		if other, ok := seeds[seed]; ok {
			t.Errorf("%q has the seed of %s", parts, other)
		}
		seeds[seed] = fmt.Sprintf("%q", parts)
		if again := subnet.SeedFrom(slices.Clone(parts)...); again != seed {
			t.Errorf("%q: %d, then %d", parts, seed, again)
		}
	}
	// Kept for good: an upgraded agent asks with the seed that it asked with before.
	if got := subnet.SeedFrom("4c4c4544", "deadbeef", "0"); got != 7101351190079234484 {
		t.Errorf("the seed of a machine is now %d", got)
	}
}

// H2: what is configured wins, and what was chosen once is chosen again.
func TestH2EveryRunGivesTheSameSubnet(t *testing.T) {
	request := subnet.Request{Taken: prefixes("192.168.1.7/24", "0.0.0.0/0", "10.20.0.0/16"), Seed: subnet.SeedFrom("machine", "model", "0")}
	first, err := subnet.Choose(request)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		// The kernel lists routes in any order, and some twice.
		slices.Reverse(request.Taken)
		request.Taken = append(request.Taken, request.Taken[0])
		if again, err := subnet.Choose(request); err != nil || again != first {
			t.Fatalf("%v, then %v, %v", first, again, err)
		}
	}
}

// H3: an overlapping neighbour was missed, and "random" was the same on all hosts.
func TestH3NeighboursOfAnyLengthAreSeen(t *testing.T) {
	candidate := netip.MustParsePrefix("10.0.8.0/24")
	for bits := 1; bits <= 32; bits++ {
		around := netip.PrefixFrom(candidate.Addr().Next(), bits)
		if _, found := subnet.Overlaps(candidate, []netip.Prefix{around}); !found {
			t.Errorf("%s is missed", around)
		}
		got, err := subnet.Choose(subnet.Request{Taken: []netip.Prefix{around}, Pool: []netip.Prefix{candidate}})
		if !errors.Is(err, errors.NotFound) {
			t.Errorf("%s is missed: %s", around, got)
		}
	}
}

func TestH3HostsDiffer(t *testing.T) {
	const hosts = 200
	seen := map[netip.Prefix]int{}
	for i := range hosts {
		got, err := subnet.Choose(subnet.Request{Seed: subnet.SeedFrom("one machine-id for all", "model", fmt.Sprint(i))})
		if err != nil {
			t.Fatal(err)
		}
		seen[got]++
	}
	// 200 of 65536 at random: a pair or so by chance.
	if len(seen) < hosts-5 {
		t.Fatalf("%d hosts share %d subnets", hosts, len(seen))
	}
}

// H4: 10/8 is routed, so no subnet is free. The error names the route, and another pool
// helps.
func TestH4TheWholePoolIsRouted(t *testing.T) {
	request := subnet.Request{Taken: prefixes("0.0.0.0/0", "10.0.0.0/8", "10.3.0.0/16", "192.168.1.7/24")}
	_, err := subnet.Choose(request)
	const want = "free subnet of length /24 in 10.0.0.0/8 (in the way: 10.0.0.0/8) not found"
	if !errors.Is(err, errors.NotFound) || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	request.Pool = prefixes("192.168.0.0/16")
	got, err := subnet.Choose(request)
	if err != nil || !strings.HasPrefix(got.String(), "192.168.") {
		t.Fatal(got, err)
	}
	if clash, found := subnet.Overlaps(got, request.Taken); found {
		t.Fatalf("%s overlaps %s", got, clash)
	}
}
