// Package plan has the words that the readers of network configuration share.
package plan

// Bridging puts Device under Bridge.
type Bridging struct {
	// Device is the kernel's name of the device, Bridge that of the bridge.
	Device, Bridge string
	// MAC is the device's hardware address, which the bridge takes over so that
	// a DHCP server still knows the host. Empty leaves it to the kernel.
	MAC string
}

// File is one configuration file.
type File struct {
	// Name is absolute.
	Name string
	// Data is the whole content.
	Data []byte
}
