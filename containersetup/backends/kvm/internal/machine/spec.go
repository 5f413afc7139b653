package machine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// Defaults of what an instance has, where nothing is asked for.
const (
	DefaultMemory   = 512  // MiB
	DefaultCores    = 1    // CPUs
	DefaultRootDisk = 8192 // MiB
	DefaultArch     = "amd64"
)

// Bounds of what can be asked for. They keep nonsense out; what the host has is less.
const (
	MinMemory   = 64       // MiB
	MaxMemory   = 16 << 20 // MiB
	MaxCores    = 255      // without an I/O MMU
	MaxRootDisk = 64 << 20 // MiB
)

// MaxName is the greatest length of a domain's name in bytes.
const MaxName = 63

// Spec is a virtual machine.
type Spec struct {
	// Name is the domain's and its instance's, a letter first, then letters, digits
	// and dashes; [MaxName] bytes at most. Required.
	Name string
	// Metadata ties it to a container. Required.
	Metadata Metadata

	// Accelerated has the processor run the machine; otherwise software does.
	Accelerated bool
	// Arch is amd64 (the default), arm64, ppc64el or s390x.
	Arch string
	// Memory is in MiB, [DefaultMemory] by default.
	Memory uint64
	// Cores is how many CPUs it has, [DefaultCores] by default.
	Cores uint64
	// RootDisk is the size of its disk in MiB, for the metadata alone;
	// [DefaultRootDisk] by default.
	RootDisk uint64

	// Disk is the path of the qcow2 image that it has for a disk. Required.
	Disk string
	// Seed is the path of the image from which cloud-init sets it up, as [Seed] makes it;
	// it cannot be written to. None if empty.
	Seed string
	// Console is the path of a log of what the serial console shows; none if empty.
	Console string

	// Interfaces are its network interfaces, in the order that the guest finds them in.
	Interfaces []Interface
}

// Interface is a network interface and what it is on.
type Interface struct {
	facade.NetworkInterface
	// Network is the libvirt network that it is on. Where it is empty, it is on the
	// host's bridge that its Parent names.
	Network string
}

// Metadata is what a domain's own element tells.
type Metadata struct {
	// ModelUUID, ControllerUUID and ContainerID are whose domain it is.
	ModelUUID, ControllerUUID, ContainerID string
	// Tags are the controller's.
	Tags map[string]string
}

var (
	domainName  = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	networkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
)

// WithDefaults returns the spec with defaults where it says nothing, and with a MAC for
// each interface that has none.
func (s Spec) WithDefaults() Spec {
	s.Arch = cmp.Or(s.Arch, DefaultArch)
	s.Memory = cmp.Or(s.Memory, DefaultMemory)
	s.Cores = cmp.Or(s.Cores, DefaultCores)
	s.RootDisk = cmp.Or(s.RootDisk, DefaultRootDisk)
	s.Interfaces = slices.Clone(s.Interfaces)
	for n := range s.Interfaces {
		i := &s.Interfaces[n]
		if i.MAC == "" {
			i.MAC = MAC(s.Metadata, n)
		}
		i.MAC = strings.ToLower(i.MAC)
	}
	return s
}

// Validate returns errors.NotValid, naming the first field that is missing or wrong.
func (s Spec) Validate() error {
	if !domainName.MatchString(s.Name) {
		return errors.NotValidf("Name %q (want a letter, then letters, digits and dashes; %d bytes at most)", shortened(s.Name), MaxName)
	}
	if err := s.Metadata.Validate(); err != nil {
		return errors.Annotate(err, "Metadata")
	}
	if _, err := platformOf(s.Arch); err != nil {
		return err
	}
	switch {
	case s.Memory != 0 && (s.Memory < MinMemory || s.Memory > MaxMemory):
		return errors.NotValidf("Memory of %d MiB (want %d to %d)", s.Memory, MinMemory, MaxMemory)
	case s.Cores > MaxCores:
		return errors.NotValidf("Cores %d (want %d at most)", s.Cores, MaxCores)
	case s.RootDisk > MaxRootDisk:
		return errors.NotValidf("RootDisk of %d MiB (want %d at most)", s.RootDisk, MaxRootDisk)
	case s.Disk == "":
		return errors.NotValidf("empty Disk")
	}
	for field, path := range map[string]string{"Disk": s.Disk, "Seed": s.Seed, "Console": s.Console} {
		if path != "" && (!filepath.IsAbs(path) || !text(path)) {
			return errors.NotValidf("%s %q (want an absolute path)", field, shortened(path))
		}
	}
	return s.validateInterfaces()
}

func (s Spec) validateInterfaces() error {
	names, macs := map[string]bool{}, map[string]bool{}
	for n, i := range s.WithDefaults().Interfaces {
		if err := i.NetworkInterface.Validate(); err != nil {
			return errors.Annotatef(err, "Interfaces[%d]", n)
		}
		mac, err := net.ParseMAC(i.MAC)
		switch {
		case err != nil || len(mac) != 6 || mac.String() != i.MAC || mac[0]&1 != 0:
			return errors.NotValidf("Interfaces[%d]: MAC %q (want six bytes in hex with colons, not of a group)", n, shortened(i.MAC))
		case i.MTU != 0 && (i.MTU < 68 || i.MTU > 65535):
			return errors.NotValidf("Interfaces[%d]: MTU %d (want 68 to 65535)", n, i.MTU)
		case i.Network == "" && i.Parent == "":
			return errors.NotValidf("Interfaces[%d]: empty Network and empty Parent", n)
		case i.Network != "" && !networkName.MatchString(i.Network):
			return errors.NotValidf("Interfaces[%d]: Network %q", n, shortened(i.Network))
		case names[i.Name]:
			return errors.NotValidf("Interfaces[%d]: Name %q, which another one has,", n, i.Name)
		case macs[i.MAC]:
			return errors.NotValidf("Interfaces[%d]: MAC %q, which another one has,", n, i.MAC)
		}
		names[i.Name], macs[i.MAC] = true, true
	}
	return nil
}

// Validate returns errors.NotValid, naming the field.
func (m Metadata) Validate() error {
	for _, field := range []struct{ name, value string }{
		{"ModelUUID", m.ModelUUID}, {"ControllerUUID", m.ControllerUUID}, {"ContainerID", m.ContainerID},
	} {
		if field.value == "" || len(field.value) > 1024 || !text(field.value) {
			return errors.NotValidf("%s %q", field.name, shortened(field.value))
		}
	}
	for key, value := range m.Tags {
		if key == "" || len(key) > 255 || !text(key) {
			return errors.NotValidf("Tags[%q]", shortened(key))
		}
		if len(value) > 4096 || !xmlText(value) {
			return errors.NotValidf("value of Tags[%q]", shortened(key))
		}
	}
	return nil
}

// UUID returns the UUID of the domain for a container: always the same, and another one
// for every other.
func UUID(m Metadata) string {
	sum := digest(m, "domain")
	// Of version 8, which is for those who make them in ways of their own.
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// MAC returns the address of a container's interface of that index, where none was given:
// always the same, and as good as certainly another one than those around it.
func MAC(m Metadata, index int) string {
	sum := digest(m, fmt.Sprintf("interface %d", index))
	return net.HardwareAddr{0x52, 0x54, 0x00, sum[0], sum[1], sum[2]}.String()
}

func digest(m Metadata, of string) [sha256.Size]byte {
	// The model too: container 0/kvm/0 is in every one, and their bridges may be on one
	// wire.
	return sha256.Sum256([]byte(strings.Join([]string{strings.ToLower(m.ModelUUID), m.ContainerID, of}, "\x00")))
}

// text tells whether a text can be in XML, and in one line of a log.
func text(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// xmlText tells whether a text comes out of XML as it went in.
func xmlText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0x7f || r == utf8.RuneError || r == 0xfffe || r == 0xffff
	})
}

func shortened(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
