package fakes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Machine is what an in-memory controller has of one machine and its
// containers. It implements facade.Machine and facade.HarvestWatcher; see
// [Machine.Plain] for less.
//
// A Machine is a view of that over one connection, its [Faults];
// [Machine.Session] makes another view of the same. All of its methods may be
// called from many goroutines at once. Those that are not part of a facade
// interface go by the faults: they are the test's own hand.
//
// The key of a call, for a [Rule], is the container, or the type where the call
// is about one; it is empty where the call is about the machine. Calls for
// several containers that are to do half of their work do the first half of the
// list.
type Machine struct {
	faults *Faults
	state  *machineState
}

var (
	_ facade.Machine        = (*Machine)(nil)
	_ facade.HarvestWatcher = (*Machine)(nil)
)

type machineState struct {
	mu         sync.Mutex
	now        func() time.Time
	id         string
	supported  []facade.ContainerType
	configs    map[facade.ContainerType]facade.ContainerManagerConfig
	containers map[string]*machineContainer
	watchers   watchers

	network   []facade.NetworkInterface
	published int
	delay     time.Duration

	// addresses are those given to containers, whether these are still
	// there or not; allocated and released count them.
	addresses map[string][]facade.NetworkInterface
	allocated map[string]int
	released  map[string]int
	nextHost  int

	harvest         facade.HarvestMode
	harvestWatchers []harvestWatcher

	lock       *Lock
	violations []string
}

type harvestWatcher struct {
	faults  *Faults
	watcher *Watcher[struct{}]
}

// machineContainer is what the controller knows of one.
type machineContainer struct {
	life       facade.Life
	info       facade.ContainerProvisioningInfo
	devices    []facade.DeviceToBridge
	interfaces []facade.NetworkInterface

	instance   facade.InstanceInfo
	recordings int
	state      facade.ContainerState
	statuses   []ContainerStatus
}

// NewMachine returns a machine of that id, such as "0", without containers and
// without a published network, that supports lxd and kvm, and whose calls go
// through the faults given.
func NewMachine(faults *Faults, id string) *Machine {
	return &Machine{
		faults: faults,
		state: &machineState{
			now:        faults.clock.Now,
			id:         id,
			supported:  []facade.ContainerType{container.LXD, container.KVM},
			configs:    make(map[facade.ContainerType]facade.ContainerManagerConfig),
			containers: make(map[string]*machineContainer),
			addresses:  make(map[string][]facade.NetworkInterface),
			allocated:  make(map[string]int),
			released:   make(map[string]int),
			harvest:    facade.HarvestDestroyed,
		},
	}
}

// Session returns a view of the same machine over another connection.
func (m *Machine) Session(faults *Faults) *Machine {
	return &Machine{faults: faults, state: m.state}
}

// Faults returns what this view's calls go through.
func (m *Machine) Faults() *Faults { return m.faults }

// Plain returns the machine with no optional interface.
func (m *Machine) Plain() facade.Machine { return struct{ facade.Machine }{m} }

// WatchAllContainers is part of facade.ContainerSetup.
func (m *Machine) WatchAllContainers(ctx context.Context, machine string) (facade.StringsWatcher, error) {
	const method = "WatchAllContainers"
	return about(ctx, m, Call{Method: method}, machine, func() (facade.StringsWatcher, error) {
		return m.state.watchers.add(allContainers, m.faults, slices.Sorted(maps.Keys(m.state.containers))), nil
	})
}

// WatchContainers is part of facade.Containers.
func (m *Machine) WatchContainers(ctx context.Context, machine string, t facade.ContainerType) (facade.StringsWatcher, error) {
	call := Call{Method: "WatchContainers", Key: string(t)}
	return about(ctx, m, call, machine, func() (facade.StringsWatcher, error) {
		if err := t.Validate(); err != nil {
			return nil, err
		}
		ids := slices.DeleteFunc(slices.Sorted(maps.Keys(m.state.containers)), func(id string) bool {
			return m.state.typeOf(id) != t
		})
		return m.state.watchers.add(containersOf(t), m.faults, ids), nil
	})
}

// SupportedContainers is part of facade.ContainerSetup.
func (m *Machine) SupportedContainers(ctx context.Context, machine string) ([]facade.ContainerType, error) {
	return about(ctx, m, Call{Method: "SupportedContainers"}, machine, func() ([]facade.ContainerType, error) {
		return slices.Clone(m.state.supported), nil
	})
}

// ContainerManagerConfig is part of facade.ContainerSetup.
func (m *Machine) ContainerManagerConfig(ctx context.Context, t facade.ContainerType) (facade.ContainerManagerConfig, error) {
	call := Call{Method: "ContainerManagerConfig", Key: string(t)}
	return run(ctx, m.faults, call, func(plan) (facade.ContainerManagerConfig, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		if err := t.Validate(); err != nil {
			return nil, err
		}
		if cfg, ok := m.state.configs[t]; ok {
			return maps.Clone(cfg), nil
		}
		return facade.ContainerManagerConfig{"model-uuid": ModelUUID}, nil
	})
}

// SetHostMachineNetworkConfig is part of facade.ContainerSetup and
// facade.HostNetwork.
func (m *Machine) SetHostMachineNetworkConfig(ctx context.Context, machine string, interfaces []facade.NetworkInterface) error {
	interfaces = cloneInterfaces(interfaces)
	call := Call{Method: "SetHostMachineNetworkConfig", Args: []any{interfaces}}
	_, err := about(ctx, m, call, machine, func() (struct{}, error) {
		for _, i := range interfaces {
			if err := i.Validate(); err != nil {
				return struct{}{}, err
			}
		}
		m.state.network = cloneInterfaces(interfaces)
		m.state.published++
		return struct{}{}, nil
	})
	return err
}

// HostChangesForContainer is part of facade.HostNetwork. It goes by the network
// that was published last: a device that is under its bridge there needs no
// change.
func (m *Machine) HostChangesForContainer(ctx context.Context, id string) (facade.HostChanges, error) {
	return ofContainer(ctx, m, "HostChangesForContainer", id, func(c *machineContainer) (facade.HostChanges, error) {
		s := m.state
		if s.lock != nil && !s.lock.heldBy(m.faults) {
			s.violations = append(s.violations, "host changes for "+id+" asked without the lock")
		}
		var changes facade.HostChanges
		for _, d := range c.devices {
			if !bridged(s.network, d) {
				changes.Devices = append(changes.Devices, d)
				changes.ReconfigureDelay = s.delay
			}
		}
		return changes, nil
	})
}

// PrepareContainerInterfaceInfo is part of facade.Containers.
func (m *Machine) PrepareContainerInterfaceInfo(ctx context.Context, id string) ([]facade.NetworkInterface, error) {
	return ofContainer(ctx, m, "PrepareContainerInterfaceInfo", id, func(c *machineContainer) ([]facade.NetworkInterface, error) {
		s := m.state
		if _, ok := s.addresses[id]; !ok {
			s.addresses[id] = s.allocate(c)
			s.allocated[id]++
		}
		return cloneInterfaces(s.addresses[id]), nil
	})
}

// ReleaseContainerAddresses is part of facade.Containers.
func (m *Machine) ReleaseContainerAddresses(ctx context.Context, id string) error {
	_, err := run(ctx, m.faults, Call{Method: "ReleaseContainerAddresses", Key: id}, func(p plan) (struct{}, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		if _, ok := m.state.addresses[id]; ok && !p.half() {
			delete(m.state.addresses, id)
			m.state.released[id]++
		}
		return struct{}{}, nil
	})
	return err
}

// HarvestMode is part of facade.HarvestWatcher.
func (m *Machine) HarvestMode(ctx context.Context) (facade.HarvestMode, error) {
	return run(ctx, m.faults, Call{Method: "HarvestMode"}, func(plan) (facade.HarvestMode, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		return m.state.harvest, nil
	})
}

// WatchHarvestMode is part of facade.HarvestWatcher.
func (m *Machine) WatchHarvestMode(ctx context.Context) (facade.NotifyWatcher, error) {
	return run(ctx, m.faults, Call{Method: "WatchHarvestMode"}, func(plan) (facade.NotifyWatcher, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		w := NewNotifyWatcher()
		m.state.pruneHarvest()
		m.state.harvestWatchers = append(m.state.harvestWatchers, harvestWatcher{m.faults, w})
		return w, nil
	})
}

// about takes a call about the machine through the faults and answers with the
// state locked.
func about[T any](ctx context.Context, m *Machine, c Call, machine string, answer func() (T, error)) (T, error) {
	c.Args = append([]any{machine}, c.Args...)
	return run(ctx, m.faults, c, func(p plan) (T, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		var zero T
		switch {
		case p.half():
			return zero, nil
		case machine != m.state.id:
			return zero, errors.NotFoundf("machine %q", machine)
		}
		return answer()
	})
}

// ofContainer is as about, for a call about one container.
func ofContainer[T any](ctx context.Context, m *Machine, method, id string, answer func(*machineContainer) (T, error)) (T, error) {
	return run(ctx, m.faults, Call{Method: method, Key: id}, func(p plan) (T, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		var zero T
		c, ok := m.state.containers[id]
		switch {
		case p.half():
			return zero, nil
		case !ok:
			return zero, errors.NotFoundf("container %q", id)
		}
		return answer(c)
	})
}

// bridged tells whether the device is under its bridge in that network.
func bridged(network []facade.NetworkInterface, d facade.DeviceToBridge) bool {
	return slices.ContainsFunc(network, func(i facade.NetworkInterface) bool {
		return i.Name == d.Device && i.Parent == d.Bridge
	})
}

func cloneInterfaces(list []facade.NetworkInterface) []facade.NetworkInterface {
	list = slices.Clone(list)
	for i := range list {
		list[i].Addresses = slices.Clone(list[i].Addresses)
		list[i].DNS = slices.Clone(list[i].DNS)
	}
	return list
}
