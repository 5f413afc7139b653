package machinelock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/machinelock"
)

// newLock makes a lock in a directory of its own.
func newLock() (lock *machinelock.Lock, path string, remove func()) {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		panic(err)
	}
	path = filepath.Join(dir, "machine-lock")
	lock, err = machinelock.New(machinelock.Config{Path: path, Clock: clock.WallClock})
	if err != nil {
		panic(err)
	}
	return lock, path, func() { _ = os.RemoveAll(dir) }
}

// Whoever changes the host names one file.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lock, err := machinelock.New(machinelock.Config{
		Path:  filepath.Join(dir, "machine-lock"),
		Clock: clock.WallClock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	release, err := lock.Acquire(ctx, container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	fmt.Println("the host is ours")
	// Output: the host is ours
}

func ExampleNew_notValid() {
	_, err := machinelock.New(machinelock.Config{Path: "machine-lock", Clock: clock.WallClock})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// machine lock config: Path "machine-lock" (want an absolute one) not valid
	// true
}

// Who waits too long learns for whom.
func ExampleLock_Acquire_cancelled() {
	lock, _, remove := newLock()
	defer remove()
	release, err := lock.Acquire(context.Background(), container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = lock.Acquire(ctx, container.Holder{Worker: "hostprep", Reason: "bridge devices for 0/kvm/0"})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleLock_Status() {
	lock, path, remove := newLock()
	defer remove()
	release, err := lock.Acquire(context.Background(), container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	if err != nil {
		fmt.Println(err)
		return
	}

	// Another lock on the path is what another process has.
	other, err := machinelock.New(machinelock.Config{Path: path, Clock: clock.WallClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := other.Status(context.Background())
	fmt.Println(status.Held, status.Holder.Worker, status.Holder.Reason, status.PID == os.Getpid(), err)
	release()
	status, err = other.Status(context.Background())
	fmt.Println(status.Held, err)
	// Output:
	// true container-setup initialise lxd true <nil>
	// false <nil>
}

func ExampleLock_Report() {
	lock, _, remove := newLock()
	defer remove()
	release, err := lock.Acquire(context.Background(), container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	report := lock.Report()
	fmt.Println(report["held"], report["holder"], report["reason"], report["waiting"])
	// Output: true container-setup initialise lxd 0
}
