// Package netplan reads netplan's configuration and rewrites it so that devices
// become ports of bridges. It touches no disk: files come in as they are, and those
// that change come back.
//
// # What changes
//
// In each file, what is said of the device's addresses, routes, name servers and
// DHCP moves to a bridge of the given name. The hardware's settings, what the
// device is matched by, a bond's members and a VLAN's id stay, and so does every
// key that is not known here; the MTU and whether the boot waits are for both. The
// bridge has the device as its only interface, its hardware address, no spanning
// tree and no forwarding delay.
//
// Since each file says of the bridge what it said of the device, netplan merges
// several files to what it merged them to before, and no order of files matters.
//
// VLANs on top of the device stay on it: the kernel hands them their frames before
// the bridge sees any.
//
// # What is kept
//
// Comments, the order of keys, anchors, quotes and the form of every value. Blank
// lines and the author's alignment are not. The result is read back and compared
// before it is returned; a comment for which there is no place without changing the
// meaning is found at the end of the file.
//
// # What is refused
//
// Files that do not parse or have other types than netplan's are errors.NotValid,
// as is a key that is there twice, which netplan would silently add up. A device
// that belongs to another bridge, bond or VRF, and a bridge that is there for
// something else, are errors.AlreadyExists. What NetworkManager or Open vSwitch
// sets up, Wi-Fi, and a device that only a pattern matches, which may match others,
// are errors.NotSupported. A device that no file mentions is errors.NotFound.
//
// Errors are one line, name file and line, and quote keys but never values: a file
// may hold the password of a wireless network.
//
// # Undoing
//
// Whoever writes the result keeps the old contents, and puts those back.
//
// # Concurrency
//
// Functions share nothing.
//
// # Testing
//
// The corpus in testdata/golden is rewritten by "go test -update". Where netplan is
// installed, its generator is asked for each case whether anything was lost.
package netplan
