// Package operator says what an operator is, and what an agent must be able to
// do with operators: the [Manager] interface, the values it takes and returns,
// and the content of the file operator.yaml.
//
// The operator provisioner works on any Manager. Two ship with sutler:
// operator/process, which keeps operators as processes of this machine, and
// operator/kubernetes, a module of its own, which keeps them as StatefulSets.
// Whoever writes another one proves it with the suite in operator/managertest.
//
// # Optional interfaces
//
// A manager may offer more, found by type assertion: [Watcher] makes drift seen
// at once, [Lister] finds operators whose application was removed while nobody
// looked, [Stager] lets two provisioners overlap for a while and still agree
// on one password, [Glancer] spares a manager the fetching of stored files as
// long as nothing changes.
//
// # Concurrency and secrets
//
// Every method may be called from many goroutines at once, for the same
// application too; it takes a context first and returns promptly when that is
// cancelled. Rendered files hold passwords and keys and so have the type
// facade.Secret.
package operator
