// Package hostprep prepares a host's network devices for a container that is
// about to start: those that the controller names are put under bridges, once,
// however many containers ask at the same time.
//
// # What happens
//
// [Preparer.Prepare] takes the machine lock and asks the controller, inside the
// lock, what must change for the container. With nothing to do it gives the lock
// back. Else it has the devices bridged, observes the host's network, publishes
// what it saw, and gives the lock back.
//
// The controller is asked inside the lock, since an answer from before may be
// about a host that another container has changed meanwhile. Publishing is
// inside too: until it is done, the controller's answer to the next container is
// an old one, and two would bridge one device. Both calls have short deadlines
// of their own, so a slow controller holds up nobody for long, given a facade that
// returns when its context ends.
//
// # When it fails
//
// Bridging that fails rolls back, which is the duty of the [Bridger]. What the
// host looks like then is observed and published all the same: a roll-back may
// not have been complete, and the controller should not have to guess. A host
// that was bridged but could not be published counts as failed; the next call
// finds it bridged and publishes it.
//
// # Cancellation
//
// When ctx ends, Prepare returns its error, unless all is done by then, and the
// lock is free. Nothing is changed any more once it has ended. But when it ends while devices are being
// bridged, the network is still observed and published, with a context of its
// own, for half a second at most: an agent that is told to stop is to be gone
// within one.
//
// # Panics
//
// A panic of an injected part goes on to the caller, who has to isolate one
// container from the others anyhow. The lock is given back on its way, and if
// that part was the Bridger, the network is observed and published before.
//
// # Concurrency
//
// A Preparer may be used from many goroutines, and several of them may share a
// lock, as those for several types of container do. It starts no goroutine.
package hostprep
