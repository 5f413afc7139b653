package containersetup

import (
	"log/slog"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// ManifoldConfig says how the worker is wired into an agent's dependency
// engine. All fields are required but Logger, which discards when nil.
type ManifoldConfig struct {
	// The names of the manifolds that this one depends on, and what their
	// output functions must serve.
	FacadeName string // *facade.Machine
	LockName   string // *containersetup.Lock
	ClockName  string // *clock.Clock

	// MachineID, Backends, Network and Bridger are as in Config.
	MachineID string
	Backends  map[ContainerType]Backend
	Network   NetworkObserver
	Bridger   Bridger
	// NewWorker makes the worker; Start is one that does with the config as
	// it is. Here the host sets what it wants other than the defaults.
	NewWorker func(Config) (worker.Worker, error)
	// Logger is given to the worker.
	Logger *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil.
func (c ManifoldConfig) Validate() error {
	switch {
	case c.FacadeName == "":
		return errors.NotValidf("empty FacadeName")
	case c.LockName == "":
		return errors.NotValidf("empty LockName")
	case c.ClockName == "":
		return errors.NotValidf("empty ClockName")
	case c.Network == nil:
		return errors.NotValidf("nil Network")
	case c.Bridger == nil:
		return errors.NotValidf("nil Bridger")
	case c.NewWorker == nil:
		return errors.NotValidf("nil NewWorker")
	}
	return errors.Annotate(container.ValidateMachineID(c.MachineID), "MachineID")
}

// Start is a ManifoldConfig.NewWorker that calls [New].
func Start(config Config) (worker.Worker, error) {
	w, err := New(config)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Manifold returns a manifold that runs a container-setup handler. A config
// that does not validate is an error of its start.
//
// An input that is not there is dependency.ErrMissing, as usual. On a machine
// that supports no containers the manifold is uninstalled, once whoever asked
// for one has been told. A connection that is lost bounces it. Everything else
// the engine starts again with its own back-off.
func Manifold(config ManifoldConfig) dependency.Manifold {
	return dependency.Manifold{
		Inputs: []string{config.FacadeName, config.LockName, config.ClockName},
		Start:  config.start,
		Filter: filterError,
	}
}

func (c ManifoldConfig) start(context dependency.Context) (worker.Worker, error) {
	if err := c.Validate(); err != nil {
		return nil, errors.Annotate(err, "container setup manifold")
	}
	config := Config{
		MachineID: c.MachineID, Backends: c.Backends, Network: c.Network, Bridger: c.Bridger, Logger: c.Logger,
	}
	for _, input := range []struct {
		name string
		out  any
	}{
		{c.FacadeName, &config.Facade},
		{c.LockName, &config.Lock},
		{c.ClockName, &config.Clock},
	} {
		if err := context.Get(input.name, input.out); err != nil {
			return nil, errors.Trace(err)
		}
	}
	return c.NewWorker(config)
}

func filterError(err error) error {
	switch {
	case errors.Is(err, errNothingToDo):
		return dependency.ErrUninstall
	case errors.Is(err, facade.ErrConnectionLost):
		return dependency.ErrBounce
	}
	return err
}
