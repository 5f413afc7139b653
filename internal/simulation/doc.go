// Package simulation plays stories of the operator provisioner in virtual time:
// a model whose applications come and go, a controller and an operator manager
// that fail in every way they can, workers that crash, restart and overlap. In
// the end the faults stop, and after a bounded time everything has to be as it
// should.
//
// # What is proved
//
// Two kinds of rule are held. Some hold at every instant: a password that is
// stored is kept, no write of what is out of date takes effect, an application
// is worked on once at a time, another's trouble delays nobody, only what may
// end a worker ends it. The others hold in the end: each living application of
// format 1 has one operator that can log in and serve, no dead one has a part of
// one, none of format 2 was ever touched, the report and the statuses say so,
// and no secret is to be found in anything that was printed. See the file
// invariants.go.
//
// # Two ways of looking
//
// The tests enumerate: for each kind of pass, every mishap at every call, every
// pair of crashes, and every call at which a second worker can overtake a
// first. And they tell stories at random, from a seed.
//
// # Replay
//
// Nothing in a story depends on how its goroutines are scheduled. What befalls
// a call, and how long it takes, is a hash of the seed, the session, the method,
// the application and the how manieth such call it is; every call takes an odd
// number of nanoseconds, so that no two things happen at one instant. A seed
// that fails is printed, and plays exactly the same story again:
//
//	go test ./internal/simulation -run 'TestStories$' -v -stories 1 -seed 12345
//
// # What stories keep to
//
// The worker promises what its documentation says and no more; a story that
// asks for more would prove nothing. See the file story.go for what that
// excludes and why.
//
// # Time
//
// A World must be made and used inside a testing/synctest bubble. The package
// does not import testing; its tests make the bubbles.
package simulation
