package plan_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

func TestBridgingsAreValidated(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []plan.Bridging
		want string // in the message; empty for none
	}{
		{"none", nil, ""},
		{"plain", []plan.Bridging{{Device: "eth0", Bridge: "br-eth0", MAC: "52:54:00:12:34:56"}}, ""},
		{"no address", []plan.Bridging{{Device: "eth0.10", Bridge: "br-eth0.10"}}, ""},
		{"no device", []plan.Bridging{{Bridge: "br"}}, "Device"},
		{"no bridge", []plan.Bridging{{Device: "eth0"}}, "Bridge"},
		{"long bridge", []plan.Bridging{{Device: "eth0", Bridge: "br-0123456789abc"}}, "Bridge"},
		{"the same", []plan.Bridging{{Device: "eth0", Bridge: "eth0"}}, "Bridge"},
		{"wildcard", []plan.Bridging{{Device: "eth*", Bridge: "br"}}, "Device"},
		{"backslash", []plan.Bridging{{Device: "eth0", Bridge: `br\`}}, "Bridge"},
		{"comment", []plan.Bridging{{Device: "eth0", Bridge: "#br"}}, "Bridge"},
		{"option", []plan.Bridging{{Device: "-a", Bridge: "br"}}, "Device"},
		{"line end", []plan.Bridging{{Device: "eth0", Bridge: "br\nx"}}, "Bridge"},
		{"logical", []plan.Bridging{{Device: "eth0=x", Bridge: "br"}}, "Device"},
		{"no hardware address", []plan.Bridging{{Device: "eth0", Bridge: "br", MAC: "x"}}, "MAC"},
		{"long hardware address", []plan.Bridging{{Device: "eth0", Bridge: "br", MAC: "02:00:5e:10:00:00:00:01"}}, "MAC"},
		{"device twice", []plan.Bridging{{Device: "eth0", Bridge: "br0"}, {Device: "eth0", Bridge: "br1"}}, `device "eth0" named twice`},
		{"bridge twice", []plan.Bridging{{Device: "eth0", Bridge: "br0"}, {Device: "eth1", Bridge: "br0"}}, `bridge "br0" named for two`},
		{"both", []plan.Bridging{{Device: "eth0", Bridge: "br0"}, {Device: "br0", Bridge: "br1"}}, `bridge "br0" is to be bridged`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := plan.ValidateAll(c.in)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want NotValid with %q", err, c.want)
			}
		})
	}
}

func TestFilesAreValidated(t *testing.T) {
	for want, files := range map[string][]plan.File{
		"empty Name":                     {{Data: []byte("x")}},
		`file "/a" given twice`:          {{Name: "/a"}, {Name: "/a"}},
		"/a:2: zero byte":                {{Name: "/a", Data: []byte("x\ny\x00")}},
		"/a: file of 262145 bytes (want": {{Name: "/a", Data: bytes.Repeat([]byte("x"), 256<<10+1)}},
	} {
		if err := plan.ValidateFiles(files); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want NotValid with %q", err, want)
		}
	}
	if err := plan.ValidateFiles([]plan.File{{Name: "/a"}, {Name: "/b", Data: []byte("x")}}); err != nil {
		t.Error(err)
	}
}

func TestHardwareAddressesHaveOneForm(t *testing.T) {
	for in, want := range map[string]string{
		"52:54:00:AB:CD:EF":       "52:54:00:ab:cd:ef",
		"52-54-00-ab-cd-ef":       "52:54:00:ab:cd:ef",
		"5254.00ab.cdef":          "52:54:00:ab:cd:ef",
		"random":                  "",
		"":                        "",
		"02:00:5e:10:00:00:00:01": "",
	} {
		if got := plan.CanonicalMAC(in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func TestErrorsNameFileAndLineAndAreOneShortLine(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind error
		want string
	}{
		{plan.Invalid("/a", 3, "no %s", "good"), errors.NotValid, "/a:3: no good"},
		{plan.Conflict("/a", 3, "taken"), errors.AlreadyExists, "/a:3: taken"},
		{plan.Unsupported("/a", 0, "odd"), errors.NotSupported, "/a: odd"},
		{plan.Missing("eth0"), errors.NotFound, `device "eth0" in the network configuration not found`},
	} {
		if !errors.Is(c.err, c.kind) || c.err.Error() != c.want {
			t.Errorf("%v, want %q of kind %v", c.err, c.want, c.kind)
		}
	}
	if got := plan.Quote("a\nb" + strings.Repeat("c", 100)); len(got) > 80 || strings.Contains(got, "\n") {
		t.Errorf("quoted as %s", got)
	}
}
