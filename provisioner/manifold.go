package provisioner

import (
	"log/slog"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/facade"
)

// ManifoldConfig says how the worker is wired into an agent's dependency
// engine. All fields are required but Logger, which discards when nil.
type ManifoldConfig struct {
	// The names of the manifolds that this one depends on, and what their
	// output functions must serve.
	AgentName           string // *provisioner.AgentConfig
	FacadeName          string // *facade.Applications
	OperatorManagerName string // *operator.Manager
	ClockName           string // *clock.Clock

	// ModelUUID is the UUID of the model whose applications these are.
	ModelUUID string
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
	case c.AgentName == "":
		return errors.NotValidf("empty AgentName")
	case c.FacadeName == "":
		return errors.NotValidf("empty FacadeName")
	case c.OperatorManagerName == "":
		return errors.NotValidf("empty OperatorManagerName")
	case c.ClockName == "":
		return errors.NotValidf("empty ClockName")
	case c.ModelUUID == "":
		return errors.NotValidf("empty ModelUUID")
	case !validUUID(c.ModelUUID):
		return errors.NotValidf("ModelUUID %q (want a UUID)", c.ModelUUID)
	case c.NewWorker == nil:
		return errors.NotValidf("nil NewWorker")
	}
	return nil
}

// Start is a ManifoldConfig.NewWorker that calls [New].
func Start(config Config) (worker.Worker, error) {
	w, err := New(config)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Manifold returns a manifold that runs an operator provisioner. A config that
// does not validate is an error of its start.
//
// An input that is not there is dependency.ErrMissing, as usual. A controller
// whose WatchApplications is errors.NotSupported has no operators to provision,
// and never will: the manifold is uninstalled. A connection that is lost bounces
// it, since its facade is about to be replaced. Everything else the engine
// starts again with its own back-off.
func Manifold(config ManifoldConfig) dependency.Manifold {
	return dependency.Manifold{
		Inputs: []string{config.AgentName, config.FacadeName, config.OperatorManagerName, config.ClockName},
		Start:  config.start,
		Filter: filterError,
	}
}

func (c ManifoldConfig) start(context dependency.Context) (worker.Worker, error) {
	if err := c.Validate(); err != nil {
		return nil, errors.Annotate(err, "operator provisioner manifold")
	}
	config := Config{ModelUUID: c.ModelUUID, Logger: c.Logger}
	for _, input := range []struct {
		name string
		out  any
	}{
		{c.AgentName, &config.Agent},
		{c.FacadeName, &config.Facade},
		{c.OperatorManagerName, &config.OperatorManager},
		{c.ClockName, &config.Clock},
	} {
		if err := context.Get(input.name, input.out); err != nil {
			return nil, errors.Trace(err)
		}
	}
	return c.NewWorker(config)
}

// errNoOperators is the kind of end of a worker whose controller knows no
// operators.
const errNoOperators = errors.ConstError("controller has no operators to provision")

func filterError(err error) error {
	switch {
	case errors.Is(err, errNoOperators):
		return dependency.ErrUninstall
	case errors.Is(err, facade.ErrConnectionLost):
		return dependency.ErrBounce
	}
	return err
}
