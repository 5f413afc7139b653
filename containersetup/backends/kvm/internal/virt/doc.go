// Package virt is a connection to libvirtd over its unix socket: what the initialiser
// and the broker use of it, and no more.
//
// # Deadlines
//
// Every call ends when its context does, and after a time of its own on the clock that
// the client was given: Config.CallTimeout for a question, Config.OperationTimeout for
// a change. libvirt has no way to cancel what it was asked, so what was begun goes on
// in the daemon, and whoever comes after has to look at what is there. The
// connection of a call that ended early serves no new call; it is closed when the
// others on it have ended. The next call makes a new one.
//
// # When the daemon restarts
//
// A connection is made by the first call, and anew after it broke: a client outlives
// its daemon. While the daemon is away, a call gives errors.NotYetAvailable, which names
// the socket. A call that was sent and never answered gives that and [ErrNoReply]: a
// change may have been made or not. Domains run on while the daemon is away.
//
// # Errors
//
// A refusal by libvirt is an [*Error] with libvirt's own message in one line. Its kind is
// told by the code alone: errors.NotFound (no such domain, pool, volume or network),
// errors.AlreadyExists, errors.NotSupported, errors.Forbidden. libvirt has no code for
// what is to be defined and has a name that is taken, nor for what is to be started or
// stopped and is so already: that is told apart by looking. The latter is success. A
// deadline that passed is errors.Timeout; a context that ended gives its own error, and
// one whose deadline passed is errors.Timeout as well.
//
// # Which domain is meant
//
// What is done to a domain is done to the one that was looked at: calls take a [Domain]
// and go by its UUID, so that one that took its name in the meantime is not touched.
// Pools and networks go by their names.
//
// # Concurrency
//
// A Client may be used by many goroutines at once. They share one connection, on which
// libvirtd works on five calls at a time. [Client.Close] joins every goroutine.
package virt
