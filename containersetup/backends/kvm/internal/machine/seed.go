package machine

import (
	"cmp"
	"regexp"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/backends/internal/cloudinit"
	"github.com/sutler-dev/sutler/facade"
)

// seedVolume is the label by which cloud-init knows a disk that is for it.
const seedVolume = "cidata"

// maxUserData bounds what an instance is told: it is in memory a few times.
const maxUserData = 16 << 20 // bytes

// SeedConfig is what an instance is told when it first boots.
type SeedConfig struct {
	// InstanceID is the instance's; cloud-init sets a machine up anew when it changes.
	// Required.
	InstanceID string
	// Hostname is the guest's; the InstanceID by default.
	Hostname string
	// UserData is what makes it an agent, 16 MiB at most; none if empty.
	UserData facade.Secret
	// Interfaces are found by their MACs, which they must have, and get their names.
	// Without any, cloud-init asks for an address by DHCP on the first interface that it
	// finds.
	Interfaces []facade.NetworkInterface
	// DNS are the name servers of interfaces that have addresses and name none.
	DNS []string
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// Validate returns errors.NotValid, naming the field.
func (c SeedConfig) Validate() error {
	switch {
	case !domainName.MatchString(c.InstanceID):
		return errors.NotValidf("InstanceID %q (want a letter, then letters, digits and dashes; %d bytes at most)", shortened(c.InstanceID), MaxName)
	case c.Hostname != "" && (len(c.Hostname) > 253 || !hostName.MatchString(c.Hostname)):
		return errors.NotValidf("Hostname %q", shortened(c.Hostname))
	case len(c.UserData.Reveal()) > maxUserData:
		return errors.NotValidf("UserData of %d bytes (want %d at most)", len(c.UserData.Reveal()), maxUserData)
	}
	return nil
}

// Seed returns the image of a disk from which cloud-init sets an instance up (its data
// source NoCloud). The same config gives the same bytes. errors.NotValid names what cannot
// be; the user data is in no error.
func Seed(c SeedConfig) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	meta, err := yaml.Marshal(struct {
		InstanceID string `yaml:"instance-id"`
		Hostname   string `yaml:"local-hostname"`
	}{c.InstanceID, cmp.Or(c.Hostname, c.InstanceID)})
	if err != nil {
		return nil, errors.Trace(err)
	}
	files := []isoFile{{"meta-data", "META_DATA", meta}}
	if len(c.Interfaces) > 0 {
		network, err := cloudinit.Network(cloudinit.Config{Interfaces: c.Interfaces, DNS: c.DNS, ByMAC: true})
		if err != nil {
			return nil, err
		}
		files = append(files, isoFile{"network-config", "NETWORK_CONFIG", network})
	}
	// Which there has to be, even if there is nothing in it.
	files = append(files, isoFile{"user-data", "USER_DATA", []byte(c.UserData.Reveal())})
	return writeISO(seedVolume, files), nil
}
