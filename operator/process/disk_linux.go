package process

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/juju/errors"
)

// maxFile is the greatest size of a file that is read. What the manager writes
// is smaller.
const maxFile = 8 << 20

// disk is the manager's directory. Every path is relative to it, and no
// symbolic link leads out of it.
type disk struct {
	root *os.Root
	// before is asked before every single thing that changes the world; an
	// error keeps it from being done. Tests crash the manager here.
	before func(op, name string) error
}

// step names what is about to be done.
func (d disk) step(op, name string) error {
	if d.before == nil {
		return nil
	}
	return d.before(op, name)
}

// write makes data the whole content of the file, or leaves the file as it was,
// whenever the machine stops.
func (d disk) write(name string, data []byte) error {
	return d.replace(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// replace is write for content that need not be in memory.
func (d disk) replace(name string, fill func(io.Writer) error) error {
	dir := path.Dir(name)
	// The same name each time, so that crashes leave one at most, which the
	// next write of the file removes.
	temp := path.Join(dir, "."+path.Base(name)+".tmp")
	if err := d.step("write", temp); err != nil {
		return err
	}
	if err := d.create(temp, fill); err != nil {
		return err
	}
	if err := d.step("rename", name); err != nil {
		return err
	}
	if err := d.root.Rename(temp, name); err != nil {
		return err
	}
	return d.sync(dir)
}

// create makes a new file. A left-over of that name, whatever it is, goes first:
// it is never opened.
func (d disk) create(name string, fill func(io.Writer) error) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		// The disk is full, perhaps: half a secret helps nobody.
		_ = d.root.Remove(name)
	}
	return err
}

// sync makes the names in a directory last.
func (d disk) sync(dir string) error {
	if err := d.step("sync", dir); err != nil {
		return err
	}
	f, err := d.root.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	_ = f.Close()
	return err
}

// mkdir makes a directory that nobody else may look into.
func (d disk) mkdir(name string) error {
	if err := d.step("mkdir", name); err != nil {
		return err
	}
	return d.root.Mkdir(name, 0o700)
}

// rename moves a directory within the top one, with all that is in it, at once.
func (d disk) rename(from, to string) error {
	if err := d.step("rename", to); err != nil {
		return err
	}
	if err := d.root.Rename(from, to); err != nil {
		return err
	}
	return d.sync(".")
}

// has says whether there is a regular file of that name. Anything else that has
// the name is not what we wrote, and so counts as nothing.
func (d disk) has(name string) (bool, error) {
	info, err := d.root.Lstat(name)
	switch {
	case isAbsent(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return info.Mode().IsRegular(), nil
}

// read returns the content of a regular file, and whether there is one.
func (d disk) read(name string) ([]byte, bool, error) {
	if there, err := d.has(name); err != nil || !there {
		return nil, false, err
	}
	// O_NONBLOCK for what became a pipe since the look.
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if isAbsent(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, false, err
	}
	if len(data) > maxFile {
		return nil, false, errors.NotValidf("%q over %d bytes", name, maxFile)
	}
	return data, true, nil
}

// isAbsent says that there is nothing of that name, or that a directory on the
// way is something else.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// removeTree removes a directory and all in it, until the context ends: a tree
// may be large. Links are removed, not followed.
func (d disk) removeTree(ctx context.Context, name string) error {
	if err := d.step("remove", name); err != nil {
		return err
	}
	return d.removeAll(ctx, name)
}

// removeAll lists anew after each batch, since a directory that is changed while
// it is read may leave entries out.
func (d disk) removeAll(ctx context.Context, name string) error {
	for {
		entries, err := d.list(name)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return d.root.Remove(name)
		}
		for _, entry := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			child := path.Join(name, entry.Name())
			if entry.IsDir() {
				err = d.removeAll(ctx, child)
			} else {
				err = d.root.Remove(child)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

// list returns some of a directory's entries, none when there are none. It
// makes the directory writable first, as charms leave trees that are not.
func (d disk) list(name string) ([]os.DirEntry, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		if err := d.root.Chmod(name, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	entries, err := f.ReadDir(512)
	if err == io.EOF {
		err = nil
	}
	return entries, err
}

// lockDir makes this the only manager of the directory until unlock.
func (d disk) lockDir() (*os.File, error) {
	// The kernel drops the lock with its holder, however that ends. It is
	// never removed: who locks a file that has lost its name locks nothing.
	f, err := d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Annotate(err, "opening the lock")
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.AlreadyExistsf("another manager of the directory")
	}
	return nil, errors.Annotate(err, "locking")
}

// id returns what tells the directory's operators from those of all others, which
// is written into the lock when it is new. A crash before that lost nothing, for
// no operator had been started.
func (d disk) id(lock *os.File) (string, error) {
	buf := make([]byte, 64)
	n, err := lock.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	if id := strings.TrimSpace(string(buf[:n])); idForm.MatchString(id) {
		return id, nil
	}
	if err := d.step("write", lockName); err != nil {
		return "", err
	}
	id := random(8)
	if err := lock.Truncate(0); err != nil {
		return "", err
	}
	if _, err := lock.WriteAt([]byte(id+"\n"), 0); err != nil {
		return "", err
	}
	return id, lock.Sync()
}

// unlock lets the next manager in. A process that was being forked at this
// instant may hold the file for a moment more, hence the call. When the agent
// is killed there is no call, and the lock stays until such a process is an
// operator with its token in the environment, for the next manager to find.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}
