package fakes

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Container is what [Machine.AddContainer] adds. A field that is zero stands for
// what a test without special wishes wants; [Machine.SetLife] and
// [Machine.SetContainerInfo] take everything as it is, to make a controller
// that answers nonsense.
type Container struct {
	// Life is facade.Alive by default.
	Life facade.Life
	// Info is ContainerInfo(id) by default.
	Info facade.ContainerProvisioningInfo
	// Devices are what must be under a bridge before the container starts:
	// eth0 under br-eth0 by default, and an empty list is for none.
	Devices []facade.DeviceToBridge
	// Interfaces are those that the container is given. By default it is
	// one on each of the bridges, or one without a parent when there are no
	// devices, with an address that no other container has.
	Interfaces []facade.NetworkInterface
	// InstanceID is the instance recorded for it; none by default.
	InstanceID string
	// State is facade.ContainerPending by default.
	State facade.ContainerState
}

// ContainerStatus is what users saw of a container from some time on.
type ContainerStatus struct {
	State   facade.ContainerState
	Message string
	Time    time.Time
}

// ContainerInfo returns provisioning information that is complete and valid,
// with user data and a nonce of the container's own.
func ContainerInfo(id string) facade.ContainerProvisioningInfo {
	return facade.ContainerProvisioningInfo{
		Base:        facade.Base{Name: "ubuntu", Channel: "22.04/stable", Architectures: []string{"amd64"}},
		Constraints: facade.Constraints{Cores: 1, Memory: 512, RootDisk: 8192, Arch: "amd64"},
		UserData:    facade.NewSecret("#cloud-config\npassword: canary-of-" + id + "\n"),
		Nonce:       "nonce-of-" + id,
		Tags:        map[string]string{"model": ModelUUID},
	}
}

// ID returns the machine's id.
func (m *Machine) ID() string { return m.state.id }

// AddContainer adds a container, in place of the one of that id if there is one.
// Watchers are told. An id that is no container's of this machine is told by
// WatchAllContainers alone.
func (m *Machine) AddContainer(id string, c Container) {
	if c.Life == "" {
		c.Life = facade.Alive
	}
	if c.State == "" {
		c.State = facade.ContainerPending
	}
	if c.Info.Base.Name == "" && c.Info.UserData.IsZero() {
		c.Info = ContainerInfo(id)
	}
	if c.Devices == nil {
		c.Devices = []facade.DeviceToBridge{{Device: "eth0", Bridge: "br-eth0"}}
	}
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	added := &machineContainer{
		life:       c.Life,
		info:       cloneContainerInfo(c.Info),
		devices:    slices.Clone(c.Devices),
		interfaces: cloneInterfaces(c.Interfaces),
		state:      c.State,
	}
	added.instance.ID, added.instance.InstanceID = id, c.InstanceID
	m.state.containers[id] = added
	m.state.tell(id)
}

// SetLife changes the container's life to any text. Watchers are told.
func (m *Machine) SetLife(id string, life facade.Life) {
	m.change(id, func(c *machineContainer) { c.life = life })
}

// SetContainerInfo changes what the container is to be made from to anything,
// also to what is not valid. Watchers are told.
func (m *Machine) SetContainerInfo(id string, info facade.ContainerProvisioningInfo) {
	info = cloneContainerInfo(info)
	m.change(id, func(c *machineContainer) { c.info = info })
}

// AskAgain does what a user does who wants another attempt at a container that
// could not be started: its status is pending again. Watchers are told.
func (m *Machine) AskAgain(id string) {
	m.change(id, func(c *machineContainer) { m.state.setStatus(c, facade.ContainerPending, "") })
}

// RemoveContainer makes the container not be found any more. Watchers are told.
func (m *Machine) RemoveContainer(id string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.remove(id)
}

func (m *Machine) change(id string, f func(*machineContainer)) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if c, ok := m.state.containers[id]; ok {
		f(c)
		m.state.tell(id)
	}
}

// SetSupported changes which types of container the machine can have, to
// anything: none, or one twice.
func (m *Machine) SetSupported(types ...facade.ContainerType) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.supported = slices.Clone(types)
}

// SetManagerConfig changes the settings for containers of the type, also to
// nil. By default they have the key model-uuid, with [ModelUUID].
func (m *Machine) SetManagerConfig(t facade.ContainerType, cfg facade.ContainerManagerConfig) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.configs[t] = maps.Clone(cfg)
}

// SetReconfigureDelay changes the delay that goes with host changes; zero in
// the beginning.
func (m *Machine) SetReconfigureDelay(d time.Duration) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.delay = d
}

// SetHarvestMode changes the harvest mode to any text; facade.HarvestDestroyed
// in the beginning. Watchers of it are told.
func (m *Machine) SetHarvestMode(mode facade.HarvestMode) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.harvest = mode
	m.state.pruneHarvest()
	for _, h := range m.state.harvestWatchers {
		h.watcher.Send(struct{}{})
	}
}

// RequireLock makes every HostChangesForContainer that is not made with the lock
// held over the same connection a violation: see [Machine.Violations].
func (m *Machine) RequireLock(lock *Lock) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.lock = lock
}

// Violations returns what was done to the machine that must not be, oldest
// first.
func (m *Machine) Violations() []string {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return slices.Clone(m.state.violations)
}

// IDs returns the containers that there are, sorted.
func (m *Machine) IDs() []string {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return slices.Sorted(maps.Keys(m.state.containers))
}

// Life returns the container's life, empty when it is not there.
func (m *Machine) Life(id string) facade.Life {
	return lookUp(m, id, func(c *machineContainer) facade.Life { return c.life })
}

// Status returns what users see of the container, zero when it is not there.
func (m *Machine) Status(id string) ContainerStatus {
	return lookUp(m, id, func(c *machineContainer) ContainerStatus {
		if len(c.statuses) == 0 {
			return ContainerStatus{State: c.state}
		}
		return c.statuses[len(c.statuses)-1]
	})
}

// Statuses returns every status that was set for the container, oldest first.
func (m *Machine) Statuses(id string) []ContainerStatus {
	return lookUp(m, id, func(c *machineContainer) []ContainerStatus { return slices.Clone(c.statuses) })
}

// InstanceInfo returns what is recorded of the container's instance; its
// InstanceID is empty when nothing is.
func (m *Machine) InstanceInfo(id string) facade.InstanceInfo {
	return lookUp(m, id, func(c *machineContainer) facade.InstanceInfo {
		info := c.instance
		info.Interfaces = cloneInterfaces(info.Interfaces)
		return info
	})
}

// Recordings returns how often SetInstanceInfo recorded an instance where none
// was; recording the same again does not count.
func (m *Machine) Recordings(id string) int {
	return lookUp(m, id, func(c *machineContainer) int { return c.recordings })
}

func lookUp[T any](m *Machine, id string, f func(*machineContainer) T) T {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if c, ok := m.state.containers[id]; ok {
		return f(c)
	}
	var zero T
	return zero
}

// Network returns the network that was published last, and how often one was.
func (m *Machine) Network() ([]facade.NetworkInterface, int) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return cloneInterfaces(m.state.network), m.state.published
}

// Addresses returns the containers that have addresses, sorted, those that are
// not there any more among them.
func (m *Machine) Addresses() []string {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return slices.Sorted(maps.Keys(m.state.addresses))
}

// Allocations returns how often addresses were newly allocated for the
// container, and how often they were given back.
func (m *Machine) Allocations(id string) (allocated, released int) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.allocated[id], m.state.released[id]
}

// ContainerWatchers returns the watchers of containers of the type, or those of
// all containers for the empty type, that were handed out over this view's
// connection and have not ended, oldest first, for a test to break.
func (m *Machine) ContainerWatchers(t facade.ContainerType) []*Watcher[[]string] {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if t == "" {
		return m.state.watchers.live(allContainers, m.faults)
	}
	return m.state.watchers.live(containersOf(t), m.faults)
}

// HarvestWatchers returns the watchers of the harvest mode, as
// [Machine.ContainerWatchers] does those of containers.
func (m *Machine) HarvestWatchers() []*Watcher[struct{}] {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.pruneHarvest()
	var out []*Watcher[struct{}]
	for _, h := range m.state.harvestWatchers {
		if h.faults == m.faults {
			out = append(out, h.watcher)
		}
	}
	return out
}

func (s *machineState) pruneHarvest() {
	s.harvestWatchers = slices.DeleteFunc(s.harvestWatchers, func(h harvestWatcher) bool { return h.watcher.Ended() })
}

// Watchers are kept under these names.

const allContainers = "all"

func containersOf(t facade.ContainerType) string { return "of " + string(t) }

// tell makes watchers name the container.
func (s *machineState) tell(id string) {
	s.watchers.send(allContainers, id)
	if t := s.typeOf(id); t != "" {
		s.watchers.send(containersOf(t), id)
	}
}

// typeOf returns the container's type, empty for one that is not directly on
// this machine.
func (s *machineState) typeOf(id string) facade.ContainerType {
	parsed, err := container.ParseID(id)
	if err != nil || parsed.Host != s.id {
		return ""
	}
	return parsed.Type
}

func (s *machineState) remove(id string) {
	if _, ok := s.containers[id]; ok {
		delete(s.containers, id)
		s.tell(id)
	}
}

func (s *machineState) setStatus(c *machineContainer, state facade.ContainerState, message string) {
	c.state = state
	c.statuses = append(c.statuses, ContainerStatus{State: state, Message: message, Time: s.now()})
}

// allocate returns the interfaces that the container is given.
func (s *machineState) allocate(c *machineContainer) []facade.NetworkInterface {
	if c.interfaces != nil {
		return cloneInterfaces(c.interfaces)
	}
	parents := []string{""}
	if len(c.devices) > 0 {
		parents = nil
		for _, d := range c.devices {
			parents = append(parents, d.Bridge)
		}
	}
	var out []facade.NetworkInterface
	for i, parent := range parents {
		s.nextHost++
		n := s.nextHost
		out = append(out, facade.NetworkInterface{
			Name:      fmt.Sprintf("eth%d", i),
			MAC:       fmt.Sprintf("00:16:3e:00:%02x:%02x", n>>8&0xff, n&0xff),
			Type:      facade.EthernetInterface,
			Parent:    parent,
			Addresses: []string{fmt.Sprintf("10.1.%d.%d/16", n>>8&0xff, n&0xff)},
			Gateway:   "10.1.255.254",
			DNS:       []string{"10.0.0.2"},
			Up:        true,
		})
	}
	return out
}

func cloneContainerInfo(i facade.ContainerProvisioningInfo) facade.ContainerProvisioningInfo {
	i.Base.Architectures = slices.Clone(i.Base.Architectures)
	i.Tags = maps.Clone(i.Tags)
	i.Attributes = maps.Clone(i.Attributes)
	return i
}
