package container

import (
	"context"
	"time"

	"github.com/sutler-dev/sutler/facade"
)

// Lock is the machine lock: whoever changes this host holds it meanwhile, in
// whatever process.
type Lock interface {
	// Acquire returns when the lock is the caller's, or when ctx ends, with
	// its error and without the lock. release gives it back; calling it
	// again is harmless. The lock of a process that died is free.
	Acquire(ctx context.Context, holder Holder) (release func(), err error)
}

// Holder is who wants or has the lock, for people who wonder.
type Holder struct {
	// Worker is the part of the agent, such as "container-setup".
	Worker string
	// Reason is what it is for, such as "initialise lxd".
	Reason string
}

// LockStatus is what there is to know of a lock.
type LockStatus struct {
	// Held tells whether somebody has it.
	Held bool
	// Holder is who; zero when not known.
	Holder Holder
	// PID is the holder's process; 0 when not known.
	PID int
	// Since is when it was acquired; zero when not known.
	Since time.Time
}

// LockStatuser is an optional interface of a [Lock].
type LockStatuser interface {
	// Status tells who has the lock. It does not block on the lock.
	Status(ctx context.Context) (LockStatus, error)
}

// NetworkObserver sees what this host's network looks like.
type NetworkObserver interface {
	// Observe returns every interface of the host itself; those at the other
	// end, in containers, are left out.
	Observe(ctx context.Context) ([]facade.NetworkInterface, error)
}

// Bridger puts devices of this host under bridges.
type Bridger interface {
	// Bridge makes each device a port of its bridge, with the device's
	// addresses and routes on the bridge. delay is how long to wait for a
	// bonded device. What is already so is success. When it fails, all is as
	// it was before. It is called with the machine lock held.
	Bridge(ctx context.Context, devices []facade.DeviceToBridge, delay time.Duration) error
}
