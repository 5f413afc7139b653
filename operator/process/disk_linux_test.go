package process

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/juju/errors"
)

func newDisk(t *testing.T) (disk, string) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return disk{root: root}, dir
}

func TestWriteIsAllOrNothing(t *testing.T) {
	const crash = errors.ConstError("crash")
	d, dir := newDisk(t)
	file := filepath.Join(dir, "file")
	if err := d.write("file", []byte("old")); err != nil {
		t.Fatal(err)
	}
	for step := 1; ; step++ {
		if err := d.write("file", []byte("old")); err != nil {
			t.Fatal(err)
		}
		left := step
		broken := d
		broken.before = func(string, string) error {
			if left--; left <= 0 {
				return crash
			}
			return nil
		}
		err := broken.write("file", []byte("new"))
		content, readErr := os.ReadFile(file)
		if readErr != nil || string(content) != "old" && string(content) != "new" {
			t.Fatalf("crash at step %d: %q, %v", step, content, readErr)
		}
		if err == nil {
			if step != 4 || string(content) != "new" {
				t.Errorf("after %d steps: %q", step, content)
			}
			break
		}
		if !errors.Is(err, crash) {
			t.Fatal(err)
		}
	}
	if info, err := os.Lstat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestWriteDoesNotFollowLinks(t *testing.T) {
	d, dir := newDisk(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", ".file.tmp"} {
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.write("file", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(outside); string(content) != "outside" {
		t.Errorf("outside is %q", content)
	}
	if info, err := os.Lstat(filepath.Join(dir, "file")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("file is %v, %v", info.Mode(), err)
	}

	// Nor does a directory that leads elsewhere.
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := d.write("away/file", []byte("mine")); err == nil {
		t.Error("written through a link")
	}
}

func TestWriteLeavesNothingWhenItFails(t *testing.T) {
	d, dir := newDisk(t)
	if err := os.Mkdir(filepath.Join(dir, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.write("file", nil); err == nil {
		t.Error("a directory was replaced")
	}
	if err := d.create("other", func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return syscall.ENOSPC
	}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "other")); !os.IsNotExist(err) {
		t.Errorf("half a file was left: %v", err)
	}
}

func TestReadTakesRegularFilesOfBoundedSize(t *testing.T) {
	d, dir := newDisk(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", path("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path("large"), maxFile+1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"file": true, "empty": true, "link": false, "pipe": false, "absent": false, "file/below": false, ".": false,
	} {
		data, there, err := d.read(name)
		if err != nil || there != want || (name == "file") != (string(data) == "content") {
			t.Errorf("read(%q) = %q, %v, %v", name, data, there, err)
		}
	}
	if _, _, err := d.read("large"); !errors.Is(err, errors.NotValid) {
		t.Errorf("read of a large file: %v", err)
	}
}

func TestRemoveTree(t *testing.T) {
	d, dir := newDisk(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "tree", strings.Repeat("deep/", 20))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 1200 { // more than one batch
		if err := os.WriteFile(filepath.Join(dir, "tree", "file"+string(rune('a'+i%26))+strings.Repeat("x", i/26)), nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(deep, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(deep, "dirlink")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(deep, 0o500); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.removeTree(ctx, "tree"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := d.removeTree(t.Context(), "tree"); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Errorf("followed a link: %v", err)
	}
}

func TestLockHasOneHolder(t *testing.T) {
	d, dir := newDisk(t)
	first, err := d.lockDir()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.lockDir(); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("second: %v", err)
	}
	// A child that is between fork and exec has the file open, too.
	dup, err := syscall.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(dup) }()
	id, err := d.id(first)
	if err != nil || !idForm.MatchString(id) {
		t.Errorf("id %q, %v", id, err)
	}
	unlock(first)
	second, err := d.lockDir()
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	// The directory keeps its id, and gets another if that is damaged.
	if again, err := d.id(second); err != nil || again != id {
		t.Errorf("id %q, %v, want %q", again, err, id)
	}
	if err := os.WriteFile(filepath.Join(dir, lockName), []byte("damaged and longer than an id is"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := d.id(second)
	if err != nil || other == id || !idForm.MatchString(other) {
		t.Errorf("id %q, %v", other, err)
	}
	if again, err := d.id(second); err != nil || again != other {
		t.Errorf("id %q, %v, want %q", again, err, other)
	}
	unlock(second)
	if info, err := os.Lstat(filepath.Join(dir, lockName)); err != nil || info.Mode() != 0o600 {
		t.Errorf("the lock: %v, %v", info, err)
	}
}
