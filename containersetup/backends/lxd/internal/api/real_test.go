package api_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
)

// furnish gives a daemon that is as just installed a pool and a root disk.
func furnish(t *testing.T, c *api.Client) {
	t.Helper()
	ctx := t.Context()
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateStoragePool(ctx, api.StoragePool{Name: "default", Driver: "dir"}); err != nil {
		t.Fatal(err)
	}
	if err := c.PutProfile(ctx, api.Profile{
		Name: "default", Devices: api.Devices{"root": {"type": "disk", "path": "/", "pool": "default"}},
	}, ""); err != nil {
		t.Fatal(err)
	}
}

// A daemon is killed, held down, and frozen, while somebody waits for it:
// juju/juju#9611.
func TestRealDaemonDies(t *testing.T) {
	daemon := lxdtest.Private(t)
	client := newClient(t, daemon.Socket)
	ctx := t.Context()
	furnish(t, client)
	if err := client.CreateInstance(ctx, api.CreateInstance{Name: "c1", Alias: lxdtest.Image}); err != nil {
		t.Fatal(err)
	}
	if err := client.StartInstance(ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	pid := func() int64 {
		t.Helper()
		state, err := client.InstanceState(ctx, "c1")
		if err != nil || state.StatusCode != api.StatusRunning {
			t.Fatalf("state: %+v, %v", state, err)
		}
		return state.PID
	}
	before := pid()
	// One that does not listen, so that there is something to wait for.
	daemon.Run(t, "kill", "-STOP", strconv.FormatInt(before, 10))
	wantKind(t, client.StopInstance(ctx, "c1", time.Second, false), "error")
	stopping := func() chan error {
		t.Helper()
		done := make(chan error, 1)
		began := operations(t, daemon)
		go func() { done <- client.StopInstance(ctx, "c1", time.Minute, false) }()
		await(t, func() bool { return operations(t, daemon) > began })
		return done
	}

	done := stopping()
	daemon.Kill(t)
	wantKind(t, <-done, "operation lost")
	wantKind(t, client.WaitReady(ctx), "ok")
	if after := pid(); after != before {
		t.Errorf("the instance was process %d and is process %d", before, after)
	}

	release := daemon.Hold(t)
	defer release()
	daemon.Kill(t)
	await(t, func() bool {
		_, err := client.Server(ctx)
		return err != nil && kind(err) == "not yet available"
	})
	wantKind(t, client.StartInstance(ctx, "c1"), "not yet available")
	release()
	wantKind(t, client.WaitReady(ctx), "ok")

	thaw := daemon.Freeze(t)
	hasty := configured(t, api.Config{Socket: daemon.Socket, Clock: clock.WallClock, CallTimeout: 200 * time.Millisecond})
	_, err := hasty.Instances(ctx)
	wantKind(t, err, "time-out")
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	wantKind(t, client.WaitReady(brief), "time-out, context's deadline")
	thaw()
	wantKind(t, client.WaitReady(ctx), "ok")
	wantKind(t, client.StopInstance(ctx, "c1", time.Second, true), "ok")
	wantKind(t, client.DeleteInstance(ctx, "c1"), "ok")
}

// operations counts what the daemon does in the background.
func operations(t *testing.T, daemon *lxdtest.Daemon) int {
	t.Helper()
	return strings.Count(daemon.Run(t, "lxc", "query", "/1.0/operations"), "/1.0/operations/")
}

// Eight at once, of which LXD may refuse none: canonical/lxd#12131.
func TestRealDaemonWithManyAtOnce(t *testing.T) {
	daemon := lxdtest.Private(t)
	client := newClient(t, daemon.Socket)
	ctx := t.Context()
	furnish(t, client)
	var group sync.WaitGroup
	for _, name := range []string{"c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"} {
		group.Go(func() {
			wantKind(t, client.CreateInstance(ctx, api.CreateInstance{Name: name, Alias: lxdtest.Image}), "ok")
			wantKind(t, client.StartInstance(ctx, name), "ok")
		})
	}
	group.Wait()
	instances, err := client.Instances(ctx)
	wantKind(t, err, "ok")
	running := 0
	for _, i := range instances {
		if i.Running() {
			running++
		}
	}
	if running != 8 {
		t.Errorf("%d of %d run", running, len(instances))
	}
	for _, i := range instances {
		group.Go(func() {
			wantKind(t, client.StopInstance(ctx, i.Name, time.Second, true), "ok")
			wantKind(t, client.DeleteInstance(ctx, i.Name), "ok")
		})
	}
	group.Wait()
}

// The daemon serves an image to itself: what it has already it does not fetch, and
// the form of question and answer is the same.
func TestRealDaemonFetchesAnImage(t *testing.T) {
	daemon := lxdtest.Private(t)
	client := newClient(t, daemon.Socket)
	ctx := t.Context()
	furnish(t, client)
	wantKind(t, client.PatchServerConfig(ctx, map[string]string{"core.https_address": "127.0.0.1:8443"}), "ok")
	fingerprint, err := client.ImageAlias(ctx, lxdtest.Image)
	wantKind(t, err, "ok")
	certificate, err := os.ReadFile(filepath.Join(daemon.Dir, "server.crt"))
	if err != nil {
		t.Fatal(err)
	}
	source := api.ImageSource{
		Server: "https://127.0.0.1:8443", Protocol: "lxd", Alias: lxdtest.Image, Certificate: string(certificate),
		AliasesToMake: []string{"copy/of tiny"}, AutoUpdate: true,
	}
	fetch := func() (string, error) {
		t.Helper()
		// What it has fetched it does not show to everybody.
		daemon.Run(t, "lxc", "query", "-X", "PATCH", "-d", `{"public":true}`, "/1.0/images/"+fingerprint)
		return client.CopyImage(ctx, source)
	}
	got, err := fetch()
	wantKind(t, err, "ok")
	if got != fingerprint {
		t.Errorf("CopyImage() = %q, want %q", got, fingerprint)
	}
	if got, err := client.ImageAlias(ctx, "copy/of tiny"); err != nil || got != fingerprint {
		t.Errorf("the new alias: %q, %v", got, err)
	}
	_, err = fetch() // the alias is there
	wantKind(t, err, "error")
	source.AliasesToMake = nil
	got, err = fetch()
	wantKind(t, err, "ok")
	if got != fingerprint {
		t.Errorf("CopyImage() = %q, want %q", got, fingerprint)
	}
	source.Alias, source.Fingerprint = "", fingerprint
	_, err = fetch()
	wantKind(t, err, "ok")
	source.Certificate = ""
	_, err = fetch()
	wantKind(t, err, "error")
}
