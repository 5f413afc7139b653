// Package observe is the map of what shows sutler's workers to those outside:
// package prometheus for metrics and alerts, package otel for traces, package
// page for an agent's introspection socket.
package observe
