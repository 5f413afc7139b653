package observe

import (
	"context"

	"github.com/sutler-dev/sutler/provisioner"
)

// Operators makes one provisioner.Metrics of several, in the order in which they
// hear. Each hears whatever it can: that one of them is no
// provisioner.PassStarter takes nothing from another that is. A nil one is left
// out; of none at all comes one that hears nothing.
//
// A part that panics takes nothing from the others: its panic reaches the worker,
// which logs it, when all have heard. Each derives the context of a pass from
// what the one before it returned.
func Operators(metrics ...provisioner.Metrics) provisioner.Metrics {
	all := present(metrics)
	if len(all) == 1 {
		return all[0]
	}
	return &operators{
		passes:    all,
		attachers: able[provisioner.Metrics, provisioner.Attacher](all),
		events:    able[provisioner.Metrics, provisioner.EventMetrics](all),
		starters:  able[provisioner.Metrics, provisioner.PassStarter](all),
		batches:   able[provisioner.Metrics, provisioner.BatchMetrics](all),
	}
}

type operators struct {
	passes    parts[provisioner.Metrics]
	attachers parts[provisioner.Attacher]
	events    parts[provisioner.EventMetrics]
	starters  parts[provisioner.PassStarter]
	batches   parts[provisioner.BatchMetrics]
}

var (
	_ provisioner.Metrics      = (*operators)(nil)
	_ provisioner.Attacher     = (*operators)(nil)
	_ provisioner.EventMetrics = (*operators)(nil)
	_ provisioner.PassStarter  = (*operators)(nil)
	_ provisioner.BatchMetrics = (*operators)(nil)
)

// PassDone is part of provisioner.Metrics.
func (o *operators) PassDone(pass provisioner.Pass) {
	o.passes.tell(func(m provisioner.Metrics) { m.PassDone(pass) })
}

// Attach is part of provisioner.Attacher.
func (o *operators) Attach(w *provisioner.Worker) (detach func()) {
	return o.attachers.attach(func(m provisioner.Attacher) func() { return m.Attach(w) })
}

// EventReceived is part of provisioner.EventMetrics.
func (o *operators) EventReceived(event provisioner.Event) {
	o.events.tell(func(m provisioner.EventMetrics) { m.EventReceived(event) })
}

// PassStarting is part of provisioner.PassStarter.
func (o *operators) PassStarting(ctx context.Context, start provisioner.PassStart) (context.Context, func(provisioner.Pass)) {
	return starting(ctx, o.starters, func(ctx context.Context, m provisioner.PassStarter) (context.Context, func(provisioner.Pass)) {
		return m.PassStarting(ctx, start)
	})
}

// BatchDone is part of provisioner.BatchMetrics.
func (o *operators) BatchDone(b provisioner.Batch) {
	o.batches.tell(func(m provisioner.BatchMetrics) { m.BatchDone(b) })
}
