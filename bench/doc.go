// Package bench puts sutler's operator provisioner beside what a user would pick
// in its place, on the same work in the same run.
//
// The contenders are in package contenders, what they are put into in package
// worlds. The measurements are in this package's tests, since virtual time can
// be had in tests only: as benchmarks, which are small and quick, and as
// TestFigures, which at full size takes some minutes. Package figures holds
// what was measured and makes tables and charts of it, package chart draws.
//
//	go test -bench . -benchtime 1x -run '^$' .   # each measurement once, small
//	go run ./cmd/compare                         # measure at full size; write docs/benchmarks and docs/BENCHMARKS.md
//	go run ./cmd/compare -render                 # from the figures that are there
//
// A test holds that tables and charts are those of the figures committed.
package bench
