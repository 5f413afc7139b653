package observe_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/provisioner"
)

// heard is what several ears heard, one line each.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) add(ear, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, ear+": "+what)
}

// key finds in a context who has derived it.
type key struct{}

// path names those who derived the context so far.
func path(ctx context.Context) string {
	s, _ := ctx.Value(key{}).(string)
	return s
}

// said is what an ear does about everything.
type said struct {
	*heard
	name   string
	panics bool
}

func (s said) say(what string) {
	s.add(s.name, what)
	if s.panics {
		panic(s.name)
	}
}

func (s said) begin(ctx context.Context, what string) context.Context {
	s.say(fmt.Sprintf("%s after %q", what, path(ctx)))
	return context.WithValue(ctx, key{}, path(ctx)+s.name)
}

// operatorsEar hears everything of an operator provisioner.
type operatorsEar struct{ said }

func (e operatorsEar) PassDone(provisioner.Pass)       { e.say("pass") }
func (e operatorsEar) EventReceived(provisioner.Event) { e.say("event") }
func (e operatorsEar) BatchDone(provisioner.Batch)     { e.say("batch") }

func (e operatorsEar) Attach(*provisioner.Worker) func() {
	e.say("attach")
	return func() { e.say("detach") }
}

func (e operatorsEar) PassStarting(ctx context.Context, _ provisioner.PassStart) (context.Context, func(provisioner.Pass)) {
	return e.begin(ctx, "start"), func(provisioner.Pass) { e.say("end") }
}

// containersEar hears everything of a container provisioner.
type containersEar struct{ said }

func (e containersEar) PassDone(containerprovisioner.Pass)       { e.say("pass") }
func (e containersEar) EventReceived(containerprovisioner.Event) { e.say("event") }
func (e containersEar) BatchDone(containerprovisioner.Batch)     { e.say("batch") }

func (e containersEar) Attach(*containerprovisioner.Worker) func() {
	e.say("attach")
	return func() { e.say("detach") }
}

func (e containersEar) PassStarting(
	ctx context.Context, _ containerprovisioner.PassStart,
) (context.Context, func(containerprovisioner.Pass)) {
	return e.begin(ctx, "start"), func(containerprovisioner.Pass) { e.say("end") }
}

// setupEar hears everything of a container-setup handler.
type setupEar struct{ said }

func (e setupEar) PhaseDone(containersetup.PhaseAttempt) { e.say("phase") }
func (e setupEar) EventReceived(containersetup.Event)    { e.say("event") }

func (e setupEar) Attach(*containersetup.Worker) func() {
	e.say("attach")
	return func() { e.say("detach") }
}

func (e setupEar) PhaseStarting(
	ctx context.Context, _ containersetup.PhaseStart,
) (context.Context, func(containersetup.PhaseAttempt)) {
	return e.begin(ctx, "start"), func(containersetup.PhaseAttempt) { e.say("end") }
}

func (e setupEar) ContainerMetrics(containersetup.ContainerType) containerprovisioner.Metrics {
	e.say("containers")
	return containersEar(e)
}

// These hear what every Metrics does, and nothing else.
type (
	operatorsPasses  struct{ said }
	containersPasses struct{ said }
	setupPhases      struct{ said }
)

func (e operatorsPasses) PassDone(provisioner.Pass)           { e.say("pass") }
func (e containersPasses) PassDone(containerprovisioner.Pass) { e.say("pass") }
func (e setupPhases) PhaseDone(containersetup.PhaseAttempt)   { e.say("phase") }
