package observe

import (
	"context"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
)

// Setup is [Operators] for the container-setup handler. The metrics of the
// provisioners that it starts are those of all parts that have some, combined as
// [Containers] does it.
func Setup(metrics ...containersetup.Metrics) containersetup.Metrics {
	all := present(metrics)
	if len(all) == 1 {
		return all[0]
	}
	return &setup{
		phases:     all,
		attachers:  able[containersetup.Metrics, containersetup.Attacher](all),
		events:     able[containersetup.Metrics, containersetup.EventMetrics](all),
		starters:   able[containersetup.Metrics, containersetup.PhaseStarter](all),
		containers: able[containersetup.Metrics, containersetup.ContainerMetrics](all),
	}
}

type setup struct {
	phases     parts[containersetup.Metrics]
	attachers  parts[containersetup.Attacher]
	events     parts[containersetup.EventMetrics]
	starters   parts[containersetup.PhaseStarter]
	containers parts[containersetup.ContainerMetrics]
}

var (
	_ containersetup.Metrics          = (*setup)(nil)
	_ containersetup.Attacher         = (*setup)(nil)
	_ containersetup.EventMetrics     = (*setup)(nil)
	_ containersetup.PhaseStarter     = (*setup)(nil)
	_ containersetup.ContainerMetrics = (*setup)(nil)
)

// PhaseDone is part of containersetup.Metrics.
func (s *setup) PhaseDone(attempt containersetup.PhaseAttempt) {
	s.phases.tell(func(m containersetup.Metrics) { m.PhaseDone(attempt) })
}

// Attach is part of containersetup.Attacher.
func (s *setup) Attach(w *containersetup.Worker) (detach func()) {
	return s.attachers.attach(func(m containersetup.Attacher) func() { return m.Attach(w) })
}

// EventReceived is part of containersetup.EventMetrics.
func (s *setup) EventReceived(event containersetup.Event) {
	s.events.tell(func(m containersetup.EventMetrics) { m.EventReceived(event) })
}

// PhaseStarting is part of containersetup.PhaseStarter.
func (s *setup) PhaseStarting(
	ctx context.Context, start containersetup.PhaseStart,
) (context.Context, func(containersetup.PhaseAttempt)) {
	return starting(ctx, s.starters, func(ctx context.Context, m containersetup.PhaseStarter) (context.Context, func(containersetup.PhaseAttempt)) {
		return m.PhaseStarting(ctx, start)
	})
}

// ContainerMetrics is part of containersetup.ContainerMetrics. A part that panics
// has none; its panic goes on when the provisioner attaches the others.
func (s *setup) ContainerMetrics(t containersetup.ContainerType) containerprovisioner.Metrics {
	var all []containerprovisioner.Metrics
	var first trouble
	for _, m := range s.containers {
		first.keep(func() { all = append(all, m.ContainerMetrics(t)) })
	}
	if first.panicked {
		all = append(all, troubled{first})
	}
	if all = present(all); len(all) == 0 {
		return nil
	}
	return Containers(all...)
}

// troubled hears nothing, and panics when a worker attaches it.
type troubled struct{ trouble }

func (troubled) PassDone(containerprovisioner.Pass) {}

func (t troubled) Attach(*containerprovisioner.Worker) func() {
	t.goOn()
	return nil
}
