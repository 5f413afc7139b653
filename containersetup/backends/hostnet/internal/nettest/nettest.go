// Package nettest has networks for tests: a host and a neighbour, each a network
// namespace of its own, joined by cables of which one end is a device of the host.
//
// Nothing touches the network of the machine that the test runs on. Names are random, so
// that any number of tests run at once, and everything is gone when the test has ended,
// however it has.
package nettest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
)

// Need skips the test where there can be no network for it: it takes root, iproute2 and
// network namespaces, and the programs that are named. With "network" in the variable
// SUTLER_REQUIRE (a list with commas) it fails the test instead.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	reason := missing(programs)
	if reason == "" {
		return
	}
	need.Missing(t, "network", "no network for this test: "+reason)
}

func missing(programs []string) string {
	if os.Geteuid() != 0 {
		return "run it as root"
	}
	for _, program := range append([]string{"ip", "nsenter", "busybox"}, programs...) {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Sprintf("no program %s (on Debian: apt-get install iproute2 util-linux ifupdown bridge-utils netplan.io dnsmasq-base busybox-static udhcpc nftables iptables)", program)
		}
	}
	name := random()
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil { //nolint:noctx // a moment's work
		return fmt.Sprintf("no network namespaces: %s", strings.TrimSpace(string(out)))
	}
	_ = exec.Command("ip", "netns", "delete", name).Run() //nolint:noctx // a moment's work
	return ""
}

func random() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return "sutler-" + hex.EncodeToString(b[:])
}

// Net is a host and its neighbour.
type Net struct {
	Host, Neighbour Namespace
}

// New returns two namespaces with nothing in them but their loopback devices.
func New(t testing.TB) *Net {
	t.Helper()
	Need(t)
	name := random()
	return &Net{Host: newNamespace(t, name+"-host"), Neighbour: newNamespace(t, name+"-near")}
}

// Join lays a cable between a device of the host and one of the neighbour, both new and
// switched on, and waits until both ends have noticed.
func (n *Net) Join(t testing.TB, host, neighbour string) {
	t.Helper()
	n.Host.Do(t, "ip", "link", "add", host, "type", "veth", "peer", "name", neighbour, "netns", n.Neighbour.Name)
	n.Host.Do(t, "ip", "link", "set", host, "up")
	n.Neighbour.Do(t, "ip", "link", "set", neighbour, "up")
	for ns, device := range map[Namespace]string{n.Host: host, n.Neighbour: neighbour} {
		Wait(t, device+" to have a carrier", func() bool {
			return strings.Contains(ns.Do(t, "ip", "-o", "link", "show", device), "LOWER_UP") &&
				!strings.Contains(ns.Do(t, "ip", "-6", "-o", "addr", "show", device), "tentative")
		})
	}
}

// Wait looks until something is so, and fails the test when it is not after a minute.
func Wait(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Namespace is a network namespace.
type Namespace struct {
	// Name is what ip calls it, Path where it is.
	Name, Path string
}

func newNamespace(t testing.TB, name string) Namespace {
	t.Helper()
	ns := Namespace{Name: name, Path: "/run/netns/" + name}
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil { //nolint:noctx // a moment's work
		t.Fatalf("network namespace: %v: %s", err, out)
	}
	// What runs behind Prefix has a resolv.conf of its own, which a DHCP client may
	// write to.
	own := "/etc/netns/" + name
	if err := os.MkdirAll(own, 0o755); err != nil { //nolint:gosec // as ip wants it
		t.Fatal(err)
	}
	if err := os.WriteFile(own+"/resolv.conf", nil, 0o644); err != nil { //nolint:gosec // as the real one
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.RemoveAll(own)
		_ = os.Remove("/etc/netns") // if it is the last
		// What was started in it would keep it alive without a name.
		out, _ := exec.Command("ip", "netns", "pids", name).Output() //nolint:noctx // a moment's work
		for _, field := range strings.Fields(string(out)) {
			var pid int
			if _, err := fmt.Sscan(field, &pid); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if out, err := exec.Command("ip", "netns", "delete", name).CombinedOutput(); err != nil { //nolint:noctx // a moment's work
			t.Errorf("removing network namespace %s: %v: %s", name, err, out)
		}
	})
	ns.Do(t, "ip", "link", "set", "lo", "up")
	// Whether somebody else has an address already is looked for in no test but those
	// that ask for it: it takes two seconds for every device.
	ns.DetectDuplicates(t, false)
	return ns
}

// DetectDuplicates has IPv6 look, or not look, for others who have an address, on every
// device that is made from now on. It does not in a namespace that is new.
func (ns Namespace) DetectDuplicates(t testing.TB, on bool) {
	t.Helper()
	value := map[bool]string{true: "1", false: "0"}[on]
	for _, conf := range []string{"all", "default"} {
		ns.Do(t, "sh", "-c", "echo "+value+" > /proc/sys/net/ipv6/conf/"+conf+"/accept_dad")
	}
}

// Prefix stands before a command that is to run in the namespace. It sees the
// namespace's devices in /sys, too.
func (ns Namespace) Prefix() []string { return []string{"ip", "netns", "exec", ns.Name} }

// Do runs a command in the namespace and returns what it printed; the test fails when it
// does.
func (ns Namespace) Do(t testing.TB, args ...string) string {
	t.Helper()
	out, err := ns.Try(args...)
	if err != nil {
		t.Fatalf("in %s: %s: %v: %s", ns.Name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs a command in the namespace and returns what it printed; to its standard error
// only when it failed, since ip complains there of other namespaces that come and go.
func (ns Namespace) Try(args ...string) (string, error) {
	// Not ip netns exec, which makes a mount namespace for every command: they are many.
	all := append([]string{"--net=" + ns.Path}, args...)
	cmd := exec.Command("nsenter", all...) //nolint:noctx // a moment's work
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String() + complaints.String(), err
	}
	return out.String(), nil
}

// Start runs a program in the namespace until the test ends.
func (ns Namespace) Start(t testing.TB, args ...string) {
	t.Helper()
	all := append([]string{"--net=" + ns.Path}, args...)
	cmd := exec.Command("nsenter", all...) //nolint:noctx // ended below
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("in %s: %s: %v", ns.Name, strings.Join(args, " "), err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s printed: %s", args[0], out.String())
		}
	})
}

// Reaches tells whether an address answers, within a second or so.
func (ns Namespace) Reaches(address string) bool {
	_, err := ns.Try("busybox", "ping", "-c", "1", "-W", "1", address)
	return err == nil
}

// MustReach fails the test when an address does not answer for some seconds.
func (ns Namespace) MustReach(t testing.TB, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		if !slices.ContainsFunc([]int{1, 2, 3, 4, 5}, func(int) bool { return ns.Reaches(address) }) {
			t.Errorf("from %s, %s cannot be reached\n%s", ns.Name, address, ns.Snapshot(t))
		}
	}
}

// What changes by itself, or with every new device: numbers, times, and states that pass.
var passing = regexp.MustCompile(`(?m)^\d+: |(valid_lft|preferred_lft|expires) \S+| (tentative|dadfailed|pref medium)| ?\\|link-netns\S* \S+|qdisc \S+|state \S+|qlen \S+|mode \S+`)

// Snapshot returns the devices, addresses, routes and rules of the namespace as ip tells
// them, in a form that can be compared: one line each, sorted, without what changes by
// itself.
func (ns Namespace) Snapshot(t testing.TB) string {
	t.Helper()
	var lines []string
	for _, args := range [][]string{
		{"ip", "-o", "link", "show"},
		{"ip", "-o", "addr", "show"},
		{"ip", "-4", "route", "show", "table", "all"},
		{"ip", "-6", "route", "show", "table", "all"},
		{"ip", "rule", "show"},
	} {
		for line := range strings.Lines(ns.Do(t, args...)) {
			line = strings.Join(strings.Fields(passing.ReplaceAllString(line, " ")), " ")
			lines = append(lines, strings.Join(args[1:3], " ")+": "+line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// MAC returns the hardware address of a device.
func (ns Namespace) MAC(t testing.TB, device string) string {
	t.Helper()
	fields := strings.Fields(ns.Do(t, "ip", "-o", "link", "show", "dev", device))
	i := slices.Index(fields, "link/ether")
	if i < 0 || i+1 >= len(fields) {
		t.Fatalf("%s has no MAC", device)
	}
	return fields[i+1]
}

// Has tells whether the kernel has a kind of device, such as "bond".
func (n *Net) Has(kind string) bool {
	args := []string{"ip", "link", "add", "probe0", "type", kind}
	if kind == "vlan" {
		args = []string{"ip", "link", "add", "link", "lo", "name", "probe0", "type", kind, "id", "5"}
	}
	if out, err := n.Host.Try(args...); err != nil {
		return !strings.Contains(out, "Unknown device type") && !strings.Contains(out, "not supported")
	}
	_, _ = n.Host.Try("ip", "link", "delete", "probe0")
	return true
}
