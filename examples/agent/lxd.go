package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/facade"
)

// Within the agent's own directory: what was done to this machine, for containers of
// LXD and for its network.
const (
	lxdDir     = "lxd"
	networkDir = "network"
)

// lxdHost is LXD on this machine.
type lxdHost struct {
	config   lxd.Config
	settings facade.ContainerManagerConfig
	// install has it installed where it is not.
	install bool
}

func newLXD(modelUUID, controllerUUID, stateDir string, install bool, settings facade.ContainerManagerConfig, logger *slog.Logger) lxdHost {
	return lxdHost{install: install, settings: settings, config: lxd.Config{
		ModelUUID:      modelUUID,
		ControllerUUID: controllerUUID,
		StateDir:       filepath.Join(stateDir, lxdDir),
		Logger:         logger,
	}}
}

// probe looks for a daemon. Where one is to be installed there is nothing to look for:
// that is done when somebody asks for a container.
func (l lxdHost) probe(ctx context.Context) (containersetup.Backend, error) {
	if !l.install {
		initialiser, err := lxd.NewInitialiser(l.config)
		if err != nil {
			return containersetup.Backend{}, err
		}
		if err := initialiser.Probe(ctx); err != nil {
			return containersetup.Backend{}, err
		}
	}
	return lxd.NewBackend(l.config)
}

// plan returns what is to be done to this machine.
func (l lxdHost) plan(ctx context.Context) ([]string, error) {
	if _, err := l.probe(ctx); err != nil {
		return nil, err
	}
	initialiser, err := lxd.NewInitialiser(l.config)
	if err != nil {
		return nil, err
	}
	with, err := initialiser.WithSettings(l.settings)
	if err != nil {
		return nil, errors.NewBadRequest(err, "machine.yaml: settings: lxd")
	}
	planner, ok := with.(*lxd.Initialiser)
	if !ok {
		return nil, errors.Errorf("initialiser of type %T", with)
	}
	return lines(planner.Plan(ctx))
}

// undo takes back what was done to this machine.
func (l lxdHost) undo(ctx context.Context) error {
	initialiser, err := lxd.NewInitialiser(l.config)
	if err != nil {
		return err
	}
	return initialiser.Undo(ctx)
}

// hostNetwork returns what sees this machine's network, and puts its devices under
// bridges when the controller says so. What a change that is cut short leaves is put back
// by the watchdog; should that have died, too, the next change begins with it.
func hostNetwork(stateDir, program string, logger *slog.Logger) (containersetup.NetworkObserver, containersetup.Bridger, error) {
	machine := host.New(host.Config{})
	observer, err := hostnet.NewObserver(hostnet.ObserverConfig{Host: machine, Logger: logger})
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	dir := filepath.Join(stateDir, networkDir)
	bridger, err := hostnet.NewBridger(hostnet.BridgerConfig{
		Host: machine, Clock: clock.WallClock, StateDir: dir, Logger: logger,
		Watchdog: []string{program, "watch-network", "--dir", dir},
	})
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	return observer, bridger, nil
}

// watchMain is what is started before the network is changed, and puts all back when the
// agent dies meanwhile.
func watchMain(ctx context.Context, args []string, stderr io.Writer) error {
	config := hostnet.WatchdogConfig{Host: host.New(host.Config{}), Clock: clock.WallClock, Logger: newLogger(stderr, false)}
	flags := newFlags("watch-network")
	flags.StringVar(&config.StateDir, "dir", "", "")
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return errors.NewBadRequest(err, "watch-network")
	}
	return errors.Annotate(hostnet.RunWatchdog(ctx, config), "watch-network")
}
