package machinelock

import (
	"io"
	"os"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// lockFile returns the file, locked; or nil when another has it locked, or when
// it was replaced by somebody just now.
func (l *Lock) lockFile() (*os.File, error) {
	// Opened for every try and not kept: a file that was replaced while we
	// wait would be waited for for ever.
	f, err := l.open(os.O_RDWR | os.O_CREATE)
	if err != nil {
		return nil, err
	}
	return l.lockOpened(f)
}

// lockOpened is the rest of lockFile, after the file was opened, which it closes
// when it does not return it.
func (l *Lock) lockOpened(f *os.File) (*os.File, error) {
	locked, err := tryLock(f, false)
	if err != nil || !locked {
		_ = f.Close()
		return nil, err
	}
	if !l.current(f) {
		// What is locked has no name any more, and excludes nobody.
		unlock(f)
		return nil, nil
	}
	return f, nil
}

// open opens the file; os adds O_CLOEXEC, so programs that are started meanwhile
// do not get it.
func (l *Lock) open(flag int) (*os.File, error) {
	f, err := os.OpenFile(l.path, flag|openFlags, 0o600)
	if err != nil {
		if errors.Is(err, errLink) {
			return nil, errors.NotValidf("Path %q (it is a symbolic link)", l.path)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.NotValidf("Path %q (it is no regular file)", l.path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// current tells whether f is the file that has the name now.
func (l *Lock) current(f *os.File) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(l.path)
	return err == nil && os.SameFile(ours, named)
}

// describe writes into the file who holds the lock. That is for people: when it
// fails, as on a full disk, the lock is held all the same, and its holder is not
// known to others.
func describe(f *os.File, s container.LockStatus) {
	// Emptied first, so that a former holder is not taken for this one.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(render(s), 0)
	}
}

// read returns what the file says of the holder of a lock that is held, which
// may be nothing.
func (l *Lock) read() container.LockStatus {
	f, err := l.open(os.O_RDONLY)
	if err != nil {
		return container.LockStatus{Held: true}
	}
	defer func() { _ = f.Close() }()
	return content(f)
}

// content is read of a file that is open.
func content(f *os.File) container.LockStatus {
	data, err := io.ReadAll(io.LimitReader(f, maxContent+1))
	if err == nil {
		if s, ok := parse(data); ok {
			return s
		}
	}
	return container.LockStatus{Held: true}
}
