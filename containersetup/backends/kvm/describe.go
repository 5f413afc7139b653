package kvm

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/internal/cloudinit"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/machine"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Attributes of a container that name its image.
const (
	imageAttribute    = "image"
	checksumAttribute = "image-sha256"
)

// defaultInterface is the name of the one that a machine has for which none is asked.
const defaultInterface = "eth0"

// described is what a machine is to be made from.
type described struct {
	spec   machine.Spec
	source images.Source
	seed   machine.SeedConfig
}

// describe returns what a machine is to be made from, and refuses what none can be.
func (b *Broker) describe(ctx context.Context, name string, params container.StartParams) (described, error) {
	source, err := b.source(params.Info)
	if err != nil {
		return described{}, err
	}
	files, err := b.store.Files(name)
	if err != nil {
		return described{}, err
	}
	asked := params.Info.Constraints
	spec := machine.Spec{
		Name: name,
		Metadata: machine.Metadata{
			ModelUUID: b.config.ModelUUID, ControllerUUID: b.config.ControllerUUID, ContainerID: params.ContainerID,
			Tags: params.Info.Tags,
		},
		Arch: asked.Arch, Memory: asked.Memory, Cores: asked.Cores, RootDisk: asked.RootDisk,
		Disk: files.Disk, Seed: files.Seed, Console: files.Console,
	}
	if spec.Arch == "" {
		spec.Arch = platforms()[b.host.arch].arch
	}
	interfaces := params.Interfaces
	if len(interfaces) == 0 && b.hasDefault() {
		interfaces = []facade.NetworkInterface{{Name: defaultInterface}}
	}
	for _, i := range interfaces {
		spec.Interfaces = append(spec.Interfaces, machine.Interface{NetworkInterface: i, Network: "unknown"})
	}
	if err := spec.Validate(); err != nil {
		return described{}, err
	}
	if err := b.fits(&spec); err != nil {
		return described{}, err
	}
	spec = spec.WithDefaults()
	seed := machine.SeedConfig{InstanceID: name, UserData: params.Info.UserData, DNS: cloudinit.Resolvers(ctx, b.config.Host)}
	for _, i := range spec.Interfaces {
		seed.Interfaces = append(seed.Interfaces, i.NetworkInterface)
	}
	return described{spec, source, seed}, seed.Validate()
}

// source returns where a container's image comes from.
func (b *Broker) source(info facade.ContainerProvisioningInfo) (images.Source, error) {
	for key := range info.Attributes {
		if key != imageAttribute && key != checksumAttribute {
			return images.Source{}, errors.NotValidf("Info.Attributes[%q] (want %q or %q)", shortened(key), imageAttribute, checksumAttribute)
		}
	}
	url, sum := info.Attributes[imageAttribute], info.Attributes[checksumAttribute]
	if url == "" && sum != "" {
		return images.Source{}, errors.NotValidf("Info.Attributes[%q] without %q", checksumAttribute, imageAttribute)
	}
	if url != "" {
		source := images.Source{URL: url, SHA256: sum}
		return source, errors.Annotatef(source.Validate(), "Info.Attributes[%q]", imageAttribute)
	}
	image, ok := b.config.Images[baseOf(info.Base)]
	if !ok {
		return images.Source{}, errors.NotFoundf("image of %q, which neither the configuration nor the container names,", shortened(baseOf(info.Base)))
	}
	return image.source(), nil
}

// fits refuses a machine that this host cannot run, and sets how it runs it.
func (b *Broker) fits(spec *machine.Spec) error {
	guest, ok := b.host.capabilities.Guest(machineOf(spec.Arch))
	if !ok {
		return errors.NotSupportedf("Info.Constraints.Arch %q, for which libvirt has no emulator here: that", spec.Arch)
	}
	spec.Accelerated = guest.Accelerated()
	if !spec.Accelerated && !b.config.AllowEmulation {
		return errors.NotSupportedf("Info.Constraints.Arch %q, which only software can run here, and may not: that", spec.Arch)
	}
	if has := b.host.node.Memory >> 20; has > 0 && spec.WithDefaults().Memory > has {
		return errors.NotValidf("memory of %d MiB on a host that has %d: that", spec.WithDefaults().Memory, has)
	}
	return nil
}

// hasDefault tells whether there is something for interfaces without a parent to be on.
func (b *Broker) hasDefault() bool {
	return b.config.Network.Bridge != "" || b.config.Network.Networking != Provider
}

// connected returns the interfaces, each on what its parent names: a bridge of the host's,
// or a network of libvirt's, also by its bridge; or on the default.
func (b *Broker) connected(ctx context.Context, d daemon, interfaces []machine.Interface) ([]machine.Interface, error) {
	if len(interfaces) == 0 {
		return nil, nil
	}
	networks, err := d.Networks(ctx)
	if err != nil {
		return nil, err
	}
	var there map[string]bool
	out := slices.Clone(interfaces)
	for n := range out {
		i := &out[n]
		i.Network = ""
		parent := i.Parent
		if parent == "" {
			parent = b.config.Network.Bridge
		}
		if parent == "" {
			if !b.hasDefault() {
				return nil, errors.NotFoundf("bridge for interface %q: it names no parent, and there is no default one: that", i.Name)
			}
			parent = b.config.Network.Name
		}
		at := slices.IndexFunc(networks, func(n virt.Network) bool { return n.Name == parent || n.Bridge == parent })
		if at >= 0 {
			if !networks[at].Active {
				return nil, errors.Errorf("network %q of interface %q is not active", networks[at].Name, i.Name)
			}
			i.Network, i.Parent = networks[at].Name, ""
			continue
		}
		if there == nil {
			if there, err = bridges(ctx, b.config.Host); err != nil {
				return nil, err
			}
		}
		if !there[parent] {
			return nil, errors.NotFoundf("bridge or network %q of interface %q", parent, i.Name)
		}
		i.Parent = parent
	}
	return out, nil
}

// result tells what there is of a machine, by its definition. It is the same each time:
// addresses that come by DHCP are not in it.
func (b *Broker) result(ctx context.Context, d daemon, domain virt.Domain) (container.StartResult, error) {
	text, err := d.DomainXML(ctx, domain)
	if err != nil {
		return container.StartResult{}, err
	}
	spec, err := machine.Parse(text)
	if err != nil {
		return container.StartResult{}, errors.Annotatef(err, "domain %q", domain.Name)
	}
	networks, err := d.Networks(ctx)
	if err != nil {
		return container.StartResult{}, err
	}
	r := container.StartResult{
		InstanceID: container.InstanceID(domain.Name),
		Hardware:   facade.Hardware{Cores: spec.Cores, Memory: spec.Memory, RootDisk: spec.RootDisk, Arch: spec.Arch},
	}
	for _, i := range spec.Interfaces {
		nic := i.NetworkInterface
		for _, n := range networks {
			if i.Network != "" && n.Name == i.Network {
				nic.Parent = n.Bridge
			}
		}
		r.Interfaces = append(r.Interfaces, nic)
	}
	return r, nil
}
