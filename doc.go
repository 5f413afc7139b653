// Package sutler is the map of a library that a host agent embeds to keep its
// applications supplied with operators. It has no code of its own.
//
// # What an agent imports
//
//   - provisioner: the worker that keeps one operator running for every
//     application of a model, and takes it away when the application goes; and
//     the manifold that wires it into a dependency engine.
//
// # What an agent brings
//
//   - facade: what the worker asks of the agent's controller, and the values that
//     go between them. The agent implements facade.Applications.
//   - operator: what an operator is, and what the worker asks of whatever runs
//     operators. The agent picks a manager or implements operator.Manager.
//   - containersetup/container: what container set-up asks of a back end, of the
//     machine lock and of the host's network.
//
// # What ships beside it
//
//   - operator/process: a manager that runs operators as supervised processes of
//     this machine, for agents without a cluster.
//   - operator/kubernetes: a manager that keeps operators as StatefulSets of a
//     cluster, and the election of a leader among agents. A module of its own.
//   - operator/agentconf: the agent.conf format of operators, both ways.
//   - operator/managertest: the suite that every manager passes, for authors of
//     another one.
//   - containersetup/containerprovisioner, hostprep and machinelock: what creates
//     the containers of one type, what readies the host's devices for them, and a
//     lock between processes.
//   - containersetup/backendtest: the suite that every container back end passes.
//   - enginevalue: a plain value as a manifold of an engine.
//   - enginelog: the logger that worker.Runner and dependency.Engine want, over a
//     log/slog.Logger.
//   - fakes: controllers, a manager and a container host in memory that fail, wait
//     and forget on demand, for the tests of an embedding agent.
//
// # How the parts hang together
//
// Everything that the worker needs is handed to it in a Config: a facade, a
// manager, a clock, a logger. Nothing is global and nothing happens at import.
// facade and operator know nobody, the workers know the two, managers and fakes
// know the interface that they stand for, and the example agent, a module of
// its own under examples, puts them together. ARCHITECTURE.md has the picture,
// and says what happens to an application from event to settled operator.
//
// Errors are of the kinds of github.com/juju/errors. Secrets have the type
// facade.Secret and show themselves as "[redacted]". Workers are those of
// github.com/juju/worker/v3: they start when made, end by Kill, and Wait says
// why they ended.
package sutler
