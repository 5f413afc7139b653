// Package leader has one of several agents lead, by an election on a
// coordination/v1 Lease of a Kubernetes cluster, so that a worker of which there
// should be only one runs in the agent that leads and stands by in the others.
// The election itself is that of client-go's leaderelection package: agents that
// use it in another way can stand for the same Lease.
//
// # Use
//
// An agent's dependency engine gets two manifolds of this package, and has those
// manifolds wrapped that are the leader's alone:
//
//	"leader-election":      leader.ElectionManifold(config),
//	"leader":               leader.Manifold("leader-election"),
//	"operator-provisioner": leader.Wrap(provisioner.Manifold(...), "leader"),
//
// The election runs all the time, and its report says who leads. The second
// manifold's worker is there only while this agent leads. What is wrapped depends
// on that worker: it starts when this agent is elected, is stopped as soon as the
// agent leads no longer, and is a missing dependency to others meanwhile. A
// manifold that needs no wrapping, since its own Start looks, may name "leader"
// among its inputs and ask for it with nil.
//
// What only reads, such as an operator manager with its informers, can go on in
// every agent: it costs memory there, and the next leader starts with warm
// caches. Where it is to be the leader's too, wrap both it and what depends on
// it.
//
// # Life cycle
//
// A [Worker] stands for election until it leads, leads until it is killed or
// cannot renew the Lease, and ends then, with [ErrLost] in the second case. It
// does not stand again: the engine starts another in its place.
//
// An agent whose renewals fail leads for at most Config.RenewDeadline after it
// sent the last that succeeded, and others wait for Config.LeaseDuration, which
// is longer, after they saw the last renewal. It stops at once when it sees
// another in the Lease, as it does after its machine was suspended.
//
// A worker that is killed stops leading there and then, waits until what was
// wrapped has stopped, and releases the Lease, so that the next leader need not
// wait for it to expire. All that takes a second at most. If the dependents take
// longer, or the API server does not answer, the Lease is left to expire. An agent
// that is killed with SIGKILL is succeeded when its Lease has expired.
//
// # Overlap
//
// No election can keep two leaders from ever overlapping: an agent that is
// suspended between looking at the Lease and a write does that write whenever it
// goes on, and one call of a dependent may be under way while it is being
// stopped. Between the two of them, an agent that was replaced stops its dependents
// within the time between RenewDeadline and LeaseDuration, if they stop when they
// are told to. The operator provisioner is made for such an overlap: with a
// manager that stages (operator.Stager), two of them end with one password, which
// the controller knows. A worker for which an overlap is harmful needs more than
// this package.
//
// # Concurrency
//
// All methods may be called from many goroutines at once.
//
// # Errors
//
// While a worker stands for election nothing ends it: what goes wrong is logged as
// a warning when it starts or changes, is in the report as long as it lasts, and is
// tried anew every RetryPeriod. What leaderelection itself logs comes at the debug
// level. A panic in the client is an error that ends the worker.
//
// # Rights
//
// [Rules] are all that the agent's service account needs.
//
// # Testing
//
// Elections and wiring are tested in virtual time: leaderelection takes its time
// from package time, so testing/synctest drives it. That the rights are enough, and
// the takeover after SIGKILL, are shown against a real API server.
package leader
