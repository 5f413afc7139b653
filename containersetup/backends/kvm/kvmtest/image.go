package kvmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
)

// BootImage is the image of a virtual machine.
type BootImage struct {
	// Path is the file, in qcow2 format. It is shared: nobody writes to it.
	Path string
	// SHA256 is its digest, in hexadecimal.
	SHA256 string
	// Size is the file's, in bytes.
	Size int64
}

// Image returns a guest that boots in ten seconds without acceleration, and makes it if that
// has not been done on this machine. It needs an x86_64 BIOS and 128 MiB; it drives virtio
// and IDE devices, and no SATA ones. testbed/libvirt-guest tells what it does and what it
// prints on its serial console.
func Image(t testing.TB) BootImage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(scripts(), "libvirt-guest")).Output()
	if err != nil {
		need.Missing(t, "kvm", "no image of a guest: testbed/libvirt-guest makes it: "+said(err))
	}
	image := BootImage{Path: filepath.Join(strings.TrimSpace(string(out)), "disk.qcow2")}
	file, err := os.Open(image.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	if image.Size, err = io.Copy(digest, file); err != nil {
		t.Fatal(err)
	}
	image.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return image
}

// said is what a command that failed has said about it.
func said(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return lines[len(lines)-1]
	}
	return err.Error()
}
