// Package facade says what sutler's workers need to hear from, and tell to,
// the controller of their host agent: small interfaces, and the plain values
// that they carry.
//
// An agent's author implements [Applications] over whatever connection the
// agent has to its controller and hands it to the operator provisioner. The
// package fakes has an in-memory implementation to test against.
//
// # Optional interfaces
//
// A facade may offer more. The provisioner looks for these by type assertion
// and works without them:
//
//   - [ProvisioningWatcher]: an application whose inputs changed (addresses,
//     version, image, CA, tags, storage) is looked at at once instead of at the
//     next resync.
//   - [BulkApplications]: life and charm format of many applications in one
//     round trip instead of two round trips for each.
//   - [StatusSetter]: users see in their application's status what the
//     provisioner waits for or why it failed.
//
// # Errors
//
// Methods return errors of the kinds of github.com/juju/errors, tested with
// errors.Is. The kinds that carry meaning to the workers are errors.NotFound
// (the entity is gone), errors.NotSupported (the optional method is not to be
// had from this controller) and [ErrConnectionLost] (the whole connection is
// gone: the worker ends, and the agent's dependency engine starts it again).
// Anything else is the trouble of the one application that was asked about.
//
// # Concurrency
//
// Every method may be called from many goroutines at once, takes a context
// first and returns promptly when that is cancelled.
//
// # Secrets
//
// Passwords, tokens and private keys have the type [Secret], which shows
// itself as "[redacted]" to every printer, logger and marshaller.
package facade
