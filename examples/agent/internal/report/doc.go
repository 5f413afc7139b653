// Package report lets people see into a running agent: the dependency engine's
// report, with those of its workers, as YAML over a unix socket.
//
// The socket has mode 0600 in the agent's own directory of mode 0700. Whoever
// connects is written one report and nothing is read.
package report
