package containerprovisioner

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/retry"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Defaults of the optional fields of [Config].
const (
	DefaultConcurrency    = 4
	DefaultMaxAttempts    = 10
	DefaultResyncInterval = 10 * time.Minute
	DefaultCallTimeout    = 30 * time.Second
	DefaultStartTimeout   = 30 * time.Minute
	DefaultStopTimeout    = 10 * time.Minute
	DefaultMinBackoff     = time.Second
	DefaultMaxBackoff     = 2 * time.Minute
	DefaultHarvestMode    = facade.HarvestDestroyed
)

// Preparer makes the host ready for one container, before it is started.
type Preparer interface {
	// Prepare returns when the host is ready for the container. What is
	// already so is success. It is called before every attempt to start,
	// for several containers at once.
	Prepare(ctx context.Context, container string) error
}

// Config is what a [Worker] works with. Facade, MachineID, Type, Broker and
// Clock are required; the zero value of any other field stands for its default.
type Config struct {
	// Facade is the controller.
	Facade facade.Containers
	// MachineID is the machine that the containers are on, such as "0".
	MachineID string
	// Type is the type of all of them.
	Type container.Type
	// Broker makes and removes their instances.
	Broker container.Broker
	// Preparer readies the host for each of them; nil when the host needs
	// no preparation.
	Preparer Preparer
	// Clock is where time comes from.
	Clock clock.Clock
	// Logger hears what is worth hearing, with the container as an
	// attribute; nil discards.
	Logger *slog.Logger

	// Concurrency is how many instances are being started at once, and how
	// many are being stopped; 4 by default.
	Concurrency int
	// MaxAttempts is how often it is tried to start a container before its
	// status becomes error; 10 by default.
	MaxAttempts int
	// Backoff returns how long a container whose pass failed waits before
	// that is tried again. attempt counts from 0; the delay given is the
	// previous one. The default grows from 1 s to 2 min with jitter. The
	// answer for attempt 64 is taken as the longest delay, which errors
	// that no repetition can mend wait for.
	Backoff func(delay time.Duration, attempt int) time.Duration
	// ResyncInterval is how often every container and instance is looked at
	// without any event; 10 min by default, with jitter of a tenth.
	ResyncInterval time.Duration
	// CallTimeout is the deadline of every single call of the facade, and of
	// Broker.AllInstances; 30 s by default.
	CallTimeout time.Duration
	// StartTimeout is the deadline of Preparer.Prepare, and that of
	// Broker.StartInstance; 30 min by default.
	StartTimeout time.Duration
	// StopTimeout is the deadline of Broker.StopInstances; 10 min by
	// default.
	StopTimeout time.Duration
	// HarvestMode says which instances are taken away; those of dead
	// containers by default. A Facade that is a facade.HarvestWatcher knows
	// better.
	HarvestMode facade.HarvestMode
	// IsFatal tells which errors of the facade, or of the Preparer, end the
	// worker; by default those of the kind facade.ErrConnectionLost.
	IsFatal func(error) bool
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
	case c.Broker == nil:
		return errors.NotValidf("nil Broker")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.Concurrency < 0:
		return errors.NotValidf("negative Concurrency")
	case c.MaxAttempts < 0:
		return errors.NotValidf("negative MaxAttempts")
	case c.ResyncInterval < 0:
		return errors.NotValidf("negative ResyncInterval")
	case c.CallTimeout < 0:
		return errors.NotValidf("negative CallTimeout")
	case c.StartTimeout < 0:
		return errors.NotValidf("negative StartTimeout")
	case c.StopTimeout < 0:
		return errors.NotValidf("negative StopTimeout")
	}
	if err := container.ValidateMachineID(c.MachineID); err != nil {
		return errors.Annotate(err, "MachineID")
	}
	if err := c.Type.Validate(); err != nil {
		return errors.Annotate(err, "Type")
	}
	if c.HarvestMode != "" {
		if err := c.HarvestMode.Validate(); err != nil {
			return errors.Annotate(err, "HarvestMode")
		}
	}
	return nil
}

// withDefaults returns the config with every optional field set, but for the
// Preparer.
func (c Config) withDefaults() Config {
	setDefault(&c.Concurrency, DefaultConcurrency)
	setDefault(&c.MaxAttempts, DefaultMaxAttempts)
	setDefault(&c.ResyncInterval, DefaultResyncInterval)
	setDefault(&c.CallTimeout, DefaultCallTimeout)
	setDefault(&c.StartTimeout, DefaultStartTimeout)
	setDefault(&c.StopTimeout, DefaultStopTimeout)
	setDefault(&c.HarvestMode, DefaultHarvestMode)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Backoff == nil {
		c.Backoff = retry.ExpBackoff(DefaultMinBackoff, DefaultMaxBackoff, 2, true)
	}
	if c.IsFatal == nil {
		c.IsFatal = func(err error) bool { return errors.Is(err, facade.ErrConnectionLost) }
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
