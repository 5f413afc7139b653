package fakes_test

import (
	"context"
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// What a worker under test would do is done by hand here.

func ExampleNewMachine() {
	ctx := context.Background()
	machine := fakes.NewMachine(fakes.NewFaults(clock.WallClock), "0")
	machine.AddContainer("0/lxd/0", fakes.Container{})

	// The worker's side.
	w, err := machine.WatchAllContainers(ctx, "0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("baseline:", <-w.Changes())
	results, err := machine.SetContainerStatus(ctx, []facade.ContainerStatus{
		{ID: "0/lxd/0", State: facade.ContainerProvisioning, Message: "starting"},
		{ID: "0/lxd/7", State: facade.ContainerProvisioning, Message: "starting"},
	})
	fmt.Println(results[0], errors.Is(results[1], errors.NotFound), err)

	// The test's side.
	fmt.Println("status:", machine.Status("0/lxd/0").Message)
	machine.SetLife("0/lxd/0", facade.Dead)
	fmt.Println("change:", <-w.Changes())
	// Output:
	// baseline: [0/lxd/0]
	// <nil> true <nil>
	// status: starting
	// change: [0/lxd/0]
}

// A host is prepared when its first container is asked for.
func ExampleNewHost() {
	ctx := context.Background()
	host := fakes.NewHost(fakes.NewFaults(clock.WallClock))
	backend := host.Backend(container.LXD)

	_, err := backend.NewBroker(ctx, nil)
	fmt.Println("before:", errors.Is(err, errors.NotYetAvailable))
	for range 2 {
		if err := backend.Initialiser.Initialise(ctx); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("initialised:", host.Initialisations(container.LXD))

	broker, err := backend.NewBroker(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		result, err := broker.StartInstance(ctx, container.StartParams{
			ContainerID: "0/lxd/0",
			Info:        fakes.ContainerInfo("0/lxd/0"),
		})
		fmt.Println(result.InstanceID, err)
	}
	fmt.Println("running:", host.Running(), "started:", host.Starts("0/lxd/0"))
	// Output:
	// before: true
	// initialised: 1
	// juju-6f2e04-0-lxd-0 <nil>
	// juju-6f2e04-0-lxd-0 <nil>
	// running: [0/lxd/0] started: 1
}

// An agent is killed while it starts an instance, and the next one finds half
// of it.
func ExampleHost_Session() {
	first := fakes.NewFaults(clock.WallClock)
	host := fakes.NewHost(first)
	if err := host.Backend(container.LXD).Initialiser.Initialise(context.Background()); err != nil {
		fmt.Println(err)
	}
	broker, err := host.Backend(container.LXD).NewBroker(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	first.CutAt(3, true)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-first.Severed(); cancel() }()
	_, err = broker.StartInstance(ctx, container.StartParams{
		ContainerID: "0/lxd/0",
		Info:        fakes.ContainerInfo("0/lxd/0"),
	})
	fmt.Println(err)

	next := host.Session(fakes.NewFaults(clock.WallClock))
	broker, err = next.Backend(container.LXD).NewBroker(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := broker.AllInstances(context.Background())
	fmt.Println(list[0].ContainerID, list[0].Status, err)
	// Output:
	// context canceled
	// 0/lxd/0 Creating <nil>
}

// A device is put under a bridge, which takes the machine lock.
func ExampleHost_Bridger() {
	ctx := context.Background()
	host := fakes.NewHost(fakes.NewFaults(clock.WallClock))
	lock := host.Lock()
	devices := []facade.DeviceToBridge{{Device: "eth0", Bridge: "br-eth0"}}

	if err := host.Bridger().Bridge(ctx, devices, 0); err != nil {
		fmt.Println(err)
	}
	fmt.Println("violations:", host.Violations())

	release, err := lock.Acquire(ctx, container.Holder{Worker: "example", Reason: "bridge eth1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer release()
	if err := host.Bridger().Bridge(ctx, []facade.DeviceToBridge{{Device: "eth1", Bridge: "br-eth1"}}, 0); err != nil {
		fmt.Println(err)
	}
	fmt.Println("violations:", host.Violations())

	seen, err := host.Network().Observe(ctx)
	for _, i := range seen {
		fmt.Println(i.Name, i.Parent, i.Addresses)
	}
	fmt.Println(err)
	// Output:
	// violations: [Bridge eth0 without the lock]
	// violations: [Bridge eth0 without the lock]
	// lo  [127.0.0.1/8]
	// eth0 br-eth0 []
	// eth1 br-eth1 []
	// br-eth0  [10.0.0.5/24]
	// br-eth1  [10.0.2.5/24]
	// <nil>
}

// Somebody else has the lock.
func ExampleNewLock() {
	lock := fakes.NewLock(fakes.NewFaults(clock.WallClock))
	free := lock.Occupy(container.Holder{Worker: "unattended-upgrades", Reason: "dpkg"}, 4711)

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := lock.Acquire(ctx, container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	fmt.Println(err)
	status, err := lock.Status(context.Background())
	fmt.Println(status.Held, status.Holder.Worker, status.PID, err)

	free()
	release, err := lock.Acquire(context.Background(), container.Holder{Worker: "container-setup", Reason: "initialise lxd"})
	fmt.Println(err)
	fmt.Println(lock.CheckFree() == nil)
	release()
	fmt.Println(lock.CheckFree() == nil)
	// Output:
	// context deadline exceeded
	// true unattended-upgrades 4711 <nil>
	// <nil>
	// false
	// true
}
