// Package remote lets several agents share one controller: [Serve] offers it on a
// unix socket, and [Dial] connects an agent with it. What comes out of Dial is a
// facade.Applications with all its optional interfaces, and tells what operators
// have to know of the controller.
//
// # The wire
//
// Each question is a POST of JSON to /NAME, answered with 200 and JSON or with 422
// and what was wrong, by its kind: what comes out at the other end is an error of
// the same kind and message. A watcher is a POST of which the answer does not end,
// one line of JSON for each event. The greeting is such an answer, too, and the
// end of it is how an agent sees that its connection is lost.
//
// # Secrets
//
// Passwords and keys are on the wire as they are. The socket has mode 0600, in a
// directory of mode 0700.
//
// # Concurrency
//
// A [Controller] is safe for use by many goroutines. It is a worker: it ends with
// facade.ErrConnectionLost when the controller is gone, and so do its watchers.
package remote
