// Package ociimage writes container images, as archives in the OCI image layout, from
// a few files that need nothing else around them, such as static programs. No
// container engine is involved.
package ociimage

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/juju/errors"
)

// Image is what to write. Name and Files are required.
type Image struct {
	// Name is the image's, with registry and tag, as in localhost/operator:1.
	// Nothing is ever pulled: pods say imagePullPolicy Never.
	Name string
	// Files are, by absolute path in the image, the paths of the files to put
	// there. Everyone may read and execute them. Besides them there is only /tmp.
	Files map[string]string
	// Entrypoint and Env are the image's, and User the one that it runs as, by
	// number. A pod may say otherwise.
	Entrypoint []string
	Env        []string
	User       string
}

// Validate returns an errors.NotValid that names the first field that is missing or
// impossible, or nil.
func (i Image) Validate() error {
	switch repository, tag, _ := strings.Cut(path.Base(i.Name), ":"); {
	case !strings.Contains(i.Name, "/"), repository == "", tag == "":
		return errors.NotValidf("Name %q (want registry/name:tag)", i.Name)
	case len(i.Files) == 0:
		return errors.NotValidf("image without Files")
	}
	for file := range i.Files {
		if !path.IsAbs(file) || path.Clean(file) != file || file == "/" {
			return errors.NotValidf("path %q in Files", file)
		}
	}
	return nil
}

// Write writes the archive. The same files give the same bytes.
func Write(w io.Writer, image Image) error {
	if err := image.Validate(); err != nil {
		return errors.Trace(err)
	}
	layer, err := image.layer()
	if err != nil {
		return errors.Annotate(err, "writing the layer")
	}
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": image.Entrypoint, "Env": image.Env, "User": image.User},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	const prefix = "application/vnd.oci.image."
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": prefix + "manifest.v1+json",
		"config": descriptor(prefix+"config.v1+json", config),
		"layers": []any{descriptor(prefix+"layer.v1.tar", layer)},
	})
	entry := descriptor(prefix+"manifest.v1+json", manifest)
	entry["platform"] = map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	_, tag, _ := strings.Cut(path.Base(image.Name), ":")
	entry["annotations"] = map[string]string{
		// What containerd calls it, and what everyone else does.
		"io.containerd.image.name":          image.Name,
		"org.opencontainers.image.ref.name": tag,
	}
	archive := tar.NewWriter(w)
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", encode(map[string]string{"imageLayoutVersion": "1.0.0"})},
		{"index.json", encode(map[string]any{"schemaVersion": 2, "manifests": []any{entry}})},
		{blob(manifest), manifest},
		{blob(config), config},
		{blob(layer), layer},
	} {
		if err := add(archive, file.name, 0o644, file.data); err != nil {
			return errors.Annotatef(err, "writing %s", file.name)
		}
	}
	return errors.Trace(archive.Close())
}

// layer returns the tar archive of the image's files.
func (i Image) layer() ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	folders := map[string]int64{"tmp": 0o1777}
	for file := range i.Files {
		for folder := path.Dir(file); folder != "/"; folder = path.Dir(folder) {
			if _, ok := folders[folder[1:]]; !ok {
				folders[folder[1:]] = 0o755
			}
		}
	}
	// In this order a folder comes before what is in it.
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: folders[folder]}
		if err := archive.WriteHeader(header); err != nil {
			return nil, errors.Trace(err)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(i.Files)) {
		data, err := os.ReadFile(i.Files[file])
		if err != nil {
			return nil, errors.Trace(err)
		}
		if err := add(archive, file[1:], 0o755, data); err != nil {
			return nil, errors.Trace(err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, errors.Trace(err)
	}
	return buffer.Bytes(), nil
}

func add(archive *tar.Writer, name string, mode int64, data []byte) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(data)
	return err
}

func descriptor(mediaType string, data []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": digest(data), "size": len(data)}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blob(data []byte) string { return "blobs/sha256/" + strings.TrimPrefix(digest(data), "sha256:") }

func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		// Strings, numbers and maps of them.
		panic(err)
	}
	return data
}
