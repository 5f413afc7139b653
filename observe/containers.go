package observe

import (
	"context"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
)

// Containers is [Operators] for a container provisioner that is used by itself.
func Containers(metrics ...containerprovisioner.Metrics) containerprovisioner.Metrics {
	all := present(metrics)
	if len(all) == 1 {
		return all[0]
	}
	return &containers{
		passes:    all,
		attachers: able[containerprovisioner.Metrics, containerprovisioner.Attacher](all),
		events:    able[containerprovisioner.Metrics, containerprovisioner.EventMetrics](all),
		starters:  able[containerprovisioner.Metrics, containerprovisioner.PassStarter](all),
		batches:   able[containerprovisioner.Metrics, containerprovisioner.BatchMetrics](all),
	}
}

type containers struct {
	passes    parts[containerprovisioner.Metrics]
	attachers parts[containerprovisioner.Attacher]
	events    parts[containerprovisioner.EventMetrics]
	starters  parts[containerprovisioner.PassStarter]
	batches   parts[containerprovisioner.BatchMetrics]
}

var (
	_ containerprovisioner.Metrics      = (*containers)(nil)
	_ containerprovisioner.Attacher     = (*containers)(nil)
	_ containerprovisioner.EventMetrics = (*containers)(nil)
	_ containerprovisioner.PassStarter  = (*containers)(nil)
	_ containerprovisioner.BatchMetrics = (*containers)(nil)
)

// PassDone is part of containerprovisioner.Metrics.
func (c *containers) PassDone(pass containerprovisioner.Pass) {
	c.passes.tell(func(m containerprovisioner.Metrics) { m.PassDone(pass) })
}

// Attach is part of containerprovisioner.Attacher.
func (c *containers) Attach(w *containerprovisioner.Worker) (detach func()) {
	return c.attachers.attach(func(m containerprovisioner.Attacher) func() { return m.Attach(w) })
}

// EventReceived is part of containerprovisioner.EventMetrics.
func (c *containers) EventReceived(event containerprovisioner.Event) {
	c.events.tell(func(m containerprovisioner.EventMetrics) { m.EventReceived(event) })
}

// PassStarting is part of containerprovisioner.PassStarter.
func (c *containers) PassStarting(
	ctx context.Context, start containerprovisioner.PassStart,
) (context.Context, func(containerprovisioner.Pass)) {
	return starting(ctx, c.starters, func(ctx context.Context, m containerprovisioner.PassStarter) (context.Context, func(containerprovisioner.Pass)) {
		return m.PassStarting(ctx, start)
	})
}

// BatchDone is part of containerprovisioner.BatchMetrics.
func (c *containers) BatchDone(b containerprovisioner.Batch) {
	c.batches.tell(func(m containerprovisioner.BatchMetrics) { m.BatchDone(b) })
}
