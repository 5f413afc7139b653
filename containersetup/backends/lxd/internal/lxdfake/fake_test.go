package lxdfake_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
)

func start(t *testing.T) (*lxdfake.Fake, *api.Client) {
	t.Helper()
	fake := lxdfake.New(t)
	fake.AddPool(api.StoragePool{Name: "p1", Driver: "dir"})
	fake.AddNetwork(api.Network{Name: "n1", Type: "bridge", Managed: true, Config: map[string]string{"ipv4.address": "10.1.2.1/24"}})
	fake.SetProfile(api.Profile{Name: "default", Devices: api.Devices{
		"root": {"type": "disk", "path": "/", "pool": "p1"}, "eth0": {"type": "nic", "network": "n1"},
	}})
	fake.AddImage("tiny", fingerprint)
	client, err := api.New(api.Config{Socket: fake.Socket(), Clock: clock.WallClock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return fake, client
}

func create(t *testing.T, client *api.Client, name string) error {
	t.Helper()
	return client.CreateInstance(t.Context(), api.CreateInstance{Name: name, Alias: "tiny"})
}

func TestNewIsAsJustInstalled(t *testing.T) {
	fake := lxdfake.New(t)
	if len(fake.Instances()) != 0 || len(fake.Pools()) != 0 || len(fake.ServerConfig()) != 0 || len(fake.Requests()) != 0 {
		t.Error("something is there")
	}
	if n := fake.Networks(); len(n) != 1 || n[0].Name != "lo" || n[0].Managed {
		t.Errorf("networks: %+v", n)
	}
	if p := fake.Profile("default"); p.Name != "default" || len(p.Devices) != 0 {
		t.Errorf("profile: %+v", p)
	}
	if p := fake.Profile("none"); p.Name != "" {
		t.Errorf("profile: %+v", p)
	}
}

func TestFailFailsSoOften(t *testing.T) {
	fake, client := start(t)
	fake.Fail(http.MethodGet, "/1.0/networks/*", http.StatusForbidden, "no", 2)
	for n := range 4 {
		_, err := client.Network(t.Context(), "n1")
		if failed := errors.Is(err, errors.Forbidden); failed != (n < 2) {
			t.Errorf("request %d: %v", n, err)
		}
	}
	fake.Fail("", "/1.0/networks/*", http.StatusForbidden, "no", -1)
	for range 3 {
		if err := client.DeleteNetwork(t.Context(), "n1"); !errors.Is(err, errors.Forbidden) {
			t.Error(err)
		}
	}
	if _, err := client.Networks(t.Context()); err != nil {
		t.Errorf("what does not match: %v", err)
	}
	fake.ClearFaults()
	if _, err := client.Network(t.Context(), "n1"); err != nil {
		t.Error(err)
	}
	if got := fake.Count(http.MethodGet, "/1.0/networks/n1"); got != 5 {
		t.Errorf("counted %d", got)
	}
	fake.ForgetRequests()
	if got := fake.Requests(); len(got) != 0 {
		t.Errorf("still there: %v", got)
	}
}

func TestDropDoesNothing(t *testing.T) {
	fake, client := start(t)
	fake.Drop(http.MethodPost, "/1.0/instances")
	if err := create(t, client, "c1"); !errors.Is(err, api.ErrNoReply) {
		t.Error(err)
	}
	if got := fake.Instances(); len(got) != 0 {
		t.Errorf("made: %v", got)
	}
	if err := create(t, client, "c1"); err != nil {
		t.Error(err)
	}
}

func TestLoseReplyDoesAll(t *testing.T) {
	fake, client := start(t)
	fake.LoseReply(http.MethodPost, "/1.0/networks")
	if err := client.CreateNetwork(t.Context(), api.Network{Name: "n2", Type: "bridge"}); !errors.Is(err, api.ErrNoReply) {
		t.Error(err)
	}
	if got := fake.Networks(); len(got) != 3 {
		t.Errorf("networks: %v", got)
	}
	fake.LoseReply(http.MethodPost, "/1.0/instances")
	if err := create(t, client, "c1"); !errors.Is(err, api.ErrNoReply) {
		t.Error(err)
	}
	fake.LoseReply(http.MethodPut, "/1.0/instances/*/state")
	if err := client.StartInstance(t.Context(), "c1"); !errors.Is(err, api.ErrNoReply) {
		t.Error(err)
	}
	if got := fake.Instances(); len(got) != 1 || !got[0].Running() {
		t.Errorf("instances: %v", got)
	}
}

func TestHangHoldsUntilReleased(t *testing.T) {
	fake, client := start(t)
	release := fake.Hang(http.MethodPost, "/1.0/instances")
	done := make(chan error)
	go func() { done <- create(t, client, "c1") }()
	for fake.Count(http.MethodPost, "/1.0/instances") == 0 {
		time.Sleep(time.Millisecond)
	}
	if got := fake.Instances(); len(got) != 0 {
		t.Errorf("made: %v", got)
	}
	release()
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCrashAfter(t *testing.T) {
	fake, client := start(t)
	fake.CrashAfter(2)
	if err := create(t, client, "c1"); err != nil {
		t.Error(err)
	}
	if _, err := client.Instances(t.Context()); err != nil {
		t.Error(err)
	}
	if err := create(t, client, "c2"); !errors.Is(err, api.ErrNoReply) {
		t.Error(err)
	}
	if err := create(t, client, "c3"); !errors.Is(err, errors.NotYetAvailable) {
		t.Error(err)
	}
	fake.Restart()
	if err := create(t, client, "c3"); err != nil {
		t.Error(err)
	}
	var names []string
	for _, i := range fake.Instances() {
		names = append(names, i.Name)
	}
	if !slices.Equal(names, []string{"c1", "c2", "c3"}) {
		t.Errorf("instances: %v", names)
	}
	if got := len(fake.Changes()); got != 3 {
		t.Errorf("%d changes: %v", got, fake.Changes())
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	fake, client := start(t)
	if err := create(t, client, "c1"); err != nil {
		t.Fatal(err)
	}
	if err := client.StartInstance(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	before, err := client.InstanceState(t.Context(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fake.Restart()
	}
	after, err := client.InstanceState(t.Context(), "c1")
	if err != nil || after.Status != "Running" || after.Network["eth0"].Addresses[0] != before.Network["eth0"].Addresses[0] {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
	if !strings.HasPrefix(after.Network["eth0"].Addresses[0].Address, "10.1.2.") {
		t.Errorf("address %+v", after.Network["eth0"])
	}
}

func TestEndOfTheTestEndsWhatHangs(t *testing.T) {
	done := make(chan error, 2)
	t.Run("inner", func(t *testing.T) {
		fake, client := start(t)
		fake.Hang(http.MethodGet, "/1.0")
		fake.HangOperation(http.MethodPost, "/1.0/instances")
		go func() {
			_, err := client.Server(context.Background())
			done <- err
		}()
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer cancel()
			for fake.Count("", "/1.0") == 0 || len(fake.Instances()) == 0 {
				time.Sleep(time.Millisecond)
			}
		}()
		done <- client.CreateInstance(ctx, api.CreateInstance{Name: "c1", Alias: "tiny"})
	})
	for range 2 {
		if err := <-done; err == nil {
			t.Error("no error")
		}
	}
}

func TestThingsThatATestSets(t *testing.T) {
	fake, client := start(t)
	fake.SetExtensions("one", "two")
	fake.SetServerConfig("core.proxy_http", "http://proxy")
	server, err := client.Server(t.Context())
	if err != nil || !server.Has("two") || server.Has("etag") || server.Config["core.proxy_http"] != "http://proxy" {
		t.Errorf("server: %+v, %v", server, err)
	}
	fake.AddInstance(api.Instance{Name: "c1", Profiles: []string{"default"}, Config: map[string]string{"user.a": "b"}})
	fake.SetInstanceStatus("c1", api.StatusFrozen)
	i, _, err := client.Instance(t.Context(), "c1")
	if err != nil || i.Status != "Frozen" || i.Config["user.a"] != "b" || i.ExpandedDevices["eth0"]["network"] != "n1" {
		t.Errorf("instance: %+v, %v", i, err)
	}
	if p := fake.Profile("default"); !slices.Equal(p.UsedBy, []string{"/1.0/instances/c1"}) {
		t.Errorf("profile: %+v", p)
	}
	if p := fake.Pools(); len(p) != 1 || len(p[0].UsedBy) != 2 {
		t.Errorf("pools: %+v", p)
	}
}

func TestRemoteImageIsFetchedOnce(t *testing.T) {
	fake, client := start(t)
	const far = "bb295c4a85c875a7f4103b3ea65b2fbba9c1e5ac38909949a63d4c20b4c8a583"
	fake.AddRemoteImage("far", far)
	source := api.ImageSource{Server: "https://images", Protocol: "lxd", Alias: "far", AliasesToMake: []string{"near"}}
	for n := range 2 {
		got, err := client.CopyImage(t.Context(), source)
		if n == 0 && (err != nil || got != far) || n == 1 && err == nil {
			t.Errorf("%d: %q, %v", n, got, err)
		}
	}
	if got, err := client.ImageAlias(t.Context(), "near"); err != nil || got != far {
		t.Errorf("alias: %q, %v", got, err)
	}
	if fake.Downloads() != 1 {
		t.Errorf("%d downloads", fake.Downloads())
	}
}
