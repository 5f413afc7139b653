package images_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

// childConfig has, in a process that a test starts, what that is to do.
const childConfig = "SUTLER_IMAGES_TEST_CHILD"

// child is an agent that fetches an image, or holds an instance until its input ends.
type child struct {
	Dir    string
	Source images.Source
	Hold   string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childConfig); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runChild(text string) error {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	h := &hosttest.Host{}
	h.On(qemuInfo, "qemu-img", "info")
	store, err := images.New(images.Config{Dir: c.Dir, Host: h})
	if err != nil {
		return err
	}
	if c.Hold != "" {
		if _, err := store.Hold(context.Background(), c.Hold); err != nil {
			return err
		}
		fmt.Println("held")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	_, err = store.Fetch(context.Background(), c.Source)
	return err
}

// start starts a child; what it prints is in the buffer once it has ended.
func (c child) start(t *testing.T) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	out := &bytes.Buffer{}
	cmd.Stderr = out
	if c.Hold == "" {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	return cmd, out
}

// TestManyProcessesFetchOneImageOnce is of two and more agents on one host.
func TestManyProcessesFetchOneImageOnce(t *testing.T) {
	data := rawImage(1, 1<<20)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(300 * time.Millisecond) // for the others to come
		http.ServeContent(w, r, "", testTime(), bytes.NewReader(data))
	}))
	defer server.Close()
	w := newWorld(t)
	source := images.Source{URL: server.URL, SHA256: sumOf(data)}
	var group sync.WaitGroup
	for range 4 {
		cmd, out := child{Dir: w.dir, Source: source}.start(t)
		group.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	group.Wait()
	w.expectFetched(source, data)
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestAProcessThatIsKilledIsGoneOnFor kills agents while they fetch an image slowly, each
// somewhere; the last one completes it from what they left.
func TestAProcessThatIsKilledIsGoneOnFor(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := rawImage(1, 4<<20)
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(&slow{ResponseWriter: w, sent: &sent}, r, "", testTime(), bytes.NewReader(data))
	}))
	defer server.Close()
	w := newWorld(t, func(c *images.Config) { c.HTTP = nil })
	source := images.Source{URL: server.URL, SHA256: sumOf(data)}
	for range 8 {
		cmd, out := child{Dir: w.dir, Source: source}.start(t)
		until := sent.Load() + random.Int64N(700<<10)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var err error
		for alive := true; alive; {
			select {
			case err = <-ended:
				alive = false
			case <-time.After(time.Millisecond):
				if sent.Load() > until {
					_ = cmd.Process.Kill()
				}
			}
		}
		if err != nil && out.Len() > 0 {
			t.Errorf("%v: %s", err, out)
		}
		for _, name := range w.files() {
			if strings.HasPrefix(name, "base-") {
				got, err := os.ReadFile(filepath.Join(w.dir, name))
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%s is not whole: %v", name, err)
				}
			}
		}
	}
	w.expectFetched(source, data)
	// What was there was not fetched anew: at most what was on its way was lost each time.
	if n := sent.Load(); n > int64(len(data))+9<<20 {
		t.Errorf("%d bytes were sent for %d", n, len(data))
	}
}

// slow sends little at a time, and counts.
type slow struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (s *slow) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		some := p[:min(len(p), 16<<10)]
		if _, err := s.ResponseWriter.Write(some); err != nil {
			return n, err
		}
		s.ResponseWriter.(http.Flusher).Flush()
		s.sent.Add(int64(len(some)))
		n, p = n+len(some), p[len(some):]
		time.Sleep(200 * time.Microsecond)
	}
	return n, nil
}

// TestAnInstanceIsHeldByOneProcess and is anybody's when that is killed.
func TestAnInstanceIsHeldByOneProcess(t *testing.T) {
	w := newWorld(t)
	cmd, _ := child{Dir: w.dir, Hold: "a"}.start(t)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("held\n"))); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = w.store.Hold(short, "a")
	expectError(t, err, context.DeadlineExceeded, "another process")
	free, err := w.store.Hold(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	free()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if free, err = w.store.Hold(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	free()
	_ = cmd.Wait()
}
