package main

import (
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/process"
	"github.com/sutler-dev/sutler/provisioner"
)

// operators is how this agent keeps operators.
type operators struct {
	manager dependency.Manifold
	// storage is the kind of storage that operators can have. An application
	// that asks for another gets none, and the report says why.
	storage string
	// dataDir and logDir are the agent's directories as operators see them.
	dataDir, logDir string
}

// identity is what operators have to know of the controller.
type identity interface {
	ControllerUUID() string
	CACert() string
}

// agentConfig is what operators are told about this agent.
type agentConfig struct {
	identity
	dataDir, logDir string
}

func (a agentConfig) DataDir() string { return a.dataDir }
func (a agentConfig) LogDir() string  { return a.logDir }

func (o operators) agentConfig(controller identity) provisioner.AgentConfig {
	return agentConfig{controller, o.dataDir, o.logDir}
}

const operatorsDirName = "operators"

// processOperators has operators that are processes of this machine. Their storage
// is a directory of its file system, namely the operator's. The manager that the
// engine started last is put into last: the agent's end needs it.
func processOperators(stateDir, program string, logger *slog.Logger, last *atomic.Pointer[process.Manager]) operators {
	dir := filepath.Join(stateDir, operatorsDirName)
	return operators{
		storage: "rootfs",
		dataDir: stateDir,
		logDir:  dir,
		manager: dependency.Manifold{
			Inputs: []string{clockName},
			Start: func(context dependency.Context) (worker.Worker, error) {
				config := process.Config{
					Dir:         dir,
					Command:     []string{program, "operator", "--dir", "{dir}", "--application", "{application}"},
					StopTimeout: operatorStopTimeout,
					Logger:      logger.With("worker", managerName),
				}
				if err := context.Get(clockName, &config.Clock); err != nil {
					return nil, errors.Trace(err)
				}
				w, err := process.New(config)
				if err != nil {
					return nil, err
				}
				last.Store(w)
				return w, nil
			},
			Output: output[*process.Manager, operator.Manager],
		},
	}
}
