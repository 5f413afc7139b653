package kernel

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func message(header []byte, attrs ...[]byte) []byte {
	for _, a := range attrs {
		header = append(header, a...)
	}
	return header
}

// address is 10.0.0.5/24 on link 2, with a label and lifetimes.
func addressMessage(label string, preferred, valid uint32) []byte {
	header := make([]byte, lengthIfaddrmsg)
	header[0], header[1] = unix.AF_INET, 24
	native.PutUint32(header[4:], 2)
	cache := native.AppendUint32(native.AppendUint32(nil, preferred), valid)
	return message(header, attribute(unix.IFA_ADDRESS, []byte{10, 0, 0, 5}), attribute(unix.IFA_LOCAL, []byte{10, 0, 0, 5}),
		attribute(unix.IFA_LABEL, append([]byte(label), 0)), uint32Attribute(unix.IFA_FLAGS, unix.IFA_F_NOPREFIXROUTE|unix.IFA_F_SECONDARY),
		attribute(unix.IFA_CACHEINFO, append(cache, make([]byte, 8)...)))
}

var two = map[int]string{2: "eth0", 3: "br-eth0"}

func attributes(t *testing.T, raw []byte, header int) map[uint16][]byte {
	t.Helper()
	out := map[uint16][]byte{}
	for b := raw[header:]; len(b) >= unix.SizeofRtAttr; {
		n := int(native.Uint16(b))
		out[native.Uint16(b[2:])] = b[unix.SizeofRtAttr:n]
		b = b[min(len(b), (n+3)&^3):]
	}
	return out
}

func TestLifetimesShrinkWithTheirAge(t *testing.T) {
	for _, test := range []struct {
		preferred, valid         uint32
		age                      time.Duration
		wantPreferred, wantValid uint32
	}{
		{forever, forever, time.Hour, forever, forever},
		{100, 200, 0, 100, 200},
		{100, 200, 30 * time.Second, 70, 170},
		{100, 200, 150 * time.Second, 0, 50},
		{100, 200, time.Hour, 0, 1},
		{0, 200, time.Second, 0, 199},
		{100, forever, time.Minute, 40, forever},
		{100, 200, -time.Hour, 100, 200},
	} {
		a, ok, err := parseAddress(addressMessage("eth0", test.preferred, test.valid), two)
		if err != nil || !ok || a.Dynamic != (test.valid != forever) || a.Prefix != netip.MustParsePrefix("10.0.0.5/24") {
			t.Fatalf("%+v %v %v", a, ok, err)
		}
		raw, err := encodeAddress(a, 3, test.age, 0)
		if err != nil {
			t.Fatal(err)
		}
		cache := attributes(t, raw, lengthIfaddrmsg)[unix.IFA_CACHEINFO]
		if p, v := native.Uint32(cache), native.Uint32(cache[4:]); p != test.wantPreferred || v != test.wantValid || native.Uint32(raw[4:]) != 3 {
			t.Errorf("%+v: %d and %d", test, p, v)
		}
	}
}

func TestLabelsFollowTheLink(t *testing.T) {
	for _, test := range []struct{ label, link, want string }{
		{"eth0", "br-eth0", ""},
		{"eth0:1", "br-eth0", "br-eth0:1\x00"},
		{"eth0:1", "eth0", "eth0:1\x00"},
		{"eth0:public12", "br-eth0", ""}, // no room
		{"other", "br-eth0", ""},
	} {
		a, _, err := parseAddress(addressMessage(test.label, forever, forever), two)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := encodeAddress(a.On(test.link), 3, 0, unix.IFA_F_NODAD)
		if err != nil {
			t.Fatal(err)
		}
		attrs := attributes(t, raw, lengthIfaddrmsg)
		if got := string(attrs[unix.IFA_LABEL]); got != test.want {
			t.Errorf("%q on %s: %q, want %q", test.label, test.link, got, test.want)
		}
		// What the kernel found out is not told to it, what somebody asked for is.
		if got := native.Uint32(attrs[unix.IFA_FLAGS]); got != unix.IFA_F_NOPREFIXROUTE|unix.IFA_F_NODAD {
			t.Errorf("flags %#x", got)
		}
	}
}

// FuzzMessages: no message makes the package panic, and what was read can be written, for
// other links, and reads the same.
func FuzzMessages(f *testing.F) {
	f.Add(addressMessage("eth0:1", 100, 200))
	route := make([]byte, lengthRtmsg)
	route[0], route[1], route[4], route[5], route[7] = unix.AF_INET, 16, TableMain, unix.RTPROT_STATIC, unicast
	f.Add(message(route, attribute(unix.RTA_DST, []byte{10, 9, 0, 0}), attribute(unix.RTA_GATEWAY, []byte{10, 0, 0, 1}), uint32Attribute(unix.RTA_OIF, 2)))
	hop := make([]byte, lengthRtnexthop)
	hop = append(hop, attribute(unix.RTA_GATEWAY, []byte{10, 0, 0, 1})...)
	native.PutUint16(hop, uint16(len(hop)))
	native.PutUint32(hop[4:], 2)
	f.Add(message(route, attribute(unix.RTA_MULTIPATH, append(hop, hop...))))
	f.Add(message(route, attribute(unix.RTA_VIA, []byte{unix.AF_INET6, 0, 1, 2, 3}), attribute(unix.RTA_CACHEINFO, make([]byte, 32)), uint32Attribute(unix.RTA_OIF, 2)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if a, ok, err := parseAddress(raw, two); ok && err == nil {
			out, err := encodeAddress(a.On("br-eth0"), 3, time.Second, 0)
			if err != nil {
				t.Fatal(err)
			}
			again, ok, err := parseAddress(out, two)
			if err != nil || !ok || again.Key() != a.On("br-eth0").Key() {
				t.Fatalf("%s became %s, %v", a, again, err)
			}
		}
		if r, ok, err := parseRoute(raw, two); ok && err == nil {
			index := func(name string) (int, error) { return map[string]int{"eth0": 2, "br-eth0": 3}[name], nil }
			out, err := encodeRoute(r.On("eth0", "br-eth0"), index)
			if err != nil {
				t.Fatal(err)
			}
			again, ok, err := parseRoute(out, two)
			if err != nil || !ok || again.Key() != r.On("eth0", "br-eth0").Key() {
				t.Fatalf("%s (%s) became %s (%s), %v", r, r.Key(), again, again.Key(), err)
			}
		}
	})
}
