// Package worlds has what the contenders are put into to be measured.
//
// A [Fake] is the fakes of this project with a latency: what takes long is the
// calls, and in virtual time the figures are exact. A [Settled] is a controller
// and a manager in which every application already has its operator; it answers
// at once and allocates nothing, so that what is measured is the contender's
// own.
package worlds
