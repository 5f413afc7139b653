package kvm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

// bare is a machine on which nothing is installed, and that could run others.
func bare() observed {
	return observed{arch: "x86_64", device: true, programs: map[string]bool{}, bridges: map[string]bool{}}
}

// fresh is one with libvirt as just after its installation.
func fresh() observed {
	o := bare()
	o.programs = map[string]bool{"qemu-img": true, "libvirtd": true, "qemu-system-x86_64": true}
	o.answers, o.version = true, 9000000
	o.capabilities = virt.Capabilities{Arch: "x86_64", Guests: []virt.Guest{{Arch: "x86_64", OSType: "hvm", Types: []string{"qemu", "kvm"}}}}
	o.networks = []virt.Network{{Name: "default", Bridge: "virbr0", Persistent: true}}
	return o
}

// done is one to which everything was done.
func done() observed {
	o := fresh()
	o.pool = &virt.Pool{Name: "sutler", Type: "dir", Path: "/var/lib/agent/kvm/images", Active: true, Autostart: true, Persistent: true}
	o.dir = true
	o.networks[0].Active, o.networks[0].Autostart = true, true
	return o
}

func TestWhatIsDecided(t *testing.T) {
	t.Parallel()
	type seen = observed
	pool := []string{"define the storage pool sutler (/var/lib/agent/kvm/images)", "make the folder", "start the storage pool", "have the storage pool"}
	network := []string{"start the network default", "have the network default"}
	all := append(append([]string{}, pool...), network...)
	for _, test := range []struct {
		name   string
		config func(*Config)
		seen   func(*seen)
		from   func() observed
		want   []string
		err    error
		text   string
	}{
		{name: "all there", from: done},
		{name: "nothing there", from: bare, want: append([]string{"install libvirt-daemon-system, qemu-system-x86, qemu-utils", "wait for libvirtd"}, all...)},
		{name: "installed, and does not answer", from: fresh, seen: func(o *seen) { o.answers = false }, want: append([]string{"wait for libvirtd"}, all...)},
		{name: "just installed", from: fresh, want: all},
		{name: "no qemu-img", from: done, seen: func(o *seen) { o.programs["qemu-img"] = false }, want: []string{"install qemu-utils"}},
		{name: "no emulator", from: done, seen: func(o *seen) { o.programs["qemu-system-x86_64"] = false; o.capabilities.Guests = nil }, want: []string{"install qemu-system-x86"}},
		{name: "another daemon than libvirtd answers", from: done, seen: func(o *seen) { o.programs["libvirtd"] = false }},
		{name: "too old", from: done, seen: func(o *seen) { o.version = 7000000 }, err: errors.NotSupported, text: "libvirt 7.0.0 (want 7.1.0 or later)"},
		{name: "an architecture", from: bare, seen: func(o *seen) { o.arch = "pdp11" }, err: errors.NotSupported, text: `"pdp11"`},
		{name: "an ARM", from: bare, seen: func(o *seen) { o.arch = "aarch64" }, want: append([]string{"install libvirt-daemon-system, qemu-system-arm, qemu-utils", "wait for libvirtd"}, all...)},

		{name: "no acceleration", from: bare, seen: func(o *seen) { o.device = false }, err: errors.NotSupported, text: "no /dev/kvm"},
		{name: "no acceleration, on a prepared host", from: done, seen: func(o *seen) { o.device = false }, err: errors.NotSupported, text: "no /dev/kvm"},
		{name: "acceleration that libvirt cannot use", from: done, seen: func(o *seen) { o.capabilities.Guests[0].Types = []string{"qemu"} }, err: errors.NotSupported, text: "libvirt cannot use /dev/kvm"},
		{name: "no acceleration, and software may", config: func(c *Config) { c.AllowEmulation = true }, from: done,
			seen: func(o *seen) { o.device = false; o.capabilities.Guests[0].Types = []string{"qemu"} }},
		{name: "an emulator that libvirt does not find", from: done, seen: func(o *seen) { o.capabilities.Guests = nil }, err: errors.NotSupported, text: "x86_64"},
		{name: "only containers", from: done, seen: func(o *seen) { o.capabilities.Guests[0].OSType = "exe" }, err: errors.NotSupported, text: "x86_64"},

		{name: "a pool elsewhere", config: func(c *Config) { c.Pool.Dir = "/srv/images/" }, from: fresh, want: append([]string{"define the storage pool sutler (/srv/images)", pool[1], pool[2], pool[3]}, network...)},
		{name: "a pool of the name elsewhere", from: done, seen: func(o *seen) { o.pool.Path = "/srv/other" }},
		{name: "the same, and another place is configured", config: func(c *Config) { c.Pool.Dir = "/srv/images" }, from: done, err: errors.AlreadyExists, text: "/srv/images"},
		{name: "a pool of the name of another kind", from: done, seen: func(o *seen) { o.pool.Type = "logical" }, err: errors.AlreadyExists, text: `"logical"`},
		{name: "an inactive pool", from: done, seen: func(o *seen) { o.pool.Active = false }, want: []string{"start the storage pool"}},
		{name: "an inactive pool without a folder", from: done, seen: func(o *seen) { o.pool.Active = false; o.dir = false }, want: []string{"make the folder", "start the storage pool"}},
		{name: "a pool that does not start with the host", from: done, seen: func(o *seen) { o.pool.Autostart = false }, want: []string{"have the storage pool"}},
		{name: "a pool that cannot", from: done, seen: func(o *seen) { o.pool.Autostart = false; o.pool.Persistent = false }},

		{name: "an inactive network", from: done, seen: func(o *seen) { o.networks[0].Active = false }, want: network[:1]},
		{name: "a network that does not start with the host", from: done, seen: func(o *seen) { o.networks[0].Autostart = false }, want: network[1:]},
		{name: "no such network", config: func(c *Config) { c.Network.Name = "nosuch" }, from: done, err: errors.NotFound, text: `network "nosuch"`},
		{name: "the provider's networks", config: func(c *Config) { c.Network.Networking = Provider }, from: fresh, want: pool},
		{name: "a bridge", config: func(c *Config) { c.Network.Bridge = "br0" }, from: fresh, seen: func(o *seen) { o.bridges["br0"] = true }, want: pool},
		{name: "a bridge that is not there", config: func(c *Config) { c.Network.Bridge = "br0" }, from: done, err: errors.NotFound, text: `bridge "br0"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := validConfig().withDefaults()
			if test.config != nil {
				test.config(&c)
			}
			o := test.from()
			if test.seen != nil {
				test.seen(&o)
			}
			steps, err := decide(c, o)
			if (err == nil) != (test.err == nil) || err != nil && (!errors.Is(err, test.err) || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "\n")) {
				t.Fatalf("the error is %v, want %v with %q", err, test.err, test.text)
			}
			if err != nil {
				return
			}
			if len(steps) != len(test.want) {
				t.Fatalf("steps are %v, want %q", told(steps), test.want)
			}
			for n, s := range told(steps) {
				if !strings.Contains(s.What, test.want[n]) || s.Why == "" {
					t.Errorf("step %d is %q, want %q", n, s, test.want[n])
				}
			}
		})
	}
}

func TestRecordKeepsWhatWasThereFirst(t *testing.T) {
	t.Parallel()
	var r record
	r.note(step{Kind: startPool, Name: "a", Dir: "/a"})
	r.note(step{Kind: install, Name: "libvirt", Packages: []string{"p"}, Had: []string{"first"}})
	r.note(step{Kind: startPool, Name: "a", Dir: "/a"})
	r.note(step{Kind: install, Name: "libvirt", Packages: []string{"q"}, Had: []string{"later"}, Added: []string{"x"}})
	r.note(step{Kind: install, Name: "libvirt", Packages: []string{"q"}, Added: []string{"y"}})
	want := []step{
		{Kind: startPool, Name: "a", Dir: "/a"},
		{Kind: install, Name: "libvirt", Packages: []string{"q", "p"}, Added: []string{"y", "x"}},
	}
	if diff := cmp.Diff(want, r.Steps, cmp.AllowUnexported(step{})); diff != "" {
		t.Error(diff)
	}
	r.note(step{Kind: install, Name: "libvirt", Had: []string{"first"}})
	r.note(step{Kind: install, Name: "libvirt", Had: []string{"later"}})
	if got := r.step(step{Kind: install, Name: "libvirt"}).Had; len(got) != 1 || got[0] != "first" {
		t.Errorf("there was %q before", got)
	}
}

func TestPatternOfAPathMatchesNothingElse(t *testing.T) {
	t.Parallel()
	if got := quoted(`/a*b?c[d]\e`); got != `/a\*b\?c\[d]\\e` {
		t.Errorf("quoted as %s", got)
	}
}

// A file's name tells the container, unless it was too long.
func TestContainerOfAName(t *testing.T) {
	t.Parallel()
	b := &Broker{config: validConfig(), prefix: "juju-06f00d-"}
	for name, want := range map[string]string{
		"juju-06f00d-0-kvm-1": "0/kvm/1", "juju-06f00d-0-lxd-3-kvm-1": "0/lxd/3/kvm/1",
		"juju-06f00e-0-kvm-1": "", "juju-06f00d-": "", "juju-06f00d-0-kvm": "", "other": "", "juju-06f00d-00-kvm-1": "",
		"juju-06f00d-0-kvm-1-kvm-2-kvm-3-kvm-4-kvm-5-k-xcf3cdaf770ed5b49": "",
	} {
		if got, ok := b.idOf(name); ok != (want != "") || ok && got != want {
			t.Errorf("%s is of %q, %v, want %q", name, got, ok, want)
		}
	}
}
