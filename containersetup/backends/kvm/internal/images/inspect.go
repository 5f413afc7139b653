package images

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// qemuImg is the program that knows images.
const qemuImg = "qemu-img"

// Formats of base images.
const (
	formatQCOW2 = "qcow2"
	formatRaw   = "raw"
)

// inspect returns what image a file has, or errors.NotValid.
func (s *Store) inspect(ctx context.Context, path string) (Image, error) {
	format, err := formatOf(path)
	if err != nil {
		return Image{}, err
	}
	// The format is told and not left to be found out, so that a raw image is not taken
	// for what its first bytes look like.
	look := host.Look(qemuImg, "info", "--output=json", "-f", format, path)
	look.Timeout = 30 * time.Second
	out, err := s.config.Host.Run(ctx, look)
	if _, ran := host.ExitCode(err); ran {
		return Image{}, errors.WithType(errors.Annotate(err, "not an image"), errors.NotValid)
	}
	if err != nil {
		return Image{}, err
	}
	var info struct {
		Format      string          `json:"format"`
		VirtualSize uint64          `json:"virtual-size"`
		Encrypted   bool            `json:"encrypted"`
		Backing     json.RawMessage `json:"backing-filename"`
		FullBacking json.RawMessage `json:"full-backing-filename"`
		Specific    struct {
			Data struct {
				DataFile json.RawMessage `json:"data-file"`
				Corrupt  bool            `json:"corrupt"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out.Stdout, &info); err != nil {
		return Image{}, errors.Annotate(err, "what qemu-img says of the image")
	}
	switch {
	case info.Format != format:
		return Image{}, errors.NotValidf("image of format %q", info.Format)
	case info.Backing != nil || info.FullBacking != nil:
		return Image{}, errors.NotValidf("image with a backing file")
	case info.Specific.Data.DataFile != nil:
		return Image{}, errors.NotValidf("image with its data in another file")
	case info.Encrypted:
		return Image{}, errors.NotValidf("encrypted image")
	case info.Specific.Data.Corrupt:
		return Image{}, errors.NotValidf("image that is marked as corrupt")
	case info.VirtualSize == 0 || info.VirtualSize > maxSize:
		return Image{}, errors.NotValidf("image of a disk of %d bytes (want 1 to %d)", info.VirtualSize, uint64(maxSize))
	}
	return Image{Path: path, Format: format, VirtualSize: info.VirtualSize}, nil
}

// Magic numbers.
const (
	qcow2Magic     = "QFI\xfb"
	bootSignature  = "\x55\xaa"
	bootAt         = 510
	dataFileHeader = 0x44415441 // the extension that names a file with the data
)

// formatOf returns the format of an image by its first bytes, and refuses one that names
// another file: that is seen to here, since qemu-img opens some of those files itself.
func formatOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	// All of a header that is of any known length is in a cluster, of 64 KiB mostly.
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return "", err
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte(qcow2Magic)) {
		return formatQCOW2, checkQCOW2(head)
	}
	if len(head) >= 512 && string(head[bootAt:512]) == bootSignature {
		return formatRaw, nil
	}
	return "", errors.NotValidf("file that is no image: neither qcow2, nor raw with a boot sector: it")
}

// checkQCOW2 judges a header; numbers in it are big endian.
func checkQCOW2(head []byte) error {
	const (
		oldLength    = 72
		newLength    = 104
		externalData = 1 << 2
	)
	if len(head) < oldLength {
		return errors.NotValidf("qcow2 image that ends in its header")
	}
	version := binary.BigEndian.Uint32(head[4:])
	if version != 2 && version != 3 {
		return errors.NotValidf("qcow2 image of version %d", version)
	}
	if binary.BigEndian.Uint64(head[8:]) != 0 || binary.BigEndian.Uint32(head[16:]) != 0 {
		return errors.NotValidf("image with a backing file")
	}
	at := uint64(oldLength)
	if version == 3 {
		if len(head) < newLength {
			return errors.NotValidf("qcow2 image that ends in its header")
		}
		if binary.BigEndian.Uint64(head[72:])&externalData != 0 {
			return errors.NotValidf("image with its data in another file")
		}
		if at = uint64(binary.BigEndian.Uint32(head[100:])); at < newLength {
			return errors.NotValidf("qcow2 image with a header of %d bytes", at)
		}
	}
	// Extensions: a kind, a length, and so many bytes up to a multiple of 8.
	for {
		if at+8 > uint64(len(head)) {
			return errors.NotValidf("qcow2 image without an end to its header")
		}
		kind := binary.BigEndian.Uint32(head[at:])
		length := uint64(binary.BigEndian.Uint32(head[at+4:]))
		switch kind {
		case 0:
			return nil
		case dataFileHeader:
			return errors.NotValidf("image with its data in another file")
		}
		at += 8 + (length+7)/8*8
	}
}
