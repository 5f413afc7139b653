//go:build !linux

package images

import (
	"os"
	"runtime"

	"github.com/juju/errors"
)

func unsupported() error { return errors.NotSupportedf("virtual machines on %s", runtime.GOOS) }

func tryLock(*os.File, int64) (bool, error) { return false, unsupported() }

func freeSpace(string) (uint64, error) { return 0, unsupported() }

func noSpace(err error) error { return err }
