package provisioner

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/retry"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Defaults of the optional fields of [Config].
const (
	DefaultConcurrency        = 16
	DefaultResyncInterval     = 10 * time.Minute
	DefaultTerminationPoll    = 3 * time.Second
	DefaultTerminationTimeout = 3 * time.Minute
	DefaultCallTimeout        = 30 * time.Second
	DefaultMinBackoff         = time.Second
	DefaultMaxBackoff         = 2 * time.Minute
)

// AgentConfig is what the provisioner reads of its own agent's configuration.
// The methods are called in every pass, since the answers may change, from many
// goroutines at once; they must not block.
type AgentConfig interface {
	// DataDir is the agent's data directory as operators see it.
	DataDir() string
	// LogDir is the directory for operators' logs as operators see it.
	LogDir() string
	// ControllerUUID is the controller's UUID.
	ControllerUUID() string
	// CACert is the certificate of the controller's CA, or several in a
	// row, in PEM.
	CACert() string
}

// Config is what a [Worker] works with. The first six fields are required
// (Logger may be nil, which discards); the zero value of any other one stands
// for its default.
type Config struct {
	// Facade is the controller.
	Facade facade.Applications
	// OperatorManager keeps the operators.
	OperatorManager operator.Manager
	// Agent is the configuration of the agent that this worker is part of.
	Agent AgentConfig
	// ModelUUID is the UUID of the model whose applications these are.
	ModelUUID string
	// Clock is where time comes from.
	Clock clock.Clock
	// Logger hears what is worth hearing, with the application as an
	// attribute; nil discards.
	Logger *slog.Logger

	// Concurrency is how many applications are worked on at once; 16 by
	// default. To keep up, it needs to be at least the number of
	// applications times the time that one pass takes, divided by
	// ResyncInterval; the report says when it is not.
	Concurrency int
	// Backoff returns how long an application whose pass failed waits
	// before its next one. attempt counts from 0; the delay given is the
	// previous one. The default grows from 1 s to 2 min with jitter. The
	// answer for attempt 64 is taken as the longest delay, which errors
	// that no repetition can mend wait for.
	Backoff func(delay time.Duration, attempt int) time.Duration
	// ResyncInterval is how often every application is looked at without
	// any event; 10 min by default, with jitter of a tenth.
	ResyncInterval time.Duration
	// TerminationPoll is how often an operator that is being deleted is
	// looked at; 3 s by default.
	TerminationPoll time.Duration
	// TerminationTimeout is after how long a deletion is reported as
	// stuck; 3 min by default. It is still looked at.
	TerminationTimeout time.Duration
	// CallTimeout is the deadline of every single call of the facade and
	// the operator manager; 30 s by default.
	CallTimeout time.Duration
	// StorageProviders are the providers of charm storage that the
	// operator manager can serve; "kubernetes" by default, so that a host
	// with another kind of manager has to name its own.
	StorageProviders []string
	// IsFatal tells which errors of the facade end the worker; by default
	// those of the kind facade.ErrConnectionLost.
	IsFatal func(error) bool
	// Owns tells which applications are this worker's, where several
	// agents share a model; by default all. An application that is not
	// owned is never touched. It must not block.
	Owns func(app string) bool
	// DryRun makes the worker log and report what it would do, and do
	// nothing; the applications count as settled.
	DryRun bool
	// Metrics hears of every pass; nil hears nothing.
	Metrics Metrics
	// Jitter spreads the resyncs of many workers; it returns a duration
	// near the one given. The default stays within a tenth of it.
	Jitter func(time.Duration) time.Duration
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil.
func (c Config) Validate() error {
	switch {
	case c.Facade == nil:
		return errors.NotValidf("nil Facade")
	case c.OperatorManager == nil:
		return errors.NotValidf("nil OperatorManager")
	case c.Agent == nil:
		return errors.NotValidf("nil Agent")
	case c.ModelUUID == "":
		return errors.NotValidf("empty ModelUUID")
	case !validUUID(c.ModelUUID):
		return errors.NotValidf("ModelUUID %q (want a UUID)", c.ModelUUID)
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.Concurrency < 0:
		return errors.NotValidf("negative Concurrency")
	case c.ResyncInterval < 0:
		return errors.NotValidf("negative ResyncInterval")
	case c.TerminationPoll < 0:
		return errors.NotValidf("negative TerminationPoll")
	case c.TerminationTimeout < 0:
		return errors.NotValidf("negative TerminationTimeout")
	case c.CallTimeout < 0:
		return errors.NotValidf("negative CallTimeout")
	}
	for _, p := range c.StorageProviders {
		if p == "" {
			return errors.NotValidf("empty name in StorageProviders")
		}
	}
	return nil
}

// withDefaults returns the config with every optional field set.
func (c Config) withDefaults() Config {
	setDefault(&c.Concurrency, DefaultConcurrency)
	setDefault(&c.ResyncInterval, DefaultResyncInterval)
	setDefault(&c.TerminationPoll, DefaultTerminationPoll)
	setDefault(&c.TerminationTimeout, DefaultTerminationTimeout)
	setDefault(&c.CallTimeout, DefaultCallTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Backoff == nil {
		c.Backoff = retry.ExpBackoff(DefaultMinBackoff, DefaultMaxBackoff, 2, true)
	}
	if len(c.StorageProviders) == 0 {
		c.StorageProviders = []string{"kubernetes"}
	}
	if c.IsFatal == nil {
		c.IsFatal = func(err error) bool { return errors.Is(err, facade.ErrConnectionLost) }
	}
	if c.Owns == nil {
		c.Owns = func(string) bool { return true }
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.Jitter == nil {
		c.Jitter = func(d time.Duration) time.Duration {
			return d - d/10 + rand.N(d/5+1)
		}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validUUID accepts the 8-4-4-4-12 form in either case of hex digits.
func validUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F'):
			return false
		}
	}
	return true
}
