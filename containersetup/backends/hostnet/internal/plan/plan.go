// Package plan has what the readers of network configuration share: their input
// and output, and what a name may be.
package plan

import (
	"bytes"
	"net"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// maxFile bounds one file in bytes; the largest real ones have a few thousand.
const maxFile = 256 << 10

// Bridging puts Device under Bridge.
type Bridging struct {
	// Device is the kernel's name of the device, Bridge that of the bridge.
	Device, Bridge string
	// MAC is the device's hardware address, which the bridge takes over so that
	// a DHCP server still knows the host. When it is empty the bridge has the
	// one that the files give the device, if any.
	MAC string
}

// Validate returns errors.NotValid, naming the field and the rule. It is stricter
// than the kernel, since names are written where wildcards, quotes and the like
// have a meaning.
func (b Bridging) Validate() error {
	if err := (facade.DeviceToBridge{Device: b.Device, MAC: b.MAC, Bridge: b.Bridge}).Validate(); err != nil {
		return errors.Trace(err)
	}
	if err := validateName(b.Device); err != nil {
		return errors.Annotate(err, "Device")
	}
	if err := validateName(b.Bridge); err != nil {
		return errors.Annotate(err, "Bridge")
	}
	if b.MAC != "" && CanonicalMAC(b.MAC) == "" {
		return errors.NotValidf("MAC %q (want six bytes)", b.MAC)
	}
	return nil
}

// ValidateAll returns errors.NotValid for one that is not valid, for a device or
// a bridge that is there twice, and for one that is both.
func ValidateAll(bridgings []Bridging) error {
	devices, bridges := make(map[string]bool), make(map[string]bool)
	for _, b := range bridgings {
		if err := b.Validate(); err != nil {
			return errors.Trace(err)
		}
		if devices[b.Device] {
			return errors.NotValidf("device %q named twice", b.Device)
		}
		if bridges[b.Bridge] {
			return errors.NotValidf("bridge %q named for two devices", b.Bridge)
		}
		devices[b.Device], bridges[b.Bridge] = true, true
	}
	for _, b := range bridgings {
		if devices[b.Bridge] {
			return errors.NotValidf("bridge %q is to be bridged itself", b.Bridge)
		}
	}
	return nil
}

// validateName takes letters, digits and a few marks; a letter or a digit first.
func validateName(name string) error {
	for i, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && bytes.IndexByte([]byte("._-+@"), c) >= 0:
		default:
			return errors.NotValidf("interface name %q (want letters, digits and ._-+@)", name)
		}
	}
	return nil
}

// CanonicalMAC returns a hardware address of six bytes in lower case with
// colons, or nothing when s is none.
func CanonicalMAC(s string) string {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return ""
	}
	return hw.String()
}

// File is one configuration file.
type File struct {
	// Name is absolute.
	Name string
	// Data is the whole content.
	Data []byte
}

// Validate returns errors.NotValid for a file without a name, or one that no
// tool would have written.
func (f File) Validate() error {
	switch {
	case f.Name == "":
		return errors.NotValidf("file with empty Name")
	case len(f.Data) > maxFile:
		return Invalid(f.Name, 0, "file of %d bytes (want %d at most)", len(f.Data), maxFile)
	case bytes.IndexByte(f.Data, 0) >= 0:
		return Invalid(f.Name, 1+bytes.Count(f.Data[:bytes.IndexByte(f.Data, 0)], []byte("\n")), "zero byte")
	}
	return nil
}

// ValidateFiles also refuses the same name twice.
func ValidateFiles(files []File) error {
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		if err := f.Validate(); err != nil {
			return errors.Trace(err)
		}
		if seen[f.Name] {
			return errors.NotValidf("file %q given twice", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}
