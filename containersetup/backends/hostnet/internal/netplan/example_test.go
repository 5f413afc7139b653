package netplan_test

import (
	"fmt"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/netplan"
)

func ExampleBridge() {
	before := netplan.File{Name: "/etc/netplan/50-cloud-init.yaml", Data: []byte(`network:
  version: 2
  ethernets:
    uplink:
      match: {macaddress: "52:54:00:12:34:56"}
      set-name: eth0
      dhcp4: true  # there is a reservation
`)}
	changed, err := netplan.Bridge([]netplan.File{before}, []netplan.Bridging{
		{Device: "eth0", Bridge: "br-eth0", MAC: "52:54:00:12:34:56"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", changed[0].Data)
	// Output:
	// network:
	//   version: 2
	//   ethernets:
	//     uplink:
	//       match: {macaddress: "52:54:00:12:34:56"}
	//       set-name: eth0
	//   bridges:
	//     br-eth0:
	//       interfaces: [uplink]
	//       macaddress: "52:54:00:12:34:56"
	//       dhcp4: true # there is a reservation
	//       parameters:
	//         stp: false
	//         forward-delay: 0
}
