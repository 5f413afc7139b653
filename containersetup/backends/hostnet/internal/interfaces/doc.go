// Package interfaces reads the configuration of ifupdown, /etc/network/interfaces
// and what it reads in, and rewrites it so that devices become ports of bridges. It
// touches no disk: files come in as they are, and those that change come back.
//
// # What changes
//
// The device's iface stanzas become the bridge's, of all families, with their
// options in their order; the first of them has what the scripts of bridge-utils
// need to make the bridge. In front of it the device has a stanza of the method
// manual, with what stays with it: its own hardware address, the options of bonds,
// VLANs, Wi-Fi authentication and ethtool. The MTU is for both. Further addresses,
// as eth0:1, become br-eth0:1.
//
// The bridge is brought up where the device is, right after it. What waits for the
// kernel to find a device (allow-hotplug) waits for the device alone, since nobody
// finds a bridge that ifup is yet to make: the bridge gets a line "auto".
//
// # What is ambiguous
//
// Commands (up, down and the like) move with the addresses, and see the bridge in
// $IFACE. That is right for routes and firewalls, which are what most are for. One
// that gives an address or a route to the device by name is made to name the
// bridge, as in "up ip route add 10.8.0.0/16 via 10.0.0.1 dev eth0". Whatever else
// names the device goes on doing so: "ethtool -K eth0 gro off" is about the
// hardware. One that sets up hardware by $IFACE is beyond guessing, and has to be
// moved by hand; so does a script that asks for the device's name.
//
// A template that the device inherits is inherited by the bridge; what it says of
// hardware is repeated for the port.
//
// When a bridge of several stanzas goes down, bridge-utils removes it with the
// first, and ifdown prints for the others that it is gone; that is harmless.
//
// # What is kept
//
// Every line that need not change, to the byte, with comments, unknown options and
// lines that a backslash continues. Comments right above an option go where it
// goes.
//
// # What is refused
//
// What ifupdown would refuse is errors.NotValid, with file and line; so is a bridge
// whose name would be a VLAN of another (br-eth0.10 beside br-eth0). A device that is
// a port or belongs to a bond, and a bridge that is there for something else, are
// errors.AlreadyExists. What a mapping script or a pattern decides, Open vSwitch,
// and methods as ppp or tunnel are errors.NotSupported. A device without a stanza is
// errors.NotFound.
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
// The corpus in testdata/golden is rewritten by "go test -update". Where ifupdown is
// installed, ifquery is asked for each case whether anything was lost.
package interfaces
