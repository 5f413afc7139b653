package machinelock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Virtual time passes under testing/synctest while nothing is in a system call,
// and no call here blocks in one: that is one of the things that these tests
// show.

var someone = container.Holder{Worker: "hostprep", Reason: "bridge devices for 0/lxd/1"}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "machine-lock") }

func newLock(t testing.TB, path string) *Lock {
	t.Helper()
	l, err := New(Config{Path: path, Clock: clock.WallClock})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func acquire(t testing.TB, l *Lock) func() {
	t.Helper()
	release, err := l.Acquire(t.Context(), someone)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// wantFree fails unless the lock can be had at once.
func wantFree(t testing.TB, path string) {
	t.Helper()
	f, err := newLock(t, path).lockFile()
	if err != nil || f == nil {
		t.Fatalf("the lock is not free (%v)", err)
	}
	unlock(f)
}

// wantHeld fails if the lock can be had.
func wantHeld(t testing.TB, path string) {
	t.Helper()
	f, err := newLock(t, path).lockFile()
	if err != nil {
		t.Fatal(err)
	}
	if f != nil {
		unlock(f)
		t.Fatal("the lock is free")
	}
}

func TestAcquireAndRelease(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	release := acquire(t, l)
	wantHeld(t, path)
	release()
	wantFree(t, path)
	acquire(t, l)()
	wantFree(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatalf("the file is gone: %v", err)
	}
	if info.Mode() != 0o600 || info.Size() != 0 {
		t.Errorf("a file of mode %v and %d bytes is left", info.Mode(), info.Size())
	}
}

func TestReleaseAgainReleasesNobodyElse(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	first := acquire(t, l)
	first()
	second := acquire(t, l)
	first()
	var all sync.WaitGroup
	for range 10 {
		all.Go(first)
	}
	all.Wait()
	wantHeld(t, path)
	if s, err := l.Status(t.Context()); err != nil || !s.Held {
		t.Errorf("status %+v, %v", s, err)
	}
	if !l.turns.taken {
		t.Error("another goroutine has its turn meanwhile")
	}
	second()
	wantFree(t, path)
}

func TestReleaseFromManyGoroutinesAtOnce(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	for range 100 {
		release := acquire(t, l)
		var all sync.WaitGroup
		for range 4 {
			all.Go(release)
		}
		all.Wait()
	}
	wantFree(t, path)
}

// Each of two Locks of one path excludes the other, as two processes would,
// since a lock belongs to the opened file.
func TestExclusionBetweenGoroutines(t *testing.T) {
	path := newPath(t)
	locks := []*Lock{newLock(t, path), newLock(t, path)}
	for _, l := range locks {
		l.poll = time.Millisecond
	}
	inside := new(int) // guarded by the file alone; the race detector watches
	var mu sync.Mutex  // gives the race detector its order between two Locks, which it cannot see in the kernel
	var all sync.WaitGroup
	for i := range 16 {
		l := locks[i%2]
		all.Go(func() {
			for range 25 {
				release, err := l.Acquire(context.Background(), someone)
				if err != nil {
					t.Error(err)
					return
				}
				if !mu.TryLock() {
					t.Error("two are inside at once")
				} else {
					*inside++
					runtime.Gosched()
					*inside++
					mu.Unlock()
				}
				release()
			}
		})
	}
	all.Wait()
	if *inside != 16*25*2 {
		t.Errorf("%d steps, want %d", *inside, 16*25*2)
	}
	wantFree(t, path)
}

// One Lock orders its goroutines also as the race detector understands it.
func TestExclusionWithinOneLock(t *testing.T) {
	l := newLock(t, newPath(t))
	inside := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				release := acquire(t, l)
				inside++
				release()
			}
		})
	}
	all.Wait()
	if inside != 400 {
		t.Errorf("%d steps, want 400", inside)
	}
}

func TestTenThousandTimes(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	before := openFiles(t)
	for range 10_000 {
		acquire(t, l)()
	}
	if after := openFiles(t); after > before+2 {
		t.Errorf("%d files are open, %d were", after, before)
	}
	wantFree(t, path)
}

// openFiles returns how many there are, where that is to be known.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Logf("open files cannot be counted: %v", err)
	}
	return len(entries)
}

func TestGoroutinesHaveItInTheOrderInWhichTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLock(t, newPath(t))
		release := acquire(t, l)
		const n = 50
		var order []int
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				defer acquire(t, l)()
				order = append(order, i)
			})
			synctest.Wait() // it is in the queue
		}
		if got := l.Report()["waiting"]; got != n {
			t.Errorf("%v wait, want %d", got, n)
		}
		start := time.Now()
		release()
		all.Wait()
		if !slices.IsSorted(order) || len(order) != n {
			t.Errorf("the order was %v", order)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("handing over within a process took %s", took)
		}
	})
}

// Half of them give up while they wait; nobody's turn is lost by that.
func TestTheQueueSurvivesThoseWhoGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLock(t, newPath(t))
		release := acquire(t, l)
		var got []int
		var all sync.WaitGroup
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				release, err := l.Acquire(ctx, someone)
				if i%2 == 0 {
					if !errors.Is(err, context.Canceled) || release != nil {
						t.Errorf("%d: %v", i, err)
					}
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, i)
				release()
			})
			synctest.Wait()
			if i%2 == 0 {
				defer cancel()
				time.AfterFunc(time.Second, cancel)
			} else {
				defer cancel()
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		release()
		all.Wait()
		if want := []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}; !slices.Equal(got, want) {
			t.Errorf("%v had it, want %v", got, want)
		}
	})
}

func TestAContextThatEndedNeverAcquires(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		release, err := l.Acquire(ctx, someone)
		if release != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("got it: %v", err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was touched (%v)", err)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := l.Acquire(ctx, someone); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not the context's error", err)
	}
}

// In virtual time, at each of many instants around the polls: who is cancelled
// is back in the same instant, without the lock, naming the holder.
func TestCancelledWhileAnotherProcessHasIt(t *testing.T) {
	for step := range 40 {
		after := time.Duration(step) * 37 * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			path := newPath(t)
			release := acquire(t, newLock(t, path))
			l := newLock(t, path)
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			start := time.Now()
			got, err := l.Acquire(ctx, container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
			if got != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("after %s: %v", after, err)
			}
			if took := time.Since(start); took != after {
				t.Errorf("it took %s, want %s", took, after)
			}
			if after > 0 && !strings.Contains(err.Error(), "hostprep (bridge devices for 0/lxd/1), process ") {
				t.Errorf("%v names no holder", err)
			}
			release()
			wantFree(t, path)
			acquire(t, l)() // its turn was not lost
		})
	}
}

// The same for one in the queue behind a goroutine of its own process.
func TestCancelledInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLock(t, newPath(t))
		release := acquire(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := l.Acquire(ctx, someone)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), someone.Reason) {
			t.Errorf("got %v", err)
		}
		if got := l.Report()["waiting"]; got != 0 {
			t.Errorf("%v wait still", got)
		}
		release()
		acquire(t, l)()
	})
}

// The lock becomes free and the context ends in one instant: either may win, but
// the lock is never lost.
func TestCancelledWhenItsTurnComes(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			path := newPath(t)
			l := newLock(t, path)
			release := acquire(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				if got, err := l.Acquire(ctx, someone); err == nil {
					got()
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			all.Go(func() { acquire(t, l)() })
			synctest.Wait()
			all.Go(release)
			all.Go(cancel)
			all.Wait()
			wantFree(t, path)
			acquire(t, l)()
		})
	}
}

func TestAReleasedLockIsFoundWithinOneAndAHalfPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		other, l := newLock(t, path), newLock(t, path)
		for range 50 {
			release := acquire(t, other)
			done := make(chan time.Time)
			go func() {
				acquire(t, l)()
				done <- time.Now()
			}()
			time.Sleep(rand.N(5 * time.Second))
			released := time.Now()
			release()
			if late := (<-done).Sub(released); late > DefaultPoll*3/2 {
				t.Fatalf("found after %s", late)
			}
		}
	})
}

// An agent waits a day: tries are bounded, so is what is said of it.
func TestWaitingIsCheapAndQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		release := acquire(t, newLock(t, path))
		defer release()
		var log bytes.Buffer
		ticks := &countingClock{Clock: clock.WallClock}
		l, err := New(Config{Path: path, Clock: ticks, Logger: slog.New(slog.NewTextHandler(&log, nil)), Poll: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		if _, err := l.Acquire(ctx, someone); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if n := ticks.made.Load(); n < 24*60*2/3 || n > 24*60*2 {
			t.Errorf("tried %d times in a day", n)
		}
		if made, stopped := ticks.made.Load(), ticks.stopped.Load(); made != stopped {
			t.Errorf("%d timers were made, and %d stopped", made, stopped)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `reason="bridge devices for 0/lxd/1"`) {
			t.Errorf("logged %d lines:\n%s", n, log.String())
		}
	})
}

type countingClock struct {
	clock.Clock
	made, stopped atomic.Int64
}

func (c *countingClock) NewTimer(d time.Duration) clock.Timer {
	c.made.Add(1)
	return countedTimer{c.Clock.NewTimer(d), c}
}

type countedTimer struct {
	clock.Timer
	clock *countingClock
}

func (t countedTimer) Stop() bool {
	t.clock.stopped.Add(1)
	return t.Timer.Stop()
}

// A logger that panics is the only foreign code that runs here.
func TestAPanicLosesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		release := acquire(t, newLock(t, path))
		l, err := New(Config{Path: path, Clock: clock.WallClock, Logger: slog.New(hearing{func() { panic("logger") }})})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _ = l.Acquire(t.Context(), someone)
		}()
		release()
		acquire(t, l)()
	})
}

// hearing does something at every record that is logged.
type hearing struct{ do func() }

func (hearing) Enabled(context.Context, slog.Level) bool { return true }

func (h hearing) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

func (h hearing) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h hearing) WithGroup(string) slog.Handler { return h }

func TestConfigNamesTheField(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		config Config
		kind   error
		want   string
	}{
		{"nothing", Config{}, errors.NotValid, "empty Path"},
		{"relative", Config{Path: "lock", Clock: clock.WallClock}, errors.NotValid, `Path "lock" (want an absolute one)`},
		{"not clean", Config{Path: dir + "/../x", Clock: clock.WallClock}, errors.NotValid, "Path"},
		{"a directory's name", Config{Path: dir + "/", Clock: clock.WallClock}, errors.NotValid, "Path"},
		{"root", Config{Path: "/", Clock: clock.WallClock}, errors.NotValid, "want a file"},
		{"no clock", Config{Path: file}, errors.NotValid, "nil Clock"},
		{"poll", Config{Path: file, Clock: clock.WallClock, Poll: -1}, errors.NotValid, "negative Poll"},
		{"no directory", Config{Path: dir + "/none/lock", Clock: clock.WallClock}, errors.NotFound, dir + "/none/lock"},
		{"in a file", Config{Path: file + "/lock", Clock: clock.WallClock}, errors.NotValid, file + "/lock"},
		{"deep in a file", Config{Path: file + "/x/lock", Clock: clock.WallClock}, syscall.ENOTDIR, file + "/x/lock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := New(test.config)
			if l != nil || !errors.Is(err, test.kind) || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, want a %v with %q", err, test.kind, test.want)
			}
		})
	}
}
