package backendtest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// backend chooses what of the host is tested.
type backend func(h *fakes.Host) container.Backend

func full(h *fakes.Host) container.Backend { return h.Backend(container.LXD) }

// harness has every hook over the fake.
func harness(h *fakes.Host, view backend) backendtest.Harness {
	foreign := 0
	return backendtest.Harness{
		Backend:     view(h),
		Restart:     func() (container.Backend, error) { return view(h.Session(fakes.NewFaults(clock.WallClock))), nil },
		Initialised: func() int { return h.Initialisations(container.LXD) },
		HalfMake:    func(id string) error { h.HalfMake(id); return nil },
		LoseReply: func(id string) error {
			h.Faults().Add(fakes.Rule{Method: "StartInstance", Key: id, Effect: fakes.Effect{
				Err: errors.Timeoutf("answer of the daemon"), Act: fakes.Fully,
			}})
			return nil
		},
		RestartDaemon: func() error {
			h.Faults().Fail("NewBroker", "", errors.NotYetAvailablef("daemon"))
			return errors.Annotate(ignoring(full(h).NewBroker(context.Background(), nil)), "restarting")
		},
		Foreign: func() (container.InstanceID, error) {
			foreign++
			id := container.InstanceID(fmt.Sprintf("juju-ffffff-0-lxd-%d", foreign))
			h.AddForeign(container.LXD, id)
			return id, nil
		},
		Unsupported: unsupported(h),
	}
}

// ignoring turns the error that was asked for into none.
func ignoring(_ container.Broker, err error) error {
	if errors.Is(err, errors.NotYetAvailable) {
		return nil
	}
	return err
}

func unsupported(h *fakes.Host) container.Initialiser {
	h.SetUnsupported(container.KVM)
	return h.Backend(container.KVM).Initialiser
}

func newHost() *fakes.Host { return fakes.NewHost(fakes.NewFaults(clock.WallClock)) }

// slow is a host on which everything takes time.
func slow() *fakes.Host {
	h := newHost()
	h.SetInitialiseTime(30 * time.Second)
	h.SetStartTime(5 * time.Second)
	h.Faults().SetLatency(10 * time.Millisecond)
	return h
}

// bubbles runs every check in virtual time.
func bubbles(t *testing.T, factory backendtest.Factory) {
	t.Helper()
	for _, check := range backendtest.Checks() {
		t.Run(check.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check.Run(t, factory(t)) })
		})
	}
}

func TestFakeBackendPasses(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backendtest.Harness { return harness(newHost(), full) })
}

func TestFakeBackendPassesWithoutHooks(t *testing.T) {
	backendtest.Run(t, func(*testing.T) backendtest.Harness {
		return backendtest.Harness{Backend: full(newHost())}
	})
}

// All checks may share one host, which is how a real one is tested.
func TestOneHostPassesAll(t *testing.T) {
	h := newHost()
	backendtest.Run(t, func(*testing.T) backendtest.Harness { return harness(h, full) })
	if left := h.Instances(); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

func TestSlowFakeBackendPasses(t *testing.T) {
	bubbles(t, func(*testing.T) backendtest.Harness { return harness(slow(), full) })
}

// A machine may itself be a container, and a type be one that nobody knows.
func TestNestedHostOfAnotherTypePasses(t *testing.T) {
	bubbles(t, func(*testing.T) backendtest.Harness {
		h := slow()
		return backendtest.Harness{
			Backend: h.Backend("podman9"), Type: "podman9", Host: "0/kvm/2",
			Settings: facade.ContainerManagerConfig{"model-uuid": fakes.ModelUUID},
		}
	})
}

// The lock given is held for each Initialise, and given back.
func TestLockIsHeldDuringInitialise(t *testing.T) {
	bubbles(t, func(t *testing.T) backendtest.Harness {
		host := slow()
		h := harness(host, full)
		// All in one session, since a lock belongs to one.
		h.Restart = func() (container.Backend, error) { return full(host), nil }
		h.Lock = host.Lock()
		t.Cleanup(func() {
			if v := host.Violations(); len(v) > 0 {
				t.Errorf("violations: %q", v)
			}
			if err := host.Lock().CheckFree(); err != nil {
				t.Error(err)
			}
		})
		return h
	})
}

// Interfaces that are asked for are looked for in the answer.
func TestBackendWithInterfacesPasses(t *testing.T) {
	bubbles(t, func(*testing.T) backendtest.Harness {
		h := harness(slow(), full)
		h.Params = withInterface
		return h
	})
}

func withInterface(id string) container.StartParams {
	p := backendtest.Params(id)
	p.Interfaces = []facade.NetworkInterface{{Name: "eth0", MAC: "00:16:3e:00:00:01", Addresses: []string{"10.0.0.7/24"}}}
	return p
}

func TestHarnessWithoutBackendFails(t *testing.T) {
	for name, b := range map[string]container.Backend{
		"nothing":  {},
		"half one": {Initialiser: full(newHost()).Initialiser},
	} {
		if !run(t, backendtest.Checks()[0], backendtest.Harness{Backend: b}).failed() {
			t.Errorf("%s passes", name)
		}
	}
}

func TestParamsAreValid(t *testing.T) {
	if err := backendtest.Params("0/lxd/1").Validate(); err != nil {
		t.Error(err)
	}
}

func TestCheckNamesAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, check := range backendtest.Checks() {
		if seen[check.Name] {
			t.Errorf("two checks are called %s", check.Name)
		}
		seen[check.Name] = true
	}
}

// No two checks start instances of the same container, so that they may share a
// host.
func TestChecksHaveContainersOfTheirOwn(t *testing.T) {
	owner := map[string]string{}
	for _, check := range backendtest.Checks() {
		h := newHost()
		check.Run(t, harness(h, full))
		for _, call := range h.Faults().Calls() {
			if call.Method != "StartInstance" || call.Err != nil && errors.Is(call.Err, errors.NotValid) {
				continue
			}
			if other, ok := owner[call.Key]; ok && other != check.Name {
				t.Errorf("%s and %s both start %q", other, check.Name, call.Key)
			}
			owner[call.Key] = check.Name
		}
	}
}
