package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sutler-dev/sutler/provisioner"
)

// Operators returns what goes into the Metrics of an operator provisioner's config,
// for spans of its passes and events. Give each worker that runs at the same time
// one of its own: spans of several that share one do not say whose model they are
// about. To have other metrics too, see observe.Operators.
func (t *Tracer) Operators() provisioner.Metrics {
	return &operators{scope{t: t, key: KeyModel, pass: SpanOperatorPass, event: SpanOperatorEvent}}
}

type operators struct{ scope }

// PassDone is part of provisioner.Metrics.
func (*operators) PassDone(provisioner.Pass) {}

// Attach is part of provisioner.Attacher.
func (o *operators) Attach(w *provisioner.Worker) func() { return o.attach(w.Status().ModelUUID) }

// EventReceived is part of provisioner.EventMetrics.
func (o *operators) EventReceived(e provisioner.Event) { o.eventReceived(operatorCause(e)) }

// PassStarting is part of provisioner.PassStarter.
func (o *operators) PassStarting(ctx context.Context, start provisioner.PassStart) (context.Context, func(provisioner.Pass)) {
	attributes := []attribute.KeyValue{attribute.String(KeyApplication, start.Application)}
	attributes = count(attributes, KeyAttempts, start.Attempts)
	attributes = seconds(attributes, KeyDelay, start.Delay)
	attributes = seconds(attributes, KeyQueueWait, start.QueueWait)
	ctx, span := o.starting(ctx, operatorCause(start.Event), attributes...)
	if span == nil {
		return ctx, nil
	}
	return ctx, func(pass provisioner.Pass) {
		isError := false
		switch pass.Outcome {
		case provisioner.OutcomeFailed, provisioner.OutcomePermanent, provisioner.OutcomePanicked, provisioner.OutcomeStuck:
			isError = true
		}
		o.ending(span, string(pass.Outcome), isError, pass.Err)
	}
}

func operatorCause(e provisioner.Event) cause {
	return cause{e.Number, string(e.Source), e.Time, e.Names}
}
