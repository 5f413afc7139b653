package images

import (
	"context"
	"os"
	"strconv"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// Image is a base image.
type Image struct {
	// Path is where it is.
	Path string
	// Format is "qcow2" or "raw".
	Format string
	// VirtualSize is that of the disk in it, in bytes.
	VirtualSize uint64
}

// Overlay makes an instance's disk, of that size in MiB, which has the base image's content
// and keeps what is written to it for itself, and returns its path. One that is there
// already is errors.AlreadyExists, and left alone. A disk that is smaller than the image is
// errors.NotValid, naming both sizes; one that could not be filled as things stand is
// [ErrNoSpace].
func (s *Store) Overlay(ctx context.Context, base Image, name string, sizeMiB uint64) (string, error) {
	files, err := s.Files(name)
	if err != nil {
		return "", err
	}
	switch {
	case base.Path == "" || base.Format != formatQCOW2 && base.Format != formatRaw:
		return "", errors.NotValidf("base image %q of format %q", base.Path, base.Format)
	case sizeMiB > maxSize>>20:
		return "", errors.NotValidf("disk of %d MiB for %q (want %d at most)", sizeMiB, name, uint64(maxSize>>20))
	case sizeMiB<<20 < base.VirtualSize:
		return "", errors.NotValidf("disk of %d MiB for %q, smaller than its image of %d MiB,", sizeMiB, name, mebibytes(base.VirtualSize))
	}
	path, err := s.overlay(ctx, base, files.Disk, sizeMiB)
	return path, errors.Annotatef(err, "disk of %q", name)
}

func (s *Store) overlay(ctx context.Context, base Image, path string, sizeMiB uint64) (string, error) {
	if err := s.begin(sizeMiB << 20); err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", errors.AlreadyExistsf("%s", path)
	}
	if _, err := os.Stat(base.Path); err != nil {
		return "", errors.Annotate(err, "base image")
	}
	temp := half(path)
	_ = os.Remove(temp)
	_, err := s.config.Host.Run(ctx, host.Do(qemuImg, "create", "-q", "-f", formatQCOW2,
		"-F", base.Format, "-b", base.Path, temp, strconv.FormatUint(sizeMiB, 10)+"M"))
	if err == nil {
		err = os.Chmod(temp, privateMode)
	}
	if err != nil {
		_ = os.Remove(temp)
		return "", noSpace(err)
	}
	return path, putInPlace(temp, path)
}
