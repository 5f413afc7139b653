package subnet_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/subnet"
)

var seedFlag = flag.Uint64("seed", 0, "replays the random tests of this seed")

// randomly returns a source of numbers that a failing test can be repeated with.
func randomly(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -run %s -seed %d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// world is a small part of the addresses, so that things meet there.
type world struct {
	base netip.Prefix // 8 bits wide
}

func (w world) prefix(r *rand.Rand, atLeast int) netip.Prefix {
	size := w.base.Addr().BitLen()
	addr := w.base.Addr()
	for range r.IntN(256) {
		addr = addr.Next()
	}
	return netip.PrefixFrom(addr, size-8+atLeast+r.IntN(9-atLeast))
}

// enumerate returns all free subnets of a pool in the slow way.
func enumerate(w world, request subnet.Request) map[netip.Prefix]bool {
	free := map[netip.Prefix]bool{}
	for addr := w.base.Addr(); w.base.Contains(addr); addr = addr.Next() {
		p := netip.PrefixFrom(addr, request.Bits)
		if p != p.Masked() {
			continue
		}
		inside := false
		for _, pool := range request.Pool {
			inside = inside || pool.Contains(addr)
		}
		taken := false
		for _, other := range request.Taken {
			taken = taken || other.Bits() > 0 && p.Overlaps(other)
		}
		if inside && !taken {
			free[p] = true
		}
	}
	return free
}

// Against enumeration: one is found if and only if there is one, and it is one of those;
// and each of those is found by some seed.
func TestExactOnSmallPools(t *testing.T) {
	r := randomly(t)
	none, some := 0, 0
	for range 1500 {
		w := world{netip.MustParsePrefix([]string{"10.3.2.0/24", "0.0.0.0/24", "255.255.255.0/24", "fd00::ff00/120", "::/120", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120"}[r.IntN(6)])}
		size := w.base.Addr().BitLen()
		var request subnet.Request
		narrowest := 0
		for range 1 + r.IntN(3) {
			p := w.prefix(r, 0)
			if p.Bits() > size-2 {
				p = netip.PrefixFrom(p.Addr(), size-2)
			}
			narrowest = max(narrowest, p.Bits())
			request.Pool = append(request.Pool, p)
		}
		request.Bits = narrowest + r.IntN(size-2-narrowest+1)
		for range r.IntN(12) {
			request.Taken = append(request.Taken, w.prefix(r, r.IntN(6)))
		}
		if r.IntN(3) == 0 {
			request.Taken = append(request.Taken, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
		}
		free := enumerate(w, request)
		found := map[netip.Prefix]bool{}
		for range 3 * (1 + len(free)) {
			request.Seed = r.Uint64()
			got, err := subnet.Choose(request)
			if len(free) == 0 {
				if !errors.Is(err, errors.NotFound) {
					t.Fatalf("%+v: %v, %v, and nothing is free", request, got, err)
				}
				continue
			}
			if err != nil || !free[got] {
				t.Fatalf("%+v: %v, %v, of %v", request, got, err, free)
			}
			if again, err := subnet.Choose(request); err != nil || again != got {
				t.Fatalf("%+v: %v, then %v, %v", request, got, again, err)
			}
			found[got] = true
		}
		if len(free) == 0 {
			none++
			continue
		}
		some++
		if len(free) <= 4 { // else chance could leave one out
			for seed := uint64(0); len(found) < len(free) && seed < 1000; seed++ {
				request.Seed = seed
				got, _ := subnet.Choose(request)
				found[got] = true
			}
			if len(found) != len(free) {
				t.Fatalf("%+v: only %v of %v are ever chosen", request, found, free)
			}
		}
	}
	if none < 100 || some < 100 {
		t.Fatalf("%d requests with none, %d with some free: the test tests little", none, some)
	}
}

// Every free subnet is as likely as any other, also with neighbouring seeds and with what
// is free in unequal pieces.
func TestSeedsSpreadEvenly(t *testing.T) {
	request := subnet.Request{Pool: prefixes("10.0.0.0/20"), Taken: prefixes("10.0.1.0/24", "10.0.8.0/22", "10.0.14.5/32")}
	const free, seeds = 10, 20000
	count := map[netip.Prefix]int{}
	for seed := range uint64(seeds) {
		request.Seed = seed
		got, err := subnet.Choose(request)
		if err != nil {
			t.Fatal(err)
		}
		count[got]++
	}
	if len(count) != free {
		t.Fatal(count)
	}
	for p, n := range count {
		// Six standard deviations; the seeds are fixed, so it passes always or never.
		if mean := seeds / free; math.Abs(float64(n-mean)) > 6*math.Sqrt(float64(mean)) {
			t.Errorf("%s was chosen %d times (want about %d)", p, n, mean)
		}
	}
}

// Ten million subnets and thousands of routes are no reason to wait: nothing is
// enumerated, or this would not end.
func TestLargePools(t *testing.T) {
	r := randomly(t)
	var taken []netip.Prefix
	for range 5000 {
		a := netip.AddrFrom4([4]byte{10, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
		taken = append(taken, netip.PrefixFrom(a, 14+r.IntN(19)))
		var b [16]byte
		b[0] = 0xfd
		for i := 1; i < 16; i++ {
			b[i] = byte(r.Uint32())
		}
		taken = append(taken, netip.PrefixFrom(netip.AddrFrom16(b), 12+r.IntN(117)))
	}
	for _, test := range []struct {
		pool string
		bits int
	}{{"10.0.0.0/8", 30}, {"fd00::/8", 64}, {"fd00::/8", 126}, {"::/0", 126}, {"::/0", 1}, {"0.0.0.0/0", 30}} {
		for range 20 {
			request := subnet.Request{Taken: taken, Pool: prefixes(test.pool), Bits: test.bits, Seed: r.Uint64()}
			got, err := subnet.Choose(request)
			if err != nil {
				if !errors.Is(err, errors.NotFound) {
					t.Fatal(err)
				}
				continue
			}
			if clash, found := subnet.Overlaps(got, taken); found || got.Bits() != test.bits || got != got.Masked() || !request.Pool[0].Contains(got.Addr()) {
				t.Fatalf("%+v: %s (%s)", test, got, clash)
			}
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add("10.0.0.0/8", 24, uint64(1), "10.0.0.0/9", "10.128.0.1/32", "0.0.0.0/0")
	f.Add("fd00::/8", 64, uint64(2), "fd00::/9", "::ffff:10.0.0.1/120", "::/0")
	f.Add("::/0", 126, uint64(3), "8000::/1", "::/2", "4000::/128")
	f.Add("::ffff:10.0.0.0/104", 0, uint64(4), "10.0.0.0/7", "", "x")
	f.Fuzz(func(t *testing.T, pool string, bits int, seed uint64, a, b, c string) {
		request := subnet.Request{Bits: bits, Seed: seed}
		if p, err := netip.ParsePrefix(pool); err == nil {
			request.Pool = []netip.Prefix{p}
		}
		for _, word := range []string{a, b, c} {
			p, _ := netip.ParsePrefix(word) // one that is not valid is refused
			request.Taken = append(request.Taken, p)
		}
		got, err := subnet.Choose(request)
		if invalid := request.Validate(); (invalid != nil) != errors.Is(err, errors.NotValid) {
			t.Fatalf("%v, but %v", err, invalid)
		}
		if err != nil {
			if !errors.Is(err, errors.NotValid) && !errors.Is(err, errors.NotFound) {
				t.Fatal(err)
			}
			return
		}
		if clash, found := subnet.Overlaps(got, request.Taken); found {
			t.Fatalf("%s overlaps %s", got, clash)
		}
		if got != got.Masked() || bits != 0 && got.Bits() != bits {
			t.Fatalf("%s for /%d", got, bits)
		}
		if len(request.Pool) == 0 {
			request.Pool = subnet.DefaultPool()
		}
		if _, inside := subnet.Overlaps(got, request.Pool); !inside && request.Pool[0].Bits() > 0 {
			// A default route overlaps nothing, not even as a pool.
			if request.Pool[0].Addr().Is4In6() && request.Pool[0].Bits() == 96 {
				return
			}
			t.Fatalf("%s is outside %s", got, request.Pool[0])
		}
		if again, err := subnet.Choose(request); err != nil || again != got {
			t.Fatal(fmt.Sprintf("%s, then %s", got, again), err)
		}
	})
}
