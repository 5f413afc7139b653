package backendtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Defaults of the optional fields of [Harness].
const (
	DefaultType     = container.LXD
	DefaultHost     = "0"
	DefaultBudget   = 2 * time.Minute
	DefaultPrompt   = 5 * time.Second
	DefaultPoll     = 50 * time.Millisecond
	DefaultParallel = 8
)

// Factory returns what one check works on. The host may be the same each time.
// Cleaning up is the factory's, with t.Cleanup; instances that a check has
// started are removed by then.
type Factory func(t *testing.T) Harness

// Harness is a back end, and what its author knows about it. Only Backend is
// required. Hooks are called from one goroutine at a time.
type Harness struct {
	// Backend is what is tested.
	Backend container.Backend
	// Type is that of its containers; [DefaultType] by default.
	Type container.Type
	// Host is the machine's id; [DefaultHost] by default.
	Host string
	// Settings are given to NewBroker.
	Settings facade.ContainerManagerConfig
	// Params returns what the back end accepts for the container. By default
	// it is [Params].
	Params func(id string) container.StartParams
	// Lock, when not nil, is held during every Initialise, for a host that
	// not this suite alone changes. The suite itself calls one Initialise
	// at a time.
	Lock container.Lock

	// Budget is for how long a check waits for one call, or for something to
	// come about; [DefaultBudget] by default. Prompt is how soon a call
	// returns once its context has ended; [DefaultPrompt] by default. Poll is
	// the pause between two looks; [DefaultPoll] by default.
	Budget, Prompt, Poll time.Duration
	// Parallel is how many calls are made at once where many are;
	// [DefaultParallel] by default.
	Parallel int

	// Restart returns another back end over the same host, as after a
	// restart of the agent. The check does not use the old one any more.
	Restart func() (container.Backend, error)
	// Initialised returns how often Initialise has really changed the host
	// since the harness was made: steps, runs, as its author likes, as long
	// as one that changes nothing does not count.
	Initialised func() int
	// HalfMake leaves half of an instance for the container, as an agent
	// does that is killed in the middle of StartInstance.
	HalfMake func(id string) error
	// LoseReply makes the next StartInstance of the container lose what the
	// back end's daemon answers, after the daemon has done its work.
	LoseReply func(id string) error
	// RestartDaemon restarts the back end's daemon, and returns when it is
	// under way.
	RestartDaemon func() error
	// Foreign makes an instance that is another model's, and returns its id.
	Foreign func() (container.InstanceID, error)
	// Unsupported is an initialiser for a machine that can never have
	// containers of the type.
	Unsupported container.Initialiser
}

// withDefaults returns the harness with every field set that has a default.
func (h Harness) withDefaults() Harness {
	if h.Params == nil {
		h.Params = Params
	}
	setDefault(&h.Type, DefaultType)
	setDefault(&h.Host, DefaultHost)
	setDefault(&h.Budget, DefaultBudget)
	setDefault(&h.Prompt, DefaultPrompt)
	setDefault(&h.Poll, DefaultPoll)
	setDefault(&h.Parallel, DefaultParallel)
	return h
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Params returns what most back ends can make a small instance of the container
// from. Its user data is none that makes an agent.
func Params(id string) container.StartParams {
	return container.StartParams{
		ContainerID: id,
		Info: facade.ContainerProvisioningInfo{
			Base:        facade.Base{Name: "ubuntu", Channel: "22.04/stable"},
			Constraints: facade.Constraints{Cores: 1, Memory: 256},
			UserData:    facade.NewSecret("#cloud-config\n# canary-of-the-user-data of " + id + "\n"),
			Nonce:       "nonce-of-" + id,
			Tags:        map[string]string{"purpose": "conformance"},
		},
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

// Check is one behaviour of a back end.
type Check struct {
	// Name says what is right.
	Name string

	// needs returns what the harness lacks for this check, or "".
	needs func(Harness) string
	run   func(*checker)
}

// Run holds the harness's back end to the check. A check that does not apply to
// it says so in the log and succeeds.
func (c Check) Run(t T, h Harness) {
	t.Helper()
	if err := h.Backend.Validate(); err != nil {
		t.Errorf("the harness has a Backend that is wrong: %v", err)
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
		initialiseChecks(), lifeCycleChecks(), interruptionChecks(), inputChecks(), concurrencyChecks(), issueChecks(),
	)
}

// Conditions for Check.needs.

func needsRestart(h Harness) string {
	if h.Restart == nil {
		return "no Restart"
	}
	return ""
}

func needsHalfMake(h Harness) string {
	if h.HalfMake == nil {
		return "no HalfMake"
	}
	return ""
}

func needsLoseReply(h Harness) string {
	if h.LoseReply == nil {
		return "no LoseReply"
	}
	return ""
}

func needsRestartDaemon(h Harness) string {
	if h.RestartDaemon == nil {
		return "no RestartDaemon"
	}
	return ""
}

func needsForeign(h Harness) string {
	if h.Foreign == nil {
		return "no Foreign"
	}
	return ""
}

func needsUnsupported(h Harness) string {
	if h.Unsupported == nil {
		return "no Unsupported"
	}
	return ""
}
