// Package containersim plays stories of the container-setup handler, the host
// preparer and the container provisioner in virtual time: a machine whose
// containers come and go, a controller, a host and a machine lock that fail in
// every way they can, agents that crash and restart. In the end the faults stop,
// and after a bounded time everything has to be as it should.
//
// # What is proved
//
// Two kinds of rule are held. Some hold at every instant: the host is changed,
// and the controller asked what must change, under the machine lock only; no
// instance is stopped that its container needs; what was given up is not started
// before somebody asks; no phase is repeated once it is done; only what may end
// a worker ends it, and a kill does so within a second and without an error. The
// others hold in the end: each living container that can be had here runs, was
// started once and is recorded; nothing is left of a dead one, by the harvest
// mode; the host was prepared once for each type, and each device bridged once;
// the lock is free; statuses and the report tell the truth; and no secret is to
// be found in anything that was printed. See the file invariants.go.
//
// # Two ways of looking
//
// The tests enumerate: in each of some situations every mishap at every call,
// every pair of crashes, every change of a container at every call, and a kill
// in every call. And they tell stories at random, from a seed.
//
// # Replay
//
// Nothing in a story depends on how its goroutines are scheduled. What befalls
// a call, and how long it takes, is a hash of the seed, the session, the method,
// the container or type, and the time. Nearly every call takes an odd number of
// nanoseconds, so that hardly ever two things happen at one instant. Where
// several containers are looked at at one instant, it is not certain how they
// are joined into calls: there such calls take no time, and what befalls them
// befalls each container by itself, so that it does not matter. A seed that
// fails is printed, and plays exactly the same story again:
//
//	go test ./internal/containersim -run TestStories$ -v -stories 1 -seed 12345
//
// Stories of crowds, in which joined calls do take time and fail in every way,
// are told beside these. They may take a few attempts to happen again.
//
// # Time
//
// A World must be made and used inside a testing/synctest bubble. The package
// does not import testing; its tests make the bubbles.
package containersim
