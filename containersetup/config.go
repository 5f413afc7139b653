package containersetup

import (
	"log/slog"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/retry"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
)

// Defaults of the optional fields of [Config].
const (
	DefaultCallTimeout       = 30 * time.Second
	DefaultInitialiseTimeout = 30 * time.Minute
	DefaultMinBackoff        = time.Second
	DefaultMaxBackoff        = 2 * time.Minute
	DefaultRestartDelay      = 3 * time.Second
)

// Config is what a [Worker] works with. All fields down to Clock are required;
// the zero value of any other one stands for its default.
type Config struct {
	// Facade is the controller.
	Facade facade.Machine
	// MachineID is this machine's id, such as "0".
	MachineID string
	// Backends are what this host offers, by type. A type without one cannot
	// be had here, and its containers' status says so.
	Backends map[ContainerType]Backend
	// Lock is the machine lock, shared with whatever else changes this host.
	Lock Lock
	// Network sees what the host's network looks like.
	Network NetworkObserver
	// Bridger puts devices of the host under bridges.
	Bridger Bridger
	// Clock is where time comes from.
	Clock clock.Clock

	// Logger hears what is worth hearing, with the type or the container as
	// an attribute; nil discards.
	Logger *slog.Logger
	// NewProvisioner starts the provisioner of one type once that is
	// prepared; [containerprovisioner.New] by default. Here a host sets what
	// it wants other than that one's defaults.
	NewProvisioner func(containerprovisioner.Config) (worker.Worker, error)
	// SupportedTypes are the types that this machine can have; by default
	// the controller is asked. Repetitions do no harm.
	SupportedTypes []ContainerType
	// Backoff returns how long to wait after a phase failed; it is as in
	// provisioner.Config and by default grows from 1 s to 2 min with jitter.
	Backoff func(delay time.Duration, attempt int) time.Duration
	// CallTimeout is the deadline of every single call but Initialise; 30 s
	// by default.
	CallTimeout time.Duration
	// InitialiseTimeout is the deadline of one run of an Initialiser, which
	// may install packages; 30 min by default. The wait for the machine lock
	// has none: it is reported, and ends with the worker.
	InitialiseTimeout time.Duration
	// RestartDelay is how long a provisioner that ended waits for its
	// restart; 3 s by default.
	RestartDelay time.Duration
	// IsFatal tells which errors of the facade end the worker; by default
	// those of the kind facade.ErrConnectionLost.
	IsFatal func(error) bool
	// Metrics hears of every phase, and of what else it asks for by the
	// optional interfaces; nil hears nothing.
	Metrics Metrics
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil.
func (c Config) Validate() error {
	switch {
	case c.Facade == nil:
		return errors.NotValidf("nil Facade")
	case c.Lock == nil:
		return errors.NotValidf("nil Lock")
	case c.Network == nil:
		return errors.NotValidf("nil Network")
	case c.Bridger == nil:
		return errors.NotValidf("nil Bridger")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.CallTimeout < 0:
		return errors.NotValidf("negative CallTimeout")
	case c.InitialiseTimeout < 0:
		return errors.NotValidf("negative InitialiseTimeout")
	case c.RestartDelay < 0:
		return errors.NotValidf("negative RestartDelay")
	}
	if err := container.ValidateMachineID(c.MachineID); err != nil {
		return errors.Annotate(err, "MachineID")
	}
	for t, backend := range c.Backends {
		if err := t.Validate(); err != nil {
			return errors.Annotate(err, "Backends")
		}
		if err := backend.Validate(); err != nil {
			return errors.Annotatef(err, "Backends[%q]", t)
		}
	}
	for n, t := range c.SupportedTypes {
		if err := t.Validate(); err != nil {
			return errors.Annotatef(err, "SupportedTypes[%d]", n)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	setDefault(&c.CallTimeout, DefaultCallTimeout)
	setDefault(&c.InitialiseTimeout, DefaultInitialiseTimeout)
	setDefault(&c.RestartDelay, DefaultRestartDelay)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.NewProvisioner == nil {
		c.NewProvisioner = newProvisioner
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
	return c
}

func newProvisioner(config containerprovisioner.Config) (worker.Worker, error) {
	w, err := containerprovisioner.New(config)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
