// Package api is a client of LXD's REST API over the daemon's unix socket: what
// the initialiser and the broker use of it, and no more. It is written for LXD
// 5.0 and later; what came after that is to be asked for with [Server.Has].
//
// # Deadlines
//
// Every call ends when its context does, and after a time of its own on the
// clock that the client was given: Config.CallTimeout for a plain question,
// Config.OperationTimeout for what changes something. Many a change is an
// operation for LXD: it answers at once and goes on in the background. The
// client waits for its end in slices of ten seconds, so that neither side
// depends on a connection that stays up for minutes. When a call ends early, the
// operation goes on in the daemon: LXD can cancel none of those that are used
// here. Whoever comes after has to look at what is there.
//
// # When the daemon restarts
//
// While it is away, a call gives errors.NotYetAvailable, which names the socket.
// A request that was sent and never answered gives [ErrNoReply]: it may have been
// carried out or not. A wait for an operation asks again for as long as the
// operation has time, and for two minutes at most while nobody answers. LXD
// forgets its operations when it stops: [ErrOperationLost] says that how one ended
// cannot be learned any more.
//
// # Errors
//
// A refusal by LXD is an [*Error] with LXD's own message in one line. Its kind is
// told by the code alone: errors.NotFound, errors.AlreadyExists,
// errors.Forbidden, errors.BadRequest, errors.NotYetAvailable (503), and
// [ErrChanged]. LXD has many a refusal that deserves one of them come with code
// 500, and all failures of operations with one and the same code: they have no
// kind. What was to be made and is there already is told apart by looking
// whether it is there. A deadline that passed is errors.Timeout; a context that
// ended gives its own error, and one whose deadline passed is errors.Timeout as
// well.
//
// # Secrets
//
// Values of configuration may be secret: user data, passwords of proxies. The
// client logs nothing, and when LXD quotes in a message a value that it was just
// sent, the message has the key's name in its place.
//
// # Concurrency
//
// A Client may be used by many goroutines at once. It has no goroutine of its
// own.
package api
