package images_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

// needs skips a test where a program is missing, or fails it where SUTLER_REQUIRE, a list
// with commas, says that nothing may be missing.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	need.Missing(t, "kvm", "no "+program+": testbed/libvirt-up (or make testbed) installs it")
}

// run runs a program in a folder.
func run(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return out
}

// realWorld has the real qemu-img.
func realWorld(t *testing.T) *world {
	t.Helper()
	needs(t, "qemu-img")
	return newWorld(t, func(c *images.Config) { c.Host = host.New(host.Config{}); c.FreeSpace = nil })
}

func (w *world) fetchFile(path string) (images.Image, error) {
	w.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.store.Fetch(w.t.Context(), images.Source{URL: "file://" + path, SHA256: sumOf(data), Size: uint64(len(data))})
}

func TestRealImages(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		create []string
		change func(t *testing.T, path string)
		kind   error
		says   string
		format string
	}{
		"qcow2":           {create: []string{"-f", "qcow2", "x", "100M"}, format: "qcow2"},
		"old qcow2":       {create: []string{"-f", "qcow2", "-o", "compat=0.10", "x", "100M"}, format: "qcow2"},
		"qcow2 with zstd": {create: []string{"-f", "qcow2", "-o", "compression_type=zstd,extended_l2=on", "x", "100M"}, format: "qcow2"},
		"qcow2 with /etc": {create: []string{"-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", "x", "100M"}, kind: errors.NotValid, says: "backing file"},
		"old with /etc":   {create: []string{"-f", "qcow2", "-o", "compat=0.10", "-F", "raw", "-b", "/etc/passwd", "x", "100M"}, kind: errors.NotValid, says: "backing file"},
		"qcow2 with data": {create: []string{"-f", "qcow2", "-o", "data_file=data,data_file_raw=on", "x", "100M"}, kind: errors.NotValid, says: "another file"},
		"encrypted": {create: []string{"-f", "qcow2", "x", "100M"}, change: func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[35] = 1
			write(t, path, data)
		}, kind: errors.NotValid},
		"far too large":     {create: []string{"-f", "qcow2", "x", "2T"}, kind: errors.NotValid, says: "2199023255552"},
		"vmdk":              {create: []string{"-f", "vmdk", "x", "100M"}, kind: errors.NotValid, says: "neither qcow2"},
		"vdi":               {create: []string{"-f", "vdi", "x", "100M"}, kind: errors.NotValid, says: "neither qcow2"},
		"raw without boots": {create: []string{"-f", "raw", "x", "1M"}, kind: errors.NotValid, says: "neither qcow2"},
		"raw": {create: []string{"-f", "raw", "x", "100M"}, format: "raw", change: func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			if _, err := f.WriteAt([]byte("\x55\xaa"), 510); err != nil {
				t.Fatal(err)
			}
		}},
		"marked as corrupt": {create: []string{"-f", "qcow2", "x", "100M"}, change: func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[79] |= 2
			write(t, path, data)
		}, kind: errors.NotValid, says: "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t)
			sub := filepath.Join(dir, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "/", ""))
			path := filepath.Join(sub, "x")
			if err := os.Mkdir(sub, 0o700); err != nil {
				t.Fatal(err)
			}
			run(t, sub, append([]string{"qemu-img", "create", "-q"}, test.create...)...)
			if test.change != nil {
				test.change(t, path)
			}
			image, err := w.fetchFile(path)
			if test.kind != nil {
				expectError(t, err, test.kind, test.says)
				w.expectFiles(".lock")
				return
			}
			if err != nil || image.Format != test.format || image.VirtualSize != 100<<20 {
				t.Errorf("%+v, %v", image, err)
			}
		})
	}
}

// TestARealOverlay reads the base image's content through the overlay.
func TestARealOverlay(t *testing.T) {
	w := realWorld(t)
	raw := rawImage(1, 1<<20)
	dir := t.TempDir()
	rawPath := write(t, filepath.Join(dir, "raw"), raw)
	qcowPath := filepath.Join(dir, "qcow2")
	run(t, dir, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", rawPath, qcowPath)
	for n, path := range []string{rawPath, qcowPath} {
		name := "juju-" + string(rune('a'+n))
		base, err := w.fetchFile(path)
		if err != nil {
			t.Fatal(err)
		}
		disk, err := w.store.Overlay(t.Context(), base, name, 3)
		if err != nil {
			t.Fatal(err)
		}
		var info struct {
			Format  string `json:"format"`
			Size    int    `json:"virtual-size"`
			Backing string `json:"full-backing-filename"`
			Of      string `json:"backing-filename-format"`
		}
		if err := json.Unmarshal(run(t, dir, "qemu-img", "info", "--output=json", disk), &info); err != nil {
			t.Fatal(err)
		}
		if info.Format != "qcow2" || info.Size != 3<<20 || info.Backing != base.Path || info.Of != base.Format {
			t.Errorf("%+v", info)
		}
		out := filepath.Join(dir, name)
		run(t, dir, "qemu-img", "convert", "-f", "qcow2", "-O", "raw", disk, out)
		if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got[:len(raw)], raw) || len(got) != 3<<20 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_, err = w.store.Overlay(t.Context(), base, name+"-small", 0)
		expectError(t, err, errors.NotValid, "1 MiB")
	}
	if names, err := w.store.Names(t.Context()); err != nil || !slices.Equal(names, []string{"juju-a", "juju-b"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestARealServer has the requests go over a wire: what breaks there breaks otherwise than
// in a test's own server.
func TestARealServer(t *testing.T) {
	data := rawImage(1, 3<<20)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "u" || password != "hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked = append(asked, r.Header.Get("Range"))
		if len(asked) < 3 {
			// The connection is cut after a mebibyte.
			w = &cutting{ResponseWriter: w, left: 1 << 20}
		}
		http.ServeContent(w, r, "", testTime(), bytes.NewReader(data))
	}))
	defer server.Close()
	w := newWorld(t, func(c *images.Config) { c.HTTP = nil })
	source := images.Source{URL: strings.Replace(server.URL, "://", "://u:hunter2@", 1) + "/x", SHA256: sumOf(data)}
	w.expectFetched(source, data)
	if len(asked) != 3 || asked[0] != "" || asked[1] == "" || asked[2] <= asked[1] {
		t.Errorf("asked for %q", asked)
	}

	source = images.Source{URL: server.URL + "/x", SHA256: sumOf(nil)}
	_, err := w.store.Fetch(t.Context(), source)
	expectError(t, err, nil, "401")
}

// cutting drops the connection after so many bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func TestTheHostsOwnFreeSpaceIsKnown(t *testing.T) {
	w := newWorld(t, func(c *images.Config) { c.FreeSpace = nil })
	base := images.Image{Path: write(t, filepath.Join(w.dir, "base-x.img"), nil), Format: "raw", VirtualSize: 1}
	var disk unix.Statfs_t
	if err := unix.Statfs(w.dir, &disk); err != nil {
		t.Fatal(err)
	}
	more := disk.Bavail*uint64(disk.Bsize)>>20 + 1024 // than there is, by a gibibyte
	if _, err := w.store.Overlay(t.Context(), base, "a", 1); err != nil {
		t.Error(err)
	}
	if _, err := w.store.Overlay(t.Context(), base, "b", more); !errors.Is(err, images.ErrNoSpace) {
		t.Errorf("%d MiB, of which a gibibyte is not there: %v", more, err)
	}
}
