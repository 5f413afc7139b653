package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/juju/errors"
)

func TestWrittenFileIsReadBackAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, text := range []string{"one", "", "another"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		data, err := Read(path, 10)
		if err != nil || string(data) != text {
			t.Errorf("got %q, %v; want %q", data, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v; want 0600", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v; want nothing left beside the file", entries, err)
	}
}

func TestWriteThatFailsLeavesTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "taken")
	if err := os.MkdirAll(filepath.Join(dir, "child"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, []byte("x")); err == nil {
		t.Error("want an error, since a directory is in the way")
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v; want no temporary file left", entries, err)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil); err == nil {
		t.Error("want an error, since the directory is not there")
	}
}

func TestReadRefusesWhatIsNoPrivateFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("12345"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		path string
		want error
	}{
		"absent":      {filepath.Join(dir, "none"), errors.NotFound},
		"a directory": {dir, errors.NotValid},
		"readable":    {write("readable", 0o644), errors.NotValid},
		"too large":   {write("large", 0o600), errors.NotValid},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(test.path, 4); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestSweepRemovesWhatKilledWritersLeft(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".a.yaml.123", ".a.yaml.", "a.yaml", ".b.yaml.123", ".a.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(dir, "a.yaml")
	Sweep(filepath.Join(dir, "none"), "a.yaml")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if want := []string{".a.yaml", ".b.yaml.123", "a.yaml"}; !slices.Equal(left, want) {
		t.Errorf("got %v, want %v", left, want)
	}
}

func TestRenameIsAnErrorWhereNothingIs(t *testing.T) {
	dir := t.TempDir()
	if err := Rename(filepath.Join(dir, "none"), filepath.Join(dir, "a")); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); err != nil {
		t.Error(err)
	}
}

func TestGroupMayShareAFileThatOthersMayNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mounted")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]bool{0o400: true, 0o440: true, 0o660: true, 0o444: false, 0o642: false, 0o670: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadShared(path, 1); (err == nil) != want {
			t.Errorf("mode %#o: got %v", mode, err)
		}
	}
}
