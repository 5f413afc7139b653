package observe_test

import (
	"testing"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/observe"
)

func TestEveryPartHearsOfSetUpWhatItCan(t *testing.T) {
	h := &heard{}
	m := observe.Setup(
		setupEar{said{h, "a", false}},
		setupPhases{said{h, "little", false}},
		nil,
		setupEar{said{h, "b", false}},
	)
	detach := m.(containersetup.Attacher).Attach(nil)
	h.want(t, "a: attach", "b: attach")
	m.(containersetup.EventMetrics).EventReceived(containersetup.Event{})
	h.want(t, "a: event", "b: event")
	ctx, end := m.(containersetup.PhaseStarter).PhaseStarting(t.Context(), containersetup.PhaseStart{})
	h.want(t, `a: start after ""`, `b: start after "a"`)
	if got := path(ctx); got != "ab" {
		t.Errorf("the context of the phase is derived by %q", got)
	}
	m.PhaseDone(containersetup.PhaseAttempt{})
	h.want(t, "a: phase", "little: phase", "b: phase")
	end(containersetup.PhaseAttempt{})
	h.want(t, "b: end", "a: end")
	containers := m.(containersetup.ContainerMetrics).ContainerMetrics(containersetup.LXD)
	h.want(t, "a: containers", "b: containers")
	containers.PassDone(containerprovisioner.Pass{})
	h.want(t, "a: pass", "b: pass")
	detach()
	h.want(t, "b: detach", "a: detach")
}

func TestPartThatPanicsAboutSetUpTakesNothingFromTheOthers(t *testing.T) {
	h := &heard{}
	m := observe.Setup(setupEar{said{h, "bad", true}}, setupEar{said{h, "good", false}})
	detach := m.(containersetup.Attacher).Attach(nil)
	h.want(t, "bad: attach", "good: attach")
	ctx, end := m.(containersetup.PhaseStarter).PhaseStarting(t.Context(), containersetup.PhaseStart{})
	h.want(t, `bad: start after ""`, `good: start after ""`)
	if got := path(ctx); got != "good" {
		t.Errorf("the context of the phase is derived by %q", got)
	}
	containers := m.(containersetup.ContainerMetrics).ContainerMetrics(containersetup.LXD)
	h.want(t, "bad: containers", "good: containers")
	containers.PassDone(containerprovisioner.Pass{})
	h.want(t, "good: pass")
	for _, tc := range []struct {
		what string
		call func()
		want []string
	}{
		{"event", func() { m.(containersetup.EventMetrics).EventReceived(containersetup.Event{}) }, []string{"bad: event", "good: event"}},
		{"phase", func() { m.PhaseDone(containersetup.PhaseAttempt{}) }, []string{"bad: phase", "good: phase"}},
		{"end", func() { end(containersetup.PhaseAttempt{}) }, []string{"good: end"}},
		{"detach", detach, []string{"good: detach"}},
	} {
		if got := panics(tc.call); got != "bad" {
			t.Errorf("%s panics with %v, want what the part panicked with", tc.what, got)
		}
		h.want(t, tc.want...)
	}
	detachContainers := containers.(containerprovisioner.Attacher).Attach(nil)
	h.want(t, "good: attach")
	if got := panics(detachContainers); got != "bad" {
		t.Errorf("the containers' end panics with %v, want what the part panicked with", got)
	}
	h.want(t, "good: detach")
}

func TestPartsWithoutMetricsOfContainersHaveNone(t *testing.T) {
	h := &heard{}
	m := observe.Setup(setupPhases{said{h, "a", false}}, setupPhases{said{h, "b", false}})
	if got := m.(containersetup.ContainerMetrics).ContainerMetrics(containersetup.KVM); got != nil {
		t.Errorf("the containers' metrics are %T, want nil", got)
	}
	if detach := m.(containersetup.Attacher).Attach(nil); detach != nil {
		t.Error("there is something to detach")
	}
}
