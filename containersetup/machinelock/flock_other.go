//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package machinelock

import (
	"os"

	"github.com/juju/errors"
)

// supported is false: there is no flock here, and New returns no Lock.
const (
	supported = false
	openFlags = 0
	errLink   = errors.ConstError("never")
)

func tryLock(*os.File, bool) (bool, error) {
	return false, errors.NotSupportedf("machine lock on this system")
}

func unlock(f *os.File) { _ = f.Close() }
