// Package provisioner is the operator provisioner: a worker that keeps one
// operator running for every application of a model, and takes it away when
// the application goes.
//
// An agent's author gives it a [facade.Applications] (the controller) and an
// [operator.Manager] (where operators live), and either makes a [Worker] with
// [New] or wires a [Manifold] into the agent's dependency engine.
//
// # How it works
//
// Every application is a key in a queue. Events only mark keys dirty; a pass
// then reads the present state of that one application, decides, and acts.
// Nothing is remembered that a restart could not read again, so a crash costs
// nothing but time, and a lost event is made up for by the next resync. The
// decision is a pure function; see the file decide.go, which fits on a screen.
//
// An application's life decides most:
//
//   - alive, with a charm of format 1: its operator is made to be there and to
//     be as it should. While a previous one still terminates, that is awaited.
//   - dying: nothing; its operator is still needed.
//   - dead, or gone: its operator, or what there is of one, is deleted, and
//     looked at until it has gone.
//   - of format 2 or later: nothing, ever.
//
// # Isolation
//
// A key runs once at a time, Config.Concurrency keys at once. One that fails
// waits by itself, with a back-off of its own; so does one whose operator takes
// long to terminate, without occupying anybody. A panic in a pass is that
// application's failure. Every call has a deadline. Only the end of a watcher,
// and a facade that says that its connection is lost, end the worker.
//
// Fresh events go before resyncs, retries and the baseline after a restart, and
// those are not starved.
//
// # Passwords
//
// The controller must know an operator's password before the operator uses it,
// and they must agree for ever after, whatever crashes when. A password that is
// stored in the operator's configuration is kept, always. A new one is stored
// first where the manager can do that without starting anything (an
// [operator.Stager]), then the controller is told, then the operator is
// started. The controller is told again as long as the operator does not fully
// exist, since a crash may have lost the first telling; an operator that fully
// exists may have changed its password itself, and is left alone.
//
// With a Stager this holds also while two workers run at once for a while, as
// long as nobody else removes or spoils a stored configuration meanwhile. It
// holds for one incarnation of an application: when one is removed and made
// again under the same name, it needs in addition that no call takes effect
// later than its deadline, and that the new one comes only when the deletion of
// the old one's operator has begun, or a longest pass later.
//
// # Certificates
//
// An operator's certificate is kept while it fits and has more than a third of
// its life left; then a new one is issued, checked, and handed out. An
// application is looked at again at the moment its certificate falls due.
// Requests that fail are spaced out from a minute to an hour.
//
// # Sizing
//
// To keep up, Config.Concurrency must be at least the number of applications
// times the duration of a pass divided by Config.ResyncInterval: 10,000
// applications with passes of 0.5 s and a resync every 10 min need 9. The
// report says "saturated" when it is too low.
//
// # Optional interfaces
//
// What the facade and the manager offer beyond the required is found by type
// assertion and used: [facade.ProvisioningWatcher], [facade.BulkApplications],
// [facade.StatusSetter], [operator.Watcher], [operator.Lister],
// [operator.Stager], [operator.Glancer]. One that answers errors.NotSupported is
// done without.
//
// With a Glancer, a pass that finds everything as the last one left it does not ask
// for the stored files: that they are right for what they are rendered from is
// remembered with their generation, as digests. Any other pass reads them.
//
// # Secrets
//
// Passwords and keys have the type [facade.Secret]. They reach the controller,
// the manager, and nothing else: no log, error, report or metric.
//
// # Testing
//
// The package fakes has a controller and a manager in memory, which fail on
// demand. Under testing/synctest, with clock.WallClock, hours pass in no time.
package provisioner
