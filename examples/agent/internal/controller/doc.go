// Package controller is the example's controller: a directory that a person
// edits, offered to the operator provisioner as a facade, and an HTTPS endpoint
// that operators log in to. A real agent has a connection to a controller
// elsewhere in its place.
//
// # The model
//
// The directory is read by the package model, at start and whenever something
// in it changes, and is never written. Questions are answered from the last
// reading. When the directory as a whole cannot be read, the last reading
// stands: an unmounted disk removes no application.
//
// # What is kept
//
// [State] keeps, in DIR/.agent with mode 0700, all files 0600: the controller's
// UUID and address, its CA with the key, and a bcrypt hash for each operator's
// password. Certificates, sessions and what operators said are not kept: they
// are issued, opened and said again. A password outlives the removal of its
// application, since nobody here knows when the operator has gone; it lets
// nobody in meanwhile.
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
