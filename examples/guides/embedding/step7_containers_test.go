package embedding

import (
	"fmt"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/fakes"
)

func Example_containers() {
	faults := fakes.NewFaults(clock.WallClock)
	machine := fakes.NewMachine(faults, "0")
	host := fakes.NewHost(faults)

	heard := make(phases, 100)
	w, err := containersetup.New(containersetup.Config{
		Facade:    machine,
		MachineID: "0",
		Backends:  host.Backends(containersetup.LXD, containersetup.KVM),
		Lock:      host.Lock(),
		Network:   host.Network(),
		Bridger:   host.Bridger(),
		Clock:     clock.WallClock,
		Metrics:   heard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(w)

	machine.AddContainer("0/lxd/0", fakes.Container{}) // somebody asks for one
	heard.wait(containersetup.PhaseProvisioner)
	fmt.Println("prepared for lxd:", host.Initialisations("lxd"), "for kvm:", host.Initialisations("kvm"))
	// Output: prepared for lxd: 1 for kvm: 0
}
