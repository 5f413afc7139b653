//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package machinelock

import (
	"os"
	"syscall"

	"github.com/juju/errors"
)

// supported tells whether this system has flock.
const supported = true

// openFlags: a link would let whoever can write to the directory have another
// file emptied, and to open a pipe must not block.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// errLink is what opening a link with openFlags fails with.
const errLink = syscall.ELOOP

// tryLock returns whether f is locked now, for itself alone or shared. It does
// not wait.
func tryLock(f *os.File, shared bool) (bool, error) {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, errors.Annotatef(err, "locking %s", f.Name())
		}
	}
}

// unlock gives the lock back and closes f. A process that is being forked at
// this instant has f open until it becomes another program, and to close ours
// would leave the file locked that long.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}
