// Package lxd prepares a machine for LXD containers and runs them: an [Initialiser], which
// installs LXD if there is none and sets it up once, and a [Broker], which makes and
// removes the containers of one model. A host agent gives [NewBackend] to its
// container-setup worker:
//
//	backend, err := lxd.NewBackend(lxd.Config{
//		ModelUUID: model, ControllerUUID: controller, StateDir: "/var/lib/agent/lxd",
//	})
//	config.Backends[container.LXD] = backend
//
// It speaks LXD's REST API of version 5.0 and later over the daemon's unix socket, and
// needs to be root or of the group lxd.
//
// # What is done to a host
//
// The initialiser looks first and does only what is lacking, one step at a time: LXD is
// installed (apt on Debian, the snap on Ubuntu), its daemon waited for, a storage pool
// made if there is none, a bridge made if there is none, and the default profile given a
// root disk and a network interface if it has none. [Initialiser.Plan] tells the steps
// without doing them, and why. [Initialiser.Undo] takes back what was done, and nothing
// else: each step is recorded in [Config.StateDir] before it is done, and what it makes
// bears the record's mark. Bridges, firewall rules and routes of others are never
// touched.
//
// The bridge's subnet overlaps no address and no route of the host; see package subnet.
// What LXD has already wins over any choice.
//
// # Settings
//
// The controller's settings for the type win over the [Config]: networking-method (local
// or provider), lxd-bridge (one that is there), lxd-subnet, lxd-subnet-pool,
// lxd-storage-driver, lxd-storage-size (MiB), lxd-snap-channel, lxd-image-cache-days,
// http-proxy, https-proxy, no-proxy, image-server, image-protocol. An unknown one is
// errors.NotValid; "model-uuid", which every controller tells, has to be that of the
// [Config].
//
// # Containers
//
// A container's instance has the name that container.InstanceName gives it, and keys
// "user.sutler.*" in its configuration that tell model, controller and container.
// Instances without them, or with another model's, are neither listed nor touched. One
// whose making was cut short is known by the lack of a mark that is set last, and is made
// anew.
//
// Its image is the one that the daemon has under the alias NAME/TRACK, as in
// "ubuntu/22.04"; if there is none it is fetched, one image at a time, and gets that
// alias. The attribute "image" of a container names another one, by alias or
// fingerprint. Other attributes are LXD's own keys after "lxd.", as in
// "lxd.limits.processes".
//
// User data is the instance's "user.user-data". Interfaces that the controller wants are
// put on their parents, or on the default bridge, and described to cloud-init by
// "user.network-config"; without any, the default profile's are had.
//
// # When things break
//
// Every wait for LXD has a deadline and follows its context, also when the daemon is
// restarted in between; then what was made is looked at and taken up. Containers outlive
// the daemon and the agent. LXD's own messages are kept in errors.
//
// # Concurrency
//
// An Initialiser is to be used with the machine lock held, but for Plan; a Broker by any
// number of goroutines. Several agents may have brokers on one host, for different
// models.
//
// # Secrets
//
// User data is given to LXD alone, and never logged or put into an error. Whoever may use
// LXD can read it there. The record in StateDir is private, since a proxy's address may
// have a password in it.
//
// # Testing
//
// Package lxdtest finds or starts a real daemon; backendtest runs on it.
package lxd
