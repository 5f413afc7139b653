package lxd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
)

func TestProbeSeesADaemonAndChangesNothing(t *testing.T) {
	w := newWorld(t, lxdtest.Need(t))
	before := w.daemon.Run(t, "lxc", "query", "/1.0/profiles/default")
	if err := w.initialiser().Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if after := w.daemon.Run(t, "lxc", "query", "/1.0/profiles/default"); after != before {
		t.Errorf("got %s, was %s", after, before)
	}
}

func TestProbeOfNoDaemonNamesTheSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none")
	initialiser, err := lxd.NewInitialiser(lxd.Config{
		ModelUUID: lxdtest.Model(), ControllerUUID: controllerUUID, StateDir: t.TempDir(), Socket: socket,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = initialiser.Probe(t.Context())
	if !errors.Is(err, errors.NotYetAvailable) || !strings.Contains(err.Error(), socket) {
		t.Errorf("got %v", err)
	}
}
