package hostnet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/facade"
)

func TestWhatIsRefusedBeforeAnythingIsLookedAt(t *testing.T) {
	type devices = []facade.DeviceToBridge
	for _, test := range []struct {
		devices devices
		delay   time.Duration
		want    string
	}{
		{nil, 0, ""},
		{devices{{Device: "eth0", Bridge: "br-eth0"}}, time.Minute, ""},
		{devices{{Device: "eth0", Bridge: "br-eth0"}}, -1, "delay of -1ns"},
		{devices{{Device: "", Bridge: "br"}}, 0, `device "": Device`},
		{devices{{Device: "eth0"}}, 0, `device "eth0": Bridge`},
		{devices{{Device: "eth0", Bridge: "br-0123456789abc"}}, 0, `device "eth0": Bridge: interface name "br-0123456789abc" (want 1 to 15 bytes)`},
		{devices{{Device: strings.Repeat("e", 999), Bridge: "br"}}, 0, "(want 1 to 15 bytes)"},
		{devices{{Device: "eth0", Bridge: "a b"}}, 0, `device "eth0": Bridge`},
		{devices{{Device: "eth0", Bridge: "br\n"}}, 0, `device "eth0": Bridge`},
		{devices{{Device: "eth0", Bridge: "eth0"}}, 0, `Bridge "eth0" of the device of that name`},
		{devices{{Device: "eth0", Bridge: "br", MAC: "x"}}, 0, `MAC "x"`},
		{devices{{Device: "eth0", Bridge: "br"}, {Device: "eth0", Bridge: "br2"}}, 0, `device "eth0": named twice`},
		{devices{{Device: "eth0", Bridge: "br"}, {Device: "eth1", Bridge: "br"}}, 0, `device "eth1": bridge "br" for two devices`},
		{devices{{Device: "eth0", Bridge: "eth1"}, {Device: "eth1", Bridge: "br"}}, 0, `device "eth0": bridge "eth1", which is to be bridged itself`},
	} {
		wantNotValid(t, checkRequest(test.devices, test.delay), test.want)
	}
}

// wantNotValid wants no error for an empty text, and else one short line that has it.
func wantNotValid(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v", err)
	case want != "" && (!errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300):
		t.Errorf("got %v, want a NotValid with %q", err, want)
	}
}

func TestDevicesThatAreNeverBridged(t *testing.T) {
	for _, test := range []struct{ device, bridge, mac, want string }{
		{"lo", "br-lo", "", `device "lo": bridging the loopback interface`},
		{"br-used", "br-x", "", `device "br-used": bridging a bridge`},
		{"lxdbr0", "br-x", "", `device "lxdbr0": bridging a bridge that serves containers`},
		{"virbr7", "br-x", "", `a bridge that serves containers`},
		{"mybr", "br-x", "", `a bridge that serves containers`},
		{"br-0123456789ab", "br-x", "", `a bridge that serves containers`},
		{"eth1", "br-eth1", "", `device "eth1": bridging a member of bond "bond0"`},
		{"eth2", "br-other", "", `device "eth2": bridging what is under "br-eth2" already`},
		{"veth12ab34cd", "br-x", "", `device "veth12ab34cd": bridging what belongs to a container`},
		{"custom0", "br-x", "", `bridging what belongs to a container`},
		{"vnet0", "br-x", "", `bridging what belongs to a container`},
		{"wg0", "br-wg0", "", `device "wg0": bridging an interface of kind "wireguard"`},
		{"tun0", "br-tun0", "", `device "tun0": bridging an interface of kind "tun"`},
		{"eth0", "br-eth0", mac1, `device "eth0": MAC 02:00:00:00:00:11, while the interface has "02:00:00:00:00:10",`},
		{"eth0", "lxdbr0", "", `device "eth0": bridge "lxdbr0", which serves containers,`},
		{"eth0", "lxdbr99", "", `device "eth0": bridge "lxdbr99", which serves containers,`},
		{"eth0", "mybr", "", `bridge "mybr", which serves containers,`},
		{"eth0", "br-fedcba987654", "", `which serves containers`},
		{"eth0", "br-eth2", "", `device "eth0": bridge "br-eth2", which is another's (it has port "eth2"),`},
		{"eth0", "br-used", "", `device "eth0": bridge "br-used", which is another's (it has address 10.44.0.1/24),`},
		{"eth0", "eth9", "", `device "eth0": bridge "eth9", which is an interface of kind "veth",`},
		{"eth0", "br-eth0", mac0, ""},
		{"eth0", "br-eth0", strings.ToUpper(mac0), ""},
		{"eth0", "br-empty", "", ""},
		{"bond0", "br-bond0", "", ""},
		{"eth0.5", "br-eth0.5", "", ""},
		{"eth9", "br-eth9", "", ""},
		{"eth2", "br-eth2", mac2, ""},
	} {
		r := rules{zoo(), []string{"mybr"}}
		_, err := r.decide([]facade.DeviceToBridge{{Device: test.device, Bridge: test.bridge, MAC: test.mac}})
		wantNotValid(t, err, test.want)
	}
	_, err := rules{state: zoo()}.decide([]facade.DeviceToBridge{device("eth0"), device("eth77")})
	if !errors.Is(err, errors.NotFound) || err.Error() != `device "eth77": interface of that name not found` {
		t.Errorf("unknown: %v", err)
	}
}

func TestWhatIsBridgedAlreadyIsNotToDo(t *testing.T) {
	todo, err := rules{state: zoo()}.decide([]facade.DeviceToBridge{device("eth2"), device("bond0")})
	want := []bridging{{Device: "bond0", Bridge: "br-bond0", MAC: mac1, Bond: true}}
	if err != nil || !slices.Equal(todo, want) {
		t.Errorf("got %+v, %v", todo, err)
	}
}

// Whatever is bridged, in whatever order changes were made when it stopped, what is put
// back is what was there: for every device of the zoo and every step.
func TestRestoringIsTheInverseOfEveryStep(t *testing.T) {
	for _, name := range []string{"eth0", "bond0", "eth0.5", "eth9"} {
		bridge := BridgeName(name)
		if name == "eth9" {
			bridge = "br-empty"
		}
		link, _ := zoo().Link(name)
		todo := []bridging{{Device: name, Bridge: bridge, MAC: link.MAC}}
		steps := bridgeChanges(zoo(), todo[0])
		for n := range len(steps) + 1 {
			m := &memory{s: zoo()}
			for _, c := range steps[:n] {
				if err := m.Do(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if now := m.s; n == len(steps) && (len(missing(now, todo)) > 0 || len(lost(zoo(), now, nil)) > 0) {
				t.Errorf("%s: missing %v, lost %v", name, missing(now, todo), lost(zoo(), now, nil))
			}
			for range restorePasses {
				now, _ := m.Look(t.Context())
				for _, c := range restoreChanges(zoo(), now, nil, todo, 0) {
					if err := m.Do(t.Context(), c); err != nil {
						t.Fatal(err)
					}
				}
			}
			if diff := cmp.Diff(sorted(zoo()), sorted(m.s)); diff != "" {
				t.Errorf("%s, %d steps: %s", name, n, diff)
			}
		}
	}
}

// sorted returns what a state is, in an order that does not matter.
func sorted(s kernel.State) []string {
	var out []string
	for _, l := range s.Links {
		l.Index = 0
		out = append(out, strings.TrimSpace(strings.Join([]string{l.Name, l.Kind, l.MAC, l.Master, l.Parent, map[bool]string{true: "up"}[l.Up]}, " ")))
	}
	for _, a := range s.Addresses {
		out = append(out, a.Key())
	}
	for _, r := range s.Routes {
		out = append(out, r.Key())
	}
	slices.Sort(out)
	return out
}

func TestNothingIsToBeRestoredWhereNothingHappened(t *testing.T) {
	todo := []bridging{{Device: "eth0", Bridge: "br-eth0", MAC: mac0}, {Device: "eth9", Bridge: "br-empty"}}
	if got := restoreChanges(zoo(), zoo(), nil, todo, time.Hour); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestWhatCountsAsLost(t *testing.T) {
	drop := func(link string) func(*kernel.State) {
		return func(s *kernel.State) {
			s.Addresses = slices.DeleteFunc(s.Addresses, func(a kernel.Address) bool { return a.Link == link })
			s.Routes = slices.DeleteFunc(s.Routes, func(r kernel.Route) bool { return r.Over(link) })
		}
	}
	dynamic := func(s *kernel.State) {
		s.Addresses = append(s.Addresses, kernel.Address{Link: "eth0", Prefix: addr("eth0", "fd00:7::5/64").Prefix, Dynamic: true})
	}
	for _, test := range []struct {
		name          string
		before, after func(*kernel.State)
		want          []string
	}{
		{"nothing", nil, nil, nil},
		{"all of a device", nil, drop("eth0"), []string{
			"address 10.1.0.5/24 of eth0", "address fd00:1::5/64 of eth0",
			"route default via 10.1.0.2 dev eth0 metric 200", "route default via 10.1.0.1 dev eth0 metric 100", "route default via fe80::1 dev eth0 metric 50",
		}},
		{"what is on another link now", nil, func(s *kernel.State) {
			for i := range s.Addresses {
				if s.Addresses[i].Link == "eth0" {
					s.Addresses[i].Link = "br-eth0"
				}
			}
			for i := range s.Routes {
				s.Routes[i] = s.Routes[i].On("eth0", "br-eth0")
			}
		}, nil},
		{"what is a container bridge's", nil, drop("lxdbr0"), nil},
		{"another metric", nil, func(s *kernel.State) { s.Routes[1].Metric = 7 }, []string{"route default via 10.1.0.1 dev eth0 metric 100"}},
		{"another address that the host made up", dynamic, func(s *kernel.State) {
			s.Addresses = append(s.Addresses, addr("br-eth0", "fd00:7::99/64"))
		}, nil},
		{"none that the host made up", dynamic, nil, []string{"address fd00:7::5/64 of eth0"}},
		{"one that was for privacy", func(s *kernel.State) {
			s.Addresses = append(s.Addresses, kernel.Address{Link: "eth0", Prefix: addr("eth0", "fd00:7::5/64").Prefix, Dynamic: true, Temporary: true})
		}, nil, nil},
		{"one that another has", func(s *kernel.State) {
			s.Addresses = append(s.Addresses, kernel.Address{Link: "eth0", Prefix: addr("eth0", "fd00:7::5/64").Prefix, Useless: true})
		}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, after := zoo(), zoo()
			if test.before != nil {
				test.before(&before)
			}
			if test.after != nil {
				test.after(&after)
			}
			if got := lost(before, after, nil); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
