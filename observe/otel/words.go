package otel

// Scope is the name of the tracer, as its instrumentation scope.
const Scope = "github.com/sutler-dev/sutler/observe/otel"

// Names of spans.
const (
	SpanOperatorPass   = "sutler.operator.pass"   // one look at one application
	SpanOperatorEvent  = "sutler.operator.event"  // an event of the operator provisioner
	SpanSetupPhase     = "sutler.setup.phase"     // one attempt at one phase of one type
	SpanSetupEvent     = "sutler.setup.event"     // an event of the container-setup handler
	SpanContainerPass  = "sutler.container.pass"  // one look at one container
	SpanContainerEvent = "sutler.container.event" // an event of a container provisioner
)

// Attributes of spans. Durations are in seconds; those that are zero, and counts
// that stand for none, are left out.
const (
	// KeyModel is the UUID of an operator provisioner's model.
	KeyModel = "sutler.model.uuid"
	// KeyApplication is the application that a pass looked at.
	KeyApplication = "sutler.application.name"
	// KeyMachine is the machine that containers are on.
	KeyMachine = "sutler.machine.id"
	// KeyContainer is the container that a pass looked at.
	KeyContainer = "sutler.container.id"
	// KeyType is the type of containers.
	KeyType = "sutler.container.type"
	// KeyPhase is the phase of a type's preparation.
	KeyPhase = "sutler.phase"
	// KeyOutcome is how a pass or phase ended: an Outcome of the worker's;
	// for a phase, "done" or "failed".
	KeyOutcome = "sutler.outcome"
	// KeyReason is what an application or container waits for.
	KeyReason = "sutler.reason"
	// KeyAttempts is how many failed in a row before this one.
	KeyAttempts = "sutler.attempts"
	// KeyStart is which attempt to start an instance a pass made.
	KeyStart = "sutler.start_attempt"
	// KeyDelay is for how long there was a deliberate wait before a pass.
	KeyDelay = "sutler.delay_seconds"
	// KeyQueueWait is for how long nobody was free for the pass.
	KeyQueueWait = "sutler.queue_wait_seconds"
	// KeyLockWait is for how long the machine lock was waited for.
	KeyLockWait = "sutler.lock_wait_seconds"
	// KeyLockHold is for how long it was held.
	KeyLockHold = "sutler.lock_hold_seconds"
	// KeyEventNumber counts a worker's events; that of the event itself, and
	// of what it caused.
	KeyEventNumber = "sutler.event.number"
	// KeyEventSource is where the event came from.
	KeyEventSource = "sutler.event.source"
	// KeyEventNames is how many applications or containers it named.
	KeyEventNames = "sutler.event.names"
	// KeyErrorType is the outcome of what is an error, for queries that know
	// OpenTelemetry's conventions only.
	KeyErrorType = "error.type"
)

// Outcomes of phases.
const (
	phaseDone      = "done"
	phaseFailed    = "failed"
	phaseCancelled = "cancelled"
)
