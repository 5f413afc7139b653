package facade_test

import (
	"fmt"
	"time"

	"github.com/sutler-dev/sutler/facade"
)

func ExampleContainerType_Validate() {
	fmt.Println(facade.ContainerType("lxd").Validate())
	fmt.Println(facade.ContainerType("LXD").Validate())
	// Output:
	// <nil>
	// container type "LXD" not valid
}

func ExampleHarvestMode() {
	for _, mode := range []facade.HarvestMode{facade.HarvestNone, facade.HarvestUnknown, facade.HarvestDestroyed, facade.HarvestAll} {
		fmt.Printf("%s: dead %v, unknown %v\n", mode, mode.Dead(), mode.Unknown())
	}
	// Output:
	// none: dead false, unknown false
	// unknown: dead false, unknown true
	// destroyed: dead true, unknown false
	// all: dead true, unknown true
}

func ExampleHarvestMode_Validate() {
	fmt.Println(facade.HarvestMode("everything").Validate())
	// Output: harvest mode "everything" (want none, unknown, destroyed or all) not valid
}

func ExampleContainerProvisioningInfo_Validate() {
	i := facade.ContainerProvisioningInfo{Base: facade.Base{Name: "ubuntu"}}
	fmt.Println(i.Validate())
	// Output: container provisioning info with empty Base.Channel not valid
}

func ExampleNetworkInterface_Validate() {
	i := facade.NetworkInterface{Name: "eth0", Addresses: []string{"10.0.0.5/24", "10.0.1.5"}}
	fmt.Println(i.Validate())
	// Output: interface "eth0": Addresses[1] "10.0.1.5" (want CIDR) not valid
}

func ExampleDeviceToBridge_Validate() {
	fmt.Println(facade.DeviceToBridge{Device: "enp3s0", Bridge: "bridge-of-enp3s0"}.Validate())
	// Output: Bridge: interface name "bridge-of-enp3s0" (want 1 to 15 bytes) not valid
}

// An answer is checked before anything is changed.
func ExampleHostChanges_Validate() {
	changes := facade.HostChanges{
		Devices:          []facade.DeviceToBridge{{Device: "eth0", Bridge: "br-eth0"}},
		ReconfigureDelay: time.Hour,
	}
	fmt.Println(changes.Validate())
	// Output: ReconfigureDelay 1h0m0s (want 0 to 5m0s) not valid
}
