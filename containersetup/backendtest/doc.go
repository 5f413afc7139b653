// Package backendtest is a suite that tells whether a container.Backend, which
// is an Initialiser and the Brokers that come after it, does what these
// interfaces promise. Whoever writes a back end runs it:
//
//	func TestBackend(t *testing.T) {
//		backendtest.Run(t, func(t *testing.T) backendtest.Harness {
//			return backendtest.Harness{Backend: newBackend(t), Type: "lxd"}
//		})
//	}
//
// Some things only the author of a back end can do or see, such as making an
// instance of another model; the hooks of [Harness] are for these, and without
// a hook the checks that need it do nothing.
//
// # Checks
//
// Each check is a subtest named after a behaviour. It starts instances for
// containers that no other check uses and removes them at the end; so all checks
// may run against one host, which may have other instances meanwhile, as long as
// nobody touches those of the suite. Checks named after an issue hold what
// somebody once reported; the address stands beside the code.
//
// A host that was prepared before is fine: a check that interrupts the
// preparation then sees less, and the others see the same. A factory that gives
// each check a host of its own, as a fake can, lets them see everything.
//
// # Time
//
// Whatever a real back end needs time for is waited for until [Harness.Budget]
// is used up, and a call that was cancelled has [Harness.Prompt] to return. A
// back end that works in virtual time runs the same checks in testing/synctest
// bubbles, one by one: see [Checks].
//
// # Panics and calls that never return
//
// A back end that panics fails the check and not the test's process. So does a
// call that has not returned long after its context ended; its goroutine is left
// behind.
//
// # Secrets
//
// No check prints user data, and each fails when an error that the back end
// returned, an instance's id or its status repeats a line of it.
package backendtest
