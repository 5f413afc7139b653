package facade

import (
	"net"
	"net/netip"
	"regexp"
	"time"

	"github.com/juju/errors"
)

// ContainerType is a kind of container, such as "lxd" or "kvm". The set is
// open.
type ContainerType string

var containerType = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// Validate returns errors.NotValid for what cannot be a type: lower-case
// letters and digits, a letter first, 32 at most.
func (t ContainerType) Validate() error {
	if !containerType.MatchString(string(t)) {
		return errors.NotValidf("container type %q", truncate(string(t)))
	}
	return nil
}

// HarvestMode says which instances the provisioner takes away.
type HarvestMode string

const (
	// HarvestNone: no instance is ever stopped.
	HarvestNone HarvestMode = "none"
	// HarvestUnknown: only those of which the controller knows nothing.
	HarvestUnknown HarvestMode = "unknown"
	// HarvestDestroyed: only those of dead containers; the default.
	HarvestDestroyed HarvestMode = "destroyed"
	// HarvestAll: both.
	HarvestAll HarvestMode = "all"
)

// Validate returns errors.NotValid for anything but the four known values.
func (m HarvestMode) Validate() error {
	switch m {
	case HarvestNone, HarvestUnknown, HarvestDestroyed, HarvestAll:
		return nil
	}
	return errors.NotValidf("harvest mode %q (want none, unknown, destroyed or all)", truncate(string(m)))
}

// Dead reports whether instances of dead containers are taken away.
func (m HarvestMode) Dead() bool { return m == HarvestDestroyed || m == HarvestAll }

// Unknown reports whether instances that the controller does not know are
// taken away.
func (m HarvestMode) Unknown() bool { return m == HarvestUnknown || m == HarvestAll }

// ContainerManagerConfig holds the settings for containers of one type, by key.
type ContainerManagerConfig map[string]string

// ContainerResult is one answer of ContainerStates.Containers.
type ContainerResult struct {
	// ID says which container this is about.
	ID   string
	Life Life
	// InstanceID is the instance recorded for it; empty before one is.
	InstanceID string
	// Status is as last set, by whomever.
	Status ContainerState
	// Err is set instead of everything else but ID: errors.NotFound when
	// there is no such container.
	Err error
}

// ContainerState is how far a container has come, as its users see it.
type ContainerState string

const (
	// ContainerPending is one that waits to be started.
	ContainerPending ContainerState = "pending"
	// ContainerProvisioning is one that is being started.
	ContainerProvisioning ContainerState = "provisioning"
	// ContainerRunning is one that was started.
	ContainerRunning ContainerState = "running"
	// ContainerError is one that could not be started, and will not be until
	// somebody asks for it again by setting it to pending.
	ContainerError ContainerState = "error"
)

// ContainerStatus is what is told of one container.
type ContainerStatus struct {
	ID    string
	State ContainerState
	// Message is for people: one line, without secrets.
	Message string
}

// Constraints are what a container is to have at least; zero is for no wish.
type Constraints struct {
	// Cores is a number of CPUs.
	Cores uint64
	// Memory and RootDisk are in MiB.
	Memory, RootDisk uint64
	// Arch is a processor architecture such as "amd64".
	Arch string
}

// ContainerProvisioningInfo is what a container is made from.
type ContainerProvisioningInfo struct {
	// Base is the operating system.
	Base Base
	// Constraints are its size.
	Constraints Constraints
	// UserData is the cloud-init user data that makes the instance an agent;
	// it holds a password.
	UserData Secret
	// Nonce is what the instance proves with that it was meant to be
	// started.
	Nonce string
	// Tags are put on the instance.
	Tags map[string]string
	// Placement and the like are in Attributes, for the back end to
	// understand.
	Attributes map[string]string
}

// Validate returns errors.NotValid, naming the field, when no instance can be
// made from it.
func (i ContainerProvisioningInfo) Validate() error {
	switch {
	case i.Base.Name == "":
		return errors.NotValidf("container provisioning info with empty Base.Name")
	case i.Base.Channel == "":
		return errors.NotValidf("container provisioning info with empty Base.Channel")
	}
	return nil
}

// ContainerProvisioningResult is one answer of Containers.ProvisioningInfo.
type ContainerProvisioningResult struct {
	ID   string
	Info ContainerProvisioningInfo
	// Err is set instead of Info.
	Err error
}

// Hardware is what an instance has; zero is for not known.
type Hardware struct {
	Cores            uint64
	Memory, RootDisk uint64 // in MiB
	Arch             string
}

// InstanceInfo records which instance is a container's.
type InstanceInfo struct {
	ID         string // of the container
	InstanceID string
	Nonce      string
	Hardware   Hardware
	Interfaces []NetworkInterface
}

// InterfaceType is a kind of network interface.
type InterfaceType string

// Kinds of network interfaces. Others are passed on as they are.
const (
	EthernetInterface InterfaceType = "ethernet"
	LoopbackInterface InterfaceType = "loopback"
	BridgeInterface   InterfaceType = "bridge"
	BondInterface     InterfaceType = "bond"
	VLANInterface     InterfaceType = "vlan"
)

// NetworkInterface is one network interface, of a host or of a container.
type NetworkInterface struct {
	// Index is the kernel's number of it, from 1; 0 where there is none.
	Index int
	// Name is its name in the kernel, 15 bytes at most.
	Name string
	// MAC is its hardware address; empty where it has none.
	MAC string
	// MTU is in bytes; 0 is for the default.
	MTU int
	// Type is its kind.
	Type InterfaceType
	// Parent is the interface that it is part of, or on top of: the bridge
	// of a port, the bond of a member, the device of a VLAN.
	Parent string
	// Addresses are in CIDR form, as in "10.0.0.5/24".
	Addresses []string
	// Gateway is the address of its default route, without a zone; empty for
	// none.
	Gateway string
	// DNS are the addresses of its name servers, without zones.
	DNS []string
	// Up tells whether it is switched on.
	Up bool
}

// maxInterfaceName is the kernel's limit in bytes.
const maxInterfaceName = 15

// Validate returns errors.NotValid, naming the field and the rule, for what no
// interface can be.
func (i NetworkInterface) Validate() error {
	if err := validateInterfaceName(i.Name); err != nil {
		return errors.Annotate(err, "Name")
	}
	if i.Index < 0 || i.MTU < 0 {
		return errors.NotValidf("interface %q: negative Index or MTU", i.Name)
	}
	if i.Parent != "" {
		if err := validateInterfaceName(i.Parent); err != nil {
			return errors.Annotatef(err, "interface %q: Parent", i.Name)
		}
	}
	if i.MAC != "" {
		if _, err := net.ParseMAC(i.MAC); err != nil {
			return errors.NotValidf("interface %q: MAC %q", i.Name, truncate(i.MAC))
		}
	}
	for n, addr := range i.Addresses {
		if _, err := netip.ParsePrefix(addr); err != nil {
			return errors.NotValidf("interface %q: Addresses[%d] %q (want CIDR)", i.Name, n, truncate(addr))
		}
	}
	if i.Gateway != "" {
		if !isAddress(i.Gateway) {
			return errors.NotValidf("interface %q: Gateway %q", i.Name, truncate(i.Gateway))
		}
	}
	for n, addr := range i.DNS {
		if !isAddress(addr) {
			return errors.NotValidf("interface %q: DNS[%d] %q", i.Name, n, truncate(addr))
		}
	}
	return nil
}

// isAddress refuses zones, which may hold anything and end up in a host's
// configuration files.
func isAddress(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Zone() == ""
}

// DeviceToBridge is a device of a host and the bridge that it is to be under.
type DeviceToBridge struct {
	// Device is the name of the device.
	Device string
	// MAC is its hardware address; empty where it does not matter.
	MAC string
	// Bridge is the name of the bridge.
	Bridge string
}

// Validate returns errors.NotValid, naming the field and the rule: valid names,
// and not the same twice.
func (d DeviceToBridge) Validate() error {
	if err := validateInterfaceName(d.Device); err != nil {
		return errors.Annotate(err, "Device")
	}
	if err := validateInterfaceName(d.Bridge); err != nil {
		return errors.Annotate(err, "Bridge")
	}
	if d.Bridge == d.Device {
		return errors.NotValidf("Bridge %q of the device of that name", d.Bridge)
	}
	if d.MAC != "" {
		if _, err := net.ParseMAC(d.MAC); err != nil {
			return errors.NotValidf("MAC %q", truncate(d.MAC))
		}
	}
	return nil
}

// maxReconfigureDelay bounds what a controller may have a host wait for while
// its lock is held.
const maxReconfigureDelay = 5 * time.Minute

// Validate returns errors.NotValid, naming the field and the rule: every device
// once, valid names, a delay between 0 and 5 minutes.
func (c HostChanges) Validate() error {
	if c.ReconfigureDelay < 0 || c.ReconfigureDelay > maxReconfigureDelay {
		return errors.NotValidf("ReconfigureDelay %s (want 0 to %s)", c.ReconfigureDelay, maxReconfigureDelay)
	}
	seen := make(map[string]bool, len(c.Devices))
	for n, d := range c.Devices {
		if err := d.Validate(); err != nil {
			return errors.Annotatef(err, "Devices[%d]", n)
		}
		if seen[d.Device] {
			return errors.NotValidf("Devices[%d]: device %q named twice", n, d.Device)
		}
		seen[d.Device] = true
	}
	for n, d := range c.Devices {
		if seen[d.Bridge] {
			return errors.NotValidf("Devices[%d]: bridge %q is to be bridged itself", n, d.Bridge)
		}
	}
	return nil
}

// validateInterfaceName holds the kernel's rules.
func validateInterfaceName(name string) error {
	if name == "" || len(name) > maxInterfaceName || name == "." || name == ".." {
		return errors.NotValidf("interface name %q (want 1 to %d bytes)", truncate(name), maxInterfaceName)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == '/' || c == ':' {
			return errors.NotValidf("interface name %q", truncate(name))
		}
	}
	return nil
}
