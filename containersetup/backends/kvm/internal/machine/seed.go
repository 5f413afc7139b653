package machine

import (
	"github.com/sutler-dev/sutler/facade"
)

// SeedConfig is what an instance is told when it first boots.
type SeedConfig struct {
	// InstanceID is the instance's; cloud-init sets a machine up anew when it changes.
	// Required.
	InstanceID string
	// Hostname is the guest's; the InstanceID by default.
	Hostname string
	// UserData is what makes it an agent; none if empty.
	UserData facade.Secret
	// Interfaces are found by their MACs, which they must have. Without any, cloud-init
	// asks for an address by DHCP on the first interface that it finds.
	Interfaces []facade.NetworkInterface
	// DNS are the name servers of interfaces that have addresses and name none.
	DNS []string
}

// Seed returns the image of a CD from which cloud-init sets an instance up (its data
// source NoCloud). The same config gives the same bytes. errors.NotValid names what cannot
// be; the user data is in no error.
func Seed(c SeedConfig) ([]byte, error) {
	return nil, nil
}
