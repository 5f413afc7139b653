// Package provisioner keeps one operator running for every application of a
// model.
package provisioner
