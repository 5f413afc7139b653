// Package machinelock is a machine lock that lives in a file: whoever changes
// this host holds it meanwhile, in whatever process.
//
// # What for
//
// [New] returns a [Lock], which is a container.Lock and a
// container.LockStatuser. All who change the host's packages, network or
// container daemons name the same file, within one agent and in others. The file
// is locked with flock(2), so the kernel gives the lock back when its holder
// dies, however that happens. Systems without flock get errors.NotSupported.
//
// # The file
//
// The file is made when it is first needed, with mode 0600, in a directory that
// must exist. It is never removed, and must not be while anybody may hold the
// lock: two processes that lock two files of one name do not exclude each other.
// A holder whose file was replaced nevertheless says so in the log when it
// releases; who waits or comes later always locks the file that is there now.
// The path's last element may be no symbolic link, and the file no pipe or
// device. The file system must be local, or support flock between its clients.
//
// While the lock is held the file says by whom, in YAML, for people with nothing
// but a shell:
//
//	worker: "hostprep"
//	reason: "bridge devices for 0/lxd/1"
//	pid: 4711
//	since: "2026-01-02T15:04:05.999999999Z"
//
// Only the flock counts. What the file says is never believed of a lock that is
// free, and when it is torn or foreign the holder is unknown, and that is all.
//
// # Waiting
//
// Goroutines that use one Lock have it in the order in which they came. Between
// processes, and between Locks of one path, there is no order: who waits tries
// every Config.Poll. Waiting is bounded by the context of [Lock.Acquire] and by
// nothing else; no goroutine is started for it, and none is left in a system
// call.
//
// # Concurrency
//
// All methods may be called from many goroutines. Programs that a holder starts
// do not inherit the lock.
//
// # Errors
//
// When its context ends, Acquire returns that context's error, which
// errors.Is finds, annotated with the holder that it waited for. A path that
// cannot be a lock is errors.NotValid; what the system refuses keeps its kind,
// such as fs.ErrPermission. Errors name the path.
package machinelock
