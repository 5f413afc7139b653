// Package lxdfake is LXD in memory, behind HTTP on a unix socket: the endpoints
// that package api uses, with the codes, texts, ETags and operations that LXD 5.0
// answers with. A test of package api plays one story against it and against a
// real daemon, and compares.
//
// # What it has
//
// A new one is as LXD is just after it was installed: a default profile without
// devices, no pool, no network but the loopback interface, no image. What is to
// be there beforehand is put there by [Fake.AddPool], [Fake.AddNetwork],
// [Fake.AddImage], [Fake.AddInstance]; what came of a test is read by
// [Fake.Instances] and the like. An image that LXD would have to fetch is
// [Fake.AddRemoteImage].
//
// Instances have states, and addresses on their networks. One whose creation was
// cut short by [Fake.Stop] is there and does not start, as with LXD.
//
// # What goes wrong
//
// A fault is for requests of a method and a pattern of path.Match for the path,
// such as "/1.0/instances/*"; an empty method is any. Faults are looked for in
// the order in which they were set.
//
//   - [Fake.Fail] refuses a request; [Fake.FailOperation] accepts it, and its
//     operation fails.
//   - [Fake.Drop] closes the connection before anything is done, and
//     [Fake.LoseReply] after.
//   - [Fake.Hang] holds a request; [Fake.HangOperation] accepts it, and its
//     operation takes as long as the test likes.
//   - [Fake.CrashAfter] lets the daemon die after some changes, and [Fake.Stop] at
//     once. [Fake.Restart] brings it back, with its state and without its
//     operations.
//
// # What was asked
//
// [Fake.Requests] are all requests in the order in which they came, and
// [Fake.Changes] those that would change something. [Fake.Downloads] counts the
// images that were fetched.
package lxdfake
