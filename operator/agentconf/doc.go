// Package agentconf reads and writes agent.conf, format 2.0: the file in which
// an agent finds who it is, where its controller is and how to log in there.
// Files of agents in the field can be read, and what is written here they can
// read.
//
// # The file
//
// The first line is "# format 2.0"; what follows is a YAML mapping of plain
// data. [Config.Render] writes the keys in one fixed order, and leaves out
// those without a value save upgradedToVersion and values. [Parse] takes every
// order and every way of quoting. Keys that this package does not know are kept
// on a rewrite, with everything in them but comments, and come last.
//
// A fresh operator finds its first password in oldpassword, and has no
// apipassword until it has chosen one.
//
// # Errors
//
// Every error is an errors.NotValid that names the line or the field, and the
// rule. The file is full of secrets, so no error repeats anything of it, unknown
// keys' names included. No input makes Parse panic; one over [MaxSize] is
// refused unread.
//
// # Concurrency and secrets
//
// A Config is a value without locks: read it from as many goroutines as you
// like, change a [Config.Clone]. Passwords and unknown keys are held as
// facade.Secret; the bytes that Render returns are for a facade.Secret, or a
// file that only its agent can read.
package agentconf
