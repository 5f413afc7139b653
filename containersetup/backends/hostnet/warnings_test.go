package hostnet

import (
	"slices"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
)

const droppingJSON = `{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "ip", "name": "filter"}},
{"chain": {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"}},
{"chain": {"family": "inet", "table": "fw", "name": "fwd", "hook": "forward", "prio": 0, "policy": "drop"}},
{"chain": {"family": "ip6", "table": "six", "name": "fwd", "hook": "forward", "policy": "drop"}},
{"chain": {"family": "bridge", "table": "b", "name": "fwd", "hook": "forward", "policy": "drop"}},
{"chain": {"family": "ip", "table": "ok", "name": "fwd", "hook": "forward", "policy": "accept"}}]}`

func TestWarnings(t *testing.T) {
	const both = "/proc/sys/net/bridge/bridge-nf-call-"
	for _, test := range []struct {
		name string
		lay  func(*hosttest.Host)
		want []string
	}{
		{"nothing is there", func(*hosttest.Host) {}, nil},
		{"bridges are not filtered", func(h *hosttest.Host) {
			h.On(hosttest.Print("0\n"), "cat")
			h.On(hosttest.Print(droppingJSON), "nft")
		}, nil},
		{"no firewall", func(h *hosttest.Host) { h.On(hosttest.Print("1\n"), "cat") }, nil},
		{"nft", func(h *hosttest.Host) {
			h.On(hosttest.Print("1\n"), "cat")
			h.On(hosttest.Print(droppingJSON), "nft")
		}, []string{"inet fw fwd", "inet fw fwd", "ip6 six fwd"}},
		{"nft for IPv4 alone", func(h *hosttest.Host) {
			h.On(hosttest.Print("0\n"), "cat")
			h.On(hosttest.Print("1\n"), "cat", both+"iptables")
			h.On(hosttest.Print(droppingJSON), "nft")
		}, []string{"inet fw fwd"}},
		{"the older kind", func(h *hosttest.Host) {
			h.On(hosttest.Print("1\n"), "cat")
			h.On(hosttest.Exit(1, "no"), "nft")
			h.On(hosttest.Print("-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n"), "iptables")
			h.On(hosttest.Print("-P FORWARD ACCEPT\n"), "ip6tables")
		}, []string{"ip filter FORWARD"}},
		{"no JSON", func(h *hosttest.Host) {
			h.On(hosttest.Print("1\n"), "cat")
			h.On(hosttest.Print("table ip filter"), "nft")
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := &hosttest.Host{}
			test.lay(h)
			s := newScripted(t, func(c *BridgerConfig) { c.Host = h })
			got, err := s.Warnings(t.Context())
			if err != nil || len(got) != len(test.want) {
				t.Fatalf("got %q, %v", got, err)
			}
			for n, want := range test.want {
				if !strings.Contains(got[n], want) || strings.Contains(got[n], "\n") {
					t.Errorf("got %q, want %q", got[n], want)
				}
			}
			if changes := h.Changes(); len(changes) > 0 {
				t.Errorf("did %q", changes)
			}
		})
	}
}

// H8, github.com/moby/moby/issues/39439: a policy of others cuts the containers off. It
// is told of, and stays.
func TestH8AFirewallOfOthersIsToldOfAndLeftAlone(t *testing.T) {
	nettest.Need(t, "nft", "iptables")
	w := newWorld(t)
	networks[0].lay(t, w)
	if _, err := w.Host.Try("sh", "-c", "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables"); err != nil {
		t.Log("this kernel hands no firewall what passes a bridge; what is told is held by the scripted host")
		return
	}
	warn := func() []string {
		t.Helper()
		got, err := w.bridger.Warnings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(got, func(s string) bool { return !strings.Contains(s, "bridge-nf-call-iptables") })
	}
	if got := warn(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if out, err := w.Host.Try("iptables", "-P", "FORWARD", "DROP"); err != nil {
		t.Logf("no iptables in this kernel: %s", out)
		w.Host.Do(t, "nft", "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }")
	}
	rules := w.Host.Do(t, "nft", "list", "ruleset")
	if got := warn(); len(got) != 1 || !strings.Contains(got[0], "ip filter FORWARD") {
		t.Errorf("got %q", got)
	}
	w.mustBridge(t, "eth0")
	if !strings.Contains(w.log.String(), "containers under a bridge may be cut off") {
		t.Error(w.log)
	}
	if now := w.Host.Do(t, "nft", "list", "ruleset"); now != rules {
		t.Errorf("the rules became\n%s\nfrom\n%s", now, rules)
	}
	// And it is true: a container is cut off, while the host itself is not.
	w.Host.MustReach(t, "10.1.0.1")
	inside := nettest.New(t).Host
	w.ip(t, "link add veth1a2b3c4d type veth peer name eth0 netns "+inside.Name, "link set veth1a2b3c4d master br-eth0", "link set veth1a2b3c4d up")
	inside.Do(t, "sh", "-c", "ip addr add 10.1.0.77/24 dev eth0 && ip link set eth0 up")
	inside.MustReach(t, "10.1.0.5")
	if inside.Reaches("10.1.0.1") {
		t.Error("the container is not cut off")
	}
}
