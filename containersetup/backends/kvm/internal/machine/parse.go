package machine

import (
	"strings"

	"github.com/juju/errors"
	"libvirt.org/go/libvirtxml"

	"github.com/sutler-dev/sutler/facade"
)

// Parse returns the spec of a domain's XML, as far as it is there: that of one that was
// made by [Describe] is complete, also after libvirt added to it. One without metadata of
// ours is errors.NotFound; what cannot be read is errors.NotValid.
func Parse(text string) (Spec, error) {
	e, err := findElement(text)
	if err != nil {
		return Spec{}, err
	}
	var d libvirtxml.Domain
	if err := d.Unmarshal(text); err != nil {
		return Spec{}, errors.NotValidf("domain XML: %v: it", err)
	}
	s := Spec{Name: d.Name, Metadata: e.metadata(), RootDisk: e.RootDisk, Accelerated: d.Type == "kvm"}
	if d.OS != nil && d.OS.Type != nil {
		s.Arch = archOf(d.OS.Type.Arch)
	}
	if d.Memory != nil {
		s.Memory = mebibytes(uint64(d.Memory.Value), d.Memory.Unit)
	}
	if d.VCPU != nil {
		s.Cores = uint64(d.VCPU.Value)
	}
	if d.Devices != nil {
		parseDevices(&s, d.Devices, e.Interfaces)
	}
	return s, nil
}

func parseDevices(s *Spec, devices *libvirtxml.DomainDeviceList, known []parsedNIC) {
	for _, disk := range devices.Disks {
		if disk.Source == nil || disk.Source.File == nil {
			continue
		}
		switch {
		case disk.ReadOnly != nil && s.Seed == "":
			s.Seed = disk.Source.File.File
		case disk.ReadOnly == nil && s.Disk == "":
			s.Disk = disk.Source.File.File
		}
	}
	for _, serial := range devices.Serials {
		if serial.Log != nil && s.Console == "" {
			s.Console = serial.Log.File
		}
	}
	for _, device := range devices.Interfaces {
		i := Interface{NetworkInterface: facade.NetworkInterface{Type: facade.EthernetInterface}}
		if device.MAC != nil {
			i.MAC = strings.ToLower(device.MAC.Address)
		}
		if device.MTU != nil {
			i.MTU = int(device.MTU.Size)
		}
		if source := device.Source; source != nil {
			switch {
			case source.Network != nil:
				i.Network = source.Network.Network
			case source.Bridge != nil:
				i.Parent = source.Bridge.Bridge
			}
		}
		for _, k := range known {
			if strings.EqualFold(k.MAC, i.MAC) {
				i.Name, i.Gateway, i.Addresses, i.DNS = k.Name, k.Gateway, k.Addresses, k.DNS
			}
		}
		s.Interfaces = append(s.Interfaces, i)
	}
}

func archOf(name string) string {
	for arch, p := range platforms() {
		if p.arch == name {
			return arch
		}
	}
	return ""
}

// mebibytes reads an amount of memory in any of libvirt's units; it is in KiB where none
// is told. What is not a whole number is rounded down.
func mebibytes(value uint64, unit string) uint64 {
	units := map[string]uint64{
		"": 1 << 10, "b": 1, "bytes": 1, "KB": 1000, "k": 1 << 10, "KiB": 1 << 10, "MB": 1000 * 1000, "M": 1 << 20, "MiB": 1 << 20,
		"GB": 1000 * 1000 * 1000, "G": 1 << 30, "GiB": 1 << 30, "TB": 1000 * 1000 * 1000 * 1000, "T": 1 << 40, "TiB": 1 << 40,
	}
	factor := units[unit]
	if factor == 0 || value > 1<<63/factor {
		return 0
	}
	return value * factor >> 20
}
