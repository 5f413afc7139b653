// Package imports holds the shape of this repository: what the root module may
// depend on, and which way the arrows between its packages may point. It has no
// code of its own, only tests, and each of their rules carries its reason, which
// a failure prints.
//
// The rules are functions of a graph of packages, read from the source with
// go/parser: every file counts, whatever its build tags, and go test sees by
// itself when a file has changed. rules_test.go is what to edit when a package
// is added.
package imports
