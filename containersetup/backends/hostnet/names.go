package hostnet

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
)

// maxName is the kernel's limit of an interface's name in bytes.
const maxName = 15

// BridgeName returns the name of the bridge that a device is to be under when nobody has
// said another: "br-" and the device's. Where that would be too long, the beginning of
// the device's name gives way to a digest of it, so that no two devices share a bridge by
// being cut.
func BridgeName(device string) string {
	const prefix = "br-"
	if len(prefix)+len(device) <= maxName {
		return prefix + device
	}
	digest := sha256.Sum256([]byte(device))
	head := prefix + hex.EncodeToString(digest[:3]) + "-"
	return head + device[len(device)-(maxName-len(head)):]
}

// Bridges of those who run containers: their names begin so, with digits after it, or
// with anything.
var (
	containerBridge = regexp.MustCompile(`^(lxdbr|lxcbr|virbr|docker|podman|cni-podman|cni|incusbr)[0-9]|^docker_gwbridge$|^lxdfan`)
	// Docker's networks that people made.
	dockerBridge = regexp.MustCompile(`^br-[0-9a-f]{12}$`)
	// Taps of virtual machines: libvirt's and LXD's.
	tapName = regexp.MustCompile(`^(vnet[0-9]+|tap[0-9a-f]+)$`)
)

// rules tell what belongs to containers.
type rules struct {
	state   kernel.State
	bridges []string
}

// containerBridge tells whether a link is a bridge of those who run containers.
func (r rules) containerBridge(name string) bool {
	l, ok := r.state.Link(name)
	if !ok || l.Kind != kernel.Bridge {
		return false
	}
	return slices.Contains(r.bridges, name) || containerBridge.MatchString(name) || dockerBridge.MatchString(name)
}

// containerEnd tells whether a link is the host's end of what a container or a virtual
// machine is connected by.
//
// A veth pair whose other end is in another namespace alone says little: so is the
// device of a host that is itself a container.
func (r rules) containerEnd(l kernel.Link) bool {
	switch {
	case l.Kind != kernel.Veth && l.Kind != kernel.Tun:
		return false
	case l.Master != "" && r.containerBridge(l.Master):
		return true
	case l.Kind == kernel.Tun:
		return l.Master != "" || tapName.MatchString(l.Name)
	case !l.PeerElsewhere:
		return false
	case strings.HasPrefix(l.Name, "veth"):
		return true
	case l.Master == "":
		return false
	}
	// A bridge that we made has the MAC of its device. Those who run containers see to
	// it that no bridge takes theirs.
	master, _ := r.state.Link(l.Master)
	return master.MAC != l.MAC
}

// own tells whether a link is the host's own: neither a container's end nor a bridge for
// containers.
func (r rules) own(l kernel.Link) bool { return !r.containerEnd(l) && !r.containerBridge(l.Name) }
