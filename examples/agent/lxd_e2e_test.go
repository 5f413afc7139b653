package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
)

// The tests of this file need LXD. The whole story is the demo's.

// lxdWorld is a world that is where LXD is.
type lxdWorld struct {
	*world
	*lxdtest.Daemon
}

func newLXDWorld(t *testing.T) *lxdWorld {
	t.Helper()
	t.Parallel()
	d := lxdtest.Private(t)
	w := &lxdWorld{newWorld(t), d}
	w.prefix = d.Prefix()
	w.write("machine.yaml", "id: 0\ncontainers: [lxd]\n")
	return w
}

// call runs the program where LXD is, to its end.
func (w *lxdWorld) call(args ...string) (string, error) {
	w.t.Helper()
	argv := append(w.Prefix(), append([]string{w.program}, args...)...)
	out, err := exec.CommandContext(w.t.Context(), argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

// refused is what a call says that has to fail.
func (w *lxdWorld) refused(want string, args ...string) {
	w.t.Helper()
	out, err := w.call(args...)
	_, line, _ := strings.Cut("\n"+out, "\nagent: ") // after what was logged
	if err == nil || !strings.Contains(line, want) || strings.Count(line, "\n") != 1 {
		w.t.Errorf("agent %s: got %v, %q; want a line with %q", strings.Join(args, " "), err, out, want)
	}
}

// looks is what the host looks like.
func (w *lxdWorld) looks() string {
	w.t.Helper()
	var all strings.Builder
	for _, command := range []string{
		"ip -o link show", "ip -o address show", "ip route show table all", "ip -6 route show table all", "nft list ruleset",
		"lxc query /1.0/storage-pools?recursion=1", "lxc query /1.0/networks?recursion=1", "lxc query /1.0/profiles?recursion=1",
		"lxc query /1.0/instances", "lxc config show",
	} {
		all.WriteString(command + "\n" + w.Run(w.t, strings.Fields(command)...) + "\n")
	}
	return all.String()
}

// instance is what tells the one instance that there is from one made later, or started
// again.
func (w *lxdWorld) instance() string {
	w.t.Helper()
	return w.Run(w.t, "lxc", "list", "--format", "csv", "--columns", "nspc")
}

func (w *lxdWorld) expectRunning(id string) {
	w.t.Helper()
	eventually(w.t, id+" runs", func() bool {
		s, ok := w.report()
		return ok && s.Manifolds.Controller.Report.Containers[id].State == "running"
	})
}

func TestContainerOfLXDComesAndGoesAndTheHostIsAsItWas(t *testing.T) {
	w := newLXDWorld(t)
	before := w.looks()
	plan, err := w.call("host", "plan", "--model", w.dir)
	if err != nil || strings.Count(plan, "\n") != 4 {
		t.Fatalf("got %v, %s", err, plan)
	}
	w.write("containers/0-lxd-0.yaml", "image: "+lxdtest.Image+"\nuser-data: |\n  #!/bin/sh\n  echo user-data-canary >/root/told\n")
	w.start()
	w.expectRunning("0/lxd/0")
	made := w.instance()
	if !strings.HasPrefix(made, "juju-1c2d3e-0-lxd-0,RUNNING,") || strings.Contains(made, "\n") {
		t.Errorf("got %q", made)
	}
	eventually(t, "user data was run", func() bool {
		return w.Run(t, "lxc", "exec", "juju-1c2d3e-0-lxd-0", "--", "sh", "-c", "cat /root/told || true") == "user-data-canary"
	})
	if out, err := w.call("host", "plan", "--model", w.dir); err != nil || out != "there is nothing to do to this machine\n" {
		t.Errorf("got %v, %q", err, out)
	}
	w.refused("an agent runs on", "host", "undo", "--model", w.dir)
	w.refused("is let alone", "demo", "--containers", "lxd")

	w.end(syscall.SIGKILL)
	w.refused("is still used by juju-1c2d3e-0-lxd-0", "host", "undo", "--model", w.dir)
	// What cannot be had disturbs nobody, and is told in a line.
	w.write("containers/0-lxd-1.yaml", "image: nobody-has-this\n")
	w.start()
	w.expectRunning("0/lxd/0")
	eventually(t, "an image that is not there", func() bool {
		return strings.Contains(w.message("0/lxd/1"), `image alias "nobody-has-this"`)
	})
	if now := w.instance(); now != made {
		t.Errorf("the instance was %q and is %q", made, now)
	}
	for _, file := range []string{"containers/0-lxd-0.yaml", "containers/0-lxd-1.yaml"} {
		w.write(file, "life: dead\n")
	}
	eventually(t, "no container is left", func() bool {
		s, ok := w.report()
		return ok && len(s.Manifolds.Controller.Report.Containers) == 0
	})
	if code := w.end(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	if out, err := w.call("host", "undo", "--model", w.dir); err != nil {
		t.Errorf("undo: %v, %s", err, out)
	}
	if after := w.looks(); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
	w.checkLog("canary")
}

func TestAgentGoesOnWithADaemonThatComesBack(t *testing.T) {
	w := newLXDWorld(t)
	w.write("containers/0-lxd-0.yaml", "image: "+lxdtest.Image+"\n")
	w.start()
	w.expectRunning("0/lxd/0")
	made := w.instance()
	release := w.Hold(t)
	w.Kill(t)
	w.write("containers/0-lxd-1.yaml", "image: "+lxdtest.Image+"\n")
	eventually(t, "it waits for LXD", func() bool {
		s, ok := w.report()
		return ok && s.Manifolds.Controller.Report.Containers["0/lxd/1"].State == "provisioning"
	})
	release()
	w.expectRunning("0/lxd/1")
	if now := w.instance(); !strings.HasPrefix(now, made+"\n") {
		t.Errorf("the instance was %q and is one of %q", made, now)
	}
}

// TestContainerOnTheNetworkOfADevice has a device of its own put under a bridge: one
// that no configuration file of this machine mentions.
func TestContainerOnTheNetworkOfADevice(t *testing.T) {
	w := newLXDWorld(t)
	const device, bridge = "sutler-test0", "br-sutler-test0"
	w.Run(t, "ip", "link", "add", device, "type", "veth", "peer", "name", "sutler-test1")
	w.Run(t, "ip", "address", "add", "198.51.100.1/24", "dev", device)
	w.Run(t, "ip", "link", "set", device, "up")
	w.Run(t, "ip", "route", "add", "203.0.113.0/24", "via", "198.51.100.9")
	w.write("containers/0-lxd-0.yaml", "image: "+lxdtest.Image+"\nbridge: "+device+"\n")
	w.write("containers/0-lxd-1.yaml", "image: "+lxdtest.Image+"\nbridge: none\n")
	w.start()
	w.expectRunning("0/lxd/0")
	for command, want := range map[string]string{
		"ip -o link show " + device:                              "master " + bridge,
		"ip -o -4 address show " + bridge:                        "198.51.100.1/24",
		"ip route show 203.0.113.0/24":                           "via 198.51.100.9 dev " + bridge,
		"lxc config device get juju-1c2d3e-0-lxd-0 eth0 parent":  bridge,
		"ip -o -4 address show eth0":                             "192.0.2.10/24",
		"lxc config get juju-1c2d3e-0-lxd-0 user.network-config": "dhcp4: true",
		"lxc config device list juju-1c2d3e-0-lxd-0":             "eth0",
		"ip -o link show type veth master " + bridge:             "master " + bridge,
		"cat " + w.path(".agent/containers.yaml"):                "parent: " + bridge,
		w.program + " --model " + w.dir + " --report":            bridge,
		w.program + " host plan --model " + w.dir:                "there is nothing to do to this machine",
	} {
		if got := w.Run(t, strings.Fields(command)...); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
	eventually(t, "an interface that is up in the container", func() bool {
		return strings.Contains(w.Run(t, "lxc", "exec", "juju-1c2d3e-0-lxd-0", "--", "sh", "-c", "ip link show dev eth0 || true"), "UP")
	})
	eventually(t, "told of the other one", func() bool {
		return strings.Contains(w.message("0/lxd/1"), `bridge for "none", which is no device of this machine, not valid`)
	})
	if processes := processesUnder(t, w.path(".agent")); len(processes) > 0 {
		t.Errorf("left to watch over nothing: %v", processes)
	}
}

func TestNoLXDIsAReasonAndALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.env = []string{"LXD_DIR=" + w.dir}
	w.write("unix.socket", "") // where nobody listens
	w.write("machine.yaml", "id: 0\ncontainers: [lxd, box]\n")
	w.write("containers/0-lxd-0.yaml", "")
	w.write("containers/0-box-0.yaml", "")
	w.start()
	w.expectActive("db")
	w.expectBoxes("0/box/0")
	eventually(t, "told why", func() bool {
		return strings.HasPrefix(w.message("0/lxd/0"), "lxd containers cannot be had on this machine: asking LXD what it is: LXD does not answer at socket "+w.path("unix.socket"))
	})
}
