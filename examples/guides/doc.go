// Package guides is the code of the guides in docs, in full: a facade over a
// controller that is asked by messages, and an operator manager and a back end
// for containers that keep files for a supervisor. A test holds that every piece
// of Go in the guides stands here, word for word, so that what they show compiles
// and passes its tests.
//
// All are for reading: take what you need into a package of your own.
package guides
