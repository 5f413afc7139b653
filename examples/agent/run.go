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

	"github.com/sutler-dev/sutler/containersetup/machinelock"
	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/examples/agent/internal/box"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
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
	model         string // the model's directory
	keepOperators bool   // and boxes
	logger        *slog.Logger
}

// runAgent is the agent, until ctx is cancelled.
func runAgent(ctx context.Context, opts agentOptions) error {
	dir, m, err := openModel(opts.model)
	if err != nil {
		return errors.NewBadRequest(err, "")
	}
	state, err := controller.OpenState(dir, clock.WallClock.Now())
	switch {
	case errors.Is(err, errors.AlreadyExists):
		return errors.Errorf("an agent already runs on %s", dir)
	case err != nil:
		return errors.NewBadRequest(err, filepath.Join(dir, controller.StateDir))
	}
	defer state.Close()

	program, err := os.Executable()
	if err != nil {
		return errors.Trace(err)
	}
	boxes, machine, err := openMachine(ctx, m, state.Dir(), program, opts.logger)
	if err != nil {
		return err
	}
	// The last manager that the engine started: the agent's end needs it.
	var manager atomic.Pointer[process.Manager]
	parts := parts{
		dir:     dir,
		model:   m.Settings,
		machine: machine,
		state:   state,
		logger:  opts.logger,
		newManager: func(config process.Config) (worker.Worker, error) {
			config.Command = []string{program, "operator", "--dir", "{dir}", "--application", "{application}"}
			config.StopTimeout = operatorStopTimeout
			w, err := process.New(config)
			if err != nil {
				return nil, err
			}
			manager.Store(w)
			return w, nil
		},
	}
	err = runEngine(ctx, state.Dir(), parts)
	if boxes != nil {
		err = stderrors.Join(err, worker.Stop(boxes))
	}
	if err != nil || opts.keepOperators {
		return err
	}
	return stopAll(ctx, manager.Load(), boxes)
}

// openMachine returns what container set-up is made from: nothing when the model
// has no machine. The worker is the caller's.
func openMachine(ctx context.Context, m *model.Model, stateDir, program string, logger *slog.Logger) (*box.Host, *machineParts, error) {
	if m.Machine == nil {
		return nil, nil, nil
	}
	logger = logger.With("worker", containerSetupName)
	// A real agent names the one file that all who change the machine have.
	lock, err := machinelock.New(machinelock.Config{
		Path:   filepath.Join(stateDir, machineLockFile),
		Clock:  clock.WallClock,
		Logger: logger,
	})
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
	return boxes, &machineParts{
		id:       m.Machine.ID,
		backends: findBackends(ctx, m.Machine.Types, candidates(boxes), logger),
		lock:     lock,
	}, nil
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

// runEngine runs the parts until ctx is cancelled, and shows their report.
func runEngine(ctx context.Context, stateDir string, parts parts) error {
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
		Logger:           enginelog.New(parts.logger.With("worker", "engine")),
	})
	if err != nil {
		return errors.Trace(err)
	}
	if err := dependency.Install(engine, manifolds(parts)); err != nil {
		return stderrors.Join(err, worker.Stop(engine))
	}
	reports, err := report.Serve(ctx, stateDir, engine.Report)
	if err != nil {
		return stderrors.Join(err, worker.Stop(engine))
	}
	<-ctx.Done()
	parts.logger.Info("stopping")
	return stderrors.Join(worker.Stop(engine), worker.Stop(reports))
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
func printReport(ctx context.Context, path string, out io.Writer) error {
	dir, err := filepath.Abs(path)
	if err != nil {
		return errors.Trace(err)
	}
	data, err := report.Fetch(ctx, filepath.Join(dir, controller.StateDir))
	switch {
	case errors.Is(err, errors.NotFound):
		return errors.Errorf("no agent runs on %s", dir)
	case err != nil:
		return err
	}
	_, err = out.Write(data)
	return errors.Trace(err)
}
