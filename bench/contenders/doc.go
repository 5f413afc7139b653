// Package contenders has sutler's operator provisioner and what a user might
// write in its place, all behind one small interface, so that they can be given
// the same work and be measured in the same run.
//
// # Who they are
//
//   - [Sutler] is the provisioner of this project with its defaults.
//   - [Serial] is the plain loop: one application after the other, every call
//     in turn; what fails is tried again on the spot.
//   - [ControllerRuntime] is a reconciler on sigs.k8s.io/controller-runtime,
//     whose controller needs no API server: a source of its own feeds names to
//     its queue. With its defaults it has one worker. Tuned it has as
//     many as the others, a rate limiter that suits calls of this kind, and
//     puts what is repeated behind what is new.
//   - [Children] is one catacomb for each application, each with its own
//     back-off, and a semaphore for how many work at once.
//
// All but the first share one reconcile function, written as somebody would
// who knows the interfaces of this project and its contracts. It reads what is
// there, keeps a stored password, renders what should be there and ensures it. It
// remembers nothing from pass to pass and joins no calls of several
// applications. It does not stage a password before it tells the controller:
// that is one call less, and is right as long as no two agents
// overlap.
//
// # Fairness
//
// They are given the same facade and the same manager, the same number of
// applications at once (but for the two that have one by nature), the same
// deadline of a call and the same back-off, unless their default is another one
// and is what is measured. None of them logs. None looks at everything again
// from time to time during a measurement.
package contenders
