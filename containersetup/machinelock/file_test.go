package machinelock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Each is what somebody else may put where the lock is to be.
func TestWhatCannotBeALockIsSaidAndNamed(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		kind error
		want string
	}{
		{"a directory", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, syscall.EISDIR, "is a directory"},
		{"a link to a file", func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".target", []byte("precious"), 0o600))
			must(t, os.Symlink(path+".target", path))
		}, errors.NotValid, "symbolic link"},
		{"a link to nothing", func(t *testing.T, path string) { must(t, os.Symlink(path+".none", path)) }, errors.NotValid, "symbolic link"},
		{"a pipe", func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, errors.NotValid, "no regular file"},
		{"a socket", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, syscall.ENXIO, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := newPath(t)
			l := newLock(t, path)
			test.make(t, path)
			for range 2 { // its turn is given back
				release, err := l.Acquire(soon(t), someone)
				if release != nil || !errors.Is(err, test.kind) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %v with %q", err, test.kind, test.want)
				}
			}
			// A directory can be opened to look, so it says what it is.
			if s, err := l.Status(t.Context()); err == nil || s.Held || !strings.Contains(err.Error(), path) {
				t.Errorf("status %+v, %v", s, err)
			}
			if r := l.Report(); r["error"] == nil || r["held"] != nil {
				t.Errorf("report %v", r)
			}
			if data, err := os.ReadFile(path + ".target"); err == nil && string(data) != "precious" {
				t.Errorf("what the link points to was overwritten with %q", data)
			}
			// Put right, it works.
			must(t, os.Remove(path))
			acquire(t, l)()
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheDirectoryVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "machine-lock")
	l := newLock(t, path)
	must(t, os.Remove(dir))
	if _, err := l.Acquire(soon(t), someone); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if s, err := l.Status(t.Context()); err != nil || s.Held {
		t.Errorf("status %+v, %v", s, err)
	}
	must(t, os.Mkdir(dir, 0o700))
	acquire(t, l)()
}

// A file that is older than this lock is taken as it is, and what is in it does
// not matter.
func TestForeignContentIsNoObstacle(t *testing.T) {
	for name, content := range map[string]string{
		"empty":    "",
		"a pid":    "4711\n",
		"torn":     "worker: \"hostprep\"\nreason: \"bri",
		"binary":   "\x00\xff\xfe",
		"huge":     strings.Repeat("worker: \"x\"\n", 100_000),
		"inverted": "since: \"2026-01-02T15:04:05Z\"\npid: 1\nreason: \"\"\nworker: \"\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			must(t, os.WriteFile(path, []byte(content), 0o600))
			l := newLock(t, path)
			if s, err := l.Status(t.Context()); err != nil || s != (container.LockStatus{}) {
				t.Errorf("free: status %+v, %v", s, err)
			}

			// Held by somebody who wrote nothing: known to be held, not
			// by whom.
			f, err := newLock(t, path).lockFile()
			must(t, err)
			if s, err := l.Status(t.Context()); err != nil || s != (container.LockStatus{Held: true}) {
				t.Errorf("held: status %+v, %v", s, err)
			}
			if r := l.Report(); r["held"] != true || r["holder"] != nil || r["age"] != nil {
				t.Errorf("report %v", r)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := l.Acquire(ctx, someone); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not known") {
					t.Errorf("got %v", err)
				}
			})
			unlock(f)

			release := acquire(t, l)
			if s, err := newLock(t, path).Status(t.Context()); err != nil || s.Holder != someone {
				t.Errorf("ours: status %+v, %v", s, err)
			}
			release()
		})
	}
}

// Somebody tidies the locks away while we wait: what we wait for then is the new
// file, not the one that has no name.
func TestWaitingFollowsAReplacedFile(t *testing.T) {
	for _, how := range []string{"removed", "replaced", "moved away"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := newPath(t)
				release := acquire(t, newLock(t, path))
				l := newLock(t, path)
				got := make(chan func())
				go func() { got <- acquire(t, l) }()
				time.Sleep(time.Second)
				switch how {
				case "removed":
					must(t, os.Remove(path))
				case "replaced":
					must(t, os.WriteFile(path+".new", nil, 0o600))
					must(t, os.Rename(path+".new", path))
				case "moved away":
					must(t, os.Rename(path, path+".old"))
				}
				ours := <-got
				// The old holder does not take the new one's lock away.
				release()
				wantHeld(t, path)
				ours()
				wantFree(t, path)
			})
		})
	}
}

func TestAReplacedFileIsToldByItsHolder(t *testing.T) {
	path := newPath(t)
	var log bytes.Buffer
	l, err := New(Config{Path: path, Clock: clock.WallClock, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	release := acquire(t, l)
	release()
	if log.Len() != 0 {
		t.Fatalf("logged without a reason: %s", log.String())
	}
	release = acquire(t, l)
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, []byte("theirs"), 0o600))
	release()
	if got := log.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "removed or replaced") || !strings.Contains(got, path) {
		t.Errorf("logged %q", got)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "theirs" {
		t.Errorf("the other file says %q, %v", data, err)
	}
	acquire(t, l)()
}

// The file is replaced between our opening and our locking it, again and again.
func TestAFileReplacedAllTheTime(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	l.poll = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			fresh := fmt.Sprint(path, n%2)
			_ = os.WriteFile(fresh, nil, 0o600)
			_ = os.Rename(fresh, path)
		}
	}()
	for range 200 {
		release, err := l.Acquire(soon(t), someone)
		must(t, err)
		release()
	}
	cancel()
	<-done
	acquire(t, l)()
	wantFree(t, path)
}

// The file is replaced after it was opened, and before it is locked.
func TestAFileThatLostItsNameIsNoLock(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	for name, replace := range map[string]func(){
		"removed":  func() {},
		"replaced": func() { must(t, os.WriteFile(path, nil, 0o600)) },
	} {
		opened, err := l.open(os.O_RDWR | os.O_CREATE)
		must(t, err)
		must(t, os.Rename(path, path+".old"))
		replace()
		if f, err := l.lockOpened(opened); f != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, f, err)
		}
		if _, err := opened.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: it is still open (%v)", name, err)
		}
		acquire(t, l)()
	}
}

func TestWhetherAFileHasItsName(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	f, err := l.open(os.O_RDWR | os.O_CREATE)
	must(t, err)
	if !l.current(f) {
		t.Error("a file that was just opened is said to be replaced")
	}
	must(t, os.Remove(path))
	if l.current(f) {
		t.Error("a file that was removed is said to have its name")
	}
	must(t, os.WriteFile(path, nil, 0o600))
	if l.current(f) {
		t.Error("a file that was replaced is said to have its name")
	}
	must(t, f.Close())
	if l.current(f) {
		t.Error("a file that is closed is said to have its name")
	}
}

// A disk that is full keeps nobody from the lock; the stand-in is a file that is
// open for reading only.
func TestAFileThatCannotBeWrittenTellsNothing(t *testing.T) {
	path := newPath(t)
	must(t, os.WriteFile(path, render(container.LockStatus{Holder: someone, PID: 1}), 0o600))
	l := newLock(t, path)
	f, err := l.open(os.O_RDONLY)
	must(t, err)
	defer func() { _ = f.Close() }()
	describe(f, container.LockStatus{Held: true})
}
