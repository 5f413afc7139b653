// Package kernel sees and changes the network of this machine, or of one network
// namespace of it: links, addresses and routes.
//
// [State] is all of it at one moment, a value that can be compared, kept in a file and
// reasoned about without a kernel. [Change] is one thing to be done. A [Kernel] looks and
// does; [Open] returns the real one.
//
// # What is kept as it came
//
// Addresses and routes carry the kernel's own message. Whoever puts one back, or on
// another link, sends that message with the link's number changed, so that lifetimes,
// flags, metrics, onlink, several next hops and whatever else a kernel knows of them stay.
//
// # Concurrency
//
// A Kernel may be used by one goroutine at a time, any number of them side by side. It
// switches no thread's namespace for longer than it takes to open its sockets.
package kernel
