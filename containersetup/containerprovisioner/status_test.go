package containerprovisioner

import (
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// planned is what is known of a container after a pass with that result, the
// last of several that failed to start it.
func planned(res result, attempts int) *tracked {
	t := &tracked{}
	config := Config{MaxAttempts: 3, Backoff: func(_ time.Duration, attempt int) time.Duration {
		return time.Duration(attempt+1) * time.Second
	}}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for range attempts {
		t.plan(result{outcome: OutcomeFailed, err: errors.New("earlier"), step: startInstance, attempt: true}, start, config)
	}
	t.plan(res, start, config)
	return t
}

func TestStatus(t *testing.T) {
	boom := errors.New("boom\n  boom")
	failed := result{outcome: OutcomeFailed, err: boom, step: startInstance, attempt: true}
	giveUp := result{outcome: OutcomeGivenUp, err: errors.New("not started until somebody asks")}
	with := func(res result, f func(*result)) result {
		f(&res)
		return res
	}
	tests := []struct {
		about    string
		res      result
		attempts int // before
		want     said
	}{
		{
			"an attempt failed", failed, 0,
			said{facade.ContainerProvisioning, "boom boom; 2 of 3 attempts left, next at 2000-01-01T00:00:01Z"},
		},
		{
			"another failed", failed, 1,
			said{facade.ContainerProvisioning, "boom boom; 1 of 3 attempts left, next at 2000-01-01T00:00:02Z"},
		},
		{"the last failed", failed, 2, said{facade.ContainerError, "boom boom; given up after 3 attempts"}},
		{"it panicked", with(failed, func(r *result) { r.outcome = OutcomePanicked }), 0, said{
			facade.ContainerProvisioning, "boom boom; 2 of 3 attempts left, next at 2000-01-01T00:00:01Z",
		}},
		{"given up, and not yet shown", giveUp, 3, said{facade.ContainerError, "earlier; given up after 3 attempts"}},
		{"given up, and shown", with(giveUp, func(r *result) { r.state = facade.ContainerError }), 3, said{}},
		{"given up by another", with(giveUp, func(r *result) { r.state = facade.ContainerError }), 0, said{}},
		{"too early", result{outcome: OutcomeFailed, early: true}, 1, said{}},
		{"not counted", result{outcome: OutcomeFailed, err: boom, step: startInstance}, 0, said{}},
		{"not recorded", result{outcome: OutcomeFailed, err: boom, step: recordInstance}, 0, said{
			facade.ContainerProvisioning, "started, but not yet recorded: boom boom",
		}},
		{"not stopped", result{outcome: OutcomeFailed, err: boom, step: stopInstances}, 0, said{}},
		{"not listed", result{outcome: OutcomeFailed, err: boom}, 0, said{}},
		{"lost, perhaps", result{outcome: OutcomeFailed, err: boom, lost: true}, 0, said{}},
		{"lost", result{outcome: OutcomePermanent, err: boom, lost: true}, 0, said{facade.ContainerError, "boom boom"}},
		{"of unknown life", result{outcome: OutcomePermanent, err: boom}, 0, said{}},
		{"waiting", result{outcome: OutcomeWaiting, err: boom}, 0, said{}},
		{"running, and not shown so", result{outcome: OutcomeSettled, running: true}, 1, said{state: facade.ContainerRunning}},
		{"running, and shown", result{outcome: OutcomeSettled, running: true, state: facade.ContainerRunning}, 0, said{}},
		{"dying", result{outcome: OutcomeSettled}, 0, said{}},
		{"forgotten", result{outcome: OutcomeForgotten}, 0, said{}},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			if got := statusOf(test.res, planned(test.res, test.attempts), 3); got != test.want {
				t.Errorf("statusOf() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	failed := result{outcome: OutcomeFailed, err: errors.New("boom"), step: startInstance, attempt: true}
	tests := []struct {
		about    string
		res      result
		attempts int // before
		want     Outcome
		next     time.Duration // 0 for never
	}{
		{"a first failure", failed, 0, OutcomeFailed, time.Second},
		{"a second failure", failed, 1, OutcomeFailed, 2 * time.Second},
		{"the last attempt", failed, 2, OutcomeGivenUp, 0},
		{"permanent", result{outcome: OutcomePermanent}, 0, OutcomePermanent, 65 * time.Second},
		{"waiting for a turn", result{outcome: OutcomeWaiting}, 1, OutcomeWaiting, 0},
		{"settled", result{outcome: OutcomeSettled}, 1, OutcomeSettled, 0},
		{"too early changes nothing", result{outcome: OutcomeFailed, early: true}, 2, OutcomeFailed, 2 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			got := planned(test.res, test.attempts)
			if got.outcome != test.want {
				t.Errorf("the outcome is %q, want %q", got.outcome, test.want)
			}
			next := time.Duration(0)
			if !got.next.IsZero() {
				next = got.next.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
			}
			if next != test.next {
				t.Errorf("it is looked at again after %v, want %v", next, test.next)
			}
		})
	}
	// Waiting for a turn in between does not make the next failure a first.
	waited := planned(result{outcome: OutcomeWaiting}, 1)
	waited.plan(failed, time.Time{}, Config{MaxAttempts: 9, Backoff: func(_ time.Duration, attempt int) time.Duration {
		return time.Duration(attempt)
	}})
	if waited.memory.delay != 1 {
		t.Errorf("after a failure and a wait, the back-off is that of attempt %d, want 1", waited.memory.delay)
	}
}

func TestAskedAgain(t *testing.T) {
	tests := []struct {
		said, state facade.ContainerState
		attempts    int
		want        bool
	}{
		{facade.ContainerError, facade.ContainerPending, 3, true},
		{facade.ContainerProvisioning, facade.ContainerPending, 1, true},
		{facade.ContainerError, facade.ContainerRunning, 3, true},
		{facade.ContainerError, "", 3, true},
		{facade.ContainerError, facade.ContainerError, 3, false},
		{facade.ContainerError, facade.ContainerProvisioning, 3, false}, // an answer that lags
		{facade.ContainerProvisioning, facade.ContainerError, 1, false},
		{facade.ContainerRunning, facade.ContainerPending, 0, false},
		{"", facade.ContainerPending, 3, false}, // never said anything else
	}
	for _, test := range tests {
		m := memory{attempts: test.attempts, said: said{state: test.said}}
		if got := m.heard(test.state); got != test.want {
			t.Errorf("%q after %q was said, with %d attempts: asked %v, want %v", test.state, test.said, test.attempts, got, test.want)
		}
		if (m.said == said{}) != (test.said != test.state || test.said == "") {
			t.Errorf("%q after %q was said: %q is still thought to be shown", test.state, test.said, m.said.state)
		}
	}
}
