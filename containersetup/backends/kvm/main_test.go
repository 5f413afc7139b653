package kvm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
)

// childConfig has, in a process that tests start for it to be killed, what the child is to
// do.
const childConfig = "SUTLER_KVM_TEST_CHILD"

// stopTimeout is short: there is nothing in most of these machines that would listen.
const stopTimeout = 200 * time.Millisecond

// child is an agent that prepares the host and starts a machine.
type child struct {
	Model, Socket, StateDir, ContainerID string
	Pool                                 kvm.PoolConfig
	Image                                kvm.Image
	Prefix                               []string
	// Stop has it remove the machine then, Undo what was done to the host.
	Stop, Undo bool
	// KillAt is the number of the change at which it kills itself, before it is made or
	// a few milliseconds after it was begun.
	KillAt int
	Within bool
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
	changes := 0
	var counting hook
	counting.set(func(name string, changing bool, do func() error) error {
		if !changing {
			return do()
		}
		changes++
		if changes == c.KillAt {
			if c.Within {
				go func() { _ = do() }()
				time.Sleep(time.Duration(changes*7%30) * time.Millisecond) // whatever it is at by then
			}
			fmt.Fprintln(os.Stderr, "killed at", name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return do()
	})
	ctx := context.Background()
	config := counting.on(kvm.Config{
		ModelUUID: c.Model, ControllerUUID: controllerUUID, StateDir: c.StateDir, Socket: c.Socket, Pool: c.Pool,
		Host: hookedHost{host.New(host.Config{Prefix: c.Prefix}), &counting}, StopTimeout: stopTimeout, AllowEmulation: true,
		Images: map[string]kvm.Image{"ubuntu/22.04": c.Image},
	})
	initialiser, err := kvm.NewInitialiser(config)
	if err != nil {
		return err
	}
	if err := initialiser.Initialise(ctx); err != nil {
		return err
	}
	broker, err := kvm.NewBroker(ctx, config, nil)
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
