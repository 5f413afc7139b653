package lxd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
)

func (w *world) lxc(args ...string) (string, error) {
	out, err := w.daemon.Host.Run(context.Background(), host.Do(append([]string{"lxc"}, args...)...))
	return strings.TrimSpace(string(out.Stdout) + string(out.Stderr)), err
}

// TestConformance holds the back end on a real daemon to what every back end has to do.
func TestConformance(t *testing.T) {
	t.Parallel()
	daemon := lxdtest.Private(t)
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		w := newWorld(t, daemon)
		between := newProxy(t, daemon.Socket)
		w.config.Socket = between.path
		return backendtest.Harness{
			Backend: w.backend(),
			Params:  params,
			Prompt:  15 * time.Second,
			Restart: func() (container.Backend, error) {
				return lxd.NewBackend(w.config)
			},
			Initialised: func() int { return int(w.steps.n.Load()) },
			HalfMake:    w.halfMake,
			LoseReply: func(string) error {
				between.loseReply("POST /1.0/instances")
				return nil
			},
			RestartDaemon: func() error {
				daemon.Kill(t)
				return nil
			},
			Foreign: func() (container.InstanceID, error) {
				other := newWorld(t, daemon)
				id := other.instanceName("0/lxd/77")
				t.Cleanup(func() { _, _ = other.lxc("delete", "--force", id) })
				return container.InstanceID(id), other.halfMake("0/lxd/77")
			},
			Unsupported: unsupported(t),
		}
	})
}

// unsupported is the initialiser of a machine that has no packages of LXD.
func unsupported(t *testing.T) container.Initialiser {
	t.Helper()
	machine := &hosttest.Host{}
	machine.SetFile("/etc/os-release", "ID=plan9\n")
	initialiser, err := lxd.NewInitialiser(lxd.Config{
		ModelUUID: lxdtest.Model(), ControllerUUID: controllerUUID, StateDir: t.TempDir(),
		Host: machine, Socket: "/nowhere/unix.socket",
	})
	if err != nil {
		t.Fatal(errors.ErrorStack(err))
	}
	return initialiser
}
