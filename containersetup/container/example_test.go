package container_test

import (
	"context"
	"fmt"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

func ExampleParseID() {
	id, err := container.ParseID("0/kvm/2/lxd/1")
	fmt.Println(id.Host, id.Type, id.Number, err)
	_, err = container.ParseID("0")
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.NotValid))
	// Output:
	// 0/kvm/2 lxd 1 <nil>
	// container id "0" (want HOST/TYPE/NUMBER) not valid
	// true
}

func ExampleID_String() {
	fmt.Println(container.ID{Host: "0", Type: container.LXD, Number: 1})
	// Output: 0/lxd/1
}

func ExampleValidateMachineID() {
	fmt.Println(container.ValidateMachineID("0"))
	fmt.Println(container.ValidateMachineID("0/kvm/2"))
	fmt.Println(container.ValidateMachineID("machine-0"))
	// Output:
	// <nil>
	// <nil>
	// machine id "machine-0" not valid
}

func ExampleInstancePrefix() {
	prefix, err := container.InstancePrefix("deadbeef-0bad-400d-8000-4b1d0d06f00d")
	fmt.Println(prefix, err)
	// Output: juju-06f00d- <nil>
}

// A name that would be too long ends with a digest of the whole id.
func ExampleInstanceName() {
	const model = "deadbeef-0bad-400d-8000-4b1d0d06f00d"
	for _, id := range []string{"0/lxd/1", "0/kvm/1/kvm/2/kvm/3/kvm/4/kvm/5/kvm/6/kvm/7/lxd/8/lxd/9"} {
		name, err := container.InstanceName(model, id)
		fmt.Println(name, len(name), err)
	}
	// Output:
	// juju-06f00d-0-lxd-1 19 <nil>
	// juju-06f00d-0-kvm-1-kvm-2-kvm-3-kvm-4-kvm-5-k-xcf3cdaf770ed5b49 63 <nil>
}

func ExampleStartParams_Validate() {
	p := container.StartParams{
		ContainerID: "0/lxd/1",
		Info:        facade.ContainerProvisioningInfo{Base: facade.Base{Name: "ubuntu", Channel: "22.04"}},
		Interfaces:  []facade.NetworkInterface{{Name: "eth0", Addresses: []string{"10.0.0.5"}}},
	}
	fmt.Println(p.Validate())
	// Output: Interfaces[0]: interface "eth0": Addresses[0] "10.0.0.5" (want CIDR) not valid
}

// aptGet stands for an initialiser that installs packages.
type aptGet struct{}

func (aptGet) Initialise(context.Context) error { return nil }

func ExampleBackend() {
	backend := container.Backend{
		Initialiser: aptGet{},
		NewBroker: func(context.Context, facade.ContainerManagerConfig) (container.Broker, error) {
			return nil, errors.NotImplementedf("broker")
		},
	}
	fmt.Println(backend.Validate())
	fmt.Println(container.Backend{Initialiser: aptGet{}}.Validate())
	// Output:
	// <nil>
	// nil NewBroker not valid
}
