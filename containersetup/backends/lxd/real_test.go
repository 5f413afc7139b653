package lxd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// hostState is what a host's network, firewall and LXD look like.
func (w *world) hostState() string {
	w.Helper()
	const script = `for command in "$@"; do echo "# $command"; $command || exit; done`
	return w.daemon.Run(w.T, "sh", "-c", script, "sh",
		"ip -br link show", "ip -br address show", "ip route show table all", "ip -6 route show table main", "nft list ruleset", "iptables-save",
		"lxc query /1.0/storage-pools", "lxc query /1.0/networks", "lxc profile show default", "lxc config show", "lxc list --format csv -c n")
}

func TestHostIsPreparedOnceAndUndoneAsItWasFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lxdtest.Private(t))
	before := w.hostState()
	i := w.initialiser()

	plan, err := i.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var what []string
	for _, s := range plan {
		what = append(what, s.What)
	}
	if len(what) != 4 || !strings.HasPrefix(what[1], "make the bridge lxdbr0 (10.") {
		t.Errorf("the plan is %q", what)
	}
	if diff := cmp.Diff(before, w.hostState()); diff != "" {
		t.Fatalf("planning changed the host:\n%s", diff)
	}

	if err := i.Initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.steps.n.Load(); n != 4 {
		t.Errorf("%d steps were taken, want the planned 4:\n%s", n, w.steps.text())
	}
	prepared := w.hostState()
	if again, err := i.Plan(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("a prepared host: %v, %v", again, err)
	}
	if err := i.Initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(prepared, w.hostState()); diff != "" {
		t.Errorf("the second time changed something:\n%s", diff)
	}

	broker, err := lxd.NewBroker(t.Context(), w.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	result := w.started(broker, "0/lxd/0")
	if err := i.Undo(t.Context()); !errors.Is(err, errors.NotYetAvailable) || !strings.Contains(err.Error(), string(result.InstanceID)) {
		t.Errorf("undone under a container: %v", err)
	}
	if errs := broker.StopInstances(t.Context(), result.InstanceID); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if err := i.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.hostState()); diff != "" {
		t.Errorf("undo left something:\n%s", diff)
	}
	if left, _ := filepath.Glob(filepath.Join(w.config.StateDir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := i.Undo(t.Context()); err != nil {
		t.Errorf("nothing to undo: %v", err)
	}
}

// H2, github.com/juju/juju/issues/5295: every run picked a new subnet. H1: a run after a
// reboot failed.
func TestWhatIsConfiguredWinsAlsoAfterARestartOfTheDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lxdtest.Private(t))
	w.daemon.Run(t, "lxc", "storage", "create", "fast", "dir")
	w.daemon.Run(t, "lxc", "network", "create", "lxdbr7", "ipv4.address=10.9.8.1/24", "ipv4.nat=false", "ipv6.address=none")
	for range 2 {
		if err := w.initialiser().Initialise(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.daemon.Run(t, "lxc", "query", "/1.0/storage-pools"); strings.Contains(got, "default") {
			t.Errorf("pools: %s", got)
		}
		if got := w.daemon.Run(t, "lxc", "network", "list", "--format", "csv"); strings.Contains(got, "lxdbr0") || !strings.Contains(got, "10.9.8.1/24") {
			t.Errorf("networks: %s", got)
		}
		profile := w.daemon.Run(t, "lxc", "profile", "show", "default")
		if !strings.Contains(profile, "network: lxdbr7") || !strings.Contains(profile, "pool: fast") {
			t.Errorf("the default profile is %s", profile)
		}
		w.daemon.Kill(t)
		w.daemon.AwaitReady(t)
	}
	if err := w.initialiser().Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.daemon.Run(t, "lxc", "network", "list", "--format", "csv"); !strings.Contains(got, "lxdbr7") {
		t.Errorf("undo took away what was there before: %s", got)
	}
}

func TestAgentsThatInitialiseAtOnceDoNotGetInEachOthersWay(t *testing.T) {
	t.Parallel()
	daemon := lxdtest.Private(t)
	w := newWorld(t, daemon)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for n := range errs {
		// Without the machine lock, as agents of two models may be.
		other := newWorld(t, daemon)
		wg.Go(func() { errs[n] = other.initialiser().Initialise(t.Context()) })
	}
	wg.Wait()
	for n, err := range errs {
		if err != nil {
			t.Errorf("agent %d: %v", n, err)
		}
	}
	if plan, err := w.initialiser().Plan(t.Context()); err != nil || len(plan) > 0 {
		t.Errorf("still to do: %v, %v", plan, err)
	}
	if got := daemon.Run(t, "lxc", "network", "list", "--format", "csv"); strings.Count(got, "bridge") != 1 {
		t.Errorf("networks: %s", got)
	}
}

func TestContainerHasItsNetworkUserDataAndSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lxdtest.Need(t))
	broker := w.prepared()
	w.daemon.Run(t, "ip", "link", "add", "br-own-"+w.config.ModelUUID[:4], "type", "bridge")
	bridge := "br-own-" + w.config.ModelUUID[:4]
	t.Cleanup(func() { _, _ = w.lxc("query", "/1.0"); w.daemon.Run(t, "ip", "link", "delete", bridge) })
	p := params("0/lxd/5")
	p.Info.Constraints.Memory = 128
	p.Interfaces = []facade.NetworkInterface{
		{Name: "eth0"},
		{Name: "eth1", Parent: bridge, MAC: "02:16:3e:00:00:05", MTU: 1400, Addresses: []string{"198.51.100.5/24"}, Gateway: "198.51.100.1", DNS: []string{"198.51.100.53"}},
	}
	result, err := broker.StartInstance(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	name := string(result.InstanceID)
	lxdtest.Eventually(t, "an address by DHCP", func() bool {
		out, err := w.lxc("exec", name, "--", "ip", "address", "show", "eth0")
		return err == nil && strings.Contains(out, "inet 10.")
	})
	lxdtest.Eventually(t, "the user data", func() bool {
		out, err := w.lxc("exec", name, "--", "cat", "/root/told")
		return err == nil && out == "canary-of-the-user-data"
	})
	second, err := w.lxc("exec", name, "--", "ip", "link", "show", "eth1")
	if err != nil || !strings.Contains(second, "mtu 1400") || !strings.Contains(second, "02:16:3e:00:00:05") {
		t.Errorf("the second interface: %s, %v", second, err)
	}
	config, _ := w.lxc("exec", name, "--", "cat", "/var/lib/cloud/seed/nocloud-net/network-config")
	for _, want := range []string{"version: 2", "198.51.100.5/24", "via: 198.51.100.1", "198.51.100.53", "dhcp4: true"} {
		if !strings.Contains(config, want) {
			t.Errorf("cloud-init's network configuration lacks %q:\n%s", want, config)
		}
	}
	if got, _ := w.lxc("config", "get", name, "limits.memory"); got != "128MiB" {
		t.Errorf("limits.memory is %q", got)
	}
	again, err := broker.StartInstance(t.Context(), p)
	if diff := cmp.Diff(result, again); diff != "" || err != nil {
		t.Errorf("the second start: %v\n%s", err, diff)
	}
	if len(result.Interfaces) != 2 || result.Interfaces[1].MAC != "02:16:3e:00:00:05" || result.Hardware.Memory != 128 || result.Hardware.Arch != "amd64" && result.Hardware.Arch != "arm64" {
		t.Errorf("the result is %+v", result)
	}
	if strings.Contains(w.steps.text(), "canary") {
		t.Error("the user data is in the log")
	}
}

func TestContainerOutlivesTheDaemonAndIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lxdtest.Private(t))
	broker := w.prepared()
	result := w.started(broker, "0/lxd/0")
	mark := []string{"exec", string(result.InstanceID), "--", "touch", "/run/alive"}
	if out, err := w.lxc(mark...); err != nil {
		t.Fatal(out, err)
	}
	w.daemon.Kill(t)
	w.daemon.AwaitReady(t)

	other, err := lxd.NewBroker(t.Context(), w.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	instances, err := other.AllInstances(t.Context())
	if err != nil || len(instances) != 1 || !instances[0].Running || instances[0].ContainerID != "0/lxd/0" {
		t.Fatalf("the next agent sees %+v, %v", instances, err)
	}
	for _, b := range []*lxd.Broker{broker, other} {
		again := w.started(b, "0/lxd/0")
		if diff := cmp.Diff(result, again); diff != "" {
			t.Errorf("adopted as another one:\n%s", diff)
		}
	}
	if out, err := w.lxc("exec", string(result.InstanceID), "--", "test", "-e", "/run/alive"); err != nil {
		t.Errorf("it was started anew: %s", out)
	}
}

// H11, github.com/juju/juju/issues/9611: the daemon restarts, a wait never returns.
func TestDaemonKilledWhileItMakesAnInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lxdtest.Private(t))
	between := newProxy(t, w.daemon.Socket)
	w.config.Socket = between.path
	broker := w.prepared()
	for n, delay := range []time.Duration{0, 20, 50, 100, 200, 400} {
		var once sync.Once
		between.hook(nil, func(line string) bool {
			if strings.HasPrefix(line, "POST /1.0/instances") {
				once.Do(func() {
					time.Sleep(delay * time.Millisecond) // whatever it is at by then
					w.daemon.Kill(t)
				})
			}
			return true
		})
		id := fmt.Sprintf("0/lxd/%d", n)
		result, err := broker.StartInstance(t.Context(), params(id))
		if err != nil {
			// It may be over in mid-restart; the provisioner then calls again.
			t.Logf("after %d ms: %v", delay, err)
			between.hook(nil, nil)
			w.daemon.AwaitReady(t)
			result, err = broker.StartInstance(t.Context(), params(id))
		}
		if err != nil {
			t.Fatalf("after %d ms: %v", delay, err)
		}
		if out, err := w.lxc("exec", string(result.InstanceID), "--", "cat", "/etc/hostname"); err != nil || out != string(result.InstanceID) {
			t.Errorf("what was made does not work: %s, %v", out, err)
		}
	}
	between.hook(nil, nil)
	if instances, err := broker.AllInstances(t.Context()); err != nil || len(instances) != 6 {
		t.Errorf("%+v, %v: want 6", instances, err)
	}
}

// TestAgentKilledAtEveryStep kills an agent with SIGKILL before and after each request
// that changes something, from an empty host to an empty host; the next agent finishes
// the work.
func TestAgentKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	daemon := lxdtest.Private(t)
	for _, moment := range []string{"before", "after"} {
		for n := 1; ; n++ {
			if !killedAt(t, daemon, moment, n) {
				if n < 10 {
					t.Errorf("there were %d changes, want more", n-1)
				}
				break
			}
		}
	}
}

// killedAt plays the story with an agent that is killed at its nth change; it returns
// false when it has fewer.
func killedAt(t *testing.T, daemon *lxdtest.Daemon, moment string, n int) (killed bool) {
	t.Helper()
	w := newWorld(t, daemon)
	before := w.hostState()
	between := newProxy(t, daemon.Socket)
	c := child{
		Model: w.config.ModelUUID, Socket: between.path, StateDir: w.config.StateDir, ContainerID: "0/lxd/3",
		Prefix: daemon.Prefix(), Stop: true, Undo: true,
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.CommandContext(t.Context(), os.Args[0])
	agent.Env = append(os.Environ(), childConfig+"="+string(text))
	var mu sync.Mutex
	count := 0
	strike := func(line string) bool {
		if strings.HasPrefix(line, "GET") {
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		if count++; count == n {
			killed = true
			_ = agent.Process.Kill() // there since before it was waited for
			return false
		}
		return true
	}
	if moment == "before" {
		between.hook(strike, nil)
	} else {
		between.hook(nil, strike)
	}
	var out bytes.Buffer
	agent.Stdout, agent.Stderr = &out, &out
	mu.Lock() // whoever strikes has a process to kill
	err = agent.Start()
	mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	err = agent.Wait()
	mu.Lock()
	defer mu.Unlock()
	switch {
	case killed && err == nil:
		t.Fatalf("killed %s change %d, and ended well", moment, n)
	case !killed && err != nil:
		t.Fatalf("not killed: %v: %s", err, &out)
	}

	// The next agent finishes whatever it was.
	between.hook(nil, nil)
	i := w.initialiser()
	if err := i.Initialise(t.Context()); err != nil {
		t.Fatalf("killed %s change %d: %v", moment, n, err)
	}
	broker, err := lxd.NewBroker(t.Context(), w.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	result := w.started(broker, "0/lxd/3")
	if instances, err := broker.AllInstances(t.Context()); err != nil || len(instances) != 1 || !instances[0].Running {
		t.Errorf("killed %s change %d: %+v, %v", moment, n, instances, err)
	}
	if errs := broker.StopInstances(t.Context(), result.InstanceID); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if err := i.Undo(t.Context()); err != nil {
		t.Fatalf("killed %s change %d: %v", moment, n, err)
	}
	if diff := cmp.Diff(before, w.hostState()); diff != "" {
		t.Errorf("killed %s change %d, undo left something:\n%s", moment, n, diff)
	}
	return killed
}

func TestRefusalsSayWhatIsWrongAndLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lxdtest.Private(t))
	broker := w.prepared()
	w.daemon.Run(t, "mkdir", "-p", w.daemon.Dir+"/../full")
	w.daemon.Run(t, "mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", w.daemon.Dir+"/../full")
	w.daemon.Run(t, "mkdir", "-p", w.daemon.Dir+"/../full/pool")
	w.daemon.Run(t, "lxc", "storage", "create", "full", "dir", "source="+filepath.Clean(w.daemon.Dir+"/../full/pool"))
	for _, test := range []struct {
		name   string
		change func(*container.StartParams)
		kind   error
		want   string
	}{
		{"an image that LXD does not know", func(p *container.StartParams) { p.Info.Attributes["image"] = "nosuch" }, errors.NotFound, "nosuch"},
		{"an unknown attribute", func(p *container.StartParams) { p.Info.Attributes["placement"] = "x" }, errors.NotValid, "placement"},
		{"a malformed key of LXD", func(p *container.StartParams) { p.Info.Attributes["lxd.Limits!"] = "x" }, errors.NotValid, "lxd.Limits!"},
		{"a key of LXD that it does not know", func(p *container.StartParams) { p.Info.Attributes["lxd.limits.nosuch"] = "x" }, nil, "limits.nosuch"},
		{"a value that LXD refuses", func(p *container.StartParams) { p.Info.Attributes["lxd.limits.processes"] = "many" }, nil, "limits.processes"},
		{"a bridge that is not there", func(p *container.StartParams) {
			p.Interfaces = []facade.NetworkInterface{{Name: "eth0", Parent: "br-nosuch"}}
		}, errors.NotFound, "br-nosuch"},
		{"an architecture", func(p *container.StartParams) { p.Info.Constraints.Arch = "pdp11" }, errors.NotValid, "pdp11"},
		{"a container of another type", func(p *container.StartParams) { p.ContainerID = "0/kvm/1" }, errors.NotValid, "0/kvm/1"},
		{"a tag that is no key", func(p *container.StartParams) { p.Info.Tags = map[string]string{"a b": "c"} }, errors.NotValid, "a b"},
	} {
		p := params("0/lxd/1")
		test.change(&p)
		_, err := broker.StartInstance(t.Context(), p)
		if err == nil || test.kind != nil && !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\x00") || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%s: %q", test.name, err)
		}
		if instances, err := broker.AllInstances(t.Context()); err != nil || len(instances) > 0 {
			t.Errorf("%s left %+v, %v", test.name, instances, err)
		}
	}
	// A pool that is full.
	w.daemon.Run(t, "lxc", "profile", "device", "set", "default", "root", "pool=full")
	if _, err := broker.StartInstance(t.Context(), params("0/lxd/1")); err == nil || !strings.Contains(strings.ToLower(err.Error()), "space") {
		t.Errorf("a full pool: %v", err)
	}
	w.daemon.Run(t, "lxc", "profile", "device", "set", "default", "root", "pool=default")
	w.started(broker, "0/lxd/1")
}

func TestBridgeOfAnotherIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, lxdtest.Private(t))
	w.daemon.Run(t, "ip", "link", "add", "lxdbr0", "type", "bridge")
	w.daemon.Run(t, "ip", "address", "add", "10.200.0.1/24", "dev", "lxdbr0")
	before := w.daemon.Run(t, "ip", "-br", "address", "show", "lxdbr0")
	err := w.initialiser().Initialise(t.Context())
	if !errors.Is(err, errors.AlreadyExists) || !strings.Contains(err.Error(), `bridge "lxdbr0"`) {
		t.Errorf("a bridge that is none of LXD's: %v", err)
	}
	if after := w.daemon.Run(t, "ip", "-br", "address", "show", "lxdbr0"); after != before {
		t.Errorf("it was %q and is %q", before, after)
	}
	// Used as it is when it is named.
	w.config.Network.Existing = "lxdbr0"
	result := w.started(w.prepared(), "0/lxd/0")
	if len(result.Interfaces) != 1 || result.Interfaces[0].Parent != "lxdbr0" {
		t.Errorf("the container has %+v", result.Interfaces)
	}
	w.config.Network.Existing = "br-nosuch"
	if err := w.initialiser().Initialise(t.Context()); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "br-nosuch") {
		t.Errorf("a bridge that is not there: %v", err)
	}
}
