package provisioner

import "time"

// Metrics hears what the worker does. Its methods are called from many
// goroutines at once and must not block.
type Metrics interface {
	// PassDone tells of one look at one application.
	PassDone(Pass)
}

// Pass is one look at one application, as [Metrics] hears of it.
type Pass struct {
	Application string
	Outcome     Outcome
	// Delay is for how long the application deliberately waited before
	// this pass: back-off or poll; zero for one that an event caused.
	Delay time.Duration
	// QueueWait is for how long it was ready and no worker was free.
	QueueWait time.Duration
	// Duration is how long the pass took.
	Duration time.Duration
	// Err is why it failed, or what an application that is waiting or stuck
	// waits for; nil when it is settled or forgotten.
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
)

type noMetrics struct{}

func (noMetrics) PassDone(Pass) {}
