// Package kvm prepares a machine for virtual machines of libvirt and runs them: an
// [Initialiser], which installs libvirt and QEMU if they are not there and sets them up
// once, and a [Broker], which makes and removes the machines of one model. A host agent
// gives [NewBackend] to its container-setup worker:
//
//	backend, err := kvm.NewBackend(kvm.Config{
//		ModelUUID: model, ControllerUUID: controller, StateDir: "/var/lib/agent/kvm",
//		Images: map[string]kvm.Image{"ubuntu/22.04": {URL: "https://...", SHA256: "..."}},
//	})
//	config.Backends[container.KVM] = backend
//
// It speaks with libvirtd 7.1 and later over its unix socket, and needs to be root: it
// writes disks itself.
//
// # What is done to a host
//
// The initialiser looks first and does only what is lacking, one step at a time: libvirt
// and QEMU are installed (by apt, on Debian), the daemon waited for, a storage pool of type
// "dir" defined, its folder made, the pool started, and a network of libvirt's started;
// both are had start with the host. [Initialiser.Plan] tells the steps without doing them,
// and why. [Initialiser.Undo] takes back what was done, and nothing else: each step is
// recorded in [Config.StateDir] before it is done. Other pools, networks, bridges, firewall
// rules and routes are never touched.
//
// Where the processor cannot run virtual machines (there is no /dev/kvm), that is
// errors.NotSupported before anything is installed, unless [Config.AllowEmulation] has
// software do it.
//
// # Settings
//
// The controller's settings for the type win over the [Config]: networking-method (local
// or provider), kvm-network (a network of libvirt's), kvm-bridge (a bridge of the host's
// instead), kvm-emulation (true or false). An unknown one is errors.NotValid; "model-uuid",
// which every controller tells, has to be that of the [Config].
//
// # Machines
//
// A container's domain has the name that container.InstanceName gives it, and an element
// of its metadata that tells model, controller and container. Domains without it, or with
// another model's, are neither listed nor touched.
//
// Its disk is an overlay on a base image, which is fetched once, checked against its
// SHA256, and shared. Which one is told by [Config.Images], under NAME/TRACK as in
// "ubuntu/22.04", or by the container's attributes "image" (an address) and "image-sha256".
// Other attributes are errors.NotValid. Without constraints a machine has 512 MiB of
// memory, one CPU and a disk of 8 GiB; a disk is never smaller than its image.
//
// User data and the network's configuration are on a CD for cloud-init. Interfaces that the
// controller wants are put on their parents, which are bridges of the host's or networks of
// libvirt's; those without a parent, and the one that a machine has for which none is
// wanted, on the default.
//
// A machine is made in this order: base image, domain, seed, disk. A domain with a disk was
// made as a whole. One without, or a disk without a domain, was cut short, and is made
// anew. It is removed in the opposite order.
//
// # When things break
//
// Every call to libvirt has a deadline and follows its context, also when the daemon is
// restarted in between; then what was made is looked at and taken up. Machines outlive the
// daemon and the agent. libvirt's own messages are kept in errors.
//
// # Concurrency
//
// An Initialiser is to be used with the machine lock held, but for Plan; a Broker by any
// number of goroutines. It has no connection between calls. Several agents may have brokers
// on one host, for different models, also with one pool.
//
// # Secrets
//
// User data is on the seed alone, which only root and the hypervisor can read, and never
// logged or put into an error. Addresses of images are told without passwords.
//
// # Testing
//
// Package kvmtest finds or starts a real daemon; backendtest runs on it.
package kvm
