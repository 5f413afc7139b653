package api_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
)

const tiny = "aa295c4a85c875a7f4103b3ea65b2fbba9c1e5ac38909949a63d4c20b4c8a583"

func newClient(t testing.TB, socket string) *api.Client {
	t.Helper()
	return configured(t, api.Config{Socket: socket, Clock: clock.WallClock})
}

func configured(t testing.TB, config api.Config) *api.Client {
	t.Helper()
	client, err := api.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// kind names what errors.Is can tell of an error.
func kind(err error) string {
	if err == nil {
		return "ok"
	}
	var kinds []string
	for _, k := range []struct {
		name string
		is   error
	}{
		{"not found", errors.NotFound}, {"already exists", errors.AlreadyExists}, {"forbidden", errors.Forbidden},
		{"bad request", errors.BadRequest}, {"not yet available", errors.NotYetAvailable}, {"not valid", errors.NotValid},
		{"time-out", errors.Timeout}, {"changed", api.ErrChanged}, {"operation lost", api.ErrOperationLost},
		{"no reply", api.ErrNoReply}, {"cancelled", context.Canceled}, {"context's deadline", context.DeadlineExceeded},
	} {
		if errors.Is(err, k.is) {
			kinds = append(kinds, k.name)
		}
	}
	if len(kinds) == 0 {
		kinds = append(kinds, "error")
	}
	return strings.Join(kinds, ", ")
}

// TestFakeAnswersAsLXDDoes plays one story twice and compares what comes of it, word
// by word. It is also the test of the whole client against a real daemon.
func TestFakeAnswersAsLXDDoes(t *testing.T) {
	fake := lxdfake.New(t)
	fake.AddImage("tiny", tiny)
	invented := story(t, newClient(t, fake.Socket()))

	lxd := story(t, newClient(t, lxdtest.Private(t).Socket))
	if diff := cmp.Diff(lxd, invented); diff != "" {
		t.Errorf("LXD (-) and the fake (+) differ:\n%s", diff)
	}
	if testing.Verbose() {
		t.Log("\n" + strings.Join(lxd, "\n"))
	}
}

// story does all that a client can do to a daemon that is as just installed but for
// an image, and tells what came of it.
func story(t *testing.T, c *api.Client) []string {
	ctx := t.Context()
	var (
		told        []string
		fingerprint string // unlike in every story
	)
	tell := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	// As outcomes are compared word by word, an ETag or a fingerprint in LXD's
	// words does no good.
	outcome := func(about string, err error) {
		text := ""
		if err != nil {
			text = ": " + err.Error()
			if i := strings.Index(text, "ETag doesn't match"); i >= 0 {
				text = text[:i] + "ETag"
			}
			if fingerprint != "" {
				text = strings.ReplaceAll(text, fingerprint, "FINGERPRINT")
			}
		}
		tell("%s: [%s]%s", about, kind(err), text)
	}
	have := func(about string, err error) {
		t.Helper()
		outcome(about, err)
		if err != nil {
			t.Fatalf("what follows needs this; so far:\n%s", strings.Join(told, "\n"))
		}
	}
	// For what LXD says that depends on the machine.
	roughly := func(about string, err error) { tell("%s: [%s]", about, kind(err)) }

	// The daemon.
	outcome("waiting", c.WaitReady(ctx))
	server, err := c.Server(ctx)
	outcome("server", err)
	tell("version %s, trusted %v, config %v, clustered %v, firewall %s, first architecture %s, dir %v, etag %v, nonsense %v",
		server.Version, server.Trusted, server.Config, server.Clustered, server.Firewall, server.Architectures[0],
		slices.Contains(server.StorageDrivers, "dir"), server.Has("etag"), server.Has("nonsense"))
	outcome("unknown key", c.PatchServerConfig(ctx, map[string]string{"nonsense": "x"}))
	outcome("bad interval", c.PatchServerConfig(ctx, map[string]string{"images.auto_update_interval": "often"}))
	outcome("keys", c.PatchServerConfig(ctx, map[string]string{
		"images.auto_update_interval": "6", "images.remote_cache_expiry": "3", "core.proxy_http": "http://proxy:3128",
	}))
	outcome("other keys", c.PatchServerConfig(ctx, map[string]string{"core.proxy_https": "http://proxy:3128", "core.proxy_http": ""}))
	server, err = c.Server(ctx)
	outcome("server", err)
	tell("config %v", server.Config)

	// Storage.
	pools, err := c.StoragePools(ctx)
	outcome("pools", err)
	tell("%d pools", len(pools))
	_, err = c.StoragePool(ctx, "none")
	outcome("pool that is not there", err)
	outcome("pool", c.CreateStoragePool(ctx, api.StoragePool{Name: "p1", Driver: "dir", Description: "for a test"}))
	outcome("pool again", c.CreateStoragePool(ctx, api.StoragePool{Name: "p1", Driver: "dir"}))
	outcome("pool of no driver", c.CreateStoragePool(ctx, api.StoragePool{Name: "p2", Driver: "nonsense"}))
	outcome("pool with a slash", c.CreateStoragePool(ctx, api.StoragePool{Name: "p/2", Driver: "dir"}))
	outcome("pool without a name", c.CreateStoragePool(ctx, api.StoragePool{Driver: "dir"}))
	outcome("pool with an unknown key", c.CreateStoragePool(ctx, api.StoragePool{Name: "p3", Driver: "dir", Config: map[string]string{"nonsense": "x"}}))
	pool, err := c.StoragePool(ctx, "p1")
	outcome("pool", err)
	tell("%s %s %s %q, used by %d", pool.Name, pool.Driver, pool.Status, pool.Description, len(pool.UsedBy))

	// Networks.
	lo, err := c.Network(ctx, "lo")
	outcome("loopback", err)
	tell("%s %s, managed %v", lo.Name, lo.Type, lo.Managed)
	_, err = c.Network(ctx, "none")
	outcome("network that is not there", err)
	bridge := api.Network{Name: "sutbr0", Type: "bridge", Description: "for a test", Config: map[string]string{
		"ipv4.address": "10.199.7.1/24", "ipv4.nat": "false", "ipv6.address": "none",
	}}
	outcome("network", c.CreateNetwork(ctx, bridge))
	outcome("network again", c.CreateNetwork(ctx, bridge))
	outcome("network of an interface's name", c.CreateNetwork(ctx, api.Network{Name: "lo", Type: "bridge"}))
	outcome("network of too long a name", c.CreateNetwork(ctx, api.Network{Name: "sixteenletters00", Type: "bridge"}))
	outcome("network with a bad address", c.CreateNetwork(ctx, api.Network{Name: "bad", Type: "bridge", Config: map[string]string{"ipv4.address": "nowhere"}}))
	outcome("network with an unknown key", c.CreateNetwork(ctx, api.Network{Name: "bad", Type: "bridge", Config: map[string]string{"nonsense": "x"}}))
	n, err := c.Network(ctx, "sutbr0")
	outcome("network", err)
	tell("%s %s %s %q %v, managed %v, used by %d", n.Name, n.Type, n.Status, n.Description, n.Config, n.Managed, len(n.UsedBy))
	networks, err := c.Networks(ctx)
	outcome("networks", err)
	for _, n := range networks {
		if n.Managed {
			tell("managed: %s %v", n.Name, n.Config)
		}
	}
	outcome("deleting the loopback", c.DeleteNetwork(ctx, "lo"))
	outcome("deleting a network that is not there", c.DeleteNetwork(ctx, "none"))

	// The profile.
	profile, etag, err := c.Profile(ctx, "default")
	outcome("profile", err)
	tell("%s %q %v %v, used by %d, has an ETag: %v", profile.Name, profile.Description, profile.Config, profile.Devices, len(profile.UsedBy), etag != "")
	_, _, err = c.Profile(ctx, "none")
	outcome("profile that is not there", err)
	profile.Devices = api.Devices{
		"root": {"type": "disk", "path": "/", "pool": "p1"},
		"eth0": {"type": "nic", "name": "eth0", "network": "sutbr0"},
	}
	outcome("profile changed", c.PutProfile(ctx, profile, etag))
	outcome("profile changed with an old ETag", c.PutProfile(ctx, profile, etag))
	missing := profile
	missing.Name = "none"
	outcome("profile changed that is not there", c.PutProfile(ctx, missing, ""))
	bad := profile
	bad.Config = map[string]string{"nonsense": "x"}
	outcome("profile with an unknown key", c.PutProfile(ctx, bad, ""))
	bad.Config, bad.Devices = nil, api.Devices{"eth0": {"type": "nic", "network": "none"}}
	outcome("profile with an unknown network", c.PutProfile(ctx, bad, ""))
	bad.Devices = api.Devices{"root": {"type": "disk", "path": "/", "pool": "none"}}
	outcome("profile with an unknown pool", c.PutProfile(ctx, bad, ""))
	outcome("profile as before", c.PutProfile(ctx, profile, ""))
	profile, _, err = c.Profile(ctx, "default")
	outcome("profile", err)
	tell("%v %v", profile.Config, profile.Devices)
	outcome("deleting a pool in use", c.DeleteStoragePool(ctx, "p1"))
	outcome("deleting a network in use", c.DeleteNetwork(ctx, "sutbr0"))

	// Images.
	fingerprint, err = c.ImageAlias(ctx, "tiny")
	outcome("alias", err)
	_, err = c.ImageAlias(ctx, "none/of these")
	outcome("alias that is not there", err)
	image, err := c.Image(ctx, fingerprint)
	outcome("image", err)
	tell("%v %s %s, has a size: %v", image.Aliases, image.Type, image.Architecture, image.Size > 0)
	_, err = c.Image(ctx, strings.Repeat("0", 64))
	outcome("image that is not there", err)
	outcome("deleting an image that is not there", c.DeleteImage(ctx, strings.Repeat("0", 64)))
	_, err = c.CopyImage(ctx, api.ImageSource{Server: "https://127.0.0.1:1", Protocol: "simplestreams", Alias: "none"})
	roughly("image from nowhere", err)

	// What no instance is made of.
	create := func(about string, change func(*api.CreateInstance)) {
		params := api.CreateInstance{Name: "c1", Alias: "tiny"}
		change(&params)
		outcome(about, c.CreateInstance(ctx, params))
	}
	create("unknown alias", func(p *api.CreateInstance) { p.Alias = "none" })
	create("unknown fingerprint", func(p *api.CreateInstance) { p.Alias, p.Fingerprint = "", strings.Repeat("0", 64) })
	create("bad name", func(p *api.CreateInstance) { p.Name = "1c" })
	create("bad name", func(p *api.CreateInstance) { p.Name = "a.b" })
	create("long name", func(p *api.CreateInstance) { p.Name = strings.Repeat("a", 64) })
	create("no name", func(p *api.CreateInstance) { p.Name = "" })
	create("unknown profile", func(p *api.CreateInstance) { p.Profiles = []string{"none"} })
	create("no profile", func(p *api.CreateInstance) { p.Profiles = []string{} })
	create("unknown key", func(p *api.CreateInstance) { p.Config = map[string]string{"nonsense": "x"} })
	create("bad memory", func(p *api.CreateInstance) { p.Config = map[string]string{"limits.memory": "plenty"} })
	create("unknown network", func(p *api.CreateInstance) {
		p.Devices = api.Devices{"eth0": {"type": "nic", "network": "none"}}
	})
	create("unknown device", func(p *api.CreateInstance) { p.Devices = api.Devices{"eth0": {"type": "nonsense"}} })
	instances, err := c.Instances(ctx)
	outcome("instances", err)
	tell("%d instances", len(instances))

	// The life of one.
	create("instance", func(p *api.CreateInstance) {
		p.Description = "for a test"
		p.Config = map[string]string{"user.user-data": "#cloud-config\n{}", "limits.memory": "64MiB"}
	})
	create("instance again", func(p *api.CreateInstance) {})
	instances, err = c.Instances(ctx)
	outcome("instances", err)
	for _, i := range instances {
		tell("%s %q %s %s %s, ephemeral %v, made %v", i.Name, i.Description, i.Type, i.Status, i.Architecture, i.Ephemeral, !i.CreatedAt.IsZero())
	}
	instance, etag, err := c.Instance(ctx, "c1")
	outcome("instance", err)
	tell("%d %v %v, user data %q, base is the image: %v, ETag: %v", instance.StatusCode, instance.Profiles, instance.Devices,
		instance.Config["user.user-data"], instance.Config["volatile.base_image"] == fingerprint, etag != "")
	tell("%v", instance.ExpandedDevices)
	state, err := c.InstanceState(ctx, "c1")
	outcome("state", err)
	tell("%s %d %d interfaces", state.Status, state.StatusCode, len(state.Network))
	outcome("stop of one that is stopped", c.StopInstance(ctx, "c1", time.Second, false))
	outcome("start", c.StartInstance(ctx, "c1"))
	outcome("settled", c.Settled(ctx, "c1"))
	outcome("start again", c.StartInstance(ctx, "c1"))
	instance, _, err = c.Instance(ctx, "c1")
	have("instance", err)
	tell("%s, running %v", instance.Status, instance.Running())
	lxdtest.Eventually(t, "an address", func() bool {
		state, err = c.InstanceState(ctx, "c1")
		return err != nil || len(addresses(state)) > 0
	})
	outcome("state", err)
	eth0 := state.Network["eth0"]
	tell("%s, process %v, MAC as configured: %v, MTU %d, other end %v, %s, %s", state.Status, state.PID > 0,
		eth0.HWAddr != "" && eth0.HWAddr == instance.Config["volatile.eth0.hwaddr"], eth0.MTU, eth0.HostName != "", eth0.State, eth0.Type)
	for _, a := range addresses(state) {
		tell("address in the bridge's subnet: %v, netmask %s, scope %s", netip.MustParsePrefix("10.199.7.0/24").Contains(netip.MustParseAddr(a.Address)), a.Netmask, a.Scope)
	}
	outcome("deletion of one that runs", c.DeleteInstance(ctx, "c1"))
	outcome("profile without a root disk", c.PutProfile(ctx, api.Profile{Name: "default"}, ""))

	// Changes.
	_, etag, err = c.Instance(ctx, "c1")
	have("instance", err)
	outcome("patch", c.PatchInstance(ctx, "c1", api.InstancePatch{Config: map[string]string{"user.colour": "red"}}, etag))
	outcome("patch with an old ETag", c.PatchInstance(ctx, "c1", api.InstancePatch{Config: map[string]string{"user.colour": "blue"}}, etag))
	outcome("patch with an unknown key", c.PatchInstance(ctx, "c1", api.InstancePatch{Config: map[string]string{"nonsense": "x"}}, ""))
	outcome("patch with an unknown network", c.PatchInstance(ctx, "c1", api.InstancePatch{Devices: api.Devices{"eth1": {"type": "nic", "network": "none"}}}, ""))
	outcome("patch of none", c.PatchInstance(ctx, "none", api.InstancePatch{}, ""))
	instance, etag, err = c.Instance(ctx, "c1")
	have("instance", err)
	tell("colour %s, user data %q", instance.Config["user.colour"], instance.Config["user.user-data"])
	delete(instance.Config, "user.colour")
	outcome("put", c.PutInstance(ctx, instance, etag))
	outcome("put with an old ETag", c.PutInstance(ctx, instance, etag))
	instance, _, err = c.Instance(ctx, "c1")
	have("instance", err)
	_, has := instance.Config["user.colour"]
	tell("colour %v, description %q, running %v", has, instance.Description, instance.Running())
	instance.Config["nonsense"] = "x"
	outcome("put with an unknown key", c.PutInstance(ctx, instance, ""))
	instance.Name = "none"
	outcome("put of none", c.PutInstance(ctx, instance, ""))

	// The end of one.
	outcome("stop", c.StopInstance(ctx, "c1", 30*time.Second, true))
	outcome("stop again", c.StopInstance(ctx, "c1", 30*time.Second, true))
	outcome("deletion", c.DeleteInstance(ctx, "c1"))
	outcome("deletion again", c.DeleteInstance(ctx, "c1"))
	outcome("start of none", c.StartInstance(ctx, "c1"))
	outcome("stop of none", c.StopInstance(ctx, "c1", time.Second, true))
	_, _, err = c.Instance(ctx, "c1")
	outcome("instance", err)
	_, err = c.InstanceState(ctx, "c1")
	outcome("state of none", err)

	// One that can be made and not be started.
	create("instance without a parent", func(p *api.CreateInstance) {
		p.Devices = api.Devices{"eth0": {"type": "nic", "nictype": "bridged", "parent": "none"}}
	})
	outcome("start without a parent", c.StartInstance(ctx, "c1"))
	outcome("deletion", c.DeleteInstance(ctx, "c1"))

	// One that goes with its end.
	create("ephemeral instance", func(p *api.CreateInstance) { p.Ephemeral = true })
	outcome("start", c.StartInstance(ctx, "c1"))
	outcome("stop", c.StopInstance(ctx, "c1", time.Second, true))
	lxdtest.Eventually(t, "the end", func() bool {
		_, _, err = c.Instance(ctx, "c1")
		return err != nil
	})
	outcome("instance", err)

	// All back.
	outcome("profile", c.PutProfile(ctx, api.Profile{Name: "default"}, ""))
	outcome("network", c.DeleteNetwork(ctx, "sutbr0"))
	outcome("network again", c.DeleteNetwork(ctx, "sutbr0"))
	outcome("image", c.DeleteImage(ctx, fingerprint))
	outcome("image again", c.DeleteImage(ctx, fingerprint))
	_, err = c.ImageAlias(ctx, "tiny")
	outcome("alias", err)
	outcome("pool", c.DeleteStoragePool(ctx, "p1"))
	outcome("pool again", c.DeleteStoragePool(ctx, "p1"))
	return told
}

// addresses are eth0's that others can reach.
func addresses(state api.InstanceState) []api.InstanceAddress {
	return slices.DeleteFunc(slices.Clone(state.Network["eth0"].Addresses), func(a api.InstanceAddress) bool {
		return a.Scope != "global" || a.Family != "inet"
	})
}
