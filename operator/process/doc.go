// Package process keeps operators as supervised processes of this machine: the
// operator manager for an agent without a cluster.
//
// [New] returns a [Manager] over one directory. For every application it keeps
// one process, made from the command template in [Config], and starts it again
// when it ends. Linux only; elsewhere New returns errors.NotSupported.
//
// # What an operator finds
//
// An operator is started in its own directory, <Dir>/<application>, of mode
// 0700, as a process group of its own, with standard input empty. It finds
// there:
//
//   - template-agent.conf: its agent.conf as the provisioner wants it now;
//   - operator.yaml: its certificate, key and CA;
//   - agent.conf: a copy of the template, made before a start when there is no
//     agent.conf. From then on the file is the operator's own: it is never
//     written again, so the password in it is whatever the operator made of it.
//
// Its output goes to operator.log, which is moved to operator.log.1 when it
// grows beyond 10 MiB. The manager keeps what it must not forget in
// operator.json. All these files have mode 0600 and, but for the log, are written
// atomically.
// Other files in the directory are the operator's, and go when it goes.
//
// The environment is PATH, what Config.Env says, and [TokenVariable]; nothing
// else is inherited. No secret is in it, nor in the arguments.
//
// A change of what the operator has to read again (agent.conf, operator.yaml)
// restarts it; tags, image and the order of the controller's addresses do not.
//
// # Life cycle
//
// A Manager is a worker: Kill and Wait end the manager and leave its operators
// running, so that an agent can be restarted or upgraded, or crash, without a
// pause of its operators. The next manager on the directory adopts them: it
// knows a process by its pid together with the time it started and the boot id,
// so a pid that was given to another process is never signalled, and finds one
// whose pid it had no time to write down by a token in its environment. Adopted
// operators are restarted only when their configuration changed. A process with
// the directory's token of which no record is left is ended. So a directory must
// not be copied for a second manager while its operators run.
//
// An agent that is to leave nothing behind calls [Manager.StopOperators] at its
// end, before or after it killed the manager. Files stay, and the next manager
// starts the operators again.
//
// One directory has one manager at a time: New returns errors.AlreadyExists
// while there is another, in this process or any.
//
// An operator is stopped with SIGTERM to its process group, and SIGKILL after
// Config.StopTimeout. When the operator's first process has ended, whatever is
// left that it started and that still has its token in the environment is
// killed, as a service manager or a container would.
//
// # Crashes
//
// Everything is written so that the agent can be killed at any instant. A
// directory appears and disappears under its name as a whole, by a rename. The
// configuration is stored before the record says that it is ensured; the record
// says that a process is about to start before it does, and that an operator is
// to be deleted before it is touched. What was begun is completed by the next
// manager or by the next call.
//
// # Foreign content
//
// What is in the directory and was not made by a Manager (files, directories
// whose name is no application's, directories without our record) is named in
// the report and otherwise left alone. An application whose directory is taken
// by such content cannot have an operator: errors.NotValid. Names that begin
// with ".lock", ".making-" and ".removing-" are the manager's.
//
// # Concurrency
//
// Every method may be called from many goroutines. Calls for one application
// wait for each other, never for a process: what takes time (stopping,
// restarting, removing files) is done by one goroutine for each operator. All
// of them have ended when Wait returns.
//
// # Errors
//
// errors.NotValid for a name, configuration or directory that cannot be used;
// operator.ErrConflict by the rule of operator.Config.Generation;
// errors.NotYetAvailable when an operator is ensured or staged whose
// predecessor is still terminating. Generations are digests of the stored
// files. What goes wrong with a process is in Status and [Manager.Report].
//
// # Testing
//
// The package passes the suite in operator/managertest. An agent's author tests
// with the package fakes, or with this one and a small program as the operator.
package process
