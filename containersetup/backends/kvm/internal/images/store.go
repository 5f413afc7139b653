package images

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/juju/errors"
)

// ErrNoSpace is of a file system that has not the room for what is to be made.
const ErrNoSpace = errors.ConstError("not enough space")

// spare is what is to be left of a file system: others need some, too.
const spare = 64 << 20 // bytes

// Modes of files; see the package's documentation.
const (
	dirMode     = 0o711
	baseMode    = 0o644
	privateMode = 0o600
)

// Store is a folder of images.
type Store struct {
	config Config
	locks  locks
}

// New returns a store. Nothing is done before its first use.
func New(config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Store{config: config, locks: newLocks(filepath.Join(config.Dir, ".lock"), config.Clock)}, nil
}

// Files are the paths of what there is of an instance.
type Files struct {
	Disk, Seed, Console string
}

// Ends of the names of an instance's files.
const (
	diskEnd    = ".qcow2"
	seedEnd    = "-seed.iso"
	consoleEnd = "-console.log"
)

var instanceName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// Files returns the paths of an instance's files, whether they are there or not. A name
// that is none is errors.NotValid.
func (s *Store) Files(name string) (Files, error) {
	if !instanceName.MatchString(name) {
		return Files{}, errors.NotValidf("instance name %q", shortened(name))
	}
	path := filepath.Join(s.config.Dir, name)
	return Files{Disk: path + diskEnd, Seed: path + seedEnd, Console: path + consoleEnd}, nil
}

// half is the name of a file while it is made.
func half(path string) string {
	dir, name := filepath.Split(path)
	return dir + "." + name + ".tmp"
}

// Names returns the instances that have files here, be they whole or half made, sorted.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Trace(err)
	}
	entries, err := os.ReadDir(s.config.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Annotate(err, "looking for instances' files")
	}
	names := []string{}
	for _, entry := range entries {
		if name, ok := nameOf(entry.Name()); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// nameOf returns the instance that a file is of.
func nameOf(file string) (string, bool) {
	if begun, ok := strings.CutPrefix(file, "."); ok {
		if file, ok = strings.CutSuffix(begun, ".tmp"); !ok {
			return "", false
		}
	}
	if log, number, ok := strings.Cut(file, consoleEnd+"."); ok && digits(number) {
		file = log + consoleEnd // an old one: libvirt has them rotated
	}
	for _, end := range []string{diskEnd, seedEnd, consoleEnd} {
		if name, ok := strings.CutSuffix(file, end); ok && instanceName.MatchString(name) {
			return name, true
		}
	}
	return "", false
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// RemoveInstanceFiles removes whatever there is of an instance; nothing is success. Its
// disk goes last, so that one that was begun to be removed is still in [Store.Names].
func (s *Store) RemoveInstanceFiles(ctx context.Context, name string) error {
	files, err := s.Files(name)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return errors.Trace(err)
	}
	// The name has nothing in it that a pattern is made of; the folder may have.
	entries, err := os.ReadDir(s.config.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Annotatef(err, "removing the files of %q", name)
	}
	var paths []string
	for _, entry := range entries {
		path := filepath.Join(s.config.Dir, entry.Name())
		if of, ok := nameOf(entry.Name()); ok && of == name && path != files.Disk {
			paths = append(paths, path)
		}
	}
	for _, path := range append(paths, files.Disk) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Annotatef(err, "removing the files of %q", name)
		}
	}
	return syncDir(s.config.Dir)
}

// WriteSeed puts an instance's seed in place as a whole, in the place of one that is
// there, and returns its path. Only root and the hypervisor can read it.
func (s *Store) WriteSeed(ctx context.Context, name string, data []byte) (string, error) {
	files, err := s.Files(name)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", errors.Trace(err)
	}
	if err := s.begin(uint64(len(data))); err != nil {
		return "", errors.Annotatef(err, "seed of %q", name)
	}
	if err := writeSeed(half(files.Seed), data); err != nil {
		_ = os.Remove(half(files.Seed))
		return "", errors.Annotatef(noSpace(err), "seed of %q", name)
	}
	return files.Seed, errors.Annotatef(putInPlace(half(files.Seed), files.Seed), "seed of %q", name)
}

func writeSeed(path string, data []byte) error {
	// Made anew, for its mode to be what is said here from the beginning.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// begin makes the folder, if need be, and sees that there is room in it.
func (s *Store) begin(need uint64) error {
	if err := os.MkdirAll(s.config.Dir, dirMode); err != nil {
		return err
	}
	return s.room(need)
}

// room returns ErrNoSpace if so many bytes cannot be written with some to spare.
func (s *Store) room(need uint64) error {
	free, err := s.config.FreeSpace(s.config.Dir)
	if err != nil {
		return errors.Annotatef(err, "free space in %s", s.config.Dir)
	}
	if free < spare || free-spare < need {
		return errors.Annotatef(ErrNoSpace, "%d MiB free in %s, of which %d are kept, %d MiB needed", free>>20, s.config.Dir, spare>>20, mebibytes(need))
	}
	return nil
}

// mebibytes rounds up.
func mebibytes(bytes uint64) uint64 { return (bytes + 1<<20 - 1) >> 20 }

// putInPlace gives a file that is complete its name, for good.
func putInPlace(temp, path string) error {
	err := syncFile(temp)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return noSpace(err)
	}
	return syncDir(filepath.Dir(path))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

func syncDir(dir string) error { return errors.Annotatef(syncFile(dir), "writing %s", dir) }
