package kvm_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

const controllerUUID = "c0ffee00-0bad-400d-8000-4b1d0d06f00d"

// world is a daemon, and what a back end for it is made with.
type world struct {
	*testing.T
	daemon *kvmtest.Daemon
	config kvm.Config
	steps  *stepCounter
	hook   *hook
}

func newWorld(t *testing.T, daemon *kvmtest.Daemon) *world {
	t.Helper()
	steps, between := &stepCounter{}, &hook{}
	model := kvmtest.Model()
	return &world{t, daemon, between.on(kvm.Config{
		ModelUUID:      model,
		ControllerUUID: controllerUUID,
		StateDir:       t.TempDir(),
		Host:           daemon.Host,
		Socket:         daemon.Socket,
		Pool:           kvm.PoolConfig{Name: "pool-" + model[:8]},
		Images:         map[string]kvm.Image{"ubuntu/22.04": emptyImage(t)},
		AllowEmulation: true,
		StopTimeout:    stopTimeout,
		Logger:         slog.New(steps),
	}), steps, between}
}

// emptyImage is one of a disk with nothing on it: its machine starts, and goes no further
// than its firmware.
func emptyImage(t testing.TB) kvm.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.qcow2")
	if _, err := host.New(host.Config{}).Run(t.Context(), host.Do("qemu-img", "create", "-q", "-f", "qcow2", path, "1M")); err != nil {
		t.Fatal(err)
	}
	return imageOf(t, path)
}

func imageOf(t testing.TB, path string) kvm.Image {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return kvm.Image{URL: "file://" + path, SHA256: hex.EncodeToString(sum[:]), Size: uint64(len(data))}
}

// stepCounter is a log that counts what was done to the host.
type stepCounter struct {
	n     atomic.Int64
	mu    sync.Mutex
	lines []string
}

func (s *stepCounter) Enabled(context.Context, slog.Level) bool { return true }
func (s *stepCounter) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *stepCounter) WithGroup(string) slog.Handler            { return s }
func (s *stepCounter) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.Key + "=" + a.Value.String()
		return true
	})
	s.mu.Lock()
	s.lines = append(s.lines, line)
	s.mu.Unlock()
	if r.Message == "preparing the host for KVM" && !strings.Contains(line, "step=wait") {
		s.n.Add(1)
	}
	return nil
}

func (s *stepCounter) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func (w *world) backend() container.Backend {
	w.Helper()
	backend, err := kvm.NewBackend(w.config)
	if err != nil {
		w.Fatal(err)
	}
	return backend
}

func (w *world) initialiser() *kvm.Initialiser {
	w.Helper()
	initialiser, err := kvm.NewInitialiser(w.config)
	if err != nil {
		w.Fatal(err)
	}
	return initialiser
}

// prepared prepares the host and returns a broker, whose instances are removed at the
// end.
func (w *world) prepared() *kvm.Broker {
	w.Helper()
	if err := w.initialiser().Initialise(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		w.hook.set(nil)
		if err := w.initialiser().Undo(context.Background()); err != nil {
			w.Errorf("undoing at the end: %v", err)
		}
	})
	broker, err := kvm.NewBroker(w.Context(), w.config, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { w.hook.set(nil); w.removeAll(broker) })
	return broker
}

func (w *world) removeAll(broker *kvm.Broker) {
	ctx := context.Background()
	instances, err := broker.AllInstances(ctx)
	if err != nil {
		w.Errorf("listing instances at the end: %v", err)
	}
	for _, i := range instances {
		if errs := broker.StopInstances(ctx, i.ID); errs[0] != nil {
			w.Errorf("removing %s at the end: %v", i.ID, errs[0])
		}
	}
}

// params are what a small machine is made from.
func params(id string) container.StartParams {
	p := backendtest.Params(id)
	p.Info.Constraints.Memory = 64
	p.Info.Constraints.RootDisk = 16
	p.Info.UserData = facade.NewSecret("#!/bin/sh\necho canary-of-the-user-data >/dev/console\n")
	return p
}

func (w *world) started(broker *kvm.Broker, id string) container.StartResult {
	w.Helper()
	result, err := broker.StartInstance(w.Context(), params(id))
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// instanceName is that of a container of the world's model.
func (w *world) instanceName(id string) string {
	w.Helper()
	name, err := container.InstanceName(w.config.ModelUUID, id)
	if err != nil {
		w.Fatal(err)
	}
	return name
}

// errKilled ends a call as the end of the agent does.
const errKilled = errors.ConstError("the agent is killed")

// halfMake leaves what an agent leaves that is killed while it makes an instance.
func (w *world) halfMake(id string) error {
	w.hook.set(func(name string, _ bool, do func() error) error {
		err := do()
		if name == "DefineDomain" {
			err = errKilled
		}
		return err
	})
	defer w.hook.set(nil)
	broker, err := kvm.NewBroker(context.Background(), w.config, nil)
	if err != nil {
		return err
	}
	if _, err = broker.StartInstance(context.Background(), params(id)); !errors.Is(err, errKilled) {
		return errors.Errorf("half an instance was to be made: %v", err)
	}
	return nil
}

// loseReply loses the answer to the next call of that name.
func (h *hook) loseReply(name string) {
	var once sync.Once
	h.set(func(got string, _ bool, do func() error) error {
		err := do()
		if got == name {
			once.Do(func() {
				err = errors.WithType(errors.WithType(errors.New("lost"), virt.ErrNoReply), errors.NotYetAvailable)
			})
		}
		return err
	})
}
