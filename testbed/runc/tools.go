//go:build tools

// Package runc pins the program that runs containers on the test bed's real
// node. It is never compiled: its imports keep what runc needs in go.sum.
package runc

import _ "github.com/opencontainers/runc"
