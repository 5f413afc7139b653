package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
)

// call is one of the client's methods, with what it asks for.
type call struct {
	name         string
	method, path string
	change       bool // may be carried out and not answered
	operation    bool // goes on in the background
	do           func(context.Context, *api.Client) error
}

// calls are all of them. What they ask for is in the world of [populated].
func calls() []call {
	return []call{
		{"Server", http.MethodGet, "/1.0", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.Server(ctx)
			return err
		}},
		{"PatchServerConfig", http.MethodPatch, "/1.0", true, false, func(ctx context.Context, c *api.Client) error {
			return c.PatchServerConfig(ctx, map[string]string{"core.proxy_http": secret})
		}},
		{"StoragePools", http.MethodGet, "/1.0/storage-pools", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.StoragePools(ctx)
			return err
		}},
		{"StoragePool", http.MethodGet, "/1.0/storage-pools/p1", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.StoragePool(ctx, "p1")
			return err
		}},
		{"CreateStoragePool", http.MethodPost, "/1.0/storage-pools", true, false, func(ctx context.Context, c *api.Client) error {
			return c.CreateStoragePool(ctx, api.StoragePool{Name: "p3", Driver: "dir", Config: map[string]string{"user.x": secret}})
		}},
		{"DeleteStoragePool", http.MethodDelete, "/1.0/storage-pools/p2", true, false, func(ctx context.Context, c *api.Client) error {
			return c.DeleteStoragePool(ctx, "p2")
		}},
		{"Networks", http.MethodGet, "/1.0/networks", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.Networks(ctx)
			return err
		}},
		{"Network", http.MethodGet, "/1.0/networks/n1", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.Network(ctx, "n1")
			return err
		}},
		{"CreateNetwork", http.MethodPost, "/1.0/networks", true, false, func(ctx context.Context, c *api.Client) error {
			return c.CreateNetwork(ctx, api.Network{Name: "n3", Type: "bridge", Config: map[string]string{"user.x": secret}})
		}},
		{"DeleteNetwork", http.MethodDelete, "/1.0/networks/n2", true, false, func(ctx context.Context, c *api.Client) error {
			return c.DeleteNetwork(ctx, "n2")
		}},
		{"Profile", http.MethodGet, "/1.0/profiles/default", false, false, func(ctx context.Context, c *api.Client) error {
			_, _, err := c.Profile(ctx, "default")
			return err
		}},
		{"PutProfile", http.MethodPut, "/1.0/profiles/other", true, false, func(ctx context.Context, c *api.Client) error {
			return c.PutProfile(ctx, api.Profile{Name: "other", Config: map[string]string{"user.x": secret}}, "")
		}},
		{"Instances", http.MethodGet, "/1.0/instances", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.Instances(ctx)
			return err
		}},
		{"Instance", http.MethodGet, "/1.0/instances/stopped", false, false, func(ctx context.Context, c *api.Client) error {
			_, _, err := c.Instance(ctx, "stopped")
			return err
		}},
		{"InstanceState", http.MethodGet, "/1.0/instances/running/state", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.InstanceState(ctx, "running")
			return err
		}},
		{"CreateInstance", http.MethodPost, "/1.0/instances", true, true, func(ctx context.Context, c *api.Client) error {
			return c.CreateInstance(ctx, api.CreateInstance{Name: "c1", Alias: "tiny", Config: map[string]string{"user.user-data": secret}})
		}},
		{"PutInstance", http.MethodPut, "/1.0/instances/stopped", true, true, func(ctx context.Context, c *api.Client) error {
			return c.PutInstance(ctx, api.Instance{Name: "stopped", Profiles: []string{"default"}, Config: map[string]string{"user.user-data": secret}}, "")
		}},
		{"PatchInstance", http.MethodPatch, "/1.0/instances/stopped", true, false, func(ctx context.Context, c *api.Client) error {
			return c.PatchInstance(ctx, "stopped", api.InstancePatch{Config: map[string]string{"user.user-data": secret}}, "")
		}},
		{"StartInstance", http.MethodPut, "/1.0/instances/stopped/state", true, true, func(ctx context.Context, c *api.Client) error {
			return c.StartInstance(ctx, "stopped")
		}},
		{"StopInstance", http.MethodPut, "/1.0/instances/running/state", true, true, func(ctx context.Context, c *api.Client) error {
			return c.StopInstance(ctx, "running", time.Second, false)
		}},
		{"DeleteInstance", http.MethodDelete, "/1.0/instances/stopped", true, true, func(ctx context.Context, c *api.Client) error {
			return c.DeleteInstance(ctx, "stopped")
		}},
		{"Settled", http.MethodGet, "/1.0/operations", false, false, func(ctx context.Context, c *api.Client) error {
			return c.Settled(ctx, "running")
		}},
		{"ImageAlias", http.MethodGet, "/1.0/images/aliases/tiny", false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.ImageAlias(ctx, "tiny")
			return err
		}},
		{"Image", http.MethodGet, "/1.0/images/" + tiny, false, false, func(ctx context.Context, c *api.Client) error {
			_, err := c.Image(ctx, tiny)
			return err
		}},
		{"DeleteImage", http.MethodDelete, "/1.0/images/" + tiny, true, true, func(ctx context.Context, c *api.Client) error {
			return c.DeleteImage(ctx, tiny)
		}},
		{"CopyImage", http.MethodPost, "/1.0/images", true, true, func(ctx context.Context, c *api.Client) error {
			_, err := c.CopyImage(ctx, api.ImageSource{Server: "https://images", Protocol: "simplestreams", Alias: "far"})
			return err
		}},
	}
}

// secret is in every configuration that is sent.
const secret = "correct-horse-battery-staple"

// populated returns a fake in which each of the calls can be made once.
func populated(t testing.TB) *lxdfake.Fake {
	t.Helper()
	f := lxdfake.New(t)
	f.AddPool(api.StoragePool{Name: "p1", Driver: "dir"})
	f.AddPool(api.StoragePool{Name: "p2", Driver: "dir"})
	f.AddNetwork(api.Network{Name: "n1", Type: "bridge", Managed: true, Config: map[string]string{"ipv4.address": "10.1.2.1/24"}})
	f.AddNetwork(api.Network{Name: "n2", Type: "bridge", Managed: true})
	f.SetProfile(api.Profile{Name: "default", Devices: api.Devices{
		"root": {"type": "disk", "path": "/", "pool": "p1"}, "eth0": {"type": "nic", "network": "n1"},
	}})
	f.SetProfile(api.Profile{Name: "other"})
	f.AddImage("tiny", tiny)
	f.AddRemoteImage("far", "bb295c4a85c875a7f4103b3ea65b2fbba9c1e5ac38909949a63d4c20b4c8a583")
	f.AddInstance(api.Instance{Name: "stopped", Profiles: []string{"default"}})
	f.AddInstance(api.Instance{Name: "running", Profiles: []string{"default"}, StatusCode: api.StatusRunning})
	return f
}

// forEachCall runs f for each of the calls, with a daemon of its own.
func forEachCall(t *testing.T, f func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call)) {
	t.Helper()
	for _, c := range calls() {
		t.Run(c.name, func(t *testing.T) {
			fake := populated(t)
			f(t, fake, newClient(t, fake.Socket()), c)
		})
	}
}
