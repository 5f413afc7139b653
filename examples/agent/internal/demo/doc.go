// Package demo plays a story on a temporary model: it runs the agent as a child
// process, edits the model as a person would, kills what can be killed, and
// checks after every step that what should be true is.
//
// It believes nobody. What the agent says is taken from its report, over its
// socket; that an operator or a box runs, from the system's list of processes;
// that it is who it says, from the certificate that an operator shows and from
// what a box says on its own socket; that a password was kept, from the
// operator's file and the controller's hash; that the machine was prepared once,
// from what that left.
//
// There are four stories. In one, operators are processes; in another they are
// pods, of a cluster whose node is on this machine: then it looks for objects in
// the namespace, and for a container's process and files on the node. In the third,
// containers are LXD's: it asks LXD itself, knocks at a container's address, looks
// into containers, and compares what the machine looks like before and after. It
// kills LXD, which has to be there for it.
// In the fourth they are virtual machines of libvirt's, which it asks and kills likewise;
// what guests do it reads on their consoles.
//
// Whatever happens, at the end no process, no file, no namespace and no instance is
// left.
package demo
