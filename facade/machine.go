package facade

import (
	"context"
	"time"
)

// What container set-up and provisioning need of a controller is cut by
// consumer: [ContainerSetup] for the container-setup handler, [HostNetwork] for
// the preparation of a host's devices, [Containers] for the provisioner of one
// type's containers. [Machine] is all of it. A machine and a container are named
// by their ids, such as "0" and "0/lxd/1".

// Machine is everything about one machine.
type Machine interface {
	ContainerSetup
	HostNetwork
	Containers
}

// ContainerStates tells about containers, and tells about them.
type ContainerStates interface {
	// Containers describes the containers named: one result per id, in the
	// same order, each naming its container; errors.NotFound in the result
	// of one that is not there. The second value is for a failure of the
	// call as a whole.
	Containers(ctx context.Context, ids []string) ([]ContainerResult, error)

	// SetContainerStatus makes visible to users how far each container has
	// come: one result per input, in the same order. The second value is for
	// a failure of the call as a whole.
	SetContainerStatus(ctx context.Context, statuses []ContainerStatus) ([]error, error)
}

// ContainerSetup is what the container-setup handler needs.
type ContainerSetup interface {
	ContainerStates

	// WatchAllContainers names the containers of the machine, of every type,
	// and later those that changed. The caller owns the watcher.
	WatchAllContainers(ctx context.Context, machine string) (StringsWatcher, error)

	// SupportedContainers returns the types of container that the machine
	// can have. None at all is no error.
	SupportedContainers(ctx context.Context, machine string) ([]ContainerType, error)

	// ContainerManagerConfig returns the settings for containers of the
	// type, such as where their images come from.
	ContainerManagerConfig(ctx context.Context, t ContainerType) (ContainerManagerConfig, error)

	// SetHostMachineNetworkConfig tells the controller what the machine's
	// network looks like now.
	SetHostMachineNetworkConfig(ctx context.Context, machine string, interfaces []NetworkInterface) error
}

// HostNetwork is what the preparation of a host's devices for a container
// needs.
type HostNetwork interface {
	// HostChangesForContainer returns what must change on the host before
	// the container can start.
	HostChangesForContainer(ctx context.Context, container string) (HostChanges, error)

	// SetHostMachineNetworkConfig is as in ContainerSetup.
	SetHostMachineNetworkConfig(ctx context.Context, machine string, interfaces []NetworkInterface) error
}

// Containers is what the provisioner of the containers of one type on one
// machine needs.
type Containers interface {
	ContainerStates

	// WatchContainers names the machine's containers of the type, and later
	// those that changed. The caller owns the watcher.
	WatchContainers(ctx context.Context, machine string, t ContainerType) (StringsWatcher, error)

	// ProvisioningInfo returns what each container is to be made from: one
	// result per id, in the same order. The second value is for a failure of
	// the call as a whole.
	ProvisioningInfo(ctx context.Context, ids []string) ([]ContainerProvisioningResult, error)

	// PrepareContainerInterfaceInfo allocates the container's network
	// interfaces, or returns those that it was given before.
	PrepareContainerInterfaceInfo(ctx context.Context, container string) ([]NetworkInterface, error)

	// SetInstanceInfo records which instances are the containers': one
	// result per input, in the same order. Recording the same again is
	// harmless.
	SetInstanceInfo(ctx context.Context, infos []InstanceInfo) ([]error, error)

	// ReleaseContainerAddresses gives back what PrepareContainerInterfaceInfo
	// allocated. Nothing to give back is success.
	ReleaseContainerAddresses(ctx context.Context, container string) error

	// MarkForRemoval says that nothing is left of dead containers, so that
	// the controller forgets them: one result per id, in the same order.
	MarkForRemoval(ctx context.Context, ids []string) ([]error, error)
}

// HarvestWatcher is an optional interface of a [Containers].
type HarvestWatcher interface {
	// HarvestMode returns which instances the provisioner is to take away.
	HarvestMode(ctx context.Context) (HarvestMode, error)
	// WatchHarvestMode tells that it changed. The caller owns the watcher.
	WatchHarvestMode(ctx context.Context) (NotifyWatcher, error)
}

// HostChanges is what must change on a host before a container can start. The
// zero value is nothing.
type HostChanges struct {
	// Devices are to be put under bridges.
	Devices []DeviceToBridge
	// ReconfigureDelay is how long to wait for a bonded device to come up
	// again.
	ReconfigureDelay time.Duration
}
