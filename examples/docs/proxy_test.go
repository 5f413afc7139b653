package main

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// publish puts a module of this checkout into a folder that is a module proxy, as version
// v0.0.0. As in a release, modules require each other's released version, and not one that
// only a replace line makes good.
func publish(t *testing.T, proxy, folder string) {
	t.Helper()
	module := path.Join("github.com/sutler-dev/sutler", folder)
	source := filepath.Join(root, filepath.FromSlash(folder))
	versions := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, versions, "list", "v0.0.0\n")
	write(t, versions, "v0.0.0.info", `{"Version": "v0.0.0", "Time": "2026-01-01T00:00:00Z"}`)
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	released := strings.ReplaceAll(string(mod), " v0.0.0-00010101000000-000000000000", " v0.0.0")
	write(t, versions, "v0.0.0.mod", released)
	file, err := os.Create(filepath.Join(versions, "v0.0.0.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	if err := pack(archive, source, module+"@v0.0.0"); err != nil {
		t.Fatal(err)
	}
	out, err := archive.Create(module + "@v0.0.0/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, released); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

// pack adds the files of a module but its go.mod, and none of those nested in it.
func pack(archive *zip.Writer, source, prefix string) error {
	return filepath.WalkDir(source, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == source:
			return nil
		case d.IsDir():
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if err == nil || strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		case !d.Type().IsRegular(), name == filepath.Join(source, "go.mod"):
			return nil
		}
		relative, err := filepath.Rel(source, name)
		if err != nil {
			return err
		}
		out, err := archive.Create(path.Join(prefix, filepath.ToSlash(relative)))
		if err != nil {
			return err
		}
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(out, in)
		return err
	})
}
