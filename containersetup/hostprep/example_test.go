package hostprep_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/hostprep"
	"github.com/sutler-dev/sutler/containersetup/machinelock"
)

// Two containers need one bridge; the second finds it there.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lock, err := machinelock.New(machinelock.Config{Path: filepath.Join(dir, "machine-lock"), Clock: clock.WallClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	host := newWorld() // the controller and the host's network, in memory

	preparer, err := hostprep.New(hostprep.Config{
		Facade:    host,
		MachineID: "0",
		Lock:      lock,
		Network:   host,
		Bridger:   host,
		Clock:     clock.WallClock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"0/lxd/0", "0/kvm/0"} {
		fmt.Println(id, preparer.Prepare(context.Background(), id))
	}
	fmt.Println(host.story())
	// Output:
	// 0/lxd/0 <nil>
	// 0/kvm/0 <nil>
	// ask bridge observe publish ask
}

func ExampleNew_notValid() {
	_, err := hostprep.New(hostprep.Config{MachineID: "0"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// host preparer config: nil Facade not valid
	// true
}

// A bridge that could not be made is published as what it is, and the container
// is not to be started.
func ExamplePreparer_Prepare_failed() {
	host := newWorld()
	host.before = func(_ context.Context, call string) error {
		if call == callBridge {
			return errors.NotSupportedf("bridging a wireless device")
		}
		return nil
	}
	preparer, err := hostprep.New(host.config())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = preparer.Prepare(context.Background(), "0/lxd/0")
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotSupported))
	fmt.Println(host.story())
	// Output:
	// preparing host for container 0/lxd/0: bridging eth0 (br-eth0): bridging a wireless device not supported
	// true
	// acquire ask bridge observe publish release
}

// Only a host's own containers are prepared for.
func ExamplePreparer_Prepare_foreign() {
	preparer, err := hostprep.New(newWorld().config())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(preparer.Prepare(context.Background(), "7/lxd/0"))
	// Output: container "7/lxd/0" on machine "0" not valid
}
