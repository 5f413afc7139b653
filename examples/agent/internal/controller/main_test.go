package controller

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/sutler-dev/sutler/facade"
)

// deadline is for what happens soon, on a machine that may be busy. It is less
// than rescan, so that what is seen was seen by its event.
const deadline = 10 * time.Second

const modelYAML = "name: shop\nuuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\n"

// world is a controller on a model of its own.
type world struct {
	*Controller
	t     *testing.T
	dir   string
	state *State
	log   *safeBuffer
	clock *shiftedClock
	image string
}

// newWorld starts a controller on a model with these files.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), log: &safeBuffer{}, clock: &shiftedClock{Clock: clock.WallClock}}
	w.write("model.yaml", modelYAML)
	w.mkdir("applications")
	for name, text := range files {
		w.write(name, text)
	}
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.state, err = OpenState(w.dir, w.clock.Now()); err != nil {
		w.t.Fatal(err)
	}
	w.state.passwords.cost = bcrypt.MinCost
	w.Controller, err = New(Config{
		Dir: w.dir, State: w.state, Clock: w.clock, Image: w.image,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop() {
	w.t.Helper()
	if err := worker.Stop(w.Controller); err != nil {
		w.t.Error(err)
	}
	if err := w.state.Close(); err != nil && !strings.Contains(err.Error(), "already closed") {
		w.t.Error(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *world) mkdir(name string) {
	w.t.Helper()
	if err := os.MkdirAll(w.path(name), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	w.mkdir(filepath.Dir(name))
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(w.path(from), w.path(to)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) setPassword(app, password string) {
	w.t.Helper()
	results, err := w.SetPasswords(w.t.Context(), []facade.ApplicationPassword{{Name: app, Password: facade.NewSecret(password)}})
	if err != nil || len(results) != 1 || results[0] != nil {
		w.t.Fatalf("setting a password: %v, %v", results, err)
	}
}

// report returns what the controller's report says at a path of keys.
func (w *world) report(keys ...string) any {
	var v any = w.Report()
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// eventually polls until the condition holds.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s\nreport: %v\nlog:\n%s", what, w.Report(), w.log)
		}
	}
}

// expect reads events until all the names came; others may come too, since
// events may repeat.
func (w *world) expect(from facade.StringsWatcher, names ...string) {
	w.t.Helper()
	timeout := time.After(deadline)
	missing := slices.Clone(names)
	for len(missing) > 0 {
		select {
		case got := <-from.Changes():
			missing = slices.DeleteFunc(missing, func(n string) bool { return slices.Contains(got, n) })
		case <-timeout:
			w.t.Fatalf("no event about %v\nlog:\n%s", missing, w.log)
		}
	}
}

// watching starts a watcher and takes its baseline, which must be these names.
func (w *world) watching(watcher facade.StringsWatcher, err error, baseline ...string) facade.StringsWatcher {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = worker.Stop(watcher) })
	select {
	case got := <-watcher.Changes():
		if !slices.Equal(got, baseline) {
			w.t.Fatalf("got baseline %v, want %v", got, baseline)
		}
	case <-time.After(deadline):
		w.t.Fatal("no baseline")
	}
	return watcher
}

// v1App is the files of an application with a charm of format 1.
func v1App(name, applicationYAML string) map[string]string {
	return map[string]string{
		"applications/" + name + "/application.yaml":    applicationYAML,
		"applications/" + name + "/charm/metadata.yaml": fmt.Sprintf("name: %s\nseries: [kubernetes]\n", name),
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

// shiftedClock is the wall clock, or what it will be later.
type shiftedClock struct {
	clock.Clock
	mu    sync.Mutex
	shift time.Duration
}

func (c *shiftedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now().Add(c.shift)
}

func (c *shiftedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}
