// Package images is a folder of disk images: base images, each fetched once and checked,
// and the disk, seed and console log of each instance.
//
// # Base images
//
// [Store.Fetch] returns the base image of a [Source]. Its name is that of its content,
// base-SHA256.img, and it gets it once all is right: the size, the checksum, that it is a
// qcow2 or raw image, and that it is complete in itself. One that names another file, as
// a backing file or for its data, is refused before any program opens it: it would have
// the host's files read by a guest.
//
// What is downloaded so far is in a hidden file beside, .base-SHA256.part. After a broken
// connection, or a crash, a server that can is asked for the rest; in case the rest is of
// something else the whole is fetched once more before it is called wrong. Downloads that
// nobody went on with for a day are removed at the next. One image is fetched at a time,
// over all processes.
//
// A server that is busy or not to be reached is asked again with growing pauses, as long
// as that may help and the context lasts; one that sends nothing for [Config.StallTimeout]
// is broken off. Every request says that nothing is to be compressed on its way.
//
// # Instances
//
// Files are NAME.qcow2, NAME-seed.iso and NAME-console.log. Each is made beside, with a
// name that [Store.Names] knows and [Store.RemoveInstanceFiles] removes, and put in place
// as a whole. [Store.Hold] keeps two agents from making the same instance at once.
//
// # Permissions
//
// The hypervisor has to read them. Base images are 0644, since there is nothing secret in
// them, and whoever it runs as can then read them. Disks and seeds are 0600: by default,
// libvirt gives them to its own user while the domain runs. Where that is switched off
// (dynamic_ownership in qemu.conf), its user has to be root. The folder itself has to let
// that user through.
//
// # Host
//
// Programs run by the host's port. Files are handled here, not by that port: they are too
// large to pass through it.
//
// # Errors
//
// Of github.com/juju/errors: NotValid is for what will be as wrong later, such as a
// checksum; NotFound for an image that its server does not have; AlreadyExists for a disk
// that is there; [ErrNoSpace] for a full file system, which may be full no more later. The
// rest is whatever went wrong.
//
// # Secrets
//
// Addresses may have passwords or keys in them: of an address, no more than scheme, host
// and path is ever told, to an error or to a log. Seeds are private.
//
// # Concurrency
//
// Everything may be called from many goroutines and processes at once, for an instance
// while it is held.
//
// # Testing
//
// The tests serve images with every fault, kill processes in the middle, and have qemu-img
// judge the images where it is installed; SUTLER_REQUIRE=kvm says that it has to be.
package images
