// Package managertest is a suite that tells whether an operator.Manager does
// what that interface promises. Whoever writes a manager runs it:
//
//	func TestManager(t *testing.T) {
//		managertest.Run(t, func(t *testing.T) managertest.Harness {
//			return managertest.Harness{Manager: newManager(t)}
//		})
//	}
//
// The optional interfaces of package operator are tested when the manager has
// them. Some things only the author of a manager can do or see, such as taking
// an operator away behind the manager's back; the hooks of [Harness] are for
// these, and without a hook the checks that need it do nothing.
//
// # Checks
//
// Each check is a subtest named after a behaviour. It makes operators of its
// own, under names that no other check uses, and deletes them at the end; so
// all checks may run against one cluster, and a manager may hold other
// operators meanwhile, as long as nobody touches those of the suite. Checks
// named after an issue hold what somebody once reported; the address stands
// beside the code.
//
// # Time
//
// Whatever a real manager needs time for is polled until [Harness.Budget] is
// used up. A manager that works in virtual time runs the same checks in
// testing/synctest bubbles, one by one: see [Checks].
//
// # Secrets
//
// No check prints a file's content, and each fails when an error that the
// manager returned, an operator's ID or its status repeats a line of one.
package managertest
