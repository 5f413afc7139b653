// Package fakes has an in-memory controller, operator manager, host and agent
// for the tests of whoever embeds sutler's workers.
//
// They are fakes, not mocks: they keep state and follow the rules of the
// interfaces that they implement, so a test says what the world is like and
// looks at what became of it, and does not spell out calls. The fake manager
// passes the suite in operator/managertest, and the back end of the fake host
// the one in containersetup/backendtest.
//
// # Use
//
// For operators: a [Controller] has applications, a CA and passwords; a
// [Manager] has operators. For containers: a [Machine] is what the controller
// has of one machine and its containers; a [Host] is that machine itself, with
// back ends and their instances, a network, and a [Lock]. An [Agent] has the
// agent's own configuration. The methods of interfaces that workers call are the
// worker's side. All the others (AddApplication, SetLife, Vanish, Password,
// Writes, ...) are the test's side: they never fail and are not recorded.
//
// # Faults
//
// Calls of the worker's side go through a [Faults], which records them in order
// and lets a test make any of them fail, fail after having acted (a lost
// reply), take time, block, panic, or answer nonsense: the next one, a number
// of them, those for one application, or as a function of each call. Watchers
// are broken by hand: see [Controller.Watchers] and [Watcher].
//
// A crash of the worker is played with [Faults.CutAt] or [Faults.Cut]: from
// then on nothing that the old worker calls has any effect, and the lock that it
// had is free. The next worker, or one that overlaps with the first, gets views
// with a Faults of its own from [Controller.Session], [Manager.Session],
// [Machine.Session] and [Host.Session].
//
// # Violations
//
// Some mistakes of a worker leave no trace in what becomes of the world: two
// changes of a host at once, or a change without the machine lock. These are
// kept for the test to look at: see [Host.Violations] and [Machine.RequireLock].
//
// # Time
//
// Time comes from the clock given to [NewFaults]. In a testing/synctest bubble
// that is clock.WallClock, and hours pass at once. Make the fakes inside the
// bubble.
//
// # Concurrency
//
// Everything may be used by many goroutines at once. The fakes have no
// goroutines of their own; an operator whose deletion takes time has a timer.
//
// # Secrets
//
// Passwords, keys and rendered files stay of the type facade.Secret, also among
// the recorded arguments. [Log] keeps what was logged, so that a test can search
// it for what must not be there.
package fakes
