package provisioner

import (
	"sync/atomic"

	"github.com/juju/errors"
)

// optional is a part of the facade or the manager that may be missing: because
// it does not implement the interface, or because it says, when asked, that it
// does not support it after all. Then it is not asked again.
type optional[T any] struct {
	part  T
	there atomic.Bool
}

// find takes the part from what may implement it.
func (o *optional[T]) find(from any) {
	if part, ok := from.(T); ok {
		o.set(part)
	}
}

func (o *optional[T]) set(part T) {
	o.part = part
	o.there.Store(true)
}

// get returns the part, and whether it is there.
func (o *optional[T]) get() (T, bool) { return o.part, o.there.Load() }

// refused reports whether err says that the part is not supported, and takes
// note of it.
func (o *optional[T]) refused(err error) bool {
	if !errors.Is(err, errors.NotSupported) {
		return false
	}
	o.there.Store(false)
	return true
}
