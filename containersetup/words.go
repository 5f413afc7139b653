package containersetup

import "github.com/sutler-dev/sutler/containersetup/container"

// The words of package container, which holds them so that back ends and the
// container provisioner need not know this package.
type (
	// ContainerType is a kind of container; the set is open.
	ContainerType = container.Type
	// ContainerID names a container.
	ContainerID = container.ID
	// Initialiser prepares this machine for containers of one type.
	Initialiser = container.Initialiser
	// SettingsInitialiser is one that follows the controller's settings.
	SettingsInitialiser = container.SettingsInitialiser
	// Broker makes and removes instances of one type.
	Broker = container.Broker
	// Backend is what a host offers for one type.
	Backend = container.Backend
	// InstanceID is a back end's own name for an instance.
	InstanceID = container.InstanceID
	// Instance is one that a broker knows.
	Instance = container.Instance
	// StartParams is what an instance is made from.
	StartParams = container.StartParams
	// StartResult is what there is of a started instance.
	StartResult = container.StartResult
	// Lock is the machine lock.
	Lock = container.Lock
	// Holder is who wants or has the lock.
	Holder = container.Holder
	// NetworkObserver sees what this host's network looks like.
	NetworkObserver = container.NetworkObserver
	// Bridger puts devices of this host under bridges.
	Bridger = container.Bridger
)

// The types that sutler ships back ends for.
const (
	LXD = container.LXD
	KVM = container.KVM
)

// ParseContainerID reads an id such as "0/lxd/1" into host, type and number. It
// returns errors.NotValid for anything else.
func ParseContainerID(s string) (ContainerID, error) { return container.ParseID(s) }
