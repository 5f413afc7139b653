package main

import (
	"log/slog"
	"path/filepath"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/examples/agent/internal/host"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/process"
	"github.com/sutler-dev/sutler/provisioner"
)

// Names of the manifolds, which are the workers' in the report.
const (
	agentConfigName  = "agent-config"
	clockName        = "clock"
	controllerName   = "controller"
	managerName      = "operator-manager"
	provisionerName  = "operator-provisioner"
	operatorsDirName = "operators"

	lockName           = "machine-lock"
	containerSetupName = "container-setup"
)

// storageProvider is the kind of storage that operators as processes have: a
// directory of the machine's own file system, namely the operator's. An
// application that asks for another kind gets no operator, and the report says
// why.
const storageProvider = "rootfs"

// parts is what the agent's workers are made from.
type parts struct {
	dir        string // the model's
	model      model.Settings
	state      *controller.State
	logger     *slog.Logger
	newManager func(process.Config) (worker.Worker, error)
	// machine is nil when the model has none.
	machine *machineParts
}

// machineParts is what container set-up is made from.
type machineParts struct {
	id       string
	backends map[containersetup.ContainerType]containersetup.Backend
	lock     containersetup.Lock
}

// manifolds are the agent: five workers, and two more when the model has a
// machine. The engine starts each when its inputs are there, and starts it again
// when one of them or it itself ends.
//
// A real agent has the first two already. In place of the third it has a facade
// over its connection to the controller, and perhaps another operator manager.
func manifolds(p parts) dependency.Manifolds {
	all := operatorManifolds(p)
	if p.machine != nil {
		all[lockName] = enginevalue.Manifold[containersetup.Lock](p.machine.lock)
		all[containerSetupName] = p.containerSetup()
	}
	return all
}

// operatorManifolds keep operators.
func operatorManifolds(p parts) dependency.Manifolds {
	return dependency.Manifolds{
		agentConfigName: enginevalue.Manifold[provisioner.AgentConfig](agentConfig{p.state}),
		clockName:       enginevalue.Manifold[clock.Clock](clock.WallClock),
		controllerName: {
			Inputs: []string{clockName},
			Start:  p.startController,
			Output: p.outputController,
		},
		managerName: {
			Inputs: []string{clockName},
			Start:  p.startManager,
			Output: output[*process.Manager, operator.Manager],
		},
		provisionerName: provisioner.Manifold(provisioner.ManifoldConfig{
			AgentName:           agentConfigName,
			FacadeName:          controllerName,
			OperatorManagerName: managerName,
			ClockName:           clockName,
			ModelUUID:           p.model.UUID,
			NewWorker:           startProvisioner,
			Logger:              p.logger.With("worker", provisionerName),
		}),
	}
}

// containerSetup prepares the machine when somebody asks for a container, and
// starts what makes and removes containers.
func (p parts) containerSetup() dependency.Manifold {
	logger := p.logger.With("worker", containerSetupName)
	return containersetup.Manifold(containersetup.ManifoldConfig{
		FacadeName: controllerName,
		LockName:   lockName,
		ClockName:  clockName,
		MachineID:  p.machine.id,
		Backends:   p.machine.backends,
		Network:    host.Network{Logger: logger},
		Bridger:    host.Bridges{},
		NewWorker:  containersetup.Start,
		Logger:     logger,
	})
}

// startProvisioner is where a host sets what it wants other than the defaults.
func startProvisioner(config provisioner.Config) (worker.Worker, error) {
	config.StorageProviders = []string{storageProvider}
	return provisioner.Start(config)
}

func (p parts) startController(context dependency.Context) (worker.Worker, error) {
	config := controller.Config{Dir: p.dir, State: p.state, Logger: p.logger.With("worker", controllerName)}
	if err := context.Get(clockName, &config.Clock); err != nil {
		return nil, errors.Trace(err)
	}
	w, err := controller.New(config)
	if err != nil {
		return nil, err // and not a nil *Controller in a worker.Worker
	}
	return w, nil
}

// outputController serves the two halves of the agent.
func (parts) outputController(in worker.Worker, out any) error {
	if _, ok := out.(*facade.Machine); ok {
		return output[*controller.Controller, facade.Machine](in, out)
	}
	return output[*controller.Controller, facade.Applications](in, out)
}

func (p parts) startManager(context dependency.Context) (worker.Worker, error) {
	config := process.Config{
		Dir:    filepath.Join(p.state.Dir(), operatorsDirName),
		Logger: p.logger.With("worker", managerName),
	}
	if err := context.Get(clockName, &config.Clock); err != nil {
		return nil, errors.Trace(err)
	}
	return p.newManager(config)
}

// output hands a worker of type W out as the interface I, which it implements.
func output[W worker.Worker, I any](in worker.Worker, out any) error {
	w, ok := in.(W)
	if !ok {
		return errors.Errorf("worker of type %T", in)
	}
	target, ok := out.(*I)
	if !ok {
		return errors.Errorf("output of type %T (want %T)", out, target)
	}
	*target, ok = any(w).(I)
	if !ok {
		return errors.Errorf("worker of type %T", in)
	}
	return nil
}

// agentConfig is what operators are told about this agent.
type agentConfig struct{ state *controller.State }

func (a agentConfig) DataDir() string        { return a.state.Dir() }
func (a agentConfig) LogDir() string         { return filepath.Join(a.state.Dir(), operatorsDirName) }
func (a agentConfig) ControllerUUID() string { return a.state.ControllerUUID() }
func (a agentConfig) CACert() string         { return a.state.CACert() }
