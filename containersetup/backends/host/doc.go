// Package host is the one door through which the back ends in this module touch the
// machine: they run commands, read and write files and install packages by a [Host], and
// by nothing else. A test scripts one (package hosttest), a dry run prints what would be
// done ([DryRun]), and [New] returns the real one.
//
// # Commands
//
// A [Command] is an argument vector; no shell ever sees it. Each has a deadline, is ended
// with all its children when that or the context ends, and says by [Command.ReadOnly]
// whether it only looks: a dry run carries those out, and tells of the others.
//
// # Files
//
// Files are written as a whole: beside, synced, renamed. After a crash there is either
// the old one or the new one.
//
// # Packages
//
// [Packages] returns the host's package manager: snap on Ubuntu, apt on what comes from
// Debian. Installing waits for a held lock, tells who holds it, and returns what was
// really added, so that it can be taken away again.
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
