package fakes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// Whether the back end keeps the rules of its interfaces is for the suite in
// containersetup/backendtest, which it passes; these are about the rest of it.

// site returns a machine, and the host that it is, over one connection.
func site() (*fakes.Faults, *fakes.Machine, *fakes.Host) {
	f := fakes.NewFaults(clock.WallClock)
	return f, fakes.NewMachine(f, "0"), fakes.NewHost(f)
}

func params(id string) container.StartParams {
	return container.StartParams{ContainerID: id, Info: fakes.ContainerInfo(id)}
}

// brokerOf prepares the host for the type and returns its broker.
func brokerOf(t *testing.T, h *fakes.Host, typ facade.ContainerType) container.Broker {
	t.Helper()
	if err := h.Backend(typ).Initialiser.Initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := h.Backend(typ).NewBroker(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// start starts the container's instance.
func start(t *testing.T, b container.Broker, id string) container.InstanceID {
	t.Helper()
	result, err := b.StartInstance(t.Context(), params(id))
	if err != nil {
		t.Fatal(err)
	}
	return result.InstanceID
}

func TestFirstContainerOfAMachine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, m, h := site()
		ctx := t.Context()
		m.RequireLock(h.Lock())
		m.AddContainer("0/lxd/0", fakes.Container{})

		release, err := h.Lock().Acquire(ctx, container.Holder{Worker: "test", Reason: "prepare"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Backend("lxd").NewBroker(ctx, nil); !errors.Is(err, errors.NotYetAvailable) {
			t.Errorf("broker before initialisation: %v", err)
		}
		b := brokerOf(t, h, "lxd")
		changes, err := m.HostChangesForContainer(ctx, "0/lxd/0")
		if err != nil || len(changes.Devices) != 1 {
			t.Fatalf("changes %v, %v", changes, err)
		}
		if err := h.Bridger().Bridge(ctx, changes.Devices, 0); err != nil {
			t.Fatal(err)
		}
		seen, err := h.Network().Observe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.SetHostMachineNetworkConfig(ctx, "0", seen); err != nil {
			t.Fatal(err)
		}
		if changes, err := m.HostChangesForContainer(ctx, "0/lxd/0"); err != nil || len(changes.Devices) != 0 {
			t.Errorf("changes after bridging %v, %v", changes, err)
		}
		release()

		id := start(t, b, "0/lxd/0")
		results, err := m.SetInstanceInfo(ctx, []facade.InstanceInfo{{ID: "0/lxd/0", InstanceID: string(id), Nonce: "nonce-of-0/lxd/0"}})
		if err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
		if got := h.Running(); !slices.Equal(got, []string{"0/lxd/0"}) || h.Starts("0/lxd/0") != 1 {
			t.Errorf("running %q", got)
		}
		if err := h.Lock().CheckFree(); err != nil {
			t.Error(err)
		}
		if v := append(h.Violations(), m.Violations()...); len(v) != 0 {
			t.Errorf("violations %q", v)
		}
	})
}

func TestInterruptedStartLeavesAHalfMadeInstance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, h := site()
		b := brokerOf(t, h, "lxd")
		h.SetStartTime(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.StartInstance(ctx, params("0/lxd/0")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if got := h.Instances(); len(got) != 1 || got[0].Running || got[0].Status != "Creating" {
			t.Errorf("instances %+v", got)
		}
		start(t, b, "0/lxd/0")
		start(t, b, "0/lxd/0")
		if h.Starts("0/lxd/0") != 1 || len(h.Running()) != 1 {
			t.Errorf("started %d times", h.Starts("0/lxd/0"))
		}
	})
}
