package main

import (
	"context"
	stderrors "errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/examples/agent/internal/box"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/examples/agent/internal/host"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/examples/agent/internal/remote"
	"github.com/sutler-dev/sutler/examples/agent/internal/report"
	"github.com/sutler-dev/sutler/operator/process"
)

// Within the agent's own directory.
const (
	boxesDir        = "boxes"
	machineLockFile = "machine-lock"
)

// stopTimeout bounds the end of the agent: all operators stop at once, and
// each has operatorStopTimeout before it is killed. So it is with boxes.
const (
	operatorStopTimeout = 5 * time.Second
	stopTimeout         = 20 * time.Second
)

// agentOptions is what the agent is started with.
type agentOptions struct {
	model         string          // the model's directory
	listen, image string          // the controller's
	keepOperators bool            // and boxes
	installLXD    bool            // where there is none
	kvmEmulation  bool            // where the processor runs no virtual machines
	cluster       *clusterOptions // nil when operators are processes
	join          string          // the name of an agent that joins a controller
	page          string          // a loopback address; empty for the socket alone
	traces        string          // a file; empty for none
	logger        *slog.Logger
}

// runAgent is the agent, until ctx is cancelled.
func runAgent(ctx context.Context, opts agentOptions) error {
	dir, m, err := openModel(opts.model)
	if err != nil {
		return errors.NewBadRequest(err, "")
	}
	if opts.join != "" {
		return runJoined(ctx, filepath.Join(dir, controller.StateDir), m.Settings, opts)
	}
	state, err := openState(dir)
	if err != nil {
		return err
	}
	defer state.Close()

	program, err := os.Executable()
	if err != nil {
		return errors.Trace(err)
	}
	seen, err := openOutside(m.Name, opts)
	if err != nil {
		return err
	}
	defer seen.close()
	var manager atomic.Pointer[process.Manager]
	operators := processOperators(state.Dir(), program, opts.logger, &manager)
	if opts.cluster != nil {
		cluster, err := openCluster(ctx, *opts.cluster, m.Settings, state.ControllerUUID(), opts.logger)
		if err != nil {
			return err
		}
		operators = cluster.operators()
	}
	boxes, machine, err := openMachine(ctx, m, state, program, opts)
	if err != nil {
		return err
	}
	err = runEngine(ctx, state.Dir(), opts.logger, seen, manifolds(parts{
		model:     m.Settings,
		logger:    opts.logger,
		outside:   seen.outside,
		directory: directory{dir: dir, state: state, listen: opts.listen, image: opts.image},
		operators: operators,
		machine:   machine,
	}))
	if boxes != nil {
		err = stderrors.Join(err, worker.Stop(boxes))
	}
	if err != nil || opts.keepOperators {
		return err
	}
	return stopAll(ctx, manager.Load(), boxes)
}

// openState opens what a controller keeps, of which there is one at a time.
func openState(dir string) (*controller.State, error) {
	state, err := controller.OpenState(dir, clock.WallClock.Now())
	switch {
	case errors.Is(err, errors.AlreadyExists):
		return nil, errors.Errorf("an agent already runs on %s", dir)
	case err != nil:
		return nil, errors.NewBadRequest(err, filepath.Join(dir, controller.StateDir))
	}
	return state, nil
}

// runController is a controller alone, until ctx is cancelled.
func runController(ctx context.Context, opts agentOptions) error {
	dir, _, err := openModel(opts.model)
	if err != nil {
		return errors.NewBadRequest(err, "")
	}
	state, err := openState(dir)
	if err != nil {
		return err
	}
	defer state.Close()
	d := directory{dir: dir, state: state, listen: opts.listen, image: opts.image}
	return runEngine(ctx, state.Dir(), opts.logger, nil, controllerManifolds(d, opts.logger))
}

// runJoined is one of several agents that share a controller, which is served in
// stateDir.
func runJoined(ctx context.Context, stateDir string, m model.Settings, opts agentOptions) error {
	served, err := remote.Dial(ctx, stateDir)
	if err != nil {
		return err
	}
	uuid := served.ControllerUUID()
	if err := worker.Stop(served); err != nil {
		return err
	}
	cluster, err := openCluster(ctx, *opts.cluster, m, uuid, opts.logger)
	if err != nil {
		return err
	}
	dir := controller.JoinedDir(stateDir, opts.join)
	lock, err := controller.Lock(dir)
	if errors.Is(err, errors.AlreadyExists) {
		return errors.Errorf("an agent %s already runs on %s", opts.join, opts.model)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	seen, err := openOutside(m.Name+", agent "+opts.join, opts)
	if err != nil {
		return err
	}
	defer seen.close()
	operators := cluster.operators()
	all := joinedManifolds(parts{model: m, logger: opts.logger, operators: operators, outside: seen.outside},
		operators.joined(stateDir), cluster.election(opts.join, opts.logger))
	return runEngine(ctx, dir, opts.logger, seen, all)
}

// openMachine returns what container set-up is made from: nothing when the model
// has no machine. The worker is the caller's.
func openMachine(ctx context.Context, m *model.Model, state *controller.State, program string, opts agentOptions) (*box.Host, *machineParts, error) {
	if m.Machine == nil {
		return nil, nil, nil
	}
	stateDir, logger := state.Dir(), opts.logger.With("worker", containerSetupName)
	lock, err := newMachineLock(stateDir, logger)
	if err != nil {
		return nil, nil, err
	}
	boxes, err := box.New(box.Config{
		Dir:       filepath.Join(stateDir, boxesDir),
		ModelUUID: m.UUID,
		Command:   []string{program, "box", "--dir", box.DirPlaceholder},
		Clock:     clock.WallClock,
		Logger:    logger,
	})
	if err != nil {
		return nil, nil, err
	}
	l := newLXD(m.UUID, state.ControllerUUID(), stateDir, opts.installLXD, m.Machine.Settings[containersetup.LXD], logger)
	k := newKVM(m.UUID, state.ControllerUUID(), stateDir, opts.kvmEmulation, m.Machine.Settings[containersetup.KVM], logger)
	backends := findBackends(ctx, m.Machine.Types, candidates(boxes, l, k), logger)
	parts := &machineParts{id: m.Machine.ID, backends: backends, lock: lock, network: host.Network{Logger: logger}, bridger: host.Bridges{}}
	if has(backends, containersetup.LXD) || has(backends, containersetup.KVM) {
		parts.network, parts.bridger, err = hostNetwork(stateDir, program, logger)
	}
	return boxes, parts, err
}

// openModel checks that the model can be used at all, before anything is
// started. A new model has no applications yet, and a new machine no containers.
func openModel(path string) (string, *model.Model, error) {
	dir, err := filepath.Abs(path)
	if err != nil {
		return "", nil, errors.Trace(err)
	}
	if _, err := model.LoadSettings(dir); err != nil {
		return "", nil, errors.Annotate(err, dir)
	}
	if err := os.Mkdir(filepath.Join(dir, model.ApplicationsDir), 0o700); err != nil && !os.IsExist(err) {
		return "", nil, errors.Trace(err)
	}
	if _, err := os.Stat(filepath.Join(dir, model.MachineFile)); err == nil {
		if err := os.Mkdir(filepath.Join(dir, model.ContainersDir), 0o700); err != nil && !os.IsExist(err) {
			return "", nil, errors.Trace(err)
		}
	}
	m, err := model.Load(dir)
	if err == nil {
		err = m.MachineErr
	}
	return dir, m, errors.Annotate(err, dir)
}

// runEngine runs workers until ctx is cancelled, shows their report in dir and, if
// seen is not nil, has them seen from outside there.
func runEngine(ctx context.Context, dir string, logger *slog.Logger, seen *seen, all dependency.Manifolds) error {
	engine, err := dependency.NewEngine(dependency.EngineConfig{
		// Whatever a worker dies of, the engine starts it again: what
		// cannot be mended that way was checked before.
		IsFatal:          func(error) bool { return false },
		WorstError:       func(first, _ error) error { return first },
		ErrorDelay:       time.Second,
		BounceDelay:      100 * time.Millisecond,
		BackoffFactor:    1.5,
		BackoffResetTime: time.Minute,
		MaxDelay:         30 * time.Second,
		Clock:            clock.WallClock,
		Metrics:          dependency.DefaultMetrics(),
		Logger:           enginelog.New(logger.With("worker", "engine")),
	})
	if err != nil {
		return errors.Trace(err)
	}
	if err := dependency.Install(engine, all); err != nil {
		return stderrors.Join(err, worker.Stop(engine))
	}
	reports, err := report.Serve(ctx, dir, engine.Report)
	if err != nil {
		return stderrors.Join(err, worker.Stop(engine))
	}
	stopSeeing, err := seen.serve(ctx, dir, engine)
	if err != nil {
		return stderrors.Join(err, worker.Stop(engine), worker.Stop(reports))
	}
	<-ctx.Done()
	logger.Info("stopping")
	return stderrors.Join(worker.Stop(engine), worker.Stop(reports), stopSeeing())
}

// stopAll ends all operators and boxes, although ctx has ended.
func stopAll(ctx context.Context, manager *process.Manager, boxes *box.Host) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var operatorsErr, boxesErr error
	var wg sync.WaitGroup
	if manager != nil {
		wg.Go(func() { operatorsErr = errors.Annotate(manager.StopOperators(ctx), "stopping the operators") })
	}
	if boxes != nil {
		wg.Go(func() { boxesErr = errors.Annotate(boxes.Stop(ctx), "stopping the boxes") })
	}
	wg.Wait()
	return stderrors.Join(operatorsErr, boxesErr)
}

// printReport prints the report of the agent that runs on a model.
func printReport(ctx context.Context, opts agentOptions, out io.Writer) error {
	dir, err := filepath.Abs(opts.model)
	if err != nil {
		return errors.Trace(err)
	}
	stateDir := filepath.Join(dir, controller.StateDir)
	if opts.join != "" {
		stateDir = controller.JoinedDir(stateDir, opts.join)
	}
	data, err := report.Fetch(ctx, stateDir)
	switch {
	case errors.Is(err, errors.NotFound):
		return errors.Errorf("no agent runs on %s", dir)
	case err != nil:
		return err
	}
	_, err = out.Write(data)
	return errors.Trace(err)
}
