package managertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Defaults of the optional fields of [Harness].
const (
	DefaultAgentPath = "/var/lib/juju"
	DefaultBudget    = 30 * time.Second
	DefaultPoll      = 10 * time.Millisecond
	DefaultParallel  = 20
	DefaultLoops     = 200
)

// Factory returns what one check works on. The manager may be the same each
// time. Cleaning up is the factory's, with t.Cleanup; operators that a check
// has made are deleted by then.
type Factory func(t *testing.T) Harness

// Harness is a manager, and what its author knows about it. Only Manager is
// required. Hooks are called from one goroutine at a time.
type Harness struct {
	// Manager is what is tested.
	Manager operator.Manager

	// Config returns a configuration that the manager accepts for the
	// application. Those of different n differ in AgentConf and in
	// OperatorInfo; those of the same n are equal. Generation is empty. By
	// default it is [Config].
	Config func(app string, n int) *operator.Config
	// AgentPath is the agent's data directory as operators see it;
	// [DefaultAgentPath] by default.
	AgentPath string

	// Budget is for how long a check waits for something to come about;
	// [DefaultBudget] by default. Poll is the pause between two looks;
	// [DefaultPoll] by default.
	Budget, Poll time.Duration
	// Parallel is how many operators are made at once where many are;
	// [DefaultParallel] by default.
	Parallel int
	// Loops is how often an operator is deployed and removed in the check
	// that does so many times; [DefaultLoops] by default.
	Loops int

	// Restart returns another manager over the same operators, as after a
	// restart of the agent. The check does not use the old one any more.
	Restart func() (operator.Manager, error)
	// HalfMake leaves the application with a stored configuration and no
	// operator, as a crash in the middle of EnsureOperator does. Without
	// it, a manager that is an operator.Stager stages.
	HalfMake func(app string, cfg *operator.Config) error
	// Vanish takes the application's operator away behind the manager's
	// back, all of it or a part, but not its configuration alone. It is
	// called again when it returns an error.
	Vanish func(app string) error
	// Writes returns how many effective changes the manager has made for
	// the application since it was made.
	Writes func(app string) int
	// Incarnation names what runs for the application, such as a process
	// ID with its start time or a pod's UID; it is another one after a
	// restart, and empty while nothing runs.
	Incarnation func(app string) string
	// AgentConf and OperatorInfo return the files that the operator itself
	// works with at the moment, or an error while there is no operator to
	// see them.
	AgentConf, OperatorInfo func(app string) (facade.Secret, error)
	// WriteAgentConf replaces agent.conf as the operator itself does.
	WriteAgentConf func(app string, content facade.Secret) error
}

// withDefaults returns the harness with every field set that has a default.
func (h Harness) withDefaults() Harness {
	if h.Config == nil {
		h.Config = Config
	}
	setDefault(&h.AgentPath, DefaultAgentPath)
	setDefault(&h.Budget, DefaultBudget)
	setDefault(&h.Poll, DefaultPoll)
	setDefault(&h.Parallel, DefaultParallel)
	setDefault(&h.Loops, DefaultLoops)
	return h
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// T is what a check needs of a *testing.T.
type T interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	FailNow()
}

// Check is one behaviour of a manager.
type Check struct {
	// Name says what is right.
	Name string

	// needs returns what the harness lacks for this check, or "".
	needs func(Harness) string
	run   func(*checker)
}

// Run holds the harness's manager to the check. A check that does not apply to
// it says so in the log and succeeds.
func (c Check) Run(t T, h Harness) {
	t.Helper()
	if h.Manager == nil {
		t.Errorf("the harness has a nil Manager")
		t.FailNow()
	}
	if c.needs != nil {
		if lack := c.needs(h); lack != "" {
			t.Logf("does not apply: %s", lack)
			return
		}
	}
	k := newChecker(t, c.Name, h.withDefaults())
	defer k.cleanUp()
	c.run(k)
}

// Run runs every check as a subtest, each with a harness of its own from the
// factory.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	for _, check := range Checks() {
		t.Run(check.Name, func(t *testing.T) { check.Run(t, factory(t)) })
	}
}

// Checks returns every check there is, for those who run them in their own
// way; everybody else uses [Run].
func Checks() []Check {
	return slices.Concat(
		lifeCycleChecks(), generationChecks(), inputChecks(), concurrencyChecks(),
		halfMadeChecks(), stagingChecks(), glancingChecks(), listingChecks(), watchingChecks(), issueChecks(),
	)
}

// Conditions for Check.needs.

func needsStager(h Harness) string {
	if _, ok := h.Manager.(operator.Stager); !ok {
		return "the manager is no operator.Stager"
	}
	return ""
}

func needsLister(h Harness) string {
	if _, ok := h.Manager.(operator.Lister); !ok {
		return "the manager is no operator.Lister"
	}
	return ""
}

func needsWatcher(h Harness) string {
	if _, ok := h.Manager.(operator.Watcher); !ok {
		return "the manager is no operator.Watcher"
	}
	return ""
}

func needsHalfMaking(h Harness) string {
	if _, ok := h.Manager.(operator.Stager); !ok && h.HalfMake == nil {
		return "no HalfMake, and the manager is no operator.Stager"
	}
	return ""
}
