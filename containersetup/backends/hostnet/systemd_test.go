package hostnet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
	"github.com/sutler-dev/sutler/facade"
)

// netplanOfTwo is a machine with an address by DHCP and one that is given.
const netplanOfTwo = `# written by hand
network:
  version: 2
  renderer: networkd
  ethernets:
    eth0:
      dhcp4: true # the way out
    eth1:
      addresses: [198.51.100.7/24]
      routes:
        - {to: 203.0.113.0/24, via: 198.51.100.1}
`

// machine is a container with systemd, which is a host to what is tested.
type machine struct {
	*testing.T
	daemon *lxdtest.Daemon
	name   string
}

// newMachine starts one with the netplan file and two interfaces.
func newMachine(t *testing.T, daemon *lxdtest.Daemon, name, tool string) *machine {
	t.Helper()
	m := &machine{t, daemon, name}
	m.lxc("init", "debian", name, "--storage", "default", "--network", "lan0")
	m.lxc("config", "device", "add", name, "eth1", "nic", "name=eth1", "network=lan1")
	file := filepath.Join(t.TempDir(), "netplan")
	if err := os.WriteFile(file, []byte(netplanOfTwo), 0o600); err != nil {
		t.Fatal(err)
	}
	m.lxc("file", "push", "--create-dirs", "--mode", "0600", file, name+"/etc/netplan/10-net.yaml")
	m.lxc("file", "push", "--mode", "0755", tool, name+"/usr/local/bin/bridgecmd")
	m.lxc("start", name)
	m.ready("eth0")
	return m
}

func (m *machine) lxc(args ...string) string {
	m.Helper()
	return m.daemon.Run(m.T, append([]string{"lxc"}, args...)...)
}

// exec runs a command in the machine, and returns what it printed and whether it
// succeeded.
func (m *machine) exec(args ...string) (string, bool) {
	m.Helper()
	out, err := exec.CommandContext(m.Context(), m.daemon.Prefix()[0],
		slices.Concat(m.daemon.Prefix()[1:], []string{"lxc", "exec", m.name, "--"}, args)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

// ready waits until systemd is up and the way out is there.
func (m *machine) ready(device string) {
	m.Helper()
	lxdtest.Eventually(m.T, "a machine that is up, with a way out over "+device, func() bool {
		state, _ := m.exec("systemctl", "is-system-running")
		route, _ := m.exec("ip", "route", "show", "default")
		return (state == "running" || state == "degraded") && strings.Contains(route, "dev "+device)
	})
}

// identity is what must be the same before and after: addresses, MACs and routes,
// wherever they are.
func (m *machine) identity(renamed map[string]string) string {
	m.Helper()
	var links []struct {
		Name  string `json:"ifname"`
		MAC   string `json:"address"`
		Infos []struct {
			Local  string `json:"local"`
			Bits   int    `json:"prefixlen"`
			Family string `json:"family"`
		} `json:"addr_info"`
	}
	text, ok := m.exec("ip", "-json", "address", "show")
	if !ok || json.Unmarshal([]byte(text), &links) != nil {
		m.Fatalf("addresses: %s", text)
	}
	var lines []string
	for _, l := range links {
		for _, a := range l.Infos {
			if a.Family == "inet" {
				lines = append(lines, fmt.Sprintf("%s %s/%d on %s", l.MAC, a.Local, a.Bits, l.Name))
			}
		}
	}
	routes, _ := m.exec("ip", "route", "show")
	for line := range strings.Lines(routes) {
		lines = append(lines, strings.TrimSpace(line))
	}
	slices.Sort(lines)
	all := strings.Join(lines, "\n") + "\n"
	for from, to := range renamed {
		all = strings.ReplaceAll(all, from+" ", to+" ")
		all = strings.ReplaceAll(all, from+"\n", to+"\n")
	}
	return all
}

// reaches tells whether the neighbours answer.
func (m *machine) reaches() {
	m.Helper()
	for _, neighbour := range []string{"10.99.0.1", "198.51.100.1"} {
		lxdtest.Eventually(m.T, "an answer of "+neighbour, func() bool {
			_, ok := m.exec("ping", "-c", "1", "-W", "2", neighbour)
			return ok
		})
	}
}

// TestNetplanIsAppliedBySystemd bridges both devices of a machine with systemd and
// netplan, in a real container: by DHCP and by hand, past a reboot, and back when netplan
// fails after it has applied.
func TestNetplanIsAppliedBySystemd(t *testing.T) {
	t.Parallel()
	daemon := lxdtest.Private(t)
	daemon.Debian(t)
	tool := filepath.Join(t.TempDir(), "bridgecmd")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "./internal/bridgecmd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	daemon.Run(t, "lxc", "storage", "create", "default", "dir")
	daemon.Run(t, "lxc", "network", "create", "lan0", "ipv4.address=10.99.0.1/24", "ipv4.nat=false", "ipv6.address=none")
	daemon.Run(t, "lxc", "network", "create", "lan1", "ipv4.address=198.51.100.1/24", "ipv4.dhcp=false", "ipv4.nat=false", "ipv6.address=none")

	m := newMachine(t, daemon, "one", tool)
	before := m.identity(nil)
	m.reaches()
	bridge := []string{"bridgecmd", "/var/lib/bridges", "eth0=" + hostnet.BridgeName("eth0"), "eth1=" + hostnet.BridgeName("eth1")}
	back := map[string]string{"br-eth0": "eth0", "br-eth1": "eth1"}

	// netplan fails after it has applied: all is put back.
	m.shadowNetplan()
	out, ok := m.exec(bridge...)
	if ok || !strings.Contains(out, "no luck") {
		t.Fatalf("netplan fails: %s", out)
	}
	m.ready("eth0")
	if after := m.identity(nil); after != before {
		t.Errorf("put back, it is\n%s\nand was\n%s\nthe log is %s", after, before, out)
	}
	if file, _ := m.exec("cat", "/etc/netplan/10-net.yaml"); file != strings.TrimSpace(netplanOfTwo) {
		t.Errorf("put back, the file is\n%s", file)
	}
	m.reaches()

	// And now for good.
	if _, ok := m.exec("rm", "/usr/local/sbin/netplan"); !ok {
		t.Fatal("netplan is still shadowed")
	}
	out, ok = m.exec(bridge...)
	if !ok {
		t.Fatalf("bridging: %s", out)
	}
	if after := m.identity(back); after != before {
		t.Errorf("bridged, it is\n%s\nand was\n%s", after, before)
	}
	var seen []facade.NetworkInterface
	if err := json.Unmarshal([]byte(out[strings.LastIndex(out, "\n")+1:]), &seen); err != nil {
		t.Fatalf("what was seen is %s", out)
	}
	parents := map[string]string{}
	for _, i := range seen {
		parents[i.Name] = i.Parent
	}
	if parents["eth0"] != "br-eth0" || parents["eth1"] != "br-eth1" {
		t.Errorf("parents are %v", parents)
	}
	m.reaches()

	file, _ := m.exec("cat", "/etc/netplan/10-net.yaml")
	if !strings.Contains(file, "# the way out") || !strings.Contains(file, "# written by hand") {
		t.Errorf("comments are lost:\n%s", file)
	}
	if out, ok := m.exec(bridge...); !ok {
		t.Errorf("the second time: %s", out)
	}
	if again, _ := m.exec("cat", "/etc/netplan/10-net.yaml"); again != file {
		t.Errorf("the second time changed the file:\n%s", again)
	}

	// Past a reboot.
	m.lxc("restart", m.name)
	m.ready("br-eth0")
	if after := m.identity(back); after != before {
		t.Errorf("after a reboot it is\n%s\nand was\n%s", after, before)
	}
	m.reaches()
}

// shadowNetplan has netplan apply what it is told, and fail then, once.
func (m *machine) shadowNetplan() {
	m.Helper()
	script := filepath.Join(m.TempDir(), "netplan")
	text := "#!/bin/sh\n/usr/sbin/netplan \"$@\" || exit\nif [ \"$1\" = apply ] && [ ! -e /run/failed ]; then\n\ttouch /run/failed\n\techo no luck >&2\n\texit 1\nfi\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		m.Fatal(err)
	}
	m.lxc("file", "push", "--create-dirs", "--mode", "0755", script, m.name+"/usr/local/sbin/netplan")
}
