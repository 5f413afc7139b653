package box

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

func TestConfigNamesWhatIsMissing(t *testing.T) {
	good := newWorld(t).config()
	for want, change := range map[string]func(*Config){
		"Dir":         func(c *Config) { c.Dir = "" },
		"Dir ":        func(c *Config) { c.Dir = "relative" },
		"ModelUUID":   func(c *Config) { c.ModelUUID = "x" },
		"Command":     func(c *Config) { c.Command = nil },
		"Command ":    func(c *Config) { c.Command = []string{"program"} },
		"nil Clock":   func(c *Config) { c.Clock = nil },
		"nil Logger ": func(c *Config) { c.Logger = nil },
	} {
		config := good
		change(&config)
		if _, err := New(config); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSettings(t *testing.T) {
	for text, want := range map[string]time.Duration{"0s": 0, "2s": 2 * time.Second, "1m": time.Minute} {
		s, err := parseSettings(facade.ContainerManagerConfig{StopTimeoutSetting: text, "model-uuid": "x"})
		if err != nil || s.stopTimeout != want {
			t.Errorf("%s: got %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "5", "-1s", "2m", "secret-canary"} {
		_, err := parseSettings(facade.ContainerManagerConfig{StopTimeoutSetting: text})
		if want := "setting stop-timeout (want a duration from 0s to 1m0s) not valid"; err == nil || err.Error() != want {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if s, err := parseSettings(nil); err != nil || s.stopTimeout != DefaultStopTimeout {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestPreparationIsDoneOnceAndWhatIsMissingIsMended(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	backend := h.Backend()
	if _, err := backend.NewBroker(t.Context(), nil); !errors.Is(err, errors.NotYetAvailable) {
		t.Errorf("got %v, want NotYetAvailable", err)
	}
	prepare := func() string {
		t.Helper()
		if err := backend.Initialiser.Initialise(t.Context()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(h.preparedPath())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := prepare()
	if again := prepare(); again != before {
		t.Errorf("got %q, then %q", before, again)
	}
	for what, damage := range map[string]func() error{
		"others may read it": func() error { return os.Chmod(w.dir, 0o755) },
		"the file is gone":   func() error { return os.Remove(h.preparedPath()) },
		"the file is empty":  func() error { return os.WriteFile(h.preparedPath(), nil, 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if after := prepare(); after == before {
			t.Errorf("%s: not prepared again", what)
		}
		if info, err := os.Stat(w.dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: got %v, %v", what, info.Mode(), err)
		}
	}
}

func TestPlaceThatIsTakenIsAnError(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(w.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := w.host()
	if err := h.Backend().Initialiser.Initialise(t.Context()); !errors.Is(err, errors.NotValid) {
		t.Errorf("got %v, want NotValid", err)
	}
	if _, err := h.Backend().NewBroker(t.Context(), nil); err == nil {
		t.Error("want an error")
	}
	if _, err := (&broker{host: h}).AllInstances(t.Context()); err == nil {
		t.Error("want an error")
	}
}

func TestStatusOfProcessesIsParsed(t *testing.T) {
	const fields = "S 1 2 2 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0"
	for text, want := range map[string]uint64{
		"12 (box) " + fields:            4711,
		"12 (a) b (c) S 1 2) " + fields: 4711,
	} {
		if state, start, err := parseStat([]byte(text)); state != 'S' || start != want || err != nil {
			t.Errorf("%q: got %c, %d, %v", text, state, start, err)
		}
	}
	for _, text := range []string{"", "12 (box)", "12 (box) S 1 2", "12 (box) " + strings.Replace(fields, "4711", "x", 1)} {
		if _, _, err := parseStat([]byte(text)); !errors.Is(err, errors.NotValid) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestProcessWithoutAFileIsNoProcess(t *testing.T) {
	p, err := readProcess(t.TempDir())
	if err != nil || p.alive() {
		t.Errorf("got %+v, %v", p, err)
	}
	me, err := self()
	if err != nil || !me.alive() {
		t.Errorf("got %+v, %v", me, err)
	}
}

func TestNobodyAnswersWhereThereIsNoBox(t *testing.T) {
	if _, err := Ask(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, errors.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestKeyedLockLetsOneInAndWaitersGiveUp(t *testing.T) {
	var l keyedLock
	unlock, err := l.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.lock(t.Context(), "b") // another key
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() { _, err := l.lock(ctx, "a"); waiting <- err }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := l.lock(ctx, "c"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	var wg sync.WaitGroup
	inside := 0
	for range 50 {
		wg.Go(func() {
			unlock, err := l.lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			inside++ // the race detector sees two
			unlock()
		})
	}
	unlock()
	wg.Wait()
	if inside != 50 || len(l.keys) > 0 {
		t.Errorf("got %d, %v", inside, l.keys)
	}
}
