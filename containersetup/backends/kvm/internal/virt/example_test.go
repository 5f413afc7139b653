package virt_test

import (
	"context"
	"fmt"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

// A daemon that is not there is told by the first call, and the client is as good as
// before when the daemon comes.
func ExampleNew() {
	client, err := virt.New(virt.Config{Socket: "/nowhere/libvirt-sock", Clock: clock.WallClock})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	_, err = client.Domains(context.Background())
	fmt.Println(errors.Is(err, errors.NotYetAvailable))
	fmt.Println(err)
	// Output:
	// true
	// listing domains: libvirt does not answer at socket /nowhere/libvirt-sock: connect: no such file or directory
}

// What a host can run decides whether there is acceleration.
func ExampleCapabilities_Guest() {
	capabilities := virt.Capabilities{
		Arch:   "x86_64",
		Guests: []virt.Guest{{Arch: "x86_64", OSType: "hvm", Types: []string{"qemu"}}},
	}
	guest, found := capabilities.Guest(capabilities.Arch)
	fmt.Println(found, guest.Accelerated())
	// Output: true false
}

// A pool's definition, as DefinePool takes it.
func ExampleDirPool() {
	definition, err := virt.DirPool("sutler", "/var/lib/agent/kvm")
	fmt.Println(err)
	fmt.Println(definition)
	// Output:
	// <nil>
	// <pool type="dir">
	//   <name>sutler</name>
	//   <target>
	//     <path>/var/lib/agent/kvm</path>
	//   </target>
	// </pool>
}
