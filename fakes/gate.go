package fakes

import "sync"

// Gate holds calls back until it is released: see [Effect.Gate]. It is safe
// for use by many goroutines.
type Gate struct {
	arriveOnce, releaseOnce sync.Once
	arrived, released       chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{arrived: make(chan struct{}), released: make(chan struct{})}
}

// Release lets through the calls that wait, and all later ones. Releasing
// twice is harmless.
func (g *Gate) Release() { g.releaseOnce.Do(func() { close(g.released) }) }

// Arrived returns a channel that is closed when the first call has come to the
// gate, so that a test knows that the call is under way.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// wait blocks until the gate is released or done is closed; a nil done never
// is.
func (g *Gate) wait(done <-chan struct{}) {
	g.arriveOnce.Do(func() { close(g.arrived) })
	select {
	case <-g.released:
	case <-done:
	}
}
