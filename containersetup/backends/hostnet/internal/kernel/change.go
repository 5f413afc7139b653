package kernel

import (
	"context"
	"fmt"
	"time"
)

// Kernel is a network.
type Kernel interface {
	// Look returns what there is. What appears or vanishes meanwhile is either in
	// it, whole, or not.
	Look(ctx context.Context) (State, error)
	// Do makes one change. What is already so is success; errors.NotFound says that
	// the link is not there.
	Do(ctx context.Context, c Change) error
	// Close gives back what Open took.
	Close()
}

// Verb is what a change does.
type Verb string

// All verbs.
const (
	AddBridge     Verb = "add bridge"     // Link, MAC, MTU
	RemoveLink    Verb = "remove link"    // Link
	SetMaster     Verb = "set master"     // Link, Master; empty for none
	SetUp         Verb = "switch on"      // Link
	SetDown       Verb = "switch off"     // Link
	SetMAC        Verb = "set MAC"        // Link, MAC
	SetMTU        Verb = "set MTU"        // Link, MTU
	AddAddress    Verb = "add address"    // Address, Age
	RemoveAddress Verb = "remove address" // Address
	AddRoute      Verb = "add route"      // Route
	RemoveRoute   Verb = "remove route"   // Route
)

// Change is one thing to do. Links go by their names, so that one can be written down
// before its links are there.
type Change struct {
	Verb    Verb
	Link    string
	Master  string
	MAC     string
	MTU     int
	Address Address
	// Age is how long ago the address was seen: what is left of its lifetime is less
	// by that.
	Age   time.Duration
	Route Route
}

// String returns it for people, as in "add address 10.0.0.5/24 of br-eth0".
func (c Change) String() string {
	switch c.Verb {
	case AddAddress, RemoveAddress:
		return fmt.Sprintf("%s %s", c.Verb, c.Address)
	case AddRoute, RemoveRoute:
		return fmt.Sprintf("%s %s", c.Verb, c.Route)
	case SetMaster:
		if c.Master == "" {
			return fmt.Sprintf("free %s from its bridge", c.Link)
		}
		return fmt.Sprintf("put %s under %s", c.Link, c.Master)
	case SetMAC:
		return fmt.Sprintf("set MAC of %s to %s", c.Link, c.MAC)
	case SetMTU:
		return fmt.Sprintf("set MTU of %s to %d", c.Link, c.MTU)
	}
	return fmt.Sprintf("%s %s", c.Verb, c.Link)
}
