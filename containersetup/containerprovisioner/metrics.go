package containerprovisioner

import (
	"context"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Metrics hears what the worker does. Its methods are called from many
// goroutines at once and must not block. One that panics is logged and else
// ignored.
//
// What can be heard beyond passes is offered by [Attacher], [EventMetrics],
// [PassStarter] and [BatchMetrics], which a Metrics may also be.
type Metrics interface {
	// PassDone tells of one look at one container.
	PassDone(Pass)
}

// Attacher is a [Metrics] that wants to see the worker itself, as a gauge or a
// page does.
type Attacher interface {
	// Attach is called once when the worker starts; what it returns, if it is
	// not nil, when the worker has ended. The worker's Status, Containers and
	// Report may be called in between and afterwards. It must neither block
	// nor wait for the worker.
	Attach(*Worker) (detach func())
}

// EventMetrics is a [Metrics] that hears of events.
type EventMetrics interface {
	// EventReceived is called for each event, before any pass that it causes.
	EventReceived(Event)
}

// PassStarter is a [Metrics] that hears of passes when they begin, as tracing
// does.
type PassStarter interface {
	// PassStarting returns the context for the calls of the pass that is
	// about to begin, derived from ctx, or ctx itself; and what to call when
	// that pass has ended, or nil. A pass that was cut short, since the
	// worker was killed, ends with OutcomeCancelled, of which PassDone is not
	// told. Calls that go out in a batch have a context of their own.
	PassStarting(ctx context.Context, start PassStart) (context.Context, func(Pass))
}

// BatchMetrics is a [Metrics] that hears of calls made for many containers at
// once.
type BatchMetrics interface {
	// BatchDone is called when such a call has returned.
	BatchDone(Batch)
}

// Pass is one look at one container, as [Metrics] hears of it.
type Pass struct {
	// Container is its id, and Type its type.
	Container string
	Type      container.Type
	// Outcome is how the pass ended.
	Outcome Outcome
	// Attempts is how many passes over the container failed in a row before
	// this one: a retry has 1 or more.
	Attempts int
	// Start is which attempt to start an instance this pass made: 1 is the
	// first, 0 stands for a pass that made none.
	Start int
	// Delay is for how long the container deliberately waited before this
	// pass, as after a failure; zero for one that an event caused.
	Delay time.Duration
	// QueueWait is for how long it was ready and nobody was free to look.
	// Waiting for a turn to start is not part of it.
	QueueWait time.Duration
	// Duration is how long the pass took.
	Duration time.Duration
	// Event is what caused the pass; zero for one that was due by itself, as
	// a retry or a turn is.
	Event Event
	// Err is why it failed, or what a container that waits waits for; nil
	// when it is settled or forgotten.
	Err error
}

// PassStart is a pass that begins.
type PassStart struct {
	Container string
	Type      container.Type
	// Attempts, Delay, QueueWait and Event are those of its [Pass].
	Attempts         int
	Delay, QueueWait time.Duration
	Event            Event
}

// Event is something that had containers looked at. Events that come while a
// container is queued cause one pass; it names the first of them.
type Event struct {
	// Number counts the events of one worker from 1; the zero Event is none.
	Number uint64
	Source EventSource
	// Time is when it came.
	Time time.Time
	// Names is how many containers it named.
	Names int
}

// EventSource is where an event came from.
type EventSource string

const (
	// SourceContainers: the watcher of containers.
	SourceContainers EventSource = "containers"
	// SourceHarvestMode: the harvest mode changed.
	SourceHarvestMode EventSource = "harvest mode"
	// SourceResync: it was time to look at every container.
	SourceResync EventSource = "resync"
	// SourceListing: the broker listed instances of containers that were not
	// known.
	SourceListing EventSource = "listing"
)

// Batch is one call for many containers.
type Batch struct {
	// Call is the facade's method: "Containers", "ProvisioningInfo",
	// "SetContainerStatus", "SetInstanceInfo" or "MarkForRemoval".
	Call string
	// Size is for how many containers it was.
	Size int
	// Duration is how long the call took.
	Duration time.Duration
	// Err is the error of the call as a whole, nil if only single
	// containers' answers are errors.
	Err error
}

// Outcome is how a pass ended.
type Outcome string

const (
	// OutcomeSettled: there is nothing more to do until something changes.
	OutcomeSettled Outcome = "settled"
	// OutcomeForgotten: the container is gone, and so are its instances.
	OutcomeForgotten Outcome = "forgotten"
	// OutcomeWaiting: for its turn to start or stop, or for the harvest
	// mode to be known. It is called when that comes.
	OutcomeWaiting Outcome = "waiting"
	// OutcomeFailed: an error; it happens again after a back-off.
	OutcomeFailed Outcome = "failed"
	// OutcomePermanent: an error that no repetition mends, such as a
	// recorded instance that is not there; looked at again at the longest
	// delay or on the next event.
	OutcomePermanent Outcome = "permanent"
	// OutcomeGivenUp: it could not be started in Config.MaxAttempts
	// attempts, by this worker or an earlier one, and is not until somebody
	// asks for it again.
	OutcomeGivenUp Outcome = "given up"
	// OutcomePanicked: the pass panicked; it happens again after a back-off.
	OutcomePanicked Outcome = "panicked"
	// OutcomeCancelled: the worker was killed meanwhile. Only a [PassStarter]
	// hears of it.
	OutcomeCancelled Outcome = "cancelled"
)

// Outcomes returns every outcome that a [Metrics] is told of, for whoever wants
// each to be there from the start.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeSettled, OutcomeForgotten, OutcomeWaiting, OutcomeFailed,
		OutcomePermanent, OutcomeGivenUp, OutcomePanicked,
	}
}

// EventSources returns every source that there is.
func EventSources() []EventSource {
	return []EventSource{SourceContainers, SourceHarvestMode, SourceResync, SourceListing}
}

type noMetrics struct{}

func (noMetrics) PassDone(Pass) {}
