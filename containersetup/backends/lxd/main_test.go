package lxd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
)

// childConfig has, in a process that tests start in order to kill it, what the child
// is to do.
const childConfig = "SUTLER_LXD_TEST_CHILD"

// stopTimeout is short: a container that is stopped as soon as it was started does not
// hear of it.
const stopTimeout = 2 * time.Second

// child is an agent that prepares the host and starts a container.
type child struct {
	Model, Socket, StateDir, ContainerID string
	Prefix                               []string
	// Stop has it remove the container then, Undo what was done to the host.
	Stop, Undo bool
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childConfig); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runChild(text string) error {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx := context.Background()
	config := lxd.Config{
		ModelUUID: c.Model, ControllerUUID: controllerUUID, StateDir: c.StateDir, Socket: c.Socket,
		Host: host.New(host.Config{Prefix: c.Prefix}), StopTimeout: stopTimeout,
	}
	initialiser, err := lxd.NewInitialiser(config)
	if err != nil {
		return err
	}
	if err := initialiser.Initialise(ctx); err != nil {
		return err
	}
	broker, err := lxd.NewBroker(ctx, config, nil)
	if err != nil {
		return err
	}
	result, err := broker.StartInstance(ctx, params(c.ContainerID))
	if err != nil {
		return err
	}
	if c.Stop {
		if errs := broker.StopInstances(ctx, result.InstanceID); errs[0] != nil {
			return errs[0]
		}
	}
	if c.Undo {
		return initialiser.Undo(ctx)
	}
	return nil
}
