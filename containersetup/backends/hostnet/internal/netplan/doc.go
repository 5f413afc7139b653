// Package netplan reads netplan's configuration and rewrites it so that devices
// become ports of bridges.
package netplan
