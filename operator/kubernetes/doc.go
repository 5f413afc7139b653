// Package kubernetes keeps operators as StatefulSets of a Kubernetes cluster: the
// operator manager for an agent of a model on Kubernetes. It is a module of its own,
// since it needs client-go.
//
// [New] returns a [Manager] for one model in one namespace. It implements
// operator.Manager with all of the optional interfaces: changes and drift are seen
// at once, leftovers are listed, a configuration can be staged before anything
// runs, and a settled operator costs no request.
//
// # What an operator is made of
//
// Seven objects at most, in the order in which they are written, so that a crash
// between any two leaves what the next call completes:
//
//	ServiceAccount, Role, RoleBinding  <app>-operator         what its pod may do
//	Secret                             <app>-operator-pull    credentials of private registries
//	Secret                             <app>-operator-config  agent.conf, operator.yaml
//	Service                            <app>-operator         TCP 30666
//	StatefulSet of one pod             <app>-operator         with charm storage: claim charm-<app>-operator-0
//
// An application's name that is too long for a StatefulSet's is cut, and gets twelve
// digits of its digest; the whole name is then in the annotation
// sutler.dev/application.
//
// In the pod an init container with the operator's image copies the operator's
// program to /opt/juju, and the main container, with the base image, runs it. It
// finds <agentPath>/agents/application-<app>/template-agent.conf and operator.yaml
// there, read-only, and can write beside them: its own agent.conf is its own affair.
// Pods pass the Pod Security level "restricted" and have no service account token;
// [PodConfig] changes what a host wants otherwise.
//
// # Ownership
//
// Objects in the namespace that carry the labels operator.juju.is/name and
// operator.juju.is/target and the model's UUID are the manager's. An object of a
// name that is needed without them is somebody else's: it is never written to, and
// the call returns errors.AlreadyExists. Of its own objects the manager owns the
// fields that it sets, by server-side apply: those are put back when somebody edits
// them, and all others are left alone.
//
// # Roll-out
//
// The pod is started again when image, version, storage or what it would read in
// its files changes; not for tags or another order of the controller's addresses.
// A claim template that has to change has the set made anew around its running pod.
// Claims grow where their class allows it. What would lose data is refused with
// errors.NotSupported, and says what to do.
//
// # Life cycle and concurrency
//
// A Manager is a worker. Kill ends its informers and leaves operators as they are.
// Every method may be called from many goroutines; calls that write for one
// application wait for each other. Several managers may work on one model at the
// same time, as agents do that take over from each other: the first to store a
// configuration wins, and the others are told operator.ErrConflict. See the package
// leader for having one at a time.
//
// Reads come from informers, after their first listing; what the manager has written
// is seen by its own reads at once. Operator reads the stored configuration from the
// API server, since contents of Secrets are not kept in memory; GlanceOperator does
// without.
//
// # Errors
//
// The API server's own message stays in every error, with the kind errors.NotFound
// (namespace, storage class), AlreadyExists, Unauthorized, Forbidden,
// QuotaLimitExceeded, Timeout, NotValid (it refuses the object), or NotYetAvailable
// (it is throttling or not serving, or an object is still being deleted). Without the
// right to list, every call returns errors.Forbidden: there is no silence that could
// pass for "nothing is there".
//
// # Rights
//
// [Rules] are what the manager needs in its namespace, and [ClusterRules] what helps
// beyond.
//
// # Secrets
//
// Passwords and keys are in the two Secrets and nowhere else: not in annotations,
// logs, errors or the report. At verbosity 8 and above client-go itself logs what goes
// over the wire, so an agent must not let klog get there.
//
// # Testing
//
// The package passes the suite in operator/managertest against a real API server.
// An agent's author tests with the package fakes, or with the package kubetest against
// a cluster.
package kubernetes
