package kvm_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
)

func (w *world) virsh(args ...string) (string, error) {
	out, err := w.daemon.Host.Run(context.Background(), host.Do(append([]string{"virsh", "--quiet"}, args...)...))
	return strings.TrimSpace(string(out.Stdout) + string(out.Stderr)), err
}

// TestConformance holds the back end on a real daemon to what every back end has to do.
func TestConformance(t *testing.T) {
	t.Parallel()
	daemon := kvmtest.Private(t)
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		w := newWorld(t, daemon)
		return backendtest.Harness{
			Backend: w.backend(),
			Type:    container.KVM,
			Params:  params,
			Prompt:  15 * time.Second,
			Restart: func() (container.Backend, error) {
				return kvm.NewBackend(w.config)
			},
			Initialised: func() int { return int(w.steps.n.Load()) },
			HalfMake:    w.halfMake,
			LoseReply: func(string) error {
				w.hook.loseReply("DefineDomain")
				return nil
			},
			RestartDaemon: func() error {
				daemon.Kill(t)
				return nil
			},
			Foreign: func() (container.InstanceID, error) {
				other := newWorld(t, daemon)
				broker := other.prepared()
				result, err := broker.StartInstance(t.Context(), params("0/kvm/77"))
				return result.InstanceID, err
			},
			Unsupported: unsupported(t),
		}
	})
}

// unsupported is the initialiser of a machine that cannot run others.
func unsupported(t *testing.T) container.Initialiser {
	t.Helper()
	machine := &hosttest.Host{}
	machine.On(hosttest.Print("x86_64\n"), "uname", "-m")
	initialiser, err := kvm.NewInitialiser(kvm.Config{
		ModelUUID: kvmtest.Model(), ControllerUUID: controllerUUID, StateDir: t.TempDir(),
		Host: machine, Socket: "/nowhere/libvirt-sock",
	})
	if err != nil {
		t.Fatal(errors.ErrorStack(err))
	}
	return initialiser
}
