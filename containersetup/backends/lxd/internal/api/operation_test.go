package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
)

const waits = "/1.0/operations/*/wait"

// forEachOperation runs f for each call that LXD does in the background, once its
// operation hangs and is waited for.
func forEachOperation(t *testing.T, f func(t *testing.T, x waiting)) {
	t.Helper()
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
		if !c.operation {
			return
		}
		// Pauses are not waited for, and deadlines are far.
		client = configured(t, api.Config{
			Socket: fake.Socket(), Clock: &hurriedClock{now: time.Unix(1700000000, 0)}, OperationTimeout: 24 * time.Hour,
		})
		x := waiting{fake: fake, call: c, release: fake.HangOperation(c.method, c.path), done: make(chan error, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		x.cancel = cancel
		go func() { x.done <- c.do(ctx, client) }()
		await(t, func() bool { return fake.Count(http.MethodGet, waits) == 1 })
		f(t, x)
	})
}

type waiting struct {
	fake    *lxdfake.Fake
	call    call
	release func()
	cancel  func()
	done    chan error
}

func TestOperationIsWaitedFor(t *testing.T) {
	forEachOperation(t, func(t *testing.T, x waiting) {
		select {
		case err := <-x.done:
			t.Fatalf("did not wait: %v", err)
		default:
		}
		x.release()
		wantKind(t, <-x.done, "ok")
	})
}

func TestCancelledWaitLeavesTheOperationAlone(t *testing.T) {
	forEachOperation(t, func(t *testing.T, x waiting) {
		x.cancel()
		wantKind(t, <-x.done, "cancelled")
		for _, change := range x.fake.Changes() {
			if strings.HasPrefix(change.Path, "/1.0/operations") {
				t.Errorf("touched: %s", change)
			}
		}
	})
}

func TestDaemonThatRestartsHasLostTheOperation(t *testing.T) {
	forEachOperation(t, func(t *testing.T, x waiting) {
		x.fake.Restart()
		wantKind(t, <-x.done, "operation lost")
	})
}

func TestConnectionThatBreaksDuringAWait(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, _ *api.Client, c call) {
		if !c.operation {
			return
		}
		client := configured(t, api.Config{Socket: fake.Socket(), Clock: &hurriedClock{now: time.Unix(1700000000, 0)}})
		fake.Drop(http.MethodGet, waits)
		fake.Fail(http.MethodGet, waits, http.StatusServiceUnavailable, "shutting down", 2)
		wantKind(t, c.do(t.Context(), client), "ok")
		if got := fake.Count(http.MethodGet, waits); got != 4 {
			t.Errorf("asked %d times, want 4", got)
		}
		if got := fake.Count(c.method, c.path); got != 1 {
			t.Errorf("asked for the change %d times", got)
		}
	})
}

func TestOperationThatNeverEndsIsATimeout(t *testing.T) {
	forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, _ *api.Client, c call) {
		if !c.operation || c.name == "StopInstance" { // which has a time of its own
			return
		}
		client := configured(t, api.Config{Socket: fake.Socket(), Clock: clock.WallClock, OperationTimeout: 30 * time.Millisecond})
		defer fake.HangOperation(c.method, c.path)()
		wantKind(t, c.do(t.Context(), client), "time-out")
	})
}

func TestSettledWaitsForWhatOthersBegan(t *testing.T) {
	forEachOperation(t, func(t *testing.T, x waiting) {
		on := map[string]string{"CreateInstance": "c1", "StopInstance": "running"}[x.call.name]
		switch {
		case strings.Contains(x.call.name, "Image"):
			return // is on no instance
		case on == "":
			on = "stopped"
		}
		x.cancel()
		wantKind(t, <-x.done, "cancelled")
		client := newClient(t, x.fake.Socket())
		wantKind(t, client.Settled(t.Context(), "other"), "ok")

		before := x.fake.Count(http.MethodGet, waits)
		done := make(chan error, 1)
		go func() { done <- client.Settled(t.Context(), on) }()
		await(t, func() bool { return x.fake.Count(http.MethodGet, waits) > before })
		select {
		case err := <-done:
			t.Fatalf("did not wait: %v", err)
		default:
		}
		x.release()
		wantKind(t, <-done, "ok")
		wantKind(t, client.Settled(t.Context(), on), "ok")
	})
}

// How an operation ended that somebody else began is for those to find out who look at
// what is there.
func TestSettledBearsFailureAndRestart(t *testing.T) {
	for about, end := range map[string]func(x waiting){
		"failure": func(x waiting) { x.release() },
		"restart": func(x waiting) { x.fake.Restart() },
	} {
		forEachOperation(t, func(t *testing.T, x waiting) {
			if x.call.name != "StartInstance" {
				return
			}
			x.fake.SetInstanceStatus("stopped", api.StatusRunning) // so that it fails
			x.cancel()
			wantKind(t, <-x.done, "cancelled")
			before := x.fake.Count(http.MethodGet, waits)
			done := make(chan error, 1)
			go func() { done <- newClient(t, x.fake.Socket()).Settled(t.Context(), "stopped") }()
			await(t, func() bool { return x.fake.Count(http.MethodGet, waits) > before })
			end(x)
			if err := <-done; err != nil {
				t.Errorf("%s: %v", about, err)
			}
		})
	}
}

// In hurry's time, what takes two minutes takes as long as the requests do.
func TestDaemonThatStaysAwayDuringAWait(t *testing.T) {
	fake := populated(t)
	hurry := &hurriedClock{now: time.Unix(1700000000, 0)}
	client := configured(t, api.Config{Socket: fake.Socket(), Clock: hurry, OperationTimeout: time.Hour})
	fake.Fail(http.MethodGet, waits, http.StatusServiceUnavailable, "starting", -1)
	began := hurry.Now()
	err := client.StartInstance(t.Context(), "stopped")
	wantKind(t, err, "operation lost")
	if took := hurry.Now().Sub(began); took < 2*time.Minute || took > 3*time.Minute {
		t.Errorf("waited for %s, want two minutes", took)
	}
	if asked := fake.Count(http.MethodGet, waits); asked > 100 {
		t.Errorf("asked %d times", asked)
	}
}

// The operation's own time is less than that.
func TestDaemonThatStaysAwayUntilTheDeadline(t *testing.T) {
	fake := populated(t)
	hurry := &hurriedClock{now: time.Unix(1700000000, 0)}
	client := configured(t, api.Config{Socket: fake.Socket(), Clock: hurry, OperationTimeout: time.Minute})
	fake.Fail(http.MethodGet, waits, http.StatusServiceUnavailable, "starting", -1)
	wantKind(t, client.StartInstance(t.Context(), "stopped"), "time-out")
}

func TestSlowOperationIsAskedForAgain(t *testing.T) {
	running := `{"type":"sync","metadata":{"status":"Running","status_code":103}}`
	asked := 0
	client := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			_, _ = w.Write([]byte(`{"type":"async","operation":"/1.0/operations/a-b?project=x"}`))
		case r.URL.String() != "/1.0/operations/a-b/wait?timeout=10":
			t.Errorf("asked for %s", r.URL)
		default:
			if asked++; asked < 4 {
				_, _ = w.Write([]byte(running))
				return
			}
			_, _ = w.Write([]byte(strings.ReplaceAll(running, "103", "200")))
		}
	}))
	wantKind(t, client.DeleteInstance(t.Context(), "c"), "ok")
	if asked != 4 {
		t.Errorf("asked %d times", asked)
	}
}

func TestCancelledOperationIsAnError(t *testing.T) {
	client := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			_, _ = w.Write([]byte(`{"type":"async","operation":"/1.0/operations/a-b"}`))
			return
		}
		_, _ = w.Write([]byte(`{"type":"sync","metadata":{"status":"Cancelled","status_code":401}}`))
	}))
	wantKind(t, client.DeleteInstance(t.Context(), "c"), "error")
}

func TestWhatIsSoAlreadyIsSuccess(t *testing.T) {
	fake := populated(t)
	client := newClient(t, fake.Socket())
	wantKind(t, client.StartInstance(t.Context(), "running"), "ok")
	wantKind(t, client.StopInstance(t.Context(), "stopped", time.Second, false), "ok")
	// But not what only looks like it.
	fake.Fail(http.MethodPut, "/1.0/instances/*/state", http.StatusBadRequest, "not now", -1)
	wantKind(t, client.StartInstance(t.Context(), "stopped"), "bad request")
	wantKind(t, client.StopInstance(t.Context(), "running", time.Second, false), "bad request")
}

func TestStubbornInstanceHasToBeForced(t *testing.T) {
	fake := populated(t)
	fake.SetStubborn("running")
	client := newClient(t, fake.Socket())
	wantKind(t, client.StopInstance(t.Context(), "running", time.Second, false), "error")
	wantKind(t, client.StopInstance(t.Context(), "running", time.Second, true), "ok")
}

func TestInstanceHalfMade(t *testing.T) {
	fake := populated(t)
	client := newClient(t, fake.Socket())
	defer fake.HangOperation(http.MethodPost, "/1.0/instances")()
	params := api.CreateInstance{Name: "c1", Fingerprint: tiny}
	done := make(chan error)
	go func() { done <- client.CreateInstance(t.Context(), params) }()
	await(t, func() bool {
		return len(fake.Instances()) == 3 && fake.Count(http.MethodGet, "/1.0/operations/*/wait") == 1
	})
	fake.Restart()
	wantKind(t, <-done, "operation lost")
	fake.ClearFaults()

	wantKind(t, client.CreateInstance(t.Context(), params), "already exists")
	wantKind(t, client.StartInstance(t.Context(), "c1"), "error")
	wantKind(t, client.DeleteInstance(t.Context(), "c1"), "ok")
	wantKind(t, client.CreateInstance(t.Context(), params), "ok")
	wantKind(t, client.StartInstance(t.Context(), "c1"), "ok")
}

func TestManyAtOnce(t *testing.T) {
	fake := populated(t)
	client := newClient(t, fake.Socket())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			wantKind(t, client.StartInstance(t.Context(), "stopped"), "ok")
			_, err := client.Instances(t.Context())
			wantKind(t, err, "ok")
			_, err = client.CopyImage(t.Context(), api.ImageSource{Server: "https://images", Protocol: "simplestreams", Alias: "far"})
			wantKind(t, err, "ok")
		})
	}
	group.Wait()
	if got := fake.Downloads(); got != 1 {
		t.Errorf("%d downloads", got)
	}
}

// hurriedClock is a clock that nobody waits for: a timer moves time on by what it is
// for, and has run off.
type hurriedClock struct {
	clock.Clock
	mu     sync.Mutex
	now    time.Time
	alarms []*alarm
}

type alarm struct {
	clock.Timer // its Stop
	at          time.Time
	f           func()
	hurried     *hurriedClock
}

func (c *hurriedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *hurriedClock) NewTimer(d time.Duration) clock.Timer {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []*alarm
	for _, a := range c.alarms {
		if a.f != nil && !a.at.After(c.now) {
			due = append(due, &alarm{f: a.f})
			a.f = nil
		}
	}
	c.mu.Unlock()
	for _, a := range due {
		a.f()
	}
	return clock.WallClock.NewTimer(0)
}

func (c *hurriedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{at: c.now.Add(d), f: f, hurried: c}
	c.alarms = append(c.alarms, a)
	return a
}

func (a *alarm) Stop() bool {
	a.hurried.mu.Lock()
	defer a.hurried.mu.Unlock()
	was := a.f != nil
	a.f = nil
	return was
}
