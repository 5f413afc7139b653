package machine

import (
	"bytes"
	"encoding/xml"
	"maps"
	"slices"

	"github.com/juju/errors"
	"libvirt.org/go/libvirtxml"
)

// platform is what differs from one architecture to another.
type platform struct {
	arch    string // libvirt's word
	machine string
	// acpi and apic are there to be had.
	acpi, apic bool
	// firmware has to be EFI's: there is no other that boots a disk.
	efi bool
	// maximum has software be a CPU that knows all that it can be: the model that libvirt
	// takes by default is too old for what is installed on it.
	maximum bool
}

func platforms() map[string]platform {
	return map[string]platform{
		"amd64":   {arch: "x86_64", machine: "q35", acpi: true, apic: true, maximum: true},
		"arm64":   {arch: "aarch64", machine: "virt", acpi: true, efi: true, maximum: true},
		"ppc64el": {arch: "ppc64le", machine: "pseries"},
		"s390x":   {arch: "s390x", machine: "s390-ccw-virtio"},
	}
}

func platformOf(arch string) (platform, error) {
	if arch == "" {
		arch = DefaultArch
	}
	p, ok := platforms()[arch]
	if !ok {
		return platform{}, errors.NotValidf("Arch %q (want one of %q)", shortened(arch), slices.Sorted(maps.Keys(platforms())))
	}
	return p, nil
}

// Describe returns a machine as libvirt defines it. The same spec gives the same text.
// errors.NotValid names what cannot be.
func Describe(s Spec) (string, error) {
	if err := s.Validate(); err != nil {
		return "", err
	}
	s = s.WithDefaults()
	p, err := platformOf(s.Arch)
	if err != nil {
		return "", err
	}
	metadata, err := describeMetadata(s)
	if err != nil {
		return "", err
	}
	d := libvirtxml.Domain{
		Type:     "qemu",
		Name:     s.Name,
		UUID:     UUID(s.Metadata),
		Title:    "container " + s.Metadata.ContainerID,
		Metadata: &libvirtxml.DomainMetadata{XML: metadata},
		Memory:   &libvirtxml.DomainMemory{Value: uint(s.Memory), Unit: "MiB"},
		VCPU:     &libvirtxml.DomainVCPU{Placement: "static", Value: uint(s.Cores)},
		OS: &libvirtxml.DomainOS{
			Type:        &libvirtxml.DomainOSType{Arch: p.arch, Machine: p.machine, Type: "hvm"},
			BootDevices: []libvirtxml.DomainBootDevice{{Dev: "hd"}},
		},
		Features:   &libvirtxml.DomainFeatureList{},
		Clock:      &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "restart",
		Devices:    devices(s),
	}
	if p.efi {
		d.OS.Firmware = "efi"
	}
	if p.acpi {
		d.Features.ACPI = &libvirtxml.DomainFeature{} // without it no guest hears that it is to shut down
	}
	if p.apic {
		d.Features.APIC = &libvirtxml.DomainFeatureAPIC{}
	}
	switch {
	case s.Accelerated:
		d.Type = "kvm"
		d.CPU = &libvirtxml.DomainCPU{Mode: "host-passthrough"} // it never moves to another host
	case p.maximum:
		d.CPU = &libvirtxml.DomainCPU{Mode: "maximum"}
	}
	text, err := d.Marshal()
	return text, errors.Trace(err)
}

func devices(s Spec) *libvirtxml.DomainDeviceList {
	list := &libvirtxml.DomainDeviceList{
		Disks: []libvirtxml.DomainDisk{{
			Device: "disk",
			Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2"},
			Source: file(s.Disk),
			Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
		}},
		// Nothing is plugged in, and no screen or keyboard is there.
		Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
		MemBalloon:  &libvirtxml.DomainMemBalloon{Model: "virtio"},
		// Without it, a guest may wait long for enough randomness to make keys from.
		RNGs: []libvirtxml.DomainRNG{{
			Model:   "virtio",
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}},
	}
	if s.Seed != "" {
		// Not a CD: kernels that are made for clouds, such as Debian's, drive no SATA. This is
		// what they have to drive anyway, and cloud-init goes by the label.
		list.Disks = append(list.Disks, libvirtxml.DomainDisk{
			Device:   "disk",
			Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
			Source:   file(s.Seed),
			Target:   &libvirtxml.DomainDiskTarget{Dev: "vdb", Bus: "virtio"},
			ReadOnly: &libvirtxml.DomainDiskReadOnly{},
		})
	}
	for _, i := range s.Interfaces {
		nic := libvirtxml.DomainInterface{
			MAC:    &libvirtxml.DomainInterfaceMAC{Address: i.MAC},
			Source: &libvirtxml.DomainInterfaceSource{},
			Model:  &libvirtxml.DomainInterfaceModel{Type: "virtio"},
		}
		if i.Network != "" {
			nic.Source.Network = &libvirtxml.DomainInterfaceSourceNetwork{Network: i.Network}
		} else {
			nic.Source.Bridge = &libvirtxml.DomainInterfaceSourceBridge{Bridge: i.Parent}
		}
		if i.MTU > 0 {
			nic.MTU = &libvirtxml.DomainInterfaceMTU{Size: uint(i.MTU)}
		}
		list.Interfaces = append(list.Interfaces, nic)
	}
	serial := libvirtxml.DomainSerial{
		// A terminal, so that an operator can get to it, with a log beside.
		Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
	}
	if s.Console != "" {
		serial.Log = &libvirtxml.DomainChardevLog{File: s.Console, Append: "on"}
	}
	list.Serials = []libvirtxml.DomainSerial{serial}
	return list
}

func file(path string) *libvirtxml.DomainDiskSource {
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}}
}

// describeMetadata returns the element of our own.
func describeMetadata(s Spec) (string, error) {
	e := element{
		Namespace:  Namespace,
		Model:      s.Metadata.ModelUUID,
		Controller: s.Metadata.ControllerUUID,
		Container:  s.Metadata.ContainerID,
		RootDisk:   s.RootDisk,
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata.Tags)) {
		e.Tags = append(e.Tags, tag{key, s.Metadata.Tags[key]})
	}
	for _, i := range s.Interfaces {
		e.Interfaces = append(e.Interfaces, nic{
			Name: i.Name, MAC: i.MAC, Gateway: i.Gateway, Addresses: i.Addresses, DNS: i.DNS,
		})
	}
	var b bytes.Buffer
	b.WriteString("\n")
	enc := xml.NewEncoder(&b)
	enc.Indent("    ", "  ")
	if err := enc.Encode(e); err != nil {
		return "", errors.Trace(err)
	}
	b.WriteString("\n  ")
	return b.String(), nil
}
