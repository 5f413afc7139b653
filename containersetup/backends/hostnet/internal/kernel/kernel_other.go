//go:build !linux

package kernel

import (
	"github.com/juju/clock"
	"github.com/juju/errors"
)

// Open returns errors.NotSupported on this system.
func Open(string, clock.Clock) (Kernel, error) {
	return nil, errors.NotSupportedf("changing the network of this system")
}
