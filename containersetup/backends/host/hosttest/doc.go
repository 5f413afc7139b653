// Package hosttest has a machine for tests: its files are in memory, its commands are
// answered from a script, and everything that is done to it is recorded in order.
//
// # Scripting
//
// The zero [Host] is ready: it has no files and no programs. [Host.On] adds an answer to
// commands: [Print], [Exit], or a [Handler] of the test's own, which may look at the
// command's input and environment, and at the host: what a program does to files is done by
// [Host.SetFile] in its handler. Links, owners and directories are not played; a pattern
// matches files alone.
//
// # Judging
//
// [Host.Changes] are what was done, in order, and [Host.Log] is also what was looked at.
// [Host.Files] and [Host.Mode] are what came of it.
//
// # Crashes
//
// [Host.CrashAfter] ends the machine after so many changes; everything from then on is
// [ErrCrashed]. Running what is tested again with each number, and once more after
// CrashAfter(-1), shows that it can be cut short anywhere:
//
//	for n := 0; ; n++ {
//		h := newHost()
//		h.CrashAfter(n)
//		err := tested(ctx, h)
//		h.CrashAfter(-1)
//		...
//		if err == nil {
//			break
//		}
//	}
//
// # Locks and time
//
// [Host.HoldLock] has somebody hold a lock. Who waits for it does so by the clock that it
// was given: in a bubble of testing/synctest, in no time.
//
// # Concurrency
//
// Everything may be called from many goroutines at once, also from within a handler.
package hosttest
