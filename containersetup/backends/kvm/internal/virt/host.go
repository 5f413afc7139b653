package virt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
	"libvirt.org/go/libvirtxml"
)

// Version is a version of libvirt's, such as 9000000 for 9.0.0.
type Version uint64

// String returns it as people write it.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v/1e6, v/1e3%1e3, v%1e3) }

// Version returns that of the daemon. It is the least that a daemon can be asked, and
// shows whether it answers.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return c.version(ctx, c.config.CallTimeout)
}

func (c *Client) version(ctx context.Context, limit time.Duration) (Version, error) {
	version, err := timed(ctx, c, limit, (*libvirt.Libvirt).ConnectGetLibVersion)
	return Version(version), errors.Annotate(err, "version of libvirt")
}

// Capabilities are what the host can run.
type Capabilities struct {
	// Arch is the host's architecture by libvirt's name: "x86_64", "aarch64", ...
	Arch string
	// Guests are what can be run, one for each architecture and kind of system.
	Guests []Guest
}

// Guest is a kind of guest that the host can run.
type Guest struct {
	// Arch is by libvirt's name, and OSType is "hvm", or one that nobody wants.
	Arch, OSType string
	// Emulator is the path of the program.
	Emulator string
	// Types are those of domains: "qemu" is emulation by software, "kvm" needs
	// /dev/kvm.
	Types []string
}

// Accelerated tells whether it can be run by the processor itself.
func (g Guest) Accelerated() bool { return slices.Contains(g.Types, "kvm") }

// Guest returns what runs whole machines of an architecture, and whether there is one.
func (c Capabilities) Guest(arch string) (Guest, bool) {
	for _, guest := range c.Guests {
		if guest.Arch == arch && guest.OSType == "hvm" {
			return guest, true
		}
	}
	return Guest{}, false
}

// Capabilities returns what the host can run. libvirt finds that out anew when the
// emulators have changed, which may take seconds.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	text, err := ask(ctx, c, (*libvirt.Libvirt).ConnectGetCapabilities)
	if err != nil {
		return Capabilities{}, errors.Annotate(err, "capabilities of libvirt")
	}
	var raw libvirtxml.Caps
	if err := raw.Unmarshal(text); err != nil {
		return Capabilities{}, errors.New("capabilities of libvirt do not have the form that they should have")
	}
	var capabilities Capabilities
	if raw.Host.CPU != nil {
		capabilities.Arch = raw.Host.CPU.Arch
	}
	for _, guest := range raw.Guests {
		g := Guest{Arch: guest.Arch.Name, OSType: guest.OSType, Emulator: guest.Arch.Emulator}
		for _, domain := range guest.Arch.Domains {
			g.Types = append(g.Types, domain.Type)
		}
		capabilities.Guests = append(capabilities.Guests, g)
	}
	return capabilities, nil
}

// Node is the machine that the daemon runs on.
type Node struct {
	// Arch is its architecture, by the kernel's name.
	Arch string
	// Memory is all that it has, in bytes.
	Memory uint64
	// CPUs are those that are online.
	CPUs int
}

// Node returns what the machine has.
func (c *Client) Node(ctx context.Context) (Node, error) {
	node, err := ask(ctx, c, func(lv *libvirt.Libvirt) (Node, error) {
		model, memory, cpus, _, _, _, _, _, err := lv.NodeGetInfo()
		if err != nil {
			return Node{}, err
		}
		var arch []byte
		for _, char := range model {
			if char == 0 {
				break
			}
			arch = append(arch, byte(char))
		}
		return Node{Arch: string(arch), Memory: memory << 10, CPUs: int(cpus)}, nil
	})
	return node, errors.Annotate(err, "asking libvirt about the machine")
}
