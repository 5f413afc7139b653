// Package files writes the agent's own small files, so that a crash at any
// moment leaves the old content or the new and nothing in between.
package files

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"
)

// Write replaces the file at path by one with mode 0600 that holds data: a
// temporary file is written, synced and renamed, and the directory is synced.
func Write(path string, data []byte) (err error) {
	dir, name := filepath.Split(path)
	tmp, err := os.CreateTemp(dir, "."+name+".*") // mode 0600
	if err != nil {
		return errors.Annotatef(err, "writing %s", name)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
			err = errors.Annotatef(err, "writing %s", name)
		}
	}()
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// Read returns what is in the file, of at most limit bytes, or an
// errors.NotFound. A file that others may read is refused: what was meant to be
// secret no longer is.
func Read(path string, limit int64) ([]byte, error) { return read(path, limit, 0o600) }

// ReadShared is Read for a file that its group may read and write as well. In a
// pod, that is how a volume belongs to the user that the pod runs as.
func ReadShared(path string, limit int64) ([]byte, error) { return read(path, limit, 0o660) }

func read(path string, limit int64, mode fs.FileMode) ([]byte, error) {
	name := filepath.Base(path)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.NotFoundf("%s", name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.NotValidf("%s (want a regular file)", name)
	case info.Mode().Perm()&^(mode|0o700) != 0:
		return nil, errors.NotValidf("%s with mode %#o (want %#o)", name, info.Mode().Perm(), mode)
	case info.Size() > limit:
		return nil, errors.NotValidf("%s of %d bytes (want %d at most)", name, info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

func syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Sweep removes what writers of that file in dir left that were killed. Nobody
// must be writing it meanwhile.
func Sweep(dir, name string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // nothing there to sweep
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "."+name+".") {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}

// Rename gives a file or directory another name, for good when it returns.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}
