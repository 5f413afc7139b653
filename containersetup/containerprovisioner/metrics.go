package containerprovisioner

import "time"

// Metrics hears what the worker does. Its methods are called from many
// goroutines at once and must not block.
type Metrics interface {
	// PassDone tells of one look at one container.
	PassDone(Pass)
}

// Pass is one look at one container, as [Metrics] hears of it.
type Pass struct {
	// Container is its id.
	Container string
	// Outcome is how the pass ended.
	Outcome Outcome
	// Delay is for how long the container deliberately waited before this
	// pass, as after a failure; zero for one that an event caused.
	Delay time.Duration
	// QueueWait is for how long it was ready and nobody was free to look.
	// Waiting for a turn to start is not part of it.
	QueueWait time.Duration
	// Duration is how long the pass took.
	Duration time.Duration
	// Err is why it failed, or what a container that waits waits for; nil
	// when it is settled or forgotten.
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
)

type noMetrics struct{}

func (noMetrics) PassDone(Pass) {}
