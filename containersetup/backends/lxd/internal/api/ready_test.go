package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
)

// Just after an installation: canonical/lxd#4265.
func TestWaitReadyWaitsForTheSocketAndTheDaemon(t *testing.T) {
	fake := lxdfake.New(t)
	fake.Stop()
	client := newClient(t, fake.Socket())
	done := make(chan error, 1)
	go func() { done <- client.WaitReady(t.Context()) }()
	select {
	case err := <-done:
		t.Fatalf("without a daemon: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	fake.Fail(http.MethodGet, "/1.0", http.StatusServiceUnavailable, "LXD daemon setup in progress", 2)
	fake.Restart()
	wantKind(t, <-done, "ok")
	if got := fake.Count(http.MethodGet, "/1.0"); got != 3 {
		t.Errorf("asked %d times, want 3: %v", got, fake.Requests())
	}
}

// canonical/lxd#4510.
func TestWaitReadyEndsWithTheContext(t *testing.T) {
	t.Run("by a deadline, and tells what was wrong", func(t *testing.T) {
		fake := lxdfake.New(t)
		fake.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := newClient(t, fake.Socket()).WaitReady(ctx)
		wantKind(t, err, "time-out, context's deadline")
		if !strings.Contains(err.Error(), fake.Socket()) {
			t.Errorf("does not say what was wrong: %v", err)
		}
	})
	t.Run("while the daemon hangs", func(t *testing.T) {
		fake := lxdfake.New(t)
		defer fake.Hang(http.MethodGet, "/1.0")()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- newClient(t, fake.Socket()).WaitReady(ctx) }()
		await(t, func() bool { return len(fake.Requests()) > 0 })
		cancel()
		wantKind(t, <-done, "cancelled")
	})
	t.Run("that has ended before", func(t *testing.T) {
		fake := lxdfake.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantKind(t, newClient(t, fake.Socket()).WaitReady(ctx), "cancelled")
	})
}

func TestWaitReadyBearsWithWhateverIsThere(t *testing.T) {
	answers := []string{"", "nonsense", `{"type":"async"}`, `{"type":"sync","metadata":[]}`, `{"type":"sync","metadata":{"auth":"trusted"}}`}
	n := 0
	client := newClient(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(answers[n]))
		n++
	}))
	wantKind(t, client.WaitReady(t.Context()), "ok")
	if n != len(answers) {
		t.Errorf("asked %d times, want %d", n, len(answers))
	}
}
