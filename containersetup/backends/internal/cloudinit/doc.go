// Package cloudinit writes and reads what the back ends tell cloud-init: the
// configuration of an instance's network, in version 2 of its format.
//
// All is pure but for [Resolvers], which reads the host's files by its port.
package cloudinit
