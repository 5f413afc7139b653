package observe_test

import (
	"testing"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/observe"
)

func TestEveryPartHearsOfContainersWhatItCan(t *testing.T) {
	h := &heard{}
	m := observe.Containers(
		containersEar{said{h, "a", false}},
		nil,
		containersPasses{said{h, "little", false}},
		containersEar{said{h, "b", false}},
	)
	detach := m.(containerprovisioner.Attacher).Attach(nil)
	h.want(t, "a: attach", "b: attach")
	m.(containerprovisioner.EventMetrics).EventReceived(containerprovisioner.Event{})
	h.want(t, "a: event", "b: event")
	ctx, end := m.(containerprovisioner.PassStarter).PassStarting(t.Context(), containerprovisioner.PassStart{})
	h.want(t, `a: start after ""`, `b: start after "a"`)
	if got := path(ctx); got != "ab" {
		t.Errorf("the context of the pass is derived by %q", got)
	}
	m.(containerprovisioner.BatchMetrics).BatchDone(containerprovisioner.Batch{})
	h.want(t, "a: batch", "b: batch")
	m.PassDone(containerprovisioner.Pass{})
	h.want(t, "a: pass", "little: pass", "b: pass")
	end(containerprovisioner.Pass{})
	h.want(t, "b: end", "a: end")
	detach()
	h.want(t, "b: detach", "a: detach")
}

func TestPartThatPanicsAboutContainersTakesNothingFromTheOthers(t *testing.T) {
	h := &heard{}
	m := observe.Containers(containersEar{said{h, "bad", true}}, containersEar{said{h, "good", false}})
	detach := m.(containerprovisioner.Attacher).Attach(nil)
	h.want(t, "bad: attach", "good: attach")
	ctx, end := m.(containerprovisioner.PassStarter).PassStarting(t.Context(), containerprovisioner.PassStart{})
	h.want(t, `bad: start after ""`, `good: start after ""`)
	if got := path(ctx); got != "good" {
		t.Errorf("the context of the pass is derived by %q", got)
	}
	for _, tc := range []struct {
		what string
		call func()
		want []string
	}{
		{"event", func() { m.(containerprovisioner.EventMetrics).EventReceived(containerprovisioner.Event{}) }, []string{"bad: event", "good: event"}},
		{"batch", func() { m.(containerprovisioner.BatchMetrics).BatchDone(containerprovisioner.Batch{}) }, []string{"bad: batch", "good: batch"}},
		{"pass", func() { m.PassDone(containerprovisioner.Pass{}) }, []string{"bad: pass", "good: pass"}},
		{"end", func() { end(containerprovisioner.Pass{}) }, []string{"good: end"}},
		{"detach", detach, []string{"good: detach"}},
	} {
		if got := panics(tc.call); got != "bad" {
			t.Errorf("%s panics with %v, want what the part panicked with", tc.what, got)
		}
		h.want(t, tc.want...)
	}
}
