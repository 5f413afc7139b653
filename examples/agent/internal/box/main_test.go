package box

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

const modelUUID = "9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e"

// deadline is for what takes no time on an idle machine.
const deadline = 60 * time.Second

// deaf in the environment of a box makes it one that does not end when told.
const deaf = "BOX_TEST_DEAF"

// TestMain is a box, when the test's program is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "box" {
		signal.Ignore(syscall.SIGPIPE)
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		if os.Getenv(deaf) != "" {
			ctx = context.Background()
		}
		err := Run(ctx, RunConfig{Dir: os.Args[3], Ready: os.Stdout, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// world is a directory for boxes, and what a test does there.
type world struct {
	t   *testing.T
	dir string
	log *safeBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "boxes"), log: &safeBuffer{}}
	// Whatever the test did, nothing of it is left.
	t.Cleanup(func() {
		w.eventually("no process left", func() bool {
			pids := w.processes()
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
			return len(pids) == 0
		})
	})
	return w
}

// command runs boxes, with more in their environment.
func command(env ...string) []string {
	// The race detector makes a program sleep for a second at its end.
	argv := append([]string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0"}, env...)
	return append(argv, os.Args[0], "box", "--dir", DirPlaceholder)
}

func (w *world) config() Config {
	return Config{
		Dir:       w.dir,
		ModelUUID: modelUUID,
		Command:   command(),
		Clock:     clock.WallClock,
		Logger:    slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// host starts one that ends with the test.
func (w *world) host(change ...func(*Config)) *Host {
	w.t.Helper()
	config := w.config()
	for _, c := range change {
		c(&config)
	}
	h, err := New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.stop(h) })
	return h
}

func (w *world) stop(h *Host) {
	w.t.Helper()
	if err := worker.Stop(h); err != nil {
		w.t.Error(err)
	}
}

// broker returns one of a prepared machine.
func (w *world) broker(h *Host) container.Broker {
	w.t.Helper()
	if err := h.Backend().Initialiser.Initialise(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	b, err := h.Backend().NewBroker(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func params(id string) container.StartParams {
	return container.StartParams{
		ContainerID: id,
		Info: facade.ContainerProvisioningInfo{
			Base:     facade.Base{Name: "ubuntu", Channel: "24.04"},
			UserData: facade.NewSecret("#cloud-config\n# user-data-canary\n"),
			Nonce:    "nonce",
		},
		Interfaces: []facade.NetworkInterface{{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"192.0.2.2/24"}}},
	}
}

// start starts a box and returns what it says of itself.
func (w *world) start(b container.Broker, id string) (string, Answer) {
	w.t.Helper()
	result, err := b.StartInstance(w.t.Context(), params(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(result.InstanceID), w.ask(string(result.InstanceID))
}

func (w *world) ask(name string) Answer {
	w.t.Helper()
	answer, err := Ask(w.t.Context(), filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatalf("asking %s: %v\n%s", name, err, w.log)
	}
	return answer
}

// one returns the only instance, or a zero one.
func (w *world) one(b container.Broker) container.Instance {
	w.t.Helper()
	all, err := b.AllInstances(w.t.Context())
	if err != nil || len(all) > 1 {
		w.t.Fatalf("got %v, %v; want one at most", all, err)
	}
	if len(all) == 0 {
		return container.Instance{}
	}
	return all[0]
}

// processes are those of boxes in the world's directory, zombies left out.
func (w *world) processes() []int {
	w.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Fatal(err)
	}
	var pids []int
	for _, file := range lines {
		data, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(data, []byte("\x00box\x00--dir\x00"+w.dir+"/")) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s\n%s", what, w.log)
		}
	}
}

// safeBuffer is a bytes.Buffer for many goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
