package machinelock

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// H19, github.com/juju/juju/issues/8958: nobody can see who holds the machine
// lock.
func TestH19HolderReasonAndAgeAreInTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		mine, theirs := newLock(t, path), newLock(t, path)
		release := acquire(t, mine)
		time.Sleep(90 * time.Second)
		for who, l := range map[string]*Lock{"the holder": mine, "another": theirs} {
			r := l.Report()
			if r["path"] != path || r["held"] != true || r["holder"] != someone.Worker || r["reason"] != someone.Reason ||
				r["pid"] != os.Getpid() || r["age"] != "1m30s" || r["waiting"] != 0 {
				t.Errorf("%s reports %v", who, r)
			}
			if _, err := time.Parse(time.RFC3339, r["since"].(string)); err != nil {
				t.Errorf("%s: %v", who, err)
			}
		}
		release()
		for who, l := range map[string]*Lock{"the holder": mine, "another": theirs} {
			if r := l.Report(); len(r) != 3 || r["held"] != false {
				t.Errorf("%s reports %v", who, r)
			}
		}
	})
}

func TestStatusMakesNoFile(t *testing.T) {
	path := newPath(t)
	if s, err := newLock(t, path).Status(t.Context()); err != nil || s != (container.LockStatus{}) {
		t.Errorf("status %+v, %v", s, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there (%v)", err)
	}
}

func TestStatusHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newLock(t, newPath(t)).Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Who looks at one's own Lock all the time does not delay it by a poll, and never
// takes another who looks for a holder.
func TestLookingDisturbsNobody(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	l.poll = time.Hour // an Acquire that finds the file locked would be noticed
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				if s, err := l.Status(t.Context()); err != nil || s.Held && s.Holder != someone {
					t.Errorf("status %+v, %v", s, err)
					return
				}
				l.Report()
			}
		})
	}
	for range 500 {
		release, err := l.Acquire(soon(t), someone)
		must(t, err)
		release()
	}
	cancel()
	all.Wait()
}

func TestTwoWhoLookDoNotSeeEachOther(t *testing.T) {
	path := newPath(t)
	must(t, os.WriteFile(path, nil, 0o600))
	var all sync.WaitGroup
	for range 4 {
		l := newLock(t, path)
		all.Go(func() {
			for range 500 {
				if s, err := l.Status(t.Context()); err != nil || s.Held {
					t.Errorf("status %+v, %v", s, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A clock that was set back, here or where the holder is.
func TestAnAgeIsNeverNegative(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	f, err := newLock(t, path).lockFile()
	must(t, err)
	defer unlock(f)
	describe(f, container.LockStatus{Held: true, Holder: someone, PID: 1, Since: time.Now().Add(time.Hour)})
	if r := l.Report(); r["age"] != "0s" {
		t.Errorf("report %v", r)
	}
}

func TestTheFileIsYAML(t *testing.T) {
	since := time.Date(2026, 1, 2, 15, 4, 5, 999999999, time.UTC)
	for _, holder := range []container.Holder{
		someone,
		{},
		{Worker: "a: b # c", Reason: "- \"x\" 'y' \\ \n\t\r\x00\x7f \u2028 é \U0001F600"},
		{Worker: "\xff\xfe", Reason: strings.Repeat("é", 1000)},
		{Worker: strings.Repeat("a\xff", 1000), Reason: strings.Repeat("\x01", 10_000)},
	} {
		status := container.LockStatus{Held: true, Holder: holder, PID: 4711, Since: since}
		data := render(status)
		var read struct {
			Worker, Reason string
			PID            int
			Since          string
		}
		if err := yaml.Unmarshal(data, &read); err != nil {
			t.Errorf("%q is no YAML: %v", data, err)
			continue
		}
		got, ok := parse(data)
		if !ok || got.Holder.Worker != read.Worker || got.Holder.Reason != read.Reason || got.PID != read.PID || !got.Since.Equal(since) || !got.Held {
			t.Errorf("%q was read as %+v (%v), and as YAML %+v", data, got, ok, read)
		}
		if short := len(holder.Reason) < 100 && holder.Worker != "\xff\xfe"; short && got.Holder != holder {
			t.Errorf("%+v became %+v", holder, got.Holder)
		}
	}
}

// A file that is only partly there, or that is another's, tells nothing.
func TestATornFileTellsNothing(t *testing.T) {
	data := render(container.LockStatus{Held: true, Holder: someone, PID: 4711, Since: time.Now()})
	if _, ok := parse(data); !ok {
		t.Fatalf("%q cannot be read", data)
	}
	for n := range data {
		if s, ok := parse(data[:n]); ok || s != (container.LockStatus{}) {
			t.Errorf("%q was read as %+v", data[:n], s)
		}
	}
	for _, foreign := range []string{
		"\n\n\n\n",
		"worker: a\nreason: b\npid: 1\nsince: 2026-01-02T15:04:05Z\n",
		"worker: 'a'\nreason: \"b\"\npid: 1\nsince: \"2026-01-02T15:04:05Z\"\n",
		"worker: \"a\"\nreason: \"b\"\npid: 0\nsince: \"2026-01-02T15:04:05Z\"\n",
		"worker: \"a\"\nreason: \"b\"\npid: -1\nsince: \"2026-01-02T15:04:05Z\"\n",
		"worker: \"a\"\nreason: \"b\"\npid: x\nsince: \"2026-01-02T15:04:05Z\"\n",
		"worker: \"a\"\nreason: \"b\"\npid: 1\nsince: \"yesterday\"\n",
		"worker: \"a\"\nreason: \"b\"\npid: 1\nsince: \"2026-01-02T15:04:05Z\"\nmore: 1\n",
		"worker: \"a\"\nreason: \"" + strings.Repeat("b", maxContent) + "\"\npid: 1\nsince: \"2026-01-02T15:04:05Z\"\n",
	} {
		if s, ok := parse([]byte(foreign)); ok || s != (container.LockStatus{}) {
			t.Errorf("%q was read as %+v", foreign, s)
		}
	}
}

// FuzzLockFile: whatever is in the file, reading it does not panic, and what was
// read can be written and read again.
func FuzzLockFile(f *testing.F) {
	f.Add(render(container.LockStatus{Held: true, Holder: someone, PID: 4711, Since: time.Unix(1_800_000_000, 0)}))
	f.Add([]byte("worker: \"\"\nreason: \"\"\npid: 1\nsince: \"0001-01-01T00:00:00Z\"\n"))
	f.Add([]byte("worker: `a`\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := parse(data)
		if !ok {
			if s != (container.LockStatus{}) {
				t.Fatalf("%q tells %+v and nothing", data, s)
			}
			return
		}
		if !s.Held || s.PID <= 0 {
			t.Fatalf("%q tells %+v", data, s)
		}
		if len(s.Holder.Worker) > maxText || len(s.Holder.Reason) > maxText {
			return // cut when it is written
		}
		again, ok := parse(render(s))
		want := s
		want.Holder.Worker = strings.ToValidUTF8(s.Holder.Worker, "\uFFFD")
		want.Holder.Reason = strings.ToValidUTF8(s.Holder.Reason, "\uFFFD")
		if !ok || again.Holder != want.Holder || again.PID != s.PID || !again.Since.Equal(s.Since) {
			t.Fatalf("%+v became %+v (%v)", want, again, ok)
		}
	})
}
