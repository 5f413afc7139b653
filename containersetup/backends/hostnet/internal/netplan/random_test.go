package netplan_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/netplan"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

// Bytes by chance seldom are a configuration. These are: devices with any of the
// keys, in any order, in one file or two, with comments anywhere, anchors, and the
// device's own definition being an alias.
func TestRandomConfigurationsKeepTheirMeaningAndTheirComments(t *testing.T) {
	for range 1000 {
		seed := rand.Uint64()
		if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { randomCase(t, seed) }) {
			t.Fatalf("replay with randomCase(t, %d)", seed)
		}
	}
}

func randomCase(t *testing.T, seed uint64) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	before := []netplan.File{{Name: "/etc/netplan/1.yaml", Data: g.file(true)}}
	if g.IntN(2) == 0 {
		before = append(before, netplan.File{Name: "/etc/netplan/2.yaml", Data: g.file(false)})
	}
	bridgings := []netplan.Bridging{{Device: "eth0", Bridge: "br-eth0", MAC: "52:54:00:12:34:56"}}
	changed, err := netplan.Bridge(before, bridgings)
	if err != nil {
		t.Fatalf("%v\n%s", err, before)
	}
	after := plantest.Merge(before, changed)
	if again, err := netplan.Bridge(after, bridgings); err != nil || len(again) != 0 {
		t.Errorf("the second run gave %v, %v", again, err)
	}
	keepsMeaning(t, before, after)
	for i := range before {
		for c := range g.comments {
			comment := fmt.Sprintf("# comment %d", c)
			was, is := strings.Count(string(before[i].Data), comment+"\n"), strings.Count(string(after[i].Data), comment+"\n")
			if is != was {
				t.Errorf("%q was there %d times, is %d times", comment, was, is)
			}
		}
		if t.Failed() {
			t.Logf("before:\n%s\nafter:\n%s", before[i].Data, after[i].Data)
		}
	}
}

type generator struct {
	*rand.Rand
	text     strings.Builder
	comments int
	anchors  []string
}

// line writes a line, and perhaps comments above and behind it.
func (g *generator) line(indent int, text string) {
	pad := strings.Repeat(" ", indent)
	for g.IntN(6) == 0 {
		fmt.Fprintf(&g.text, "%s%s\n", pad, g.comment())
	}
	if g.IntN(12) == 0 {
		g.text.WriteString("\n")
	}
	behind := ""
	if g.IntN(6) == 0 {
		behind = " " + g.comment()
	}
	fmt.Fprintf(&g.text, "%s%s%s\n", pad, text, behind)
}

func (g *generator) comment() string {
	g.comments++
	return fmt.Sprintf("# comment %d", g.comments-1)
}

func (g *generator) file(first bool) []byte {
	g.text.Reset()
	g.anchors = nil
	g.line(0, "network:")
	g.line(2, "version: 2")
	g.line(2, "ethernets:")
	ids := []string{"eth0", "eth1", "eth2"}
	g.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		if !first && id != "eth0" && g.IntN(2) == 0 {
			continue
		}
		g.device(id)
	}
	if g.IntN(3) == 0 {
		g.line(2, "bridges:")
		g.line(4, "br9:")
		g.line(6, "interfaces: []")
	}
	if g.IntN(3) == 0 {
		g.line(0, g.comment())
	}
	return []byte(g.text.String())
}

func (g *generator) device(id string) {
	whole := ""
	for _, a := range g.anchors {
		if strings.HasPrefix(a, "device") {
			whole = a
		}
	}
	if whole != "" && g.IntN(4) == 0 {
		g.line(4, id+": *"+whole)
		return
	}
	anchor := ""
	if g.IntN(4) == 0 {
		anchor = fmt.Sprintf(" &device%d", len(g.anchors))
		g.anchors = append(g.anchors, anchor[2:])
	}
	g.line(4, id+":"+anchor)
	keys := []func(){
		func() { g.line(6, "dhcp4: "+g.pick("true", "yes", `"no"`, "off")) },
		func() { g.line(6, "mtu: "+g.pick("1400", `"9000"`, "01400")) },
		func() { g.line(6, "wakeonlan: true") },
		func() { g.line(6, "x-unknown: "+g.pick("a", "[a, {b: c}]", "{d: 0x1f}", "'it''s'", "12:30:45")) },
		func() { g.line(6, "gateway6: "+g.pick("2001:db8::1", "'::1'")) },
		func() {
			g.line(6, "addresses:"+g.anchor("list"))
			g.line(6+g.pickInt(0, 2), "- 10.0.0.2/24")
		},
		func() {
			g.line(6, "nameservers:"+g.anchor("names"))
			g.line(8, "addresses: [10.0.0.53, '::1']")
			g.line(8, "search:")
			g.line(8, "- lab.example")
			g.line(8, "- home.example")
		},
		func() {
			for _, a := range g.anchors {
				if strings.HasPrefix(a, "names") {
					g.line(6, "dhcp6-overrides: *"+a) // of the right type, if of no sense
					return
				}
			}
		},
		func() {
			g.line(6, "routes:")
			g.line(6, "- to: default")
			g.line(8, "via: 10.0.0.1")
			g.line(6, "- {to: 10.9.0.0/16, via: 10.0.0.9}")
		},
	}
	g.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys[0]() // a definition of nothing is not netplan's
	for _, key := range keys[1:] {
		if g.IntN(2) == 0 {
			key()
		}
	}
	g.line(6, "optional: true")
}

func (g *generator) anchor(kind string) string {
	if g.IntN(2) == 0 {
		return ""
	}
	name := fmt.Sprintf("%s%d", kind, len(g.anchors))
	g.anchors = append(g.anchors, name)
	return " &" + name
}

func (g *generator) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g *generator) pickInt(of ...int) int { return of[g.IntN(len(of))] }
