package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/facade"
)

const (
	// kvmDir is, within the agent's own directory, where it is recorded what was done to
	// this machine for virtual machines.
	kvmDir = "kvm"
	// disksDir is where their disks are: the hypervisor's user gets through to there, and
	// not into the agent's own directory.
	disksDir = "/var/lib/libvirt/images/sutler"
)

// kvmHost is libvirt on this machine.
type kvmHost struct {
	config   kvm.Config
	settings facade.ContainerManagerConfig
}

func newKVM(modelUUID, controllerUUID, stateDir string, emulation bool, settings facade.ContainerManagerConfig, logger *slog.Logger) kvmHost {
	return kvmHost{settings: settings, config: kvm.Config{
		ModelUUID:      modelUUID,
		ControllerUUID: controllerUUID,
		StateDir:       filepath.Join(stateDir, kvmDir),
		Logger:         logger,
		Pool:           kvm.PoolConfig{Dir: disksDir},
		AllowEmulation: emulation,
	}}
}

// probe looks for a daemon, and for what can run virtual machines, as the settings have
// it.
func (k kvmHost) probe(ctx context.Context) (containersetup.Backend, error) {
	initialiser, err := k.withSettings()
	switch {
	case errors.Is(err, errors.NotValid):
		// Container set-up says so, too, and hears when they are mended.
	case err != nil:
		return containersetup.Backend{}, err
	default:
		if err := initialiser.Probe(ctx); err != nil {
			return containersetup.Backend{}, err
		}
	}
	return kvm.NewBackend(k.config)
}

func (k kvmHost) withSettings() (*kvm.Initialiser, error) {
	initialiser, err := kvm.NewInitialiser(k.config)
	if err != nil {
		return nil, err
	}
	with, err := initialiser.WithSettings(k.settings)
	if err != nil {
		return nil, err
	}
	known, ok := with.(*kvm.Initialiser)
	if !ok {
		return nil, errors.Errorf("initialiser of type %T", with)
	}
	return known, nil
}

// plan returns what is to be done to this machine.
func (k kvmHost) plan(ctx context.Context) ([]string, error) {
	initialiser, err := k.withSettings()
	if err != nil {
		return nil, errors.NewBadRequest(err, "machine.yaml: settings: kvm")
	}
	if err := initialiser.Probe(ctx); err != nil {
		return nil, err
	}
	return lines(initialiser.Plan(ctx))
}

// undo takes back what was done to this machine.
func (k kvmHost) undo(ctx context.Context) error {
	initialiser, err := kvm.NewInitialiser(k.config)
	if err != nil {
		return err
	}
	return initialiser.Undo(ctx)
}
