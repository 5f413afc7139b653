package images

import (
	"os"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"
)

// tryLock locks a byte of a file for as long as it is open here, and tells whether nobody
// else has it.
func tryLock(f *os.File, at int64) (bool, error) {
	// A lock of the open file, not of the process: closing another one drops nothing, and
	// two stores in one process keep each other out.
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1})
	if err == unix.EAGAIN || err == unix.EACCES {
		return false, nil
	}
	return err == nil, err
}

// freeSpace returns how many bytes can be written.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// noSpace makes a full file system known.
func noSpace(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return errors.WithType(err, ErrNoSpace)
	}
	return err
}
