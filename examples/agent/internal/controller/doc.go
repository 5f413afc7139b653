// Package controller is the example's controller: a directory that a person
// edits, offered to the operator provisioner and to container set-up as their
// facades, and an HTTPS endpoint that operators log in to. A real agent has a
// connection to a controller elsewhere in its place.
//
// # The model
//
// The directory is read by the package model, at start and whenever something
// in it changes. Questions are answered from the last reading. When the directory
// as a whole cannot be read, or the machine's part of it, the last reading of
// that stands: an unmounted disk removes no application and no container.
//
// The model is a person's, and nothing is written there; but when nothing is left
// of a dead container, its file goes to DIR/.agent/removed.
//
// # What is kept
//
// [State] keeps, in DIR/.agent with mode 0700, all files 0600: the controller's
// UUID and address, its CA with the key, a bcrypt hash for each operator's
// password, and what there is to know of the machine's containers: status,
// instance, addresses, nonce. Certificates, sessions and what operators said are not kept: they
// are issued, opened and said again. A password outlives the removal of its
// application, since nobody here knows when the operator has gone; it lets
// nobody in meanwhile.
//
// # Addresses
//
// Containers get theirs out of 192.0.2.0/24, a range that is there for examples.
// One keeps its address until that is given back, also when its file is gone: an
// instance may be left that uses it.
//
// # Log-in
//
// An operator proves itself by its application's tag and password and gets a
// session, with which it tells its status from then on; see the package api.
// One application has one session, the newest.
//
// # Concurrency
//
// A [Controller] is safe for use by many goroutines. It is a worker: Kill ends
// the endpoint and every watcher.
package controller
