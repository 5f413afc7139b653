package ociimage_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/ociimage"
)

// program returns the path of a file with that content.
func program(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unpack returns the entries of an archive, as mode, name and content.
func unpack(t *testing.T, data []byte) (headers map[string]*tar.Header, contents map[string][]byte) {
	t.Helper()
	headers, contents = make(map[string]*tar.Header), make(map[string][]byte)
	archive := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
		if contents[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

type descriptor struct {
	Digest      string
	Size        int
	Annotations map[string]string
}

// follow returns what a descriptor points at, if it is what it should be.
func follow(t *testing.T, contents map[string][]byte, d descriptor) []byte {
	t.Helper()
	data := contents["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")]
	if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest || len(data) != d.Size {
		t.Fatalf("blob %s has %d bytes, want %d, or another digest", d.Digest, len(data), d.Size)
	}
	return data
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return value
}

func TestImageLeadsToItsFiles(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	err := ociimage.Write(&archive, ociimage.Image{
		Name: "localhost/operator:7", Files: map[string]string{"/opt/bin/operator": program(t, "code")},
		Entrypoint: []string{"/opt/bin/operator", "serve"}, Env: []string{"A=b"}, User: "170",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, contents := unpack(t, archive.Bytes())
	index := decode[struct{ Manifests []descriptor }](t, contents["index.json"])
	if name := index.Manifests[0].Annotations["io.containerd.image.name"]; name != "localhost/operator:7" {
		t.Errorf("its name is %q", name)
	}
	manifest := decode[struct {
		Config descriptor
		Layers []descriptor
	}](t, follow(t, contents, index.Manifests[0]))
	config := decode[struct {
		OS     string
		Config struct {
			Entrypoint, Env []string
			User            string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}](t, follow(t, contents, manifest.Config))
	if got := fmt.Sprint(config.OS, config.Config); got != "linux{[/opt/bin/operator serve] [A=b] 170}" {
		t.Errorf("its configuration is %s", got)
	}
	// The layer is not compressed, so these are the same.
	if got := fmt.Sprint(config.RootFS.DiffIDs); got != "["+manifest.Layers[0].Digest+"]" {
		t.Errorf("diff ids are %s, layers %v", got, manifest.Layers)
	}
	headers, files := unpack(t, follow(t, contents, manifest.Layers[0]))
	for name, mode := range map[string]int64{"opt/": 0o755, "opt/bin/": 0o755, "opt/bin/operator": 0o755, "tmp/": 0o1777} {
		if header := headers[name]; header == nil || header.Mode != mode {
			t.Errorf("%s is %+v, want mode %o", name, header, mode)
		}
	}
	if len(headers) != 4 || string(files["opt/bin/operator"]) != "code" {
		t.Errorf("%d files, of which one says %q", len(headers), files["opt/bin/operator"])
	}
}

func TestSameFilesGiveTheSameImage(t *testing.T) {
	t.Parallel()
	var images [2]bytes.Buffer
	files := map[string]string{"/b": program(t, "b"), "/a/a": program(t, "a"), "/a/c": program(t, "c")}
	for i := range images {
		if err := ociimage.Write(&images[i], ociimage.Image{Name: "localhost/x:1", Files: files}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(images[0].Bytes(), images[1].Bytes()) {
		t.Error("two images of the same files differ")
	}
}

func TestImpossibleImageIsRefused(t *testing.T) {
	t.Parallel()
	file := program(t, "")
	for _, test := range []struct {
		says  string
		image ociimage.Image
	}{
		{"Name", ociimage.Image{Files: map[string]string{"/a": file}}},
		{"Name", ociimage.Image{Name: "operator:1", Files: map[string]string{"/a": file}}},
		{"Name", ociimage.Image{Name: "localhost/operator", Files: map[string]string{"/a": file}}},
		{"Name", ociimage.Image{Name: "localhost:5000/operator", Files: map[string]string{"/a": file}}},
		{"Files", ociimage.Image{Name: "localhost/operator:1"}},
		{`"a"`, ociimage.Image{Name: "localhost/operator:1", Files: map[string]string{"a": file}}},
		{`"/../a"`, ociimage.Image{Name: "localhost/operator:1", Files: map[string]string{"/../a": file}}},
		{`"/"`, ociimage.Image{Name: "localhost/operator:1", Files: map[string]string{"/": file}}},
	} {
		err := ociimage.Write(io.Discard, test.image)
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.image, err)
		}
	}
	missing := ociimage.Image{Name: "localhost/operator:1", Files: map[string]string{"/a": file + "-not"}}
	if err := ociimage.Write(io.Discard, missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func ExampleWrite() {
	var archive bytes.Buffer
	err := ociimage.Write(&archive, ociimage.Image{Name: "localhost/operator:1"})
	fmt.Println(err)
	// Output: image without Files not valid
}
