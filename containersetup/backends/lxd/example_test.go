package lxd_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// exampleConfig is for a machine in memory that has no LXD yet.
func exampleConfig() lxd.Config {
	machine := newHost()
	machine.On(notInstalled, "lxd", "--version")
	machine.On(onlyBase, "dpkg-query")
	return lxd.Config{
		ModelUUID:      "deadbeef-0bad-400d-8000-4b1d0d06f00d",
		ControllerUUID: "c0ffee00-0bad-400d-8000-4b1d0d06f00d",
		StateDir:       "/var/lib/agent/lxd",
		Host:           machine, // left out, it is the machine that this runs on
		Socket:         "/var/lib/lxd/unix.socket",
	}
}

// A host agent gives the back end to its container-setup worker, and is done.
func ExampleNewBackend() {
	backend, err := lxd.NewBackend(exampleConfig())
	backends := map[container.Type]container.Backend{container.LXD: backend}
	fmt.Println(len(backends), err)

	_, err = lxd.NewBackend(lxd.Config{ModelUUID: "production"})
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// lxd: ModelUUID: model UUID "production" not valid
}

// Before anything is done to a host, somebody may look at what that would be.
func ExampleInitialiser_Plan() {
	initialiser, err := lxd.NewInitialiser(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	steps, err := initialiser.Plan(context.Background())
	for _, step := range steps {
		fmt.Println(step)
	}
	fmt.Println(err)
	// Output:
	// install LXD: there is no program lxd and no daemon answers
	// wait for the daemon: no daemon answers
	// make the storage pool default (dir): LXD has no storage pool
	// make the bridge lxdbr0 (10.93.145.1/24): LXD has no bridge of its own
	// add the device root to the default profile: the default profile has no root disk
	// add the device eth0 to the default profile: the default profile has no network interface
	// <nil>
}

// The subnet may be given. One that is in use is refused before anything is done.
func ExampleConfig_subnet() {
	config := exampleConfig()
	config.Network.Subnet = netip.MustParsePrefix("10.128.7.0/24")
	initialiser, err := lxd.NewInitialiser(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = initialiser.Initialise(context.Background())
	fmt.Println(errors.Is(err, errors.NotValid))
	fmt.Println(err)
	// Output:
	// true
	// bridge "lxdbr0": subnet 10.128.7.0/24, which overlaps 10.128.0.0/9, not valid
}

// The controller's settings win over the config; a wrong one is named.
func ExampleInitialiser_WithSettings() {
	initialiser, err := lxd.NewInitialiser(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = initialiser.WithSettings(facade.ContainerManagerConfig{"networking-method": "provider"})
	fmt.Println(err)
	_, err = initialiser.WithSettings(facade.ContainerManagerConfig{"networking-method": "fan"})
	fmt.Println(err)
	// Output:
	// <nil>
	// setting "networking-method": Network.Networking "fan" (want local or provider) not valid
}

// Nothing was done here, so there is nothing to undo.
func ExampleInitialiser_Undo() {
	initialiser, err := lxd.NewInitialiser(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(initialiser.Undo(context.Background()))
	// Output: <nil>
}
