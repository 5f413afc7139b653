package fakes_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
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

func TestInitialiseIsCountedOncePerLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _, h := site()
		ctx := t.Context()
		i := h.Backend("lxd").Initialiser
		h.SetInitialiseTime(time.Minute)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := i.Initialise(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
		if whole, half := h.Initialised("lxd"); whole || !half {
			t.Errorf("interrupted: whole %t, half %t", whole, half)
		}
		f.Add(fakes.Rule{Method: "Initialise", Key: "lxd", Effect: fakes.Effect{Err: boom, Act: fakes.Fully}})
		took := func() time.Duration {
			began := time.Now()
			_ = i.Initialise(ctx)
			return time.Since(began)
		}
		if got := took(); got != time.Minute {
			t.Errorf("the first took %v", got)
		}
		if got := took(); got != 0 {
			t.Errorf("the second took %v", got)
		}
		if h.Initialisations("lxd") != 1 || h.Initialisations("kvm") != 0 || f.Count("Initialise", "lxd") != 3 {
			t.Errorf("counted %d", h.Initialisations("lxd"))
		}
		b := brokerOf(t, h, "lxd")
		start(t, b, "0/lxd/0")
		h.HalfMake("0/lxd/1")

		h.Reboot()
		dead, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := i.Initialise(dead); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("by the agent before the reboot: %v", err)
		}
		h = h.Session(fakes.NewFaults(clock.WallClock))
		brokerOf(t, h, "lxd")
		if h.Initialisations("lxd") != 1 || h.Life() != 1 || len(h.Instances()) != 2 || len(h.Running()) != 1 {
			t.Errorf("after the reboot: %d initialisations, %+v", h.Initialisations("lxd"), h.Instances())
		}

		h.Reinstall()
		h = h.Session(fakes.NewFaults(clock.WallClock))
		if whole, half := h.Initialised("lxd"); whole || half || h.Life() != 2 || len(h.Instances()) != 0 || h.Starts("0/lxd/0") != 0 {
			t.Errorf("after the reinstallation: %t, %t, %+v", whole, half, h.Instances())
		}
		brokerOf(t, h, "lxd")
		if h.Initialisations("lxd") != 1 {
			t.Errorf("counted %d in the second life", h.Initialisations("lxd"))
		}
		h.Uninstall("lxd")
		brokerOf(t, h, "lxd")
		if h.Initialisations("lxd") != 2 {
			t.Errorf("counted %d after somebody had uninstalled it", h.Initialisations("lxd"))
		}
	})
}

func TestHalfAnInitialise(t *testing.T) {
	f, _, h := site()
	f.Add(fakes.Rule{Method: "Initialise", Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
	if err := h.Backend("lxd").Initialiser.Initialise(t.Context()); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if whole, half := h.Initialised("lxd"); whole || !half || h.Initialisations("lxd") != 0 {
		t.Errorf("whole %t, half %t", whole, half)
	}
	brokerOf(t, h, "lxd")
	if n, settings := h.Brokers("lxd"); n != 1 || settings != nil {
		t.Errorf("%d brokers with %v", n, settings)
	}
}

func TestUnsupportedType(t *testing.T) {
	_, _, h := site()
	h.SetUnsupported("kvm")
	backends := h.Backends("lxd", "kvm")
	if len(backends) != 2 {
		t.Errorf("back ends %v", backends)
	}
	if err := backends["kvm"].Initialiser.Initialise(t.Context()); !errors.Is(err, errors.NotSupported) {
		t.Errorf("kvm: %v", err)
	}
	if err := backends["lxd"].Initialiser.Initialise(t.Context()); err != nil {
		t.Errorf("lxd: %v", err)
	}
}

func TestBrokerIsUselessWithoutABackend(t *testing.T) {
	_, _, h := site()
	b := brokerOf(t, h, "lxd")
	h.Uninstall("lxd")
	_, err := b.StartInstance(t.Context(), params("0/lxd/0"))
	_, err2 := b.AllInstances(t.Context())
	errs := append(b.StopInstances(t.Context(), "a", "b"), err, err2)
	if len(errs) != 4 {
		t.Errorf("errors %v", errs)
	}
	for _, err := range errs {
		if !errors.Is(err, errors.NotYetAvailable) {
			t.Errorf("error %v", err)
		}
	}
}

func TestInstancesOfOthersAreLeftAlone(t *testing.T) {
	_, _, h := site()
	lxd, kvm := brokerOf(t, h, "lxd"), brokerOf(t, h, "kvm")
	h.AddForeign("lxd", "juju-ffffff-0-lxd-0")
	mine := start(t, lxd, "0/lxd/0")
	theirs := start(t, kvm, "0/kvm/0")
	for _, err := range lxd.StopInstances(t.Context(), "juju-ffffff-0-lxd-0", theirs) {
		if err != nil {
			t.Error(err)
		}
	}
	list, err := lxd.AllInstances(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != mine || list[0].ID != fakes.InstanceID("0/lxd/0") {
		t.Errorf("listed %+v, %v", list, err)
	}
	if got := h.Running(); len(got) != 2 || len(h.Foreign("lxd")) != 1 {
		t.Errorf("running %q", got)
	}
	if _, err := lxd.StartInstance(t.Context(), params("0/kvm/1")); !errors.Is(err, errors.NotValid) {
		t.Errorf("another type: %v", err)
	}
}

func TestStopInstancesByTheFaults(t *testing.T) {
	f, _, h := site()
	b := brokerOf(t, h, "lxd")
	var ids []container.InstanceID
	for _, id := range []string{"0/lxd/0", "0/lxd/1", "0/lxd/2"} {
		ids = append(ids, start(t, b, id))
	}
	f.Add(fakes.Rule{Method: "StopInstances", Key: string(ids[1]), Effect: fakes.Effect{Err: boom}})
	if errs := b.StopInstances(t.Context(), ids[:2]...); errs[0] != nil || !errors.Is(errs[1], boom) {
		t.Errorf("errors %v", errs)
	}
	f.Add(fakes.Rule{Method: "StopInstances", Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
	if errs := b.StopInstances(t.Context(), ids[1:]...); len(errs) != 2 || !errors.Is(errs[0], boom) || !errors.Is(errs[1], boom) {
		t.Errorf("errors %v", errs)
	}
	if got := h.Running(); !slices.Equal(got, []string{"0/lxd/2"}) || h.Stops("0/lxd/1") != 1 || h.Stops("0/lxd/2") != 0 {
		t.Errorf("running %q", got)
	}
	f.Add(fakes.Rule{Method: "StopInstances", Effect: fakes.Effect{Answer: fakes.Long[error]()}})
	if errs := b.StopInstances(t.Context(), ids[2]); len(errs) != 2 {
		t.Errorf("errors %v", errs)
	}
}

func TestInstancesByHand(t *testing.T) {
	_, _, h := site()
	b := brokerOf(t, h, "lxd")
	h.AddInstance("0/lxd/0", true)
	h.AddInstance("0/lxd/1", false)
	h.HalfMake("0/lxd/2")
	start(t, b, "0/lxd/3")
	h.Halt("0/lxd/3")
	h.Halt("0/lxd/9")
	list, err := b.AllInstances(t.Context())
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	for i, want := range []string{"Running", "Stopped", "Creating", "Stopped"} {
		if list[i].Status != want || list[i].Running != (want == "Running") {
			t.Errorf("instance %+v, want %s", list[i], want)
		}
	}
	for id, starts := range map[string]int{"0/lxd/0": 0, "0/lxd/1": 1, "0/lxd/2": 1, "0/lxd/3": 2} {
		start(t, b, id)
		if got := h.Starts(id); got != starts {
			t.Errorf("%s started %d times, want %d", id, got, starts)
		}
	}
	h.Vanish("0/lxd/0")
	h.Vanish("0/lxd/9")
	if _, ok := h.Params("0/lxd/0"); ok || len(h.Instances()) != 3 {
		t.Errorf("instances %+v", h.Instances())
	}
	p, ok := h.Params("0/lxd/2")
	if !ok || p.Info.Nonce != fakes.ContainerInfo("0/lxd/2").Nonce {
		t.Errorf("params %+v, %t", p, ok)
	}
}

func TestStaleListing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, h := site()
		b := brokerOf(t, h, "lxd")
		listed := func(want int) {
			t.Helper()
			if list, err := b.AllInstances(t.Context()); err != nil || len(list) != want {
				t.Errorf("%d listed, %v, want %d", len(list), err, want)
			}
		}
		h.SetStale(2, 0)
		start(t, b, "0/lxd/0")
		listed(0)
		listed(0)
		listed(1)
		h.SetStale(0, time.Minute)
		start(t, b, "0/lxd/1")
		listed(1)
		time.Sleep(time.Minute)
		listed(2)
		h.Vanish("0/lxd/0")
		listed(2)
		h.SetStale(0, 0)
		listed(1)
	})
}

func TestInstanceRemovedInTheMiddleOfItsStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, h := site()
		b := brokerOf(t, h, "lxd")
		h.SetStartTime(time.Minute)
		time.AfterFunc(time.Second, func() {
			for _, err := range b.StopInstances(t.Context(), fakes.InstanceID("0/lxd/0")) {
				if err != nil {
					t.Error(err)
				}
			}
		})
		if _, err := b.StartInstance(t.Context(), params("0/lxd/0")); !errors.Is(err, errors.NotFound) {
			t.Errorf("error %v", err)
		}
		if len(h.Instances()) != 0 || h.Starts("0/lxd/0") != 0 {
			t.Errorf("instances %+v", h.Instances())
		}
	})
}

func TestPeakOfStarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, h := site()
		b := brokerOf(t, h, "lxd")
		h.SetStartTime(time.Minute)
		for range 3 {
			go func() { _, _ = b.StartInstance(t.Context(), params("0/lxd/0")) }()
		}
		time.Sleep(time.Hour)
		if h.PeakStarts() != 3 || h.Starts("0/lxd/0") != 1 {
			t.Errorf("peak %d, started %d times", h.PeakStarts(), h.Starts("0/lxd/0"))
		}
	})
}

func TestChangesOfTheHostWithoutTheLockAreSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, h := site()
		ctx := t.Context()
		h.SetInitialiseTime(time.Minute)
		initialise := func(h *fakes.Host, typ facade.ContainerType) {
			if err := h.Backend(typ).Initialiser.Initialise(ctx); err != nil {
				t.Error(err)
			}
		}
		initialise(h, "a") // nobody knows the lock
		if got := h.Violations(); len(got) != 0 {
			t.Errorf("violations %q", got)
		}
		lock := h.Lock()
		initialise(h, "b")
		if got := h.Violations(); !slices.Equal(got, []string{"Initialise b without the lock"}) {
			t.Errorf("violations %q", got)
		}
		release := acquire(t, lock, "test")
		initialise(h, "c")
		other := h.Session(fakes.NewFaults(clock.WallClock))
		go initialise(h, "d")
		synctest.Wait()
		if err := other.Bridger().Bridge(ctx, []facade.DeviceToBridge{{Device: "eth0", Bridge: "br0"}}, 0); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		release()
		if got := h.Violations(); !slices.Equal(got[1:], []string{"Bridge eth0 without the lock", "Bridge eth0 during Initialise d"}) {
			t.Errorf("violations %q", got)
		}
	})
}

// What a crashed agent had begun is over.
func TestChangeOfACutConnectionIsNoViolation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _, h := site()
		ctx, cancel := context.WithCancel(t.Context())
		acquire(t, h.Lock(), "first")
		h.SetInitialiseTime(time.Minute)
		done := make(chan error)
		go func() { done <- h.Backend("lxd").Initialiser.Initialise(ctx) }()
		synctest.Wait()
		f.Cut()
		second := h.Session(fakes.NewFaults(clock.WallClock))
		release := acquire(t, second.Lock(), "second")
		brokerOf(t, second, "lxd")
		release()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the crashed agent's: %v", err)
		}
		if got := h.Violations(); len(got) != 0 || h.Initialisations("lxd") != 1 {
			t.Errorf("violations %q", got)
		}
	})
}
