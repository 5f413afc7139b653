package images_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

// qcow2 returns the beginning of an image, with changes; the header's extensions begin at
// byte 104.
func qcow2(change func(head []byte)) []byte {
	head := make([]byte, 1024)
	copy(head, "QFI\xfb")
	binary.BigEndian.PutUint32(head[4:], 3)
	binary.BigEndian.PutUint32(head[20:], 16)
	binary.BigEndian.PutUint64(head[24:], 1<<30)
	binary.BigEndian.PutUint32(head[100:], 104)
	if change != nil {
		change(head)
	}
	return head
}

func extension(head []byte, at int, kind, length uint32) {
	binary.BigEndian.PutUint32(head[at:], kind)
	binary.BigEndian.PutUint32(head[at+4:], length)
}

const dataFile = 0x44415441

// TestImagesAreJudgedBeforeAnyProgramOpensThem has what is dangerous never get to
// qemu-img.
func TestImagesAreJudgedBeforeAnyProgramOpensThem(t *testing.T) {
	for name, test := range map[string]struct {
		data  []byte
		valid bool
		says  string
	}{
		"raw":                             {data: rawImage(1, 4*kib), valid: true},
		"raw of a sector":                 {data: rawImage(1, 512), valid: true},
		"qcow2":                           {data: qcow2(nil), valid: true},
		"qcow2 of version 2":              {data: qcow2(func(h []byte) { h[7] = 2 }), valid: true},
		"qcow2 with a longer header":      {data: qcow2(func(h []byte) { h[103] = 112 }), valid: true},
		"qcow2 with extensions":           {data: qcow2(func(h []byte) { extension(h, 104, 0x6803f857, 144); extension(h, 256, 1, 3) }), valid: true},
		"nothing":                         {data: nil, says: "neither qcow2"},
		"a page":                          {data: []byte("<html>"), says: "neither qcow2"},
		"raw without a boot sector":       {data: make([]byte, 4*kib), says: "neither qcow2"},
		"another kind of image":           {data: append([]byte("KDMV"), make([]byte, 1000)...), says: "neither qcow2"},
		"no more than the magic":          {data: []byte("QFI\xfb"), says: "ends in its header"},
		"no more than half a header":      {data: qcow2(nil)[:100], says: "ends in its header"},
		"no more than a header":           {data: qcow2(nil)[:104], says: "without an end"},
		"qcow1":                           {data: qcow2(func(h []byte) { h[7] = 1 }), says: "version 1"},
		"qcow9":                           {data: qcow2(func(h []byte) { h[7] = 9 }), says: "version 9"},
		"header of no length":             {data: qcow2(func(h []byte) { h[103] = 0 }), says: "header of 0 bytes"},
		"header that is longer than all":  {data: qcow2(func(h []byte) { h[100] = 0xff }), says: "without an end"},
		"backing file":                    {data: qcow2(func(h []byte) { h[14] = 2; h[19] = 11; copy(h[512:], "/etc/passwd") }), says: "backing file"},
		"backing file of version 2":       {data: qcow2(func(h []byte) { h[7] = 2; h[14] = 2; h[19] = 11 }), says: "backing file"},
		"backing file without a name":     {data: qcow2(func(h []byte) { h[14] = 2 }), says: "backing file"},
		"backing file that is nowhere":    {data: qcow2(func(h []byte) { h[19] = 11 }), says: "backing file"},
		"data in another file":            {data: qcow2(func(h []byte) { h[79] = 4 }), says: "another file"},
		"data in another file, unsaid":    {data: qcow2(func(h []byte) { extension(h, 104, dataFile, 11) }), says: "another file"},
		"data in another file, last":      {data: qcow2(func(h []byte) { extension(h, 104, 1, 3); extension(h, 120, dataFile, 11) }), says: "another file"},
		"data in another file, version 2": {data: qcow2(func(h []byte) { h[7] = 2; extension(h, 72, dataFile, 11) }), says: "another file"},
		"extension that never ends":       {data: qcow2(func(h []byte) { extension(h, 104, 1, 0xffffffff) }), says: "without an end"},
		"no disk":                         {data: qcow2(func(h []byte) { clear(h[24:32]) }), says: "0 bytes"},
		"disk larger than anything":       {data: qcow2(func(h []byte) { h[24] = 0x7f }), says: "1099511627776"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			source := w.serve(test.data)
			if test.valid {
				w.expectFetched(source, test.data)
				return
			}
			_, err := w.store.Fetch(t.Context(), source)
			expectError(t, err, errors.NotValid, test.says)
			w.expectFiles(".lock")
			if looked := len(w.host.Log()); looked > 0 && binary.BigEndian.Uint64(append(slices.Clone(test.data), make([]byte, 32)...)[24:]) == 1<<30 {
				t.Errorf("looked at by %q", w.host.Log())
			}
		})
	}
}

// TestWhatQemuSaysIsHeeded has a second line of defence: what this package does not see in
// a header.
func TestWhatQemuSaysIsHeeded(t *testing.T) {
	for says, want := range map[string]string{
		`{"virtual-size": 1024, "format": "qcow2", "backing-filename": "/etc/passwd"}`:                         "backing file",
		`{"virtual-size": 1024, "format": "qcow2", "full-backing-filename": "/etc/passwd"}`:                    "backing file",
		`{"virtual-size": 1024, "format": "qcow2", "format-specific": {"data": {"data-file": "/etc/passwd"}}}`: "another file",
		`{"virtual-size": 1024, "format": "qcow2", "encrypted": true}`:                                         "encrypted",
		`{"virtual-size": 1024, "format": "qcow2", "format-specific": {"data": {"corrupt": true}}}`:            "corrupt",
		`{"virtual-size": 1024, "format": "vmdk"}`:                                                             `"vmdk"`,
		`{"virtual-size": 2199023255552, "format": "qcow2"}`:                                                   "2199023255552",
	} {
		w := newWorld(t)
		w.host.On(hosttest.Print(says), "qemu-img", "info")
		_, err := w.store.Fetch(t.Context(), w.serve(qcow2(nil)))
		expectError(t, err, errors.NotValid, want)
		w.expectFiles(".lock")
	}

	w := newWorld(t)
	w.host.On(hosttest.Exit(1, "qemu-img: Could not open 'x': Image is corrupt"), "qemu-img", "info")
	_, err := w.store.Fetch(t.Context(), w.serve(qcow2(nil)))
	expectError(t, err, errors.NotValid, "Image is corrupt")
	w.expectFiles(".lock")
}

// TestWithoutQemuADownloadStays: it is not the image that is wrong.
func TestWithoutQemuADownloadStays(t *testing.T) {
	w, data := newWorld(t), qcow2(nil)
	source := w.serve(data)
	w.config.Host = &hosttest.Host{}
	_, err := w.another().Fetch(t.Context(), source)
	expectError(t, err, errors.NotFound, "qemu-img")
	w.expectFiles(filepath.Base(w.part(data)), ".lock")

	broken := &hosttest.Host{}
	broken.On(hosttest.Print("what?"), "qemu-img", "info")
	w.config.Host = broken
	_, err = w.another().Fetch(t.Context(), source)
	expectError(t, err, nil, "qemu-img")

	w.expectFetched(source, data)
}

// FuzzImage has no header break anything, or get to qemu-img with another file's name.
func FuzzImage(f *testing.F) {
	f.Add(qcow2(nil))
	f.Add(rawImage(1, 512))
	f.Add(qcow2(func(h []byte) { extension(h, 104, 1, 3); extension(h, 120, dataFile, 11) }))
	f.Add(qcow2(func(h []byte) { h[14] = 2; h[19] = 11 }))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t)
		path := write(t, filepath.Join(t.TempDir(), "x"), data)
		_, err := w.store.Fetch(t.Context(), images.Source{URL: "file://" + path, SHA256: sumOf(data)})
		if err != nil && !errors.Is(err, errors.NotValid) {
			t.Fatal(err)
		}
		if len(w.host.Log()) == 0 || !bytes.HasPrefix(data, []byte("QFI")) {
			return
		}
		if len(data) < 72 || !bytes.Equal(data[8:20], make([]byte, 12)) {
			t.Errorf("qemu-img was given %q", data[:min(len(data), 200)])
		}
	})
}
