package observe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sutler-dev/sutler/observe"
	"github.com/sutler-dev/sutler/provisioner"
)

// panics calls, and returns what that panicked with.
func panics(call func()) (value any) {
	defer func() { value = recover() }()
	call()
	return nil
}

// want compares what was heard since the last time.
func (h *heard) want(t *testing.T, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, h.lines); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	h.lines = nil
}

func TestEveryPartHearsOfOperatorsWhatItCan(t *testing.T) {
	h := &heard{}
	m := observe.Operators(
		operatorsEar{said{h, "a", false}},
		nil,
		operatorsPasses{said{h, "little", false}},
		operatorsEar{said{h, "b", false}},
	)
	detach := m.(provisioner.Attacher).Attach(nil)
	h.want(t, "a: attach", "b: attach")
	m.(provisioner.EventMetrics).EventReceived(provisioner.Event{})
	h.want(t, "a: event", "b: event")
	ctx, end := m.(provisioner.PassStarter).PassStarting(t.Context(), provisioner.PassStart{})
	h.want(t, `a: start after ""`, `b: start after "a"`)
	if got := path(ctx); got != "ab" {
		t.Errorf("the context of the pass is derived by %q", got)
	}
	m.(provisioner.BatchMetrics).BatchDone(provisioner.Batch{})
	h.want(t, "a: batch", "b: batch")
	m.PassDone(provisioner.Pass{})
	h.want(t, "a: pass", "little: pass", "b: pass")
	end(provisioner.Pass{})
	h.want(t, "b: end", "a: end")
	detach()
	h.want(t, "b: detach", "a: detach")
}

func TestPartThatPanicsAboutOperatorsTakesNothingFromTheOthers(t *testing.T) {
	h := &heard{}
	m := observe.Operators(operatorsEar{said{h, "bad", true}}, operatorsEar{said{h, "good", false}})
	detach := m.(provisioner.Attacher).Attach(nil)
	h.want(t, "bad: attach", "good: attach")
	ctx, end := m.(provisioner.PassStarter).PassStarting(t.Context(), provisioner.PassStart{})
	h.want(t, `bad: start after ""`, `good: start after ""`)
	if got := path(ctx); got != "good" {
		t.Errorf("the context of the pass is derived by %q", got)
	}
	for _, tc := range []struct {
		what string
		call func()
		want []string
	}{
		{"event", func() { m.(provisioner.EventMetrics).EventReceived(provisioner.Event{}) }, []string{"bad: event", "good: event"}},
		{"batch", func() { m.(provisioner.BatchMetrics).BatchDone(provisioner.Batch{}) }, []string{"bad: batch", "good: batch"}},
		{"pass", func() { m.PassDone(provisioner.Pass{}) }, []string{"bad: pass", "good: pass"}},
		{"end", func() { end(provisioner.Pass{}) }, []string{"good: end"}},
		{"detach", detach, []string{"good: detach"}},
	} {
		if got := panics(tc.call); got != "bad" {
			t.Errorf("%s panics with %v, want what the part panicked with", tc.what, got)
		}
		h.want(t, tc.want...)
	}
}

func TestFewPartsAreNoBurden(t *testing.T) {
	h := &heard{}
	little := operatorsPasses{said{h, "little", false}}
	if got := observe.Operators(nil, little); got != provisioner.Metrics(little) {
		t.Errorf("one part is %T, want itself", got)
	}
	for name, m := range map[string]provisioner.Metrics{
		"none":           observe.Operators(),
		"only nil":       observe.Operators(nil, nil),
		"only of passes": observe.Operators(little, little),
	} {
		if detach := m.(provisioner.Attacher).Attach(nil); detach != nil {
			t.Errorf("%s: there is something to detach", name)
		}
		m.(provisioner.EventMetrics).EventReceived(provisioner.Event{})
		m.(provisioner.BatchMetrics).BatchDone(provisioner.Batch{})
		if ctx, end := m.(provisioner.PassStarter).PassStarting(t.Context(), provisioner.PassStart{}); ctx != t.Context() || end != nil {
			t.Errorf("%s: a pass is changed", name)
		}
		m.PassDone(provisioner.Pass{})
	}
	h.want(t, "little: pass", "little: pass")
}
