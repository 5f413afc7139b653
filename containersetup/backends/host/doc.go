// Package host is the one door through which the back ends in this module touch the
// machine: they run commands, read and write files and install packages by a [Host], and
// by nothing else. A test scripts one (package hosttest), a dry run prints what would be
// done ([DryRun]), and [New] returns the real one.
//
// # Commands
//
// A [Command] is an argument vector; no shell ever sees it. Each has a deadline, is ended
// with all its children when that or the context ends, and says by [Command.ReadOnly]
// whether it only looks: a dry run carries those out, and tells of the others. Only a child
// that has made itself a session of its own, as daemons do, goes on.
//
// # Files
//
// Files are written as a whole: beside, synced, renamed. After a crash there is either
// the old one or the new one, and at most a hidden ".sutler-*.tmp" beside it.
//
// # Packages
//
// [Packages] returns the host's package manager: snap on Ubuntu, apt on what comes from
// Debian. Installing waits for a held lock, tells who holds it, and never touches the lock;
// it completes what was cut short earlier, reads the lists of packages anew if they may be
// old, removes nothing, and returns what was really added, so that it can be taken away
// again. What others installed in the meantime is not in that; what others have come to
// need is not taken away.
//
// # Errors
//
// Kinds are those of github.com/juju/errors and are told method by method. A command that
// failed is an *[ExitError], whose text is the last line that the command printed, without
// anything that could move a terminal's cursor. On a system without Unix processes, all is
// errors.NotSupported.
//
// # Testing
//
// Package hosttest has a machine in memory. What is proved of the real one here, it does
// likewise.
//
// # Concurrency
//
// Everything may be called from many goroutines at once.
//
// # Secrets
//
// Arguments and environment can be seen by everybody on a machine, so secrets go by
// [Command.Stdin] or by a file that is private; neither is ever printed or put into an
// error.
package host
