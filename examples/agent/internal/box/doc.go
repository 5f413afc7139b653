// Package box is the example's own back end for containers, of the type "box". It
// needs no root, no daemon and no image, and is otherwise as real as any: an
// instance is a directory and a process that lives on when the agent is killed.
//
// # Instances
//
// Each has a directory of mode 0700 in [Config.Dir], named after its container
// by container.InstanceName. All files in it have mode 0600:
//
//   - box.yaml: what it was made from, and how far that has come;
//   - user-data: the container's user data, for whatever runs in a box;
//   - process.yaml: the box's process, as it wrote itself when it began;
//   - box.sock: where the box says who it is, to whoever connects;
//   - box.log: what its process said;
//   - lock: held by the box while it lives, so that there are never two.
//
// The process is the same program as the agent, called as [Config.Command] says,
// in a session of its own. [Run] is what it does.
//
// # Life cycle
//
// A [Host] is a worker that looks after the boxes: one that ends by itself is
// started again, with a back-off. Its end leaves them running, and so does that
// of its process; the next Host adopts them. It knows a process by its pid, the
// time it started and the boot id, so a pid that was given to another process is
// never signalled. [Host.Stop] stops the boxes and keeps their directories, as
// switching a machine off does; the next Host starts them again.
//
// # Crashes
//
// A directory appears under its name with all that its process needs in it, and
// loses its name before its content. A box counts as made once it has said that
// it is ready. One that has not is replaced by the next StartInstance, unless it
// turns out to be ready after all.
//
// # Concurrency
//
// Calls about one instance wait for each other; others do not. Listing waits for
// nobody. One directory has one Host of a model at a time, which is for the
// agent to see to.
package box
