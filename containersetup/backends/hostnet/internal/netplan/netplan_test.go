package netplan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/netplan"
)

// bridge runs Bridge over texts, each a file of its own, and returns what changed,
// one text after the other.
func bridge(b netplan.Bridging, texts ...string) (string, error) {
	var files []netplan.File
	for i, text := range texts {
		files = append(files, netplan.File{Name: fmt.Sprintf("/etc/netplan/%d.yaml", i), Data: []byte(text)})
	}
	changed, err := netplan.Bridge(files, []netplan.Bridging{b})
	var all strings.Builder
	for _, f := range changed {
		all.Write(f.Data)
	}
	return all.String(), err
}

func ethernets(definitions string) string {
	return "network: {version: 2, ethernets: {" + definitions + "}}\n"
}

// How a device is found, with its hardware address known or not.
func TestADeviceIsFoundByWhatNetplanWouldFindItBy(t *testing.T) {
	const mac = `"52:54:00:12:34:56"`
	for _, c := range []struct {
		name        string
		definitions string
		mac         string
		want        string // the id; empty for not found
		kind        error
	}{
		{"id", "eth0: {dhcp4: true}", "", "eth0", nil},
		{"set-name", "a: {match: {macaddress: " + mac + "}, set-name: eth0}", "", "a", nil},
		{"set-name, other address by now", "a: {match: {macaddress: " + mac + "}, set-name: eth0}", "02:00:00:00:00:01", "a", nil},
		{"set-name of another", "eth0: {match: {macaddress: " + mac + "}, set-name: eth1}", "52:54:00:12:34:56", "", errors.NotFound},
		{"address", "a: {match: {macaddress: " + mac + "}}", "52:54:00:12:34:56", "a", nil},
		{"address in other letters", `a: {match: {macaddress: "02:00:00:00:00:AB"}}`, "02:00:00:00:00:ab", "a", nil},
		{"address of another", "eth0: {match: {macaddress: " + mac + "}}", "02:00:00:00:00:01", "", errors.NotFound},
		{"address that was set", "a: {match: {macaddress: " + mac + `}, macaddress: "02:00:00:00:00:01"}`, "02:00:00:00:00:01", "a", nil},
		{"address not known, by id", "eth0: {match: {macaddress: " + mac + "}}", "", "eth0", nil},
		{"address not known, by name", "a: {match: {macaddress: " + mac + ", name: eth0}}", "", "a", nil},
		{"address not known", "a: {match: {macaddress: " + mac + "}}", "", "", errors.NotFound},
		{"name", "a: {match: {name: eth0}}", "", "a", nil},
		{"name and address", "a: {match: {name: e*, macaddress: " + mac + "}}", "52:54:00:12:34:56", "a", nil},
		{"address under another name", "a: {match: {name: w*, macaddress: " + mac + "}}", "52:54:00:12:34:56", "", errors.NotFound},
		{"name pattern", "a: {match: {name: e*}}", "", "", errors.NotSupported},
		{"driver", "a: {match: {driver: virtio_net}}", "", "", errors.NotSupported},
		{"anything", "a: {match: {}}", "", "", errors.NotSupported},
		{"malformed pattern", `a: {match: {name: "["}}`, "", "", errors.NotFound},
		{"pattern behind", "eth0: {dhcp4: true}, zz: {match: {name: e*}}", "", "eth0", nil},
		{"pattern before", "eth0: {dhcp4: true}, all: {match: {name: e*}}", "", "", errors.NotSupported},
		{"match is a list", "eth0: {match: [a]}", "", "", errors.NotValid},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := bridge(netplan.Bridging{Device: "eth0", Bridge: "br0", MAC: c.mac}, ethernets(c.definitions))
			if c.kind != nil {
				if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), "eth0") {
					t.Fatalf("%v, want %v that names the device", err, c.kind)
				}
				return
			}
			if err != nil || !strings.Contains(out, "interfaces: ["+c.want+"]") {
				t.Fatalf("%v, %s", err, out)
			}
		})
	}
}

func TestTheBridgeKeepsTheHardwareAddress(t *testing.T) {
	for _, c := range []struct{ name, definition, mac, want string }{
		{"as observed", `eth0: {macaddress: "02:00:00:00:00:01"}`, "02:00:00:00:00:02", `macaddress: "02:00:00:00:00:02"`},
		{"in one form", "eth0: {}", "02-00-00-00-00-AB", `macaddress: "02:00:00:00:00:ab"`},
		{"as set", `eth0: {macaddress: 02:00:00:00:00:01}`, "", `br0: {interfaces: [eth0], macaddress: "02:00:00:00:00:01"`},
		{"as matched", `eth0: {match: {macaddress: "02:00:00:00:00:01"}}`, "", `br0: {interfaces: [eth0], macaddress: "02:00:00:00:00:01"`},
		{"none known", "eth0: {}", "", "br0: {interfaces: [eth0], parameters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := bridge(netplan.Bridging{Device: "eth0", Bridge: "br0", MAC: c.mac}, ethernets(c.definition))
			if err != nil || !strings.Contains(out, c.want) {
				t.Fatalf("%v, %s, want %s", err, out, c.want)
			}
		})
	}
}

// The last renderer for all wins, wherever it stands; one for a kind holds in its
// own file; one for a device wins over both.
func TestOnlyWhatNetworkdSetsUpIsBridged(t *testing.T) {
	const (
		all    = "network: {renderer: %s}\n"
		kind   = "network: {ethernets: {renderer: %s, eth0: {}}}\n"
		device = "network: {ethernets: {eth0: {renderer: %s}}}\n"
		plain  = "network: {ethernets: {eth0: {}}}\n"
		nm     = "NetworkManager"
		nd     = "networkd"
	)
	for _, c := range []struct {
		name  string
		texts []string
		ok    bool
	}{
		{"none", []string{plain}, true},
		{"all before", []string{fmt.Sprintf(all, nm), plain}, false},
		{"all after", []string{plain, fmt.Sprintf(all, nm)}, false},
		{"all, last wins", []string{fmt.Sprintf(all, nm), plain, fmt.Sprintf(all, nd)}, true},
		{"kind", []string{fmt.Sprintf(kind, nm)}, false},
		{"kind over all", []string{fmt.Sprintf(all, nm), fmt.Sprintf(kind, nd)}, true},
		{"device", []string{fmt.Sprintf(device, nm)}, false},
		{"device over all", []string{fmt.Sprintf(all, nm), fmt.Sprintf(device, nd)}, true},
		{"sriov", []string{fmt.Sprintf(device, "sriov")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := bridge(netplan.Bridging{Device: "eth0", Bridge: "br0"}, c.texts...)
			if c.ok != (err == nil) || !c.ok && !errors.Is(err, errors.NotSupported) {
				t.Fatalf("%v, %s", err, out)
			}
			if strings.Contains(c.texts[0], nm) && c.ok && strings.Contains(c.name, "over all") && strings.Count(out, "renderer: networkd") != 2 {
				t.Errorf("the bridge is left to NetworkManager: %s", out)
			}
		})
	}
}

func TestErrorsQuoteNoContents(t *testing.T) {
	const secret = "sesame-open"
	for _, text := range []string{
		"network: {wifis: {w: {access-points: {home: {password: " + secret + "}}}}\n",
		"network:\n\twifis: " + secret + "\n",
		"network: " + secret + "\n",
		"network: {ethernets: " + secret + "}\n",
		"network: {ethernets: {eth0: " + secret + "}}\n",
		"network: {ethernets: {eth0: {dhcp4: {x: " + secret + "}}}}\n",
		"network: {ethernets: {eth0: {addresses: " + secret + "}}}\n",
		"network: {wifis: {eth0: {access-points: {home: {password: " + secret + "}}}}}\n",
		"network: {ethernets: {eth0: {dhcp4: true}}}\n---\n" + secret + "\n",
		secret + ": [\n",
		"'" + secret,
		"network: \"" + secret + "\\q\"\n",
	} {
		_, err := bridge(netplan.Bridging{Device: "eth0", Bridge: "br0"}, text)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q gives %v", text, err)
		}
	}
}

// What is meant to hurt is refused, or done, in no time.
func TestHostileFilesAreHarmless(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	for name, text := range map[string]string{
		"deep flow":    strings.Repeat("[", 100000),
		"deep block":   strings.Repeat("- ", 100000),
		"alias bomb":   bomb.String() + "network: {ethernets: {eth0: {routes: *a39, addresses: *a39}}}\n",
		"many anchors": "network: {ethernets: {eth0: &x {dhcp4: true}, " + strings.Repeat("e: *x, ", 10000) + "}}\n",
		"not UTF-8":    "network: {ethernets: {eth0: {dhcp4: \xff}}}\n",
		"UTF-16":       "\xff\xfen\x00:\x00 \x001\x00",
		"zero":         "network: {ethernets: {eth0: {dhcp4: \x00}}}\n",
		"mapping key":  "network: {ethernets: {eth0: {{a: b}: c}}}\n",
		"merge key":    "x: &x {dhcp4: true}\nnetwork: {ethernets: {eth0: {<<: *x}}}\n",
		"tags":         "network: !!binary {ethernets: !x {eth0: !y {dhcp4: !!float true}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := bridge(netplan.Bridging{Device: "eth0", Bridge: "br0"}, text)
			if len(out) > 10*len(text)+1000 {
				t.Errorf("%d bytes become %d", len(text), len(out))
			}
			if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 300) {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestNothingIsDoneForNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# only this\n", "---\n", "network: {version: 2}\n", "network: {version: 2, ethernets: {}}\n", "other: 1\n"} {
		if changed, err := netplan.Bridge([]netplan.File{{Name: "/a", Data: []byte(text)}}, nil); err != nil || changed != nil {
			t.Errorf("%q gives %v, %v", text, changed, err)
		}
		if _, err := bridge(netplan.Bridging{Device: "eth0", Bridge: "br0"}, text); !errors.Is(err, errors.NotFound) {
			t.Errorf("%q gives %v, want NotFound", text, err)
		}
	}
	if _, err := bridge(netplan.Bridging{Device: "eth*", Bridge: "br0"}, ""); !errors.Is(err, errors.NotValid) {
		t.Errorf("%v, want NotValid", err)
	}
}
