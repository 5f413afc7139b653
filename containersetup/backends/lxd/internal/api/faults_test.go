package api_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
)

func wantKind(t *testing.T, err error, want string) {
	t.Helper()
	if got := kind(err); got != want {
		t.Errorf("error is %q, want %q: %v", got, want, err)
	}
	if err != nil && strings.ContainsAny(err.Error(), "\n\r\x00") {
		t.Errorf("error of more than one line: %q", err)
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("a secret in an error: %q", err)
	}
}

func TestEveryCallWorks(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		wantKind(t, c.do(t.Context(), client), "ok")
		if fake.Count(c.method, c.path) != 1 {
			t.Errorf("%s %s was not asked for once: %v", c.method, c.path, fake.Requests())
		}
		if changes := len(fake.Changes()); c.change != (changes == 1) {
			t.Errorf("%d changes: %v", changes, fake.Changes())
		}
	})
}

func TestKindsFollowFromCodes(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		for code, want := range map[int]string{
			http.StatusBadRequest:          "bad request",
			http.StatusForbidden:           "forbidden",
			http.StatusNotFound:            "not found",
			http.StatusConflict:            "already exists",
			http.StatusPreconditionFailed:  "changed",
			http.StatusServiceUnavailable:  "not yet available",
			http.StatusInternalServerError: "error",
			http.StatusTeapot:              "error",
		} {
			if c.name == "PutProfile" || c.name == "PatchInstance" {
				if code == http.StatusNotFound {
					want = "error" // what it refers to: the thing itself is there
				}
			}
			fake.Fail(c.method, c.path, code, "so says LXD", 1)
			err := c.do(t.Context(), client)
			wantKind(t, err, want)
			if !strings.HasSuffix(err.Error(), "LXD: so says LXD") {
				t.Errorf("LXD's message is not kept: %v", err)
			}
		}
		for _, change := range fake.Changes() {
			if change.Method != c.method {
				t.Errorf("a refused call made %s", change)
			}
		}
	})
}

func TestAbsentDaemonIsNotYetAvailable(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		fake.Stop()
		for _, state := range []string{"refuses", "is absent"} {
			err := c.do(t.Context(), client)
			wantKind(t, err, "not yet available")
			if !strings.Contains(err.Error(), fake.Socket()) {
				t.Errorf("socket %s, and the error does not name it: %v", state, err)
			}
			_ = os.Remove(fake.Socket())
		}
		fake.Restart()
		wantKind(t, c.do(t.Context(), client), "ok")
	})
}

func TestLostConnectionIsNoReply(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		fake.Drop(c.method, c.path)
		wantKind(t, c.do(t.Context(), client), "no reply")
		if got := fake.Count(c.method, c.path); got != 1 {
			t.Errorf("asked %d times: nobody knows whether the first was carried out", got)
		}
	})
}

func TestCancelledCallReturns(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		defer fake.Hang(c.method, c.path)()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.do(ctx, client) }()
		await(t, func() bool { return fake.Count(c.method, c.path) == 1 })
		cancel()
		wantKind(t, <-done, "cancelled")
	})
}

func TestHangingDaemonIsATimeout(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, _ *api.Client, c call) {
		client := configured(t, api.Config{
			Socket: fake.Socket(), Clock: clock.WallClock, CallTimeout: 30 * time.Millisecond, OperationTimeout: 30 * time.Millisecond,
		})
		defer fake.Hang(c.method, c.path)()
		wantKind(t, c.do(t.Context(), client), "time-out")
	})
}

func TestDeadlineOfTheCallerIsATimeoutToo(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		defer fake.Hang(c.method, c.path)()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		wantKind(t, c.do(ctx, client), "time-out, context's deadline")
	})
}

func TestFailedOperationKeepsItsText(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		if !c.operation {
			return // answered at once
		}
		fake.FailOperation(c.method, c.path, "so says LXD", 1)
		err := c.do(t.Context(), client)
		wantKind(t, err, "error")
		if !strings.HasSuffix(err.Error(), "LXD: so says LXD") {
			t.Errorf("LXD's message is not kept: %v", err)
		}
		wantKind(t, c.do(t.Context(), client), "ok")
	})
}

// A folder that one may not look into, as a user who is not in LXD's group sees it,
// cannot be had as root.
func TestSocketIsNoSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newClient(t, file).Server(t.Context())
	wantKind(t, err, "not yet available")
}

func TestNamesThatWouldBeAnotherPath(t *testing.T) {
	fake := populated(t)
	client := newClient(t, fake.Socket())
	ctx := t.Context()
	for _, name := range []string{"", ".", "..", "a/../b", "../c", "a\nb", "a\x00", "a/./b", strings.Repeat("a", 513)} {
		for about, do := range map[string]func() error{
			"StoragePool":       func() error { _, err := client.StoragePool(ctx, name); return err },
			"CreateStoragePool": func() error { return client.CreateStoragePool(ctx, api.StoragePool{Name: name, Driver: "dir"}) },
			"DeleteStoragePool": func() error { return client.DeleteStoragePool(ctx, name) },
			"Network":           func() error { _, err := client.Network(ctx, name); return err },
			"CreateNetwork":     func() error { return client.CreateNetwork(ctx, api.Network{Name: name}) },
			"DeleteNetwork":     func() error { return client.DeleteNetwork(ctx, name) },
			"Profile":           func() error { _, _, err := client.Profile(ctx, name); return err },
			"PutProfile":        func() error { return client.PutProfile(ctx, api.Profile{Name: name}, "") },
			"Instance":          func() error { _, _, err := client.Instance(ctx, name); return err },
			"InstanceState":     func() error { _, err := client.InstanceState(ctx, name); return err },
			"CreateInstance":    func() error { return client.CreateInstance(ctx, api.CreateInstance{Name: name, Alias: "tiny"}) },
			"PutInstance":       func() error { return client.PutInstance(ctx, api.Instance{Name: name}, "") },
			"PatchInstance":     func() error { return client.PatchInstance(ctx, name, api.InstancePatch{}, "") },
			"StartInstance":     func() error { return client.StartInstance(ctx, name) },
			"StopInstance":      func() error { return client.StopInstance(ctx, name, time.Second, true) },
			"DeleteInstance":    func() error { return client.DeleteInstance(ctx, name) },
			"Settled":           func() error { return client.Settled(ctx, name) },
			"ImageAlias":        func() error { _, err := client.ImageAlias(ctx, name); return err },
			"Image":             func() error { _, err := client.Image(ctx, name); return err },
			"DeleteImage":       func() error { return client.DeleteImage(ctx, name) },
		} {
			if err := do(); !errors.Is(err, errors.NotValid) {
				t.Errorf("%s(%q) = %v, want not valid", about, name, err)
			}
		}
	}
	if asked := fake.Requests(); len(asked) > 0 {
		t.Errorf("LXD was asked: %v", asked)
	}
}

func TestNamesAreEscaped(t *testing.T) {
	fake := lxdfake.New(t)
	fake.AddImage("ubuntu/24.04?x#y %2F", tiny)
	if got, err := newClient(t, fake.Socket()).ImageAlias(t.Context(), "ubuntu/24.04?x#y %2F"); err != nil || got != tiny {
		t.Errorf("ImageAlias() = %q, %v", got, err)
	}
}

func TestWhatIsAskedForIsChecked(t *testing.T) {
	client := newClient(t, "/nowhere")
	ctx := t.Context()
	source := func(change func(*api.ImageSource)) error {
		s := api.ImageSource{Server: "https://images", Protocol: "lxd", Alias: "a"}
		change(&s)
		_, err := client.CopyImage(ctx, s)
		return err
	}
	for about, err := range map[string]error{
		"no image":         client.CreateInstance(ctx, api.CreateInstance{Name: "c"}),
		"two images":       client.CreateInstance(ctx, api.CreateInstance{Name: "c", Alias: "a", Fingerprint: "f"}),
		"negative timeout": client.StopInstance(ctx, "c", -time.Second, false),
		"no server":        source(func(s *api.ImageSource) { s.Server = "" }),
		"other protocol":   source(func(s *api.ImageSource) { s.Protocol = "ftp" }),
		"two sources":      source(func(s *api.ImageSource) { s.Fingerprint = "f" }),
		"no source":        source(func(s *api.ImageSource) { s.Alias = "" }),
		"bad new alias":    source(func(s *api.ImageSource) { s.AliasesToMake = []string{"x", ".."} }),
	} {
		if !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: %v, want not valid", about, err)
		}
	}
}

func TestConfig(t *testing.T) {
	good := api.Config{Socket: "/run/lxd.socket", Clock: clock.WallClock}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*api.Config){
		"Socket":           func(c *api.Config) { c.Socket = "" },
		`"lxd.socket"`:     func(c *api.Config) { c.Socket = "lxd.socket" },
		"108 bytes":        func(c *api.Config) { c.Socket = "/" + strings.Repeat("a", 107) },
		"Clock":            func(c *api.Config) { c.Clock = nil },
		"CallTimeout":      func(c *api.Config) { c.CallTimeout = -1 },
		"OperationTimeout": func(c *api.Config) { c.OperationTimeout = -1 },
	} {
		config := good
		change(&config)
		if _, err := api.New(config); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: New() = %v", field, err)
		}
	}
}

// await polls until something is so.
func await(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatal("not within a minute")
		case <-time.After(time.Millisecond):
		}
	}
}
