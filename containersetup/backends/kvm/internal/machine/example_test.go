package machine_test

import (
	"fmt"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/machine"
	"github.com/sutler-dev/sutler/facade"
)

func ExampleDescribe() {
	text, err := machine.Describe(machine.Spec{
		Name:     "juju-06f00d-0-kvm-1",
		Metadata: machine.Metadata{ModelUUID: "deadbeef", ControllerUUID: "c0ffee", ContainerID: "0/kvm/1"},
		Disk:     "/var/lib/agent/kvm/juju-06f00d-0-kvm-1.qcow2",
		Memory:   2048,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	spec, err := machine.Parse(text)
	fmt.Println(spec.Metadata.ContainerID, spec.Memory, spec.Cores, err)
	// Output: 0/kvm/1 2048 1 <nil>
}

func ExampleSeed() {
	_, err := machine.Seed(machine.SeedConfig{
		InstanceID: "juju-06f00d-0-kvm-1",
		UserData:   facade.NewSecret("#cloud-config\n"),
		Interfaces: []facade.NetworkInterface{{Name: "eth0"}},
	})
	fmt.Println(err)
	// Output: Interfaces[0]: MAC "" (want one of its own) not valid
}
