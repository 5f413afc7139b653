package main

import (
	"log/slog"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/examples/agent/internal/outside"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
	"github.com/sutler-dev/sutler/provisioner"
)

// Names of the manifolds, which are the workers' in the report.
const (
	agentConfigName = "agent-config"
	clockName       = "clock"
	controllerName  = "controller"
	managerName     = "operator-manager"
	provisionerName = "operator-provisioner"

	// With --join.
	electionName = "leader-election"
	leaderName   = "leader"

	// With a machine.
	lockName           = "machine-lock"
	containerSetupName = "container-setup"
)

// parts is what the agent's workers are made from.
type parts struct {
	model     model.Settings
	logger    *slog.Logger
	directory directory
	operators operators
	// outside is what the workers are seen by.
	outside *outside.Outside
	// machine is nil when the model has none.
	machine *machineParts
}

// machineParts is what container set-up is made from.
type machineParts struct {
	id       string
	backends map[containersetup.ContainerType]containersetup.Backend
	lock     containersetup.Lock
	network  containersetup.NetworkObserver
	bridger  containersetup.Bridger
}

// manifolds are the agent: five workers, and two more when the model has a
// machine. The engine starts each when its inputs are there, and starts it again
// when one of them or it itself ends.
//
// A real agent has the first two already. In place of the third it has a facade
// over its connection to the controller. The fourth keeps operators as processes,
// or as pods of a cluster.
func manifolds(p parts) dependency.Manifolds {
	all := operatorManifolds(p)
	if p.machine != nil {
		all[lockName] = enginevalue.Manifold(p.outside.Lock(p.machine.lock))
		all[containerSetupName] = p.containerSetup()
	}
	return all
}

// operatorManifolds keep operators.
func operatorManifolds(p parts) dependency.Manifolds {
	return dependency.Manifolds{
		agentConfigName: enginevalue.Manifold[provisioner.AgentConfig](p.operators.agentConfig(p.directory.state)),
		clockName:       enginevalue.Manifold[clock.Clock](clock.WallClock),
		controllerName:  p.directory.manifold(p.logger.With("worker", controllerName)),
		managerName:     p.operators.manager,
		provisionerName: p.provisioner(agentConfigName),
	}
}

// joinedManifolds keep operators, too, with a controller that is elsewhere, as
// several agents may, of which one leads. The controller tells what is in the
// agent's configuration.
func joinedManifolds(p parts, controller, election dependency.Manifold) dependency.Manifolds {
	return dependency.Manifolds{
		clockName:      enginevalue.Manifold[clock.Clock](clock.WallClock),
		controllerName: controller,
		managerName:    p.operators.manager,
		electionName:   election,
		leaderName:     leader.Manifold(electionName),
		// The manager goes on in every agent, and so the next leader's knows
		// the cluster already.
		provisionerName: leader.Wrap(p.provisioner(controllerName), leaderName),
	}
}

// provisioner is what all this is about.
func (p parts) provisioner(agentName string) dependency.Manifold {
	metrics := p.outside.Operators()
	return provisioner.Manifold(provisioner.ManifoldConfig{
		AgentName:           agentName,
		FacadeName:          controllerName,
		OperatorManagerName: managerName,
		ClockName:           clockName,
		ModelUUID:           p.model.UUID,
		// Here a host sets what it wants other than the defaults.
		NewWorker: func(config provisioner.Config) (worker.Worker, error) {
			config.StorageProviders = []string{p.operators.storage}
			config.Metrics = metrics
			return provisioner.Start(config)
		},
		Logger: p.logger.With("worker", provisionerName),
	})
}

// containerSetup prepares the machine when somebody asks for a container, and
// starts what makes and removes containers.
func (p parts) containerSetup() dependency.Manifold {
	logger, metrics := p.logger.With("worker", containerSetupName), p.outside.Setup()
	return containersetup.Manifold(containersetup.ManifoldConfig{
		FacadeName: controllerName,
		LockName:   lockName,
		ClockName:  clockName,
		MachineID:  p.machine.id,
		Backends:   p.machine.backends,
		Network:    p.machine.network,
		Bridger:    p.machine.bridger,
		NewWorker: func(config containersetup.Config) (worker.Worker, error) {
			config.Metrics = metrics
			return containersetup.Start(config)
		},
		Logger: logger,
	})
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
