package kvm_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// exampleConfig is for a machine in memory that has no libvirt yet; its processor can run
// virtual machines if there is /dev/kvm.
func exampleConfig(files ...string) kvm.Config {
	machine := &hosttest.Host{}
	machine.SetFile("/etc/os-release", "ID=debian\n")
	for _, name := range files {
		machine.SetFile(name, "")
	}
	machine.On(hosttest.Print("x86_64\n"), "uname", "-m")
	return kvm.Config{
		ModelUUID:      "deadbeef-0bad-400d-8000-4b1d0d06f00d",
		ControllerUUID: "c0ffee00-0bad-400d-8000-4b1d0d06f00d",
		StateDir:       "/var/lib/agent/kvm",
		Host:           machine, // left out, it is the machine that this runs on
		Socket:         "/nowhere/libvirt-sock",
		Images: map[string]kvm.Image{"ubuntu/22.04": {
			URL:    "https://images.example.com/jammy-server-cloudimg-amd64.img",
			SHA256: strings.Repeat("0123456789abcdef", 4),
		}},
	}
}

// A host agent gives the back end to its container-setup worker, and is done.
func ExampleNewBackend() {
	backend, err := kvm.NewBackend(exampleConfig())
	backends := map[container.Type]container.Backend{container.KVM: backend}
	fmt.Println(len(backends), err)

	_, err = kvm.NewBackend(kvm.Config{ModelUUID: "production"})
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// kvm: ModelUUID: model UUID "production" not valid
}

// Before anything is done to a host, somebody may look at what that would be.
func ExampleInitialiser_Plan() {
	initialiser, err := kvm.NewInitialiser(exampleConfig("/dev/kvm"))
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
	// install libvirt-daemon-system, qemu-system-x86, qemu-utils: there is no qemu-system-x86_64, no qemu-img, no libvirtd
	// wait for libvirtd: no libvirtd answers
	// define the storage pool sutler (/var/lib/agent/kvm/images): libvirt has no storage pool of that name
	// make the folder of the storage pool sutler: it is not there
	// start the storage pool sutler: it is not active
	// have the storage pool sutler start with the host: it does not yet
	// start the network default: it is not active
	// have the network default start with the host: it does not yet
	// <nil>
}

// Where the processor cannot run virtual machines nothing is done, unless software may.
func ExampleInitialiser_Initialise_noAcceleration() {
	config := exampleConfig()
	initialiser, err := kvm.NewInitialiser(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = initialiser.Initialise(context.Background())
	fmt.Println(errors.Is(err, errors.NotSupported))
	fmt.Println(err)

	config.AllowEmulation = true
	if initialiser, err = kvm.NewInitialiser(config); err != nil {
		fmt.Println(err)
		return
	}
	steps, err := initialiser.Plan(context.Background())
	fmt.Println(len(steps), err)
	// Output:
	// true
	// KVM: there is no /dev/kvm on this host, and emulation by software, which is slow, is not allowed (kvm-emulation): that not supported
	// 8 <nil>
}

// The controller's settings win over the config; a wrong one is named.
func ExampleInitialiser_WithSettings() {
	initialiser, err := kvm.NewInitialiser(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = initialiser.WithSettings(facade.ContainerManagerConfig{"kvm-bridge": "br0"})
	fmt.Println(err)
	_, err = initialiser.WithSettings(facade.ContainerManagerConfig{"kvm-emulation": "perhaps"})
	fmt.Println(err)
	// Output:
	// <nil>
	// setting "kvm-emulation": value "perhaps" (want true or false) not valid
}

// Nothing was done here, so there is nothing to undo.
func ExampleInitialiser_Undo() {
	initialiser, err := kvm.NewInitialiser(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(initialiser.Undo(context.Background()))
	// Output: <nil>
}

// Without a daemon there is no broker, and it is said where it was looked for.
func ExampleNewBroker() {
	_, err := kvm.NewBroker(context.Background(), exampleConfig("/dev/kvm"), nil)
	fmt.Println(errors.Is(err, errors.NotYetAvailable))
	fmt.Println(err)
	// Output:
	// true
	// libvirt does not answer on /nowhere/libvirt-sock
}
