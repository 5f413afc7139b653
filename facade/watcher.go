package facade

import "github.com/juju/worker/v3"

// Watcher tells of changes. It is a worker: whoever asked for it owns it, and
// stops it with Kill and Wait.
//
// Changes returns the same channel every time. The first event, which every
// watcher sends soon after it was made, is a baseline of what is there; later
// ones are changes. Events may repeat and may be coalesced while nobody reads.
// A watcher that cannot go on ends, closing its channel or not, and Wait tells
// why.
type Watcher[T any] interface {
	worker.Worker
	Changes() <-chan T
}

// StringsWatcher names the things that changed. Its first event is the
// baseline of all names, perhaps empty; then come deltas, in no order, a name
// once or more often.
type StringsWatcher = Watcher[[]string]

// NotifyWatcher tells that the one thing it watches changed.
type NotifyWatcher = Watcher[struct{}]
