package lxd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"
)

// fresh is a daemon that was just installed.
func fresh() observed {
	o := observed{installed: true, answers: true, version: "5.0.2", extensions: map[string]bool{}, bridges: map[string]bool{}, seed: 7}
	for _, extension := range required() {
		o.extensions[extension] = true
	}
	return o
}

// done is a daemon to which everything was done.
func done() observed {
	o := fresh()
	o.pools = []pool{{"default", "dir"}}
	o.networks = []network{{"lxdbr0", true, "bridge"}, {"eth0", false, "physical"}}
	o.profile = map[string]map[string]string{
		"root": {"type": "disk", "path": "/", "pool": "default"},
		"eth0": {"type": "nic", "network": "lxdbr0"},
	}
	return o
}

func prefixesOf(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestWhatIsDecided(t *testing.T) {
	t.Parallel()
	type seen = observed
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
		{name: "nothing there", from: func() observed { return observed{} }, want: []string{
			"install LXD", "wait for the daemon", "make the storage pool default (dir)", "make the bridge lxdbr0 (10.",
			"add the device root to the default profile", "add the device eth0 to the default profile",
		}},
		{name: "installed, and does not answer", from: func() observed { return observed{installed: true} }, want: []string{
			"wait for the daemon", "make the storage pool", "make the bridge", "add the device root", "add the device eth0",
		}},
		{name: "just installed", from: fresh, want: []string{"make the storage pool", "make the bridge", "add the device root", "add the device eth0"}},
		{name: "too old", from: func() observed { o := fresh(); delete(o.extensions, "instances"); return o }, err: errors.NotSupported, text: "LXD 5.0.2"},

		{name: "another pool is there", from: done, seen: func(o *seen) { o.pools = []pool{{"zfs", "zfs"}}; delete(o.profile, "root") }, want: []string{
			"add the device root to the default profile",
		}},
		{name: "a root disk of another name", from: done, seen: func(o *seen) { o.profile["disk0"] = o.profile["root"]; delete(o.profile, "root") }},
		{name: "a disk that is no root disk", from: done, seen: func(o *seen) { o.profile["root"]["path"] = "/srv" }, want: []string{"add the device root-1 to"}},
		{name: "a pool of a size", config: func(c *Config) { c.Storage = StorageConfig{Pool: "big", Driver: "btrfs", Size: 1024} }, from: fresh,
			want: []string{"make the storage pool big (btrfs)", "make the bridge", "add the device root", "add the device eth0"}},

		{name: "another managed bridge", from: done, seen: func(o *seen) { o.networks[0].name = "lxdbr7"; delete(o.profile, "eth0") }, want: []string{"add the device eth0"}},
		{name: "a managed network that is no bridge", from: done, seen: func(o *seen) { o.networks[0].kind = "macvlan" }, want: []string{"make the bridge lxdbr0"}},
		{name: "a bridge of somebody else's with the name", from: fresh, seen: func(o *seen) { o.bridges["lxdbr0"] = true }, err: errors.AlreadyExists, text: `bridge "lxdbr0"`},
		{name: "the same, named as the one to use", config: func(c *Config) { c.Network.Existing = "lxdbr0" }, from: fresh, seen: func(o *seen) { o.bridges["lxdbr0"] = true },
			want: []string{"make the storage pool", "add the device root", "add the device eth0"}},
		{name: "a bridge to use that is not there", config: func(c *Config) { c.Network.Existing = "br0" }, from: done, err: errors.NotFound, text: `bridge "br0"`},
		{name: "the provider's networks", config: func(c *Config) { c.Network.Networking = Provider }, from: fresh, want: []string{"make the storage pool", "add the device root"}},
		{name: "a subnet that overlaps", config: func(c *Config) { c.Network.Subnet = netip.MustParsePrefix("10.1.0.0/16") }, from: fresh,
			seen: func(o *seen) { o.taken = prefixesOf("10.1.2.0/30") }, err: errors.NotValid, text: "10.1.2.0/30"},
		{name: "a subnet that is free", config: func(c *Config) { c.Network.Subnet = netip.MustParsePrefix("10.1.0.0/16") }, from: fresh,
			want: []string{"make the storage pool", "make the bridge lxdbr0 (10.1.0.1/16)", "add the device root", "add the device eth0"}},
		{name: "no subnet free", from: fresh, seen: func(o *seen) { o.taken = prefixesOf("10.0.0.0/8") }, err: errors.NotFound, text: "10.0.0.0/8"},
		{name: "IPv6, too", config: func(c *Config) { c.Network.IPv6 = true }, from: fresh,
			want: []string{"make the storage pool", ", fd", "add the device root", "add the device eth0"}},

		{name: "proxies", config: func(c *Config) { c.Proxy = ProxyConfig{HTTP: "http://u:canary@p:1", Ignore: "a,b"} }, from: done, seen: func(o *seen) { o.server = map[string]string{"core.proxy_ignore_hosts": "a,b"} },
			want: []string{"set core.proxy_http"}},
		{name: "images kept for as long as LXD does anyway", config: func(c *Config) { c.CacheDays = 10 }, from: done},
		{name: "the same where it was changed", config: func(c *Config) { c.CacheDays = 10 }, from: done, seen: func(o *seen) { o.server = map[string]string{"images.remote_cache_expiry": "3"} },
			want: []string{"set images.remote_cache_expiry"}},
		{name: "images kept for longer", config: func(c *Config) { c.CacheDays = 30 }, from: done, want: []string{"set images.remote_cache_expiry"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Config{}.withDefaults()
			if test.config != nil {
				test.config(&c)
			}
			o := test.from()
			if test.seen != nil {
				test.seen(&o)
			}
			steps, err := decide(c, o)
			if (err == nil) != (test.err == nil) || err != nil && (!errors.Is(err, test.err) || !strings.Contains(err.Error(), test.text)) {
				t.Fatalf("the error is %v, want %v with %q", err, test.err, test.text)
			}
			if len(steps) != len(test.want) {
				t.Fatalf("steps are %v, want %q", told(steps), test.want)
			}
			for n, s := range told(steps) {
				if !strings.Contains(s.What, test.want[n]) || s.Why == "" || strings.Contains(s.String(), "canary") {
					t.Errorf("step %d is %q, want %q", n, s, test.want[n])
				}
			}
		})
	}
}

func TestSameHostChoosesTheSameSubnetAndAnotherOneAnother(t *testing.T) {
	t.Parallel()
	choose := func(seed uint64) string {
		o := fresh()
		o.seed = seed
		steps, err := decide(Config{}.withDefaults(), o)
		if err != nil {
			t.Fatal(err)
		}
		return steps[1].Config["ipv4.address"]
	}
	if first, second := choose(1), choose(1); first != second {
		t.Errorf("the same seed gave %s and %s", first, second)
	}
	seen := map[string]bool{}
	for seed := range uint64(20) {
		seen[choose(seed)] = true
	}
	if len(seen) < 18 {
		t.Errorf("20 hosts have %d subnets", len(seen))
	}
}

func TestRoutesThatAreTaken(t *testing.T) {
	t.Parallel()
	for dst, want := range map[string]string{
		"10.0.0.0/24": "10.0.0.0/24", "10.1.2.3": "10.1.2.3/32", "fd00:1::/64": "fd00:1::/64", "10.0.0.0/8": "10.0.0.0/8", "0.0.0.0/1": "0.0.0.0/1",
		"default": "", "": "", "0.0.0.0/0": "", "fe80::/64": "", "ff00::/8": "", "nonsense": "", "::/0": "",
	} {
		p, ok := routePrefix(ipRoute{Dst: dst})
		if ok != (want != "") || ok && p.String() != want {
			t.Errorf("%q is taken as %v, %v, want %q", dst, p, ok, want)
		}
	}
}

func TestRecordKeepsWhatWasThereFirst(t *testing.T) {
	t.Parallel()
	var r record
	r.note(step{Kind: configureItem, Name: "a", Before: "old", Config: map[string]string{"value": "1"}})
	r.note(step{Kind: install, Name: "lxd", Added: []string{"x"}})
	r.note(step{Kind: configureItem, Name: "a", Before: "1", Config: map[string]string{"value": "2"}})
	r.note(step{Kind: install, Name: "lxd", Added: []string{"y"}})
	want := []step{
		{Kind: configureItem, Name: "a", Before: "old", Config: map[string]string{"value": "2"}},
		{Kind: install, Name: "lxd", Added: []string{"y", "x"}},
	}
	if diff := cmp.Diff(want, r.Steps, cmp.AllowUnexported(step{})); diff != "" {
		t.Error(diff)
	}
}
