package subnet_test

import (
	"fmt"
	"net/netip"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/subnet"
)

func ExampleChoose() {
	chosen, err := subnet.Choose(subnet.Request{
		Taken: []netip.Prefix{
			netip.MustParsePrefix("0.0.0.0/0"),      // the default route
			netip.MustParsePrefix("192.168.1.7/24"), // an address of the host
			netip.MustParsePrefix("10.0.0.0/9"),     // a route into a VPN
		},
		Seed: subnet.SeedFrom("4c4c4544004d3510", "deadbeef-0bad-400d-8000-4b1d0d06f00d", "0"),
	})
	fmt.Println(chosen, err)
	// Output: 10.173.248.0/24 <nil>
}

// A VPN routes all of the default pool: the error says so, and another pool helps.
func ExampleChoose_noneFree() {
	request := subnet.Request{
		Taken: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.3.0.0/16")},
	}
	_, err := subnet.Choose(request)
	fmt.Println(errors.Is(err, errors.NotFound), err)

	request.Pool = []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}
	chosen, err := subnet.Choose(request)
	fmt.Println(chosen, err)
	// Output:
	// true free subnet of length /24 in 10.0.0.0/8 (in the way: 10.0.0.0/8) not found
	// 172.18.40.0/24 <nil>
}

// A subnet that a person has configured is checked in the same way.
func ExampleOverlaps() {
	configured := netip.MustParsePrefix("10.1.2.0/24")
	route, clash := subnet.Overlaps(configured, []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/0"),
		netip.MustParsePrefix("10.1.2.128/25"),
	})
	fmt.Println(route, clash)
	// Output: 10.1.2.128/25 true
}
