package machinelock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// The test binary is its own other process: with these arguments it runs no
// tests.
const (
	holderRole = "hold-the-lock"     // then the path; holds it until standard input ends
	parentRole = "hold-with-a-child" // likewise, with a child that outlives it
	adderRole  = "count-in-the-lock" // then the path, a file, a number
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case holderRole, parentRole:
			hold(os.Args[2], os.Args[1] == parentRole)
			return
		case adderRole:
			count(os.Args[2], os.Args[3], os.Args[4])
			return
		}
	}
	os.Exit(m.Run())
}

// hold is a process that has the lock, and says so.
func hold(path string, withChild bool) {
	l, err := New(Config{Path: path, Clock: clock.WallClock, Poll: 5 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	release, err := l.Acquire(context.Background(), container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	if withChild {
		child := exec.Command("sleep", "600")
		if err := child.Start(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("child", child.Process.Pid)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// count adds to the number in a file n times, each time inside the lock and in
// the clumsiest way.
func count(path, file, n string) {
	times, err := strconv.Atoi(n)
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := New(Config{Path: path, Clock: clock.WallClock, Poll: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range times {
		release, err := l.Acquire(context.Background(), someone)
		if err != nil {
			fmt.Println(err)
			return
		}
		data, _ := os.ReadFile(file)
		number, _ := strconv.Atoi(string(data))
		if err := os.WriteFile(file, []byte(strconv.Itoa(number+1)), 0o600); err != nil {
			fmt.Println(err)
		}
		release()
	}
	fmt.Println("done")
}

// other is another process.
type other struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func start(t *testing.T, args ...string) other {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := other{Cmd: exec.CommandContext(t.Context(), self, args...)}
	o.Stderr = os.Stderr
	if o.stdin, err = o.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := o.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.lines = bufio.NewScanner(out)
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	return o
}

// line waits for what it says next.
func (o other) line(t *testing.T) string {
	t.Helper()
	if !o.lines.Scan() {
		t.Fatalf("the other process says nothing: %v", o.lines.Err())
	}
	return o.lines.Text()
}

func (o other) want(t *testing.T, line string) {
	t.Helper()
	if got := o.line(t); got != line {
		t.Fatalf("the other process says %q, want %q", got, line)
	}
}

// kill ends it as a kill -9 does, and waits for that.
func (o other) kill(t *testing.T) {
	t.Helper()
	if err := o.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = o.Wait()
}

// soon returns a context that is long enough for anything that works.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAnotherProcessIsExcludedAndNamed(t *testing.T) {
	path := newPath(t)
	before := time.Now().Add(-time.Second)
	o := start(t, holderRole, path)
	o.want(t, "held")
	wantHeld(t, path)
	l := newLock(t, path)

	s, err := l.Status(t.Context())
	want := container.Holder{Worker: "container-setup", Reason: "initialise lxd"}
	if err != nil || !s.Held || s.Holder != want || s.PID != o.Process.Pid || s.Since.Before(before) || s.Since.After(time.Now()) {
		t.Errorf("status %+v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	l.logger = slog.New(hearing{func() { cancel() }}) // it says that it waits
	_, err = l.Acquire(ctx, someone)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), fmt.Sprintf("container-setup (initialise lxd), process %d, since ", o.Process.Pid)) {
		t.Errorf("got %v", err)
	}

	// It releases in good order.
	if err := o.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	release, err := l.Acquire(soon(t), someone)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if err := o.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTheLockOfAKilledProcessIsFreeAtOnce(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	for range 5 {
		o := start(t, holderRole, path)
		o.want(t, "held")
		o.kill(t)
		wantFree(t, path)
		// What it wrote is still there, and not believed.
		if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "initialise lxd") {
			t.Fatalf("the file says %q, %v", data, err)
		}
		if s, err := l.Status(t.Context()); err != nil || s != (container.LockStatus{}) {
			t.Errorf("status %+v, %v", s, err)
		}
		if r := l.Report(); r["held"] != false || r["holder"] != nil || r["age"] != nil {
			t.Errorf("report %v", r)
		}
		acquire(t, l)()
	}
}

func TestWhoWaitsForAKilledProcessHasItSoon(t *testing.T) {
	path := newPath(t)
	o := start(t, holderRole, path)
	o.want(t, "held")
	l := newLock(t, path)
	l.poll = 5 * time.Millisecond
	waits := make(chan struct{})
	l.logger = slog.New(hearing{sync.OnceFunc(func() { close(waits) })})
	got := make(chan error)
	go func() {
		release, err := l.Acquire(soon(t), someone)
		if err == nil {
			release() // while the file is still there
		}
		got <- err
	}()
	<-waits
	o.kill(t)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// What a holder has started outlives it: the lock is not its child's.
func TestChildrenDoNotInheritTheLock(t *testing.T) {
	path := newPath(t)
	o := start(t, parentRole, path)
	child, err := strconv.Atoi(strings.TrimPrefix(o.line(t), "child "))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	o.want(t, "held")
	if err := o.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = o.Process.Wait() // not Cmd.Wait, which waits for the child's output too
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the child is gone: %v", err)
	}
	wantFree(t, path)
}

// While processes are being started the lock can be released: a fork that is
// under way does not keep it.
func TestReleaseWhileProcessesAreStarted(t *testing.T) {
	path := newPath(t)
	l := newLock(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 300 {
		acquire(t, l)()
		wantFree(t, path)
	}
	cancel()
	all.Wait()
}

func TestExclusionBetweenProcesses(t *testing.T) {
	path := newPath(t)
	file := filepath.Join(t.TempDir(), "number")
	const processes, times = 4, 50
	all := make([]other, processes)
	for i := range all {
		all[i] = start(t, adderRole, path, file, strconv.Itoa(times))
	}
	for _, o := range all {
		o.want(t, "done")
		if err := o.Wait(); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil || string(data) != strconv.Itoa(processes*times) {
		t.Errorf("counted %s, %v, want %d", data, err, processes*times)
	}
}

// Processes are killed at arbitrary instants, most of them in the middle of
// acquiring, writing or releasing. The lock is free after the last of them.
func TestKilledAtAnyInstant(t *testing.T) {
	path := newPath(t)
	file := filepath.Join(t.TempDir(), "number")
	l := newLock(t, path)
	for i := range 20 {
		o := start(t, adderRole, path, file, "1000000")
		// Until it is at work, and then a little more each time.
		deadline := time.Now().Add(time.Minute)
		for n := 0; n <= i*7; n++ {
			if _, err := os.Stat(file); err != nil {
				n = 0
			}
			if time.Now().After(deadline) {
				t.Fatal("the other process does nothing")
			}
			if _, err := l.Status(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		o.kill(t)
		wantFree(t, path)
		if s, err := l.Status(t.Context()); err != nil || s.Held {
			t.Fatalf("status %+v, %v", s, err)
		}
		_ = os.Remove(file)
	}
	acquire(t, l)()
}
