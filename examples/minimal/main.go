// Command minimal is the shortest useful embedding of sutler: an agent that keeps
// the operator of one application running, as a process of this machine, until
// it is interrupted. What a real agent has to bring is in controller.go.
package main

import (
	"context"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/process"
	"github.com/sutler-dev/sutler/provisioner"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "minimal:", err)
		os.Exit(1)
	}
}

// run is the agent, until ctx ends. It leaves nothing behind.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "sutler-minimal-")
	if err != nil {
		return err
	}
	defer func() { err = stderrors.Join(err, os.RemoveAll(dir)) }()
	controller, err := newController("hello")
	if err != nil {
		return err
	}
	manager, err := process.New(process.Config{
		Dir:     filepath.Join(dir, "operators"),
		Command: []string{"sleep", "infinity"}, // the operator's program
		Clock:   clock.WallClock,
	})
	if err != nil {
		return err
	}
	defer func() {
		// Operators outlive their manager: that is how an agent is upgraded.
		err = stderrors.Join(err, manager.StopOperators(context.WithoutCancel(ctx)), worker.Stop(manager))
	}()

	engine, err := dependency.NewEngine(engineConfig())
	if err != nil {
		return err
	}
	defer func() { err = stderrors.Join(err, worker.Stop(engine)) }()
	err = dependency.Install(engine, dependency.Manifolds{
		"agent":      enginevalue.Manifold[provisioner.AgentConfig](agentConfig{dir, controller.caCert}),
		"controller": enginevalue.Manifold[facade.Applications](controller),
		"operators":  enginevalue.Manifold[operator.Manager](manager),
		"clock":      enginevalue.Manifold[clock.Clock](clock.WallClock),
		"provisioner": provisioner.Manifold(provisioner.ManifoldConfig{
			AgentName: "agent", FacadeName: "controller", OperatorManagerName: "operators", ClockName: "clock",
			ModelUUID: modelUUID, NewWorker: provisioner.Start,
		}),
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "keeping an operator of hello running; Ctrl-C stops it")
	show(ctx, manager, "hello", out)
	return nil
}

// engineConfig has an engine start again whatever ends.
func engineConfig() dependency.EngineConfig {
	return dependency.EngineConfig{
		IsFatal:          func(error) bool { return false },
		WorstError:       func(first, _ error) error { return first },
		ErrorDelay:       time.Second,
		BounceDelay:      100 * time.Millisecond,
		BackoffFactor:    1.5,
		BackoffResetTime: time.Minute,
		MaxDelay:         30 * time.Second,
		Clock:            clock.WallClock,
		Metrics:          dependency.DefaultMetrics(),
		Logger:           enginelog.New(nil),
	}
}
