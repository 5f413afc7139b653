package provisioner

import (
	"context"
	"time"
)

// Metrics hears what the worker does. Its methods are called from many
// goroutines at once and must not block. One that panics is logged and else
// ignored.
//
// What can be heard beyond passes is offered by [Attacher], [EventMetrics],
// [PassStarter] and [BatchMetrics], which a Metrics may also be.
type Metrics interface {
	// PassDone tells of one look at one application.
	PassDone(Pass)
}

// Attacher is a [Metrics] that wants to see the worker itself, as a gauge or a
// page does.
type Attacher interface {
	// Attach is called once when the worker starts; what it returns, if it is
	// not nil, when the worker has ended. The worker's Status, Applications
	// and Report may be called in between and afterwards. It must neither
	// block nor wait for the worker.
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

// BatchMetrics is a [Metrics] that hears of calls made for many applications at
// once.
type BatchMetrics interface {
	// BatchDone is called when such a call has returned.
	BatchDone(Batch)
}

// Pass is one look at one application, as [Metrics] hears of it.
type Pass struct {
	Application string
	Outcome     Outcome
	// Attempts is how many passes over the application failed in a row
	// before this one: a retry has 1 or more.
	Attempts int
	// Delay is for how long the application deliberately waited before
	// this pass: back-off or poll; zero for one that an event caused.
	Delay time.Duration
	// QueueWait is for how long it was ready and no worker was free.
	QueueWait time.Duration
	// Duration is how long the pass took.
	Duration time.Duration
	// Event is what caused the pass; zero for one that was due by itself, as
	// a retry is.
	Event Event
	// Err is why it failed, or what an application that is waiting or stuck
	// waits for; nil when it is settled or forgotten.
	Err error
}

// PassStart is a pass that begins.
type PassStart struct {
	Application string
	// Attempts, Delay, QueueWait and Event are those of its [Pass].
	Attempts         int
	Delay, QueueWait time.Duration
	Event            Event
}

// Event is something that had applications looked at. Events that come while an
// application is queued cause one pass; it names the first of them.
type Event struct {
	// Number counts the events of one worker from 1; the zero Event is none.
	Number uint64
	Source EventSource
	// Time is when it came.
	Time time.Time
	// Names is how many applications it named.
	Names int
}

// EventSource is where an event came from.
type EventSource string

const (
	// SourceApplications: the watcher of applications.
	SourceApplications EventSource = "applications"
	// SourceProvisioning: the watcher of what operators are made from.
	SourceProvisioning EventSource = "provisioning"
	// SourceOperators: the watcher of operators.
	SourceOperators EventSource = "operators"
	// SourceTrigger: Worker.Trigger.
	SourceTrigger EventSource = "trigger"
	// SourceResync: it was time to look at every application.
	SourceResync EventSource = "resync"
	// SourceListing: the manager listed operators of applications that were
	// not known.
	SourceListing EventSource = "listing"
)

// Batch is one call for many applications.
type Batch struct {
	// Call is the facade's method, "SetPasswords" or "ApplicationsInfo".
	Call string
	// Size is for how many applications it was.
	Size int
	// Duration is how long the call took.
	Duration time.Duration
	// Err is the error of the call as a whole, nil if only single
	// applications' answers are errors.
	Err error
}

// Outcome is how a pass ended.
type Outcome string

const (
	// OutcomeSettled: there is nothing more to do until something changes;
	// in a dry run, nothing more than is reported.
	OutcomeSettled Outcome = "settled"
	// OutcomeForgotten: the application is gone and so is its operator, or
	// it is not this worker's: Config.Owns says so.
	OutcomeForgotten Outcome = "forgotten"
	// OutcomeWaiting: something else has to end first; looked at again
	// soon.
	OutcomeWaiting Outcome = "waiting"
	// OutcomeStuck: as waiting, for longer than TerminationTimeout.
	OutcomeStuck Outcome = "stuck"
	// OutcomeFailed: an error; tried again with back-off.
	OutcomeFailed Outcome = "failed"
	// OutcomePermanent: an error that no repetition mends; tried again at
	// the longest delay or on the next event.
	OutcomePermanent Outcome = "permanent"
	// OutcomePanicked: the pass panicked; tried again with back-off.
	OutcomePanicked Outcome = "panicked"
	// OutcomeCancelled: the worker was killed meanwhile. Only a [PassStarter]
	// hears of it.
	OutcomeCancelled Outcome = "cancelled"
)

// Outcomes returns every outcome that a [Metrics] is told of, for whoever wants
// each to be there from the start.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeSettled, OutcomeForgotten, OutcomeWaiting, OutcomeStuck,
		OutcomeFailed, OutcomePermanent, OutcomePanicked,
	}
}

// EventSources returns every source that there is.
func EventSources() []EventSource {
	return []EventSource{
		SourceApplications, SourceProvisioning, SourceOperators,
		SourceTrigger, SourceResync, SourceListing,
	}
}

type noMetrics struct{}

func (noMetrics) PassDone(Pass) {}
