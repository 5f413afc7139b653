// Package outside shows the workers of a running agent to whoever looks from
// outside, by the packages of module observe: a page for people, their reports as
// YAML and JSON, metrics for Prometheus, whether the agent is ready, and spans in
// a file.
//
// All but the spans are had over HTTP on the unix socket introspection.sock, of
// mode 0600 in the agent's own directory, and on a loopback address if one is
// asked for. Nothing can be changed there, and no secret is there to be read. A
// loopback address can be reached by every user of the machine, the socket by its
// owner alone.
package outside
