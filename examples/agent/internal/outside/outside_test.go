package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// engine is the agent as a whole.
type engine struct{}

func (engine) Report() map[string]any { return map[string]any{"state": "started"} }

func open(t *testing.T, config Config) *Outside {
	t.Helper()
	config.Title, config.Logger = "model shop", slog.New(slog.DiscardHandler)
	o, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func serve(t *testing.T, o *Outside, dir, address string) *Server {
	t.Helper()
	s, err := o.Serve(t.Context(), dir, address, engine{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := worker.Stop(s); err != nil {
			t.Errorf("the server ended with %v, want nil", err)
		}
	})
	return s
}

// provision has an application settled.
func provision(t *testing.T, o *Outside) *provisioner.Worker {
	t.Helper()
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("mysql", fakes.App{})
	w, err := provisioner.New(provisioner.Config{
		Facade: controller, OperatorManager: fakes.NewManager(faults), Agent: fakes.NewAgent(controller.CACert()),
		ModelUUID: fakes.ModelUUID, Clock: clock.WallClock, Metrics: o.Operators(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Stop(w) })
	// Settled, and with the first event of every watcher.
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		status := w.Status()
		ready := status.Applications[provisioner.StateSettled] == 1
		for _, watcher := range status.Watchers {
			ready = ready && watcher.Events > 0
		}
		if ready {
			return w
		}
		if time.Now().After(end) {
			t.Fatal("the application is not settled")
		}
	}
}

func fetch(t *testing.T, dir, path string) string {
	t.Helper()
	body, err := Fetch(t.Context(), dir, path)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestEverythingIsHadOnAPrivateSocket(t *testing.T) {
	dir := t.TempDir()
	o := open(t, Config{})
	s := serve(t, o, dir, "")
	provision(t, o)
	for path, want := range map[string]string{
		"/":                   "mysql",
		"/report":             "agent:\n  state: started\n",
		"/report?format=json": `"state": "started"`,
		"/metrics":            `sutler_operator_applications{state="settled"} 1`,
		"/metrics?":           "go_goroutines",
		"/healthz":            "",
		"/ready":              "ready",
	} {
		if got := fetch(t, dir, path); !strings.Contains(strings.ReplaceAll(got, `"state":"`, `"state": "`), want) {
			t.Errorf("%s has no %q:\n%s", path, want, got)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, SocketName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", info, err)
	}
	o.Setup()
	if _, err := Fetch(t.Context(), dir, "/ready"); err == nil || !strings.Contains(err.Error(), "no container-setup handler has started") {
		t.Errorf("before a worker that is asked for has started: %v", err)
	}
	if urls := s.URLs(); len(urls) != 0 {
		t.Errorf("it listens at %v, too", urls)
	}
	if err := worker.Stop(s); err != nil {
		t.Errorf("the server ended with %v, want nil", err)
	}
	if _, err := os.Stat(filepath.Join(dir, SocketName)); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if _, err := Fetch(t.Context(), dir, "/"); !errors.Is(err, errors.NotFound) {
		t.Errorf("after the end: %v, want NotFound", err)
	}
}

func TestNonsenseIsRefusedAndTheNextIsAnswered(t *testing.T) {
	dir := t.TempDir()
	o := open(t, Config{})
	serve(t, o, dir, "")
	for _, path := range []string{"/?state=none", "/?page=-1", "/../agent.conf", "/%2e%2e/model.yaml", "/none"} {
		if body, err := Fetch(t.Context(), dir, path); err == nil {
			t.Errorf("%s is answered: %s", path, body)
		}
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "\x00\xff nonsense\r\n\r\n")
	answer, _ := io.ReadAll(conn)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
		t.Errorf("nonsense is answered with %q", answer)
	}
	fetch(t, dir, "/")
}

func TestReaderThatNeverReadsHoldsUpNeitherOthersNorTheEnd(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, open(t, Config{}), dir, "")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
	fetch(t, dir, "/metrics")
	if err := worker.Stop(s); err != nil {
		t.Errorf("the server ended with %v, want nil", err)
	}
}

func TestPageIsHadOnALoopbackAddressWhenAskedFor(t *testing.T) {
	s := serve(t, open(t, Config{}), t.TempDir(), "127.0.0.1:0")
	urls := s.URLs()
	if len(urls) != 1 || !strings.HasPrefix(urls[0], "http://127.0.0.1:") {
		t.Fatalf("it listens at %v", urls)
	}
	get := func(host string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, urls[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			request.Host = host
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if got := get(""); got != http.StatusOK {
		t.Errorf("status %d, want 200", got)
	}
	// A browser that was led here by a name of somebody else's.
	if got := get("rebound.example.com"); got == http.StatusOK {
		t.Error("any name will do")
	}
}

func TestAddressHasToBeALoopbackOne(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9:0": true, "[::1]:80": true, "localhost:8080": true,
		"": false, "8080": false, ":8080": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.5:80": false,
		"example.com:80": false, "127.0.0.1": false, "localhost.example.com:80": false,
	} {
		err := ValidateAddress(address)
		if (err == nil) != good || err != nil && !errors.Is(err, errors.NotValid) {
			t.Errorf("%q: %v, want good %t or NotValid", address, err, good)
		}
	}
	dir := t.TempDir()
	if s, err := open(t, Config{}).Serve(t.Context(), dir, "0.0.0.0:0", engine{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("it is served there: %v, %v", s, err)
	}
	if _, err := os.Stat(filepath.Join(dir, SocketName)); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAddressThatIsTakenIsNamed(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	_, err = open(t, Config{}).Serve(t.Context(), t.TempDir(), address, engine{})
	if err == nil || !strings.Contains(err.Error(), "serving the page") || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v, want an error that names %s", err, address)
	}
}

func TestSpansAreAddedToAPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.json")
	for run := 1; run <= 2; run++ {
		o := open(t, Config{Traces: path})
		w := provision(t, o)
		if err := worker.Stop(w); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		passes := 0
		for decoder := json.NewDecoder(bytes.NewReader(data)); ; {
			var span struct{ Name string }
			if err := decoder.Decode(&span); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if span.Name == "sutler.operator.pass" {
				passes++
			}
		}
		if passes < run {
			t.Errorf("after run %d there are %d spans of passes in\n%s", run, passes, data)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v; want mode 0600", info, err)
	}
}

func TestFileOfSpansThatCannotBeHadIsABadRequest(t *testing.T) {
	_, err := New(Config{Traces: filepath.Join(t.TempDir(), "none", "spans.json")})
	if !errors.Is(err, errors.BadRequest) || !strings.Contains(err.Error(), "spans.json") {
		t.Errorf("got %v, want a BadRequest that names the file", err)
	}
}

func TestFetchHeedsItsContext(t *testing.T) {
	dir := t.TempDir()
	serve(t, open(t, Config{}), dir, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fetch(ctx, dir, "/"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
