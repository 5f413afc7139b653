package hostprep

import (
	"log/slog"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Defaults of the optional fields of [Config].
const (
	DefaultAskTimeout     = 10 * time.Second
	DefaultBridgeTimeout  = 5 * time.Minute
	DefaultObserveTimeout = 30 * time.Second
)

// Bridger puts devices of this host under bridges; it is container.Bridger.
type Bridger = container.Bridger

// Config is what a [Preparer] works with. All but Logger and the timeouts is
// required.
type Config struct {
	// Facade is the controller.
	Facade facade.HostNetwork
	// MachineID is the host whose devices these are, such as "0".
	MachineID string
	// Lock is the machine lock, the same for all who change this host.
	Lock container.Lock
	// Network sees what the host's network looks like.
	Network container.NetworkObserver
	// Bridger changes the host.
	Bridger Bridger
	// Clock is where time comes from.
	Clock clock.Clock
	// Logger hears what was changed, with the container as an attribute; nil
	// discards.
	Logger *slog.Logger

	// AskTimeout is how long the controller may take to say what must
	// change; 10 s by default. The lock is held meanwhile.
	AskTimeout time.Duration
	// BridgeTimeout is how long bridging may take beyond the delay that the
	// controller asks for; 5 min by default.
	BridgeTimeout time.Duration
	// ObserveTimeout is how long observing and publishing may take together;
	// 30 s by default. The lock is held meanwhile.
	ObserveTimeout time.Duration
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
	case c.AskTimeout < 0:
		return errors.NotValidf("negative AskTimeout")
	case c.BridgeTimeout < 0:
		return errors.NotValidf("negative BridgeTimeout")
	case c.ObserveTimeout < 0:
		return errors.NotValidf("negative ObserveTimeout")
	}
	return errors.Annotate(container.ValidateMachineID(c.MachineID), "MachineID")
}

// withDefaults returns the config with every optional field set.
func (c Config) withDefaults() Config {
	setDefault(&c.AskTimeout, DefaultAskTimeout)
	setDefault(&c.BridgeTimeout, DefaultBridgeTimeout)
	setDefault(&c.ObserveTimeout, DefaultObserveTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}
