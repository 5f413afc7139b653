// Package observe shows sutler's workers to those outside. It is for hosts that
// want more than one of its packages at once: package prometheus for metrics and
// alerts, package page for an agent's introspection socket, package otel for
// traces.
//
// A worker's Config has room for one Metrics. [Operators] makes one of several
// for the operator provisioner, [Setup] for the container-setup handler and the
// provisioners that it starts, [Containers] for a container provisioner that is
// used by itself. Each part hears everything that it can hear, also what only
// some Metrics can: the start of a pass, a batch, an event, the worker itself. A
// part that panics disturbs neither the worker nor the other parts; the worker's
// log says what it panicked with.
//
// What is returned may be used by many goroutines and by several workers at once
// if its parts may, as all of these packages' may. It adds no goroutine.
package observe
