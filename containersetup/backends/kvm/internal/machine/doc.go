// Package machine describes virtual machines: as libvirt's XML, and as the seed from which
// cloud-init sets them up. All of it is pure.
//
// # A domain
//
// [Describe] returns the XML of a [Spec], and [Parse] the spec of XML, also of that which
// libvirt made of what it was given. Its UUID and the addresses of its interfaces follow
// from what it is for ([UUID], [MAC]): who describes it again describes the same one, so
// that libvirt takes a second definition for a change of the first, and refuses one of the
// same name that is another's.
//
// # What ties a domain to a container
//
// A domain has an element of the namespace [Namespace] in its metadata that tells model,
// controller and container, the size of its disk, and what its interfaces were given.
// There is no mark for one that is complete: a domain is defined before its files are made,
// and its disk is made last, so that one with a disk was made whole.
//
// # Secrets
//
// User data is in the seed alone, never in the XML, an error or a name.
package machine
