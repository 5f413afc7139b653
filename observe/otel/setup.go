package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
)

// Setup returns what goes into the Metrics of a container-setup handler's config,
// for spans of its phases and events, and of the passes and events of the
// container provisioners that it starts. To have other metrics too, see
// observe.Setup.
func (t *Tracer) Setup() containersetup.Metrics {
	return &setup{scope{t: t, key: KeyMachine, pass: SpanSetupPhase, event: SpanSetupEvent}}
}

type setup struct{ scope }

// PhaseDone is part of containersetup.Metrics.
func (*setup) PhaseDone(containersetup.PhaseAttempt) {}

// Attach is part of containersetup.Attacher.
func (s *setup) Attach(w *containersetup.Worker) func() { return s.attach(w.Status().MachineID) }

// EventReceived is part of containersetup.EventMetrics.
func (s *setup) EventReceived(e containersetup.Event) { s.eventReceived(causeOf(e)) }

// PhaseStarting is part of containersetup.PhaseStarter.
func (s *setup) PhaseStarting(ctx context.Context, start containersetup.PhaseStart) (context.Context, func(containersetup.PhaseAttempt)) {
	attributes := []attribute.KeyValue{
		attribute.String(KeyType, string(start.Type)),
		attribute.String(KeyPhase, string(start.Phase)),
	}
	attributes = count(attributes, KeyAttempts, start.Attempts)
	ctx, span := s.starting(ctx, causeOf(start.Event), attributes...)
	if span == nil {
		return ctx, nil
	}
	return ctx, func(attempt containersetup.PhaseAttempt) {
		attributes := seconds(nil, KeyLockWait, attempt.LockWait)
		attributes = seconds(attributes, KeyLockHold, attempt.LockHold)
		switch {
		case attempt.Err == nil:
			s.ending(span, phaseDone, false, nil, attributes...)
		case ctx.Err() != nil:
			// Cut short by the worker's end, which is no failure.
			s.ending(span, phaseCancelled, false, nil, attributes...)
		default:
			s.ending(span, phaseFailed, true, attempt.Err, attributes...)
		}
	}
}

// ContainerMetrics is part of containersetup.ContainerMetrics.
func (s *setup) ContainerMetrics(t containersetup.ContainerType) containerprovisioner.Metrics {
	return &containers{scope{t: s.t, key: KeyMachine, pass: SpanContainerPass, event: SpanContainerEvent}, t}
}

type containers struct {
	scope
	typed containersetup.ContainerType
}

// PassDone is part of containerprovisioner.Metrics.
func (*containers) PassDone(containerprovisioner.Pass) {}

// Attach is part of containerprovisioner.Attacher.
func (c *containers) Attach(w *containerprovisioner.Worker) func() {
	return c.attach(w.Status().MachineID)
}

// EventReceived is part of containerprovisioner.EventMetrics.
func (c *containers) EventReceived(e containerprovisioner.Event) {
	c.eventReceived(causeOf(e), attribute.String(KeyType, string(c.typed)))
}

// PassStarting is part of containerprovisioner.PassStarter.
func (c *containers) PassStarting(ctx context.Context, start containerprovisioner.PassStart) (context.Context, func(containerprovisioner.Pass)) {
	attributes := []attribute.KeyValue{
		attribute.String(KeyContainer, start.Container),
		attribute.String(KeyType, string(start.Type)),
	}
	attributes = count(attributes, KeyAttempts, start.Attempts)
	attributes = seconds(attributes, KeyDelay, start.Delay)
	attributes = seconds(attributes, KeyQueueWait, start.QueueWait)
	ctx, span := c.starting(ctx, causeOf(start.Event), attributes...)
	if span == nil {
		return ctx, nil
	}
	return ctx, func(pass containerprovisioner.Pass) {
		isError := false
		switch pass.Outcome {
		case containerprovisioner.OutcomeFailed, containerprovisioner.OutcomePermanent,
			containerprovisioner.OutcomePanicked, containerprovisioner.OutcomeGivenUp:
			isError = true
		}
		c.ending(span, string(pass.Outcome), isError, pass.Err, count(nil, KeyStart, pass.Start)...)
	}
}
