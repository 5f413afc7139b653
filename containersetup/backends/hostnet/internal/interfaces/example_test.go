package interfaces_test

import (
	"fmt"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/interfaces"
)

func ExampleBridge() {
	before := interfaces.File{Name: "/etc/network/interfaces", Data: []byte(`auto eth0
iface eth0 inet static
    address 10.0.0.2/24
    gateway 10.0.0.1
    ethernet-wol g
`)}
	changed, err := interfaces.Bridge([]interfaces.File{before}, []interfaces.Bridging{
		{Device: "eth0", Bridge: "br-eth0", MAC: "52:54:00:12:34:56"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", changed[0].Data)
	// Output:
	// auto eth0 br-eth0
	// iface eth0 inet manual
	//     ethernet-wol g
	//
	// iface br-eth0 inet static
	//     bridge_ports eth0
	//     bridge_stp off
	//     bridge_fd 0
	//     bridge_maxwait 0
	//     bridge_hw 52:54:00:12:34:56
	//     address 10.0.0.2/24
	//     gateway 10.0.0.1
}

// The files are read by whoever has them; here, from memory.
func ExampleFollow() {
	disk := map[string]string{
		"/etc/network/interfaces":        "source interfaces.d/*\n",
		"/etc/network/interfaces.d/eth0": "iface eth0 inet dhcp\n",
	}
	read := func(name string) ([]byte, error) { return []byte(disk[name]), nil }
	glob := func(string) ([]string, error) { return []string{"/etc/network/interfaces.d/eth0"}, nil }
	files, err := interfaces.Follow(read, glob, "/etc/network/interfaces")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range files {
		fmt.Println(f.Name)
	}
	// Output:
	// /etc/network/interfaces
	// /etc/network/interfaces.d/eth0
}
