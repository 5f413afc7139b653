package controller

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/examples/agent/internal/files"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/facade"
)

// removedDir is the directory, within the agent's own, where the files of
// containers go of which nothing is left.
const removedDir = "removed"

// maxMessage bounds a status message, in bytes.
const maxMessage = 1000

// keepMachine lets what was known of the machine stand when next does not say,
// or says what only a new start of the agent can heed, and notes that as a
// problem of next.
func keepMachine(before, next *model.Model) {
	if before == nil {
		return
	}
	was, is := before.Machine, next.Machine
	problem := func(rule string) {
		next.Problems = append(next.Problems, &model.Problem{File: model.MachineFile, Rule: rule})
	}
	switch {
	case was == nil && before.MachineErr != nil:
		// It was never read.
	case was == nil:
		if is != nil {
			problem("was not there when the agent started, and takes a new start of it")
		}
		next.Machine, next.Containers, next.MachineErr = nil, nil, nil
	case next.MachineErr != nil:
		next.Machine, next.Containers = was, before.Containers
	case is == nil:
		problem("is not there any more, going on with what it was")
		next.Machine, next.Containers = was, before.Containers
	case was.ID != is.ID:
		problem("id: another one takes a new start of the agent")
		next.Machine, next.Containers = was, before.Containers
	case !slices.Equal(was.Types, is.Types):
		problem("containers: other types take a new start of the agent")
		changed := *is
		changed.Types = was.Types
		next.Machine = &changed
	}
}

// machine returns the machine, or errors.NotFound for one that is not ours.
func (c *Controller) machine(id string) (*model.Machine, error) {
	m := c.current().Machine
	if m == nil || m.ID != id {
		return nil, errors.NotFoundf("machine %q", id)
	}
	return m, nil
}

// container returns the container as it was last read: errors.NotFound when
// there is none, or why its file cannot be read.
func (c *Controller) container(id string) (*model.Container, error) {
	found := c.current().Containers[id]
	if found == nil {
		return nil, errors.NotFoundf("container %q", id)
	}
	return found, found.Err
}

// WatchAllContainers is part of facade.ContainerSetup.
func (c *Controller) WatchAllContainers(_ context.Context, machine string) (facade.StringsWatcher, error) {
	if _, err := c.machine(machine); err != nil {
		return nil, err
	}
	return c.containerWatchers.add(c.containerIDs, nil)
}

// WatchContainers is part of facade.Containers.
func (c *Controller) WatchContainers(_ context.Context, machine string, t facade.ContainerType) (facade.StringsWatcher, error) {
	if _, err := c.machine(machine); err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return c.containerWatchers.add(c.containerIDs, func(id string) bool {
		parsed, err := container.ParseID(id)
		return err == nil && parsed.Type == t
	})
}

func (c *Controller) containerIDs() []string {
	return slices.Sorted(maps.Keys(c.current().Containers))
}

// SupportedContainers is part of facade.ContainerSetup.
func (c *Controller) SupportedContainers(_ context.Context, machine string) ([]facade.ContainerType, error) {
	m, err := c.machine(machine)
	if err != nil {
		return nil, err
	}
	return slices.Clone(m.Types), nil
}

// ContainerManagerConfig is part of facade.ContainerSetup. Beside what
// machine.yaml says for the type, it tells the model's UUID.
func (c *Controller) ContainerManagerConfig(_ context.Context, t facade.ContainerType) (facade.ContainerManagerConfig, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	current := c.current()
	if current.Machine == nil {
		return nil, errors.NotFoundf("machine")
	}
	config := facade.ContainerManagerConfig{}
	maps.Copy(config, current.Machine.Settings[t])
	config["model-uuid"] = current.UUID
	return config, nil
}

// SetHostMachineNetworkConfig is part of facade.ContainerSetup and
// facade.HostNetwork.
func (c *Controller) SetHostMachineNetworkConfig(_ context.Context, machine string, interfaces []facade.NetworkInterface) error {
	if _, err := c.machine(machine); err != nil {
		return err
	}
	for _, i := range interfaces {
		if err := i.Validate(); err != nil {
			return err
		}
	}
	return c.config.State.containers.update(func(k *kept) error {
		k.Network = cloneInterfaces(interfaces)
		return nil
	})
}

// HostChangesForContainer is part of facade.HostNetwork. Nothing of the host has to
// change but for a container that is to be on the network of one of its devices.
func (c *Controller) HostChangesForContainer(_ context.Context, id string) (facade.HostChanges, error) {
	found, err := c.container(id)
	if err != nil || found.Bridge == "" {
		return facade.HostChanges{}, err
	}
	bridge, device, err := c.bridgeFor(found.Bridge)
	if err != nil || bridge == device.Name {
		return facade.HostChanges{}, err
	}
	return facade.HostChanges{Devices: []facade.DeviceToBridge{{Device: device.Name, MAC: device.MAC, Bridge: bridge}}}, nil
}

// bridgeFor returns a device of the host, as it was published, and the bridge that leads
// to the network that it is on, which may be the device itself.
func (c *Controller) bridgeFor(name string) (string, facade.NetworkInterface, error) {
	network := c.config.State.containers.now().Network
	i := slices.IndexFunc(network, func(i facade.NetworkInterface) bool { return i.Name == name })
	switch {
	case i < 0:
		return "", facade.NetworkInterface{}, errors.NotValidf("bridge for %q, which is no device of this machine,", name)
	case network[i].Type == facade.BridgeInterface:
		return name, network[i], nil
	}
	return hostnet.BridgeName(name), network[i], nil
}

// PrepareContainerInterfaceInfo is part of facade.Containers. A container of LXD or
// KVM has no interfaces by it: the back end puts it on a network of the daemon's, which
// gives it an address. On the network of one of the host's devices it asks for one.
func (c *Controller) PrepareContainerInterfaceInfo(_ context.Context, id string) ([]facade.NetworkInterface, error) {
	found, err := c.container(id)
	if err != nil {
		return nil, err
	}
	if found.Bridge != "" {
		bridge, _, err := c.bridgeFor(found.Bridge)
		return []facade.NetworkInterface{{Name: "eth0", Type: facade.EthernetInterface, Parent: bridge, Up: true}}, err
	}
	parsed, err := container.ParseID(id)
	if err != nil || parsed.Type == container.LXD || parsed.Type == container.KVM {
		return nil, err
	}
	if err := c.config.State.containers.update(func(k *kept) error { return k.allocate(id) }); err != nil {
		return nil, err
	}
	r, _ := c.config.State.containers.of(id)
	return cloneInterfaces(r.Addresses), nil
}

// ReleaseContainerAddresses is part of facade.Containers.
func (c *Controller) ReleaseContainerAddresses(_ context.Context, id string) error {
	return c.config.State.containers.update(func(k *kept) error {
		r, ok := k.Containers[id]
		if !ok {
			return nil
		}
		r.Addresses = nil
		k.Containers[id] = r
		if c.current().Containers[id] == nil {
			delete(k.Containers, id)
		}
		return nil
	})
}

// HarvestMode is part of facade.HarvestWatcher.
func (c *Controller) HarvestMode(context.Context) (facade.HarvestMode, error) {
	m := c.current().Machine
	if m == nil {
		return "", errors.NotFoundf("machine")
	}
	return m.Harvest, nil
}

// WatchHarvestMode is part of facade.HarvestWatcher.
func (c *Controller) WatchHarvestMode(context.Context) (facade.NotifyWatcher, error) {
	return c.harvestWatchers.add(func() []string { return nil }, nil)
}

// Containers is part of facade.ContainerStates.
func (c *Controller) Containers(_ context.Context, ids []string) ([]facade.ContainerResult, error) {
	records := c.config.State.containers.now().Containers
	out := make([]facade.ContainerResult, len(ids))
	for i, id := range ids {
		out[i].ID = id
		found, err := c.container(id)
		if err != nil {
			out[i].Err = err
			continue
		}
		r := records[id]
		out[i].Life, out[i].InstanceID, out[i].Status = r.life(found), r.Instance, r.State
	}
	return out, nil
}

// ProvisioningInfo is part of facade.Containers.
func (c *Controller) ProvisioningInfo(_ context.Context, ids []string) ([]facade.ContainerProvisioningResult, error) {
	records := c.config.State.containers.now().Containers
	out := make([]facade.ContainerProvisioningResult, len(ids))
	for i, id := range ids {
		out[i].ID = id
		found, err := c.container(id)
		switch r := records[id]; {
		case err != nil:
			out[i].Err = err
		case r.Nonce == "":
			out[i].Err = errors.NotYetAvailablef("record of container %q", id)
		default:
			out[i].Info = found.Info
			out[i].Info.Nonce = r.Nonce
		}
	}
	return out, nil
}

// each changes the records of several containers, all of them or none, with one
// result for each. Only those that the model has can be changed, malformed or
// not.
func (c *Controller) each(n int, id func(i int) string, change func(i int, r *containerRecord) error) ([]error, error) {
	results := make([]error, n)
	current := c.current()
	err := c.config.State.containers.update(func(k *kept) error {
		for i := range n {
			id := id(i)
			if current.Containers[id] == nil {
				results[i] = errors.NotFoundf("container %q", id)
				continue
			}
			r := k.Containers[id]
			if results[i] = change(i, &r); results[i] == nil {
				k.Containers[id] = r
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Annotate(err, "keeping what was told of containers")
	}
	return results, nil
}

// SetContainerStatus is part of facade.ContainerStates. Watchers are not told.
func (c *Controller) SetContainerStatus(_ context.Context, statuses []facade.ContainerStatus) ([]error, error) {
	return c.each(len(statuses), func(i int) string { return statuses[i].ID }, func(i int, r *containerRecord) error {
		if err := validateState(statuses[i].State); err != nil {
			return err
		}
		r.State, r.Message = statuses[i].State, oneLine(statuses[i].Message)
		return nil
	})
}

// oneLine makes a message fit to be shown.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return s
}

// SetInstanceInfo is part of facade.Containers. It returns errors.NotValid for
// one without an instance or with another nonce than the container's, and
// errors.AlreadyExists where another instance is recorded.
func (c *Controller) SetInstanceInfo(_ context.Context, infos []facade.InstanceInfo) ([]error, error) {
	return c.each(len(infos), func(i int) string { return infos[i].ID }, func(i int, r *containerRecord) error {
		info := infos[i]
		switch {
		case info.InstanceID == "":
			return errors.NotValidf("empty InstanceID of container %q", info.ID)
		case info.Nonce != r.Nonce:
			return errors.NotValidf("Nonce of container %q", info.ID)
		case r.Instance != "" && r.Instance != info.InstanceID:
			return errors.AlreadyExistsf("instance of container %q", info.ID)
		}
		for _, n := range info.Interfaces {
			if err := n.Validate(); err != nil {
				return err
			}
		}
		r.Instance, r.Hardware, r.Interfaces = info.InstanceID, info.Hardware, cloneInterfaces(info.Interfaces)
		return nil
	})
}

// MarkForRemoval is part of facade.Containers. The file of a dead container goes
// to the agent's own directory: the model shows what is there, and nothing that
// a person wrote is lost. One that says by now that it is not dead stays, and is
// another container's. MarkForRemoval returns errors.NotFound for one that is gone
// already and errors.NotValid for one that is not dead.
func (c *Controller) MarkForRemoval(_ context.Context, ids []string) ([]error, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	results := make([]error, len(ids))
	var removed []string
	for i, id := range ids {
		if results[i] = c.removeContainer(id); results[i] == nil {
			removed = append(removed, id)
		}
	}
	c.reload()
	// Also about those whose file has not changed since it was last read.
	c.containerWatchers.tell(removed)
	return results, nil
}

// removeContainer is called with reading held.
func (c *Controller) removeContainer(id string) error {
	if _, err := container.ParseID(id); err != nil {
		return errors.NotFoundf("container %q", id)
	}
	now, err := model.LoadContainer(c.config.Dir, id)
	if err != nil {
		return err
	}
	r, _ := c.config.State.containers.of(id)
	switch {
	case r.life(now) != facade.Dead:
		return errors.NotValidf("removal of container %q, which is %s,", id, now.Life)
	case now.Life == facade.Dead:
		if err := c.putAway(id); err != nil {
			return err
		}
	}
	if err := c.config.State.containers.forget(id); err != nil {
		return errors.Annotatef(err, "forgetting container %q", id)
	}
	c.logger.Info("container removed", "container", id)
	return nil
}

// putAway moves a container's file out of the model.
func (c *Controller) putAway(id string) error {
	dir := filepath.Join(c.config.State.Dir(), removedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errors.Trace(err)
	}
	from := filepath.Join(c.config.Dir, filepath.FromSlash(model.ContainerFile(id)))
	to := filepath.Join(dir, filepath.Base(from))
	if err := files.Rename(from, to); err != nil && !os.IsNotExist(err) {
		return errors.Annotatef(err, "putting the file of container %q away", id)
	}
	if info, err := os.Lstat(to); err == nil && info.Mode().IsRegular() {
		_ = os.Chmod(to, 0o600) // user data is nobody else's business
	}
	return nil
}
