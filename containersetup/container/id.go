package container

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// Type is a kind of container. The set is open; see the constants for those
// that sutler ships back ends for.
type Type = facade.ContainerType

const (
	// LXD is a system container.
	LXD Type = "lxd"
	// KVM is a virtual machine.
	KVM Type = "kvm"
)

// ID names a container: its host, which is a machine or itself a container, its
// type, and its number among those of that type on that host.
type ID struct {
	Host   string
	Type   Type
	Number int
}

// String returns the form that [ParseID] reads.
func (id ID) String() string {
	return id.Host + "/" + string(id.Type) + "/" + strconv.Itoa(id.Number)
}

// maxID bounds what is looked at as an id.
const maxID = 1024

var number = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})$`)

// ParseID reads an id such as "0/lxd/1", or "0/kvm/2/lxd/0" for one that is
// nested. It returns errors.NotValid for anything else, also for the id of a
// machine.
func ParseID(s string) (ID, error) {
	if len(s) > maxID {
		return ID{}, errors.NotValidf("container id of %d bytes, over %d,", len(s), maxID)
	}
	parts := strings.Split(s, "/")
	if len(parts) < 3 || len(parts)%2 == 0 || !number.MatchString(parts[0]) {
		return ID{}, invalidID(s)
	}
	for i := 1; i < len(parts); i += 2 {
		if Type(parts[i]).Validate() != nil || !number.MatchString(parts[i+1]) {
			return ID{}, invalidID(s)
		}
	}
	last := len(parts) - 1
	n, err := strconv.Atoi(parts[last])
	if err != nil {
		return ID{}, invalidID(s)
	}
	return ID{Host: strings.Join(parts[:last-1], "/"), Type: Type(parts[last-1]), Number: n}, nil
}

func invalidID(s string) error {
	if len(s) > 64 {
		s = s[:64] + "..."
	}
	return errors.NotValidf("container id %q (want HOST/TYPE/NUMBER)", s)
}

// ValidateMachineID returns errors.NotValid unless id is that of a machine, or
// of a container that is itself a host.
func ValidateMachineID(id string) error {
	if number.MatchString(id) {
		return nil
	}
	if _, err := ParseID(id); err != nil {
		return errors.NotValidf("machine id %q", id[:min(len(id), 64)])
	}
	return nil
}
