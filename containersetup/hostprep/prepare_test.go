package hostprep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/hostprep"
	"github.com/sutler-dev/sutler/facade"
)

const errBoom = errors.ConstError("boom")

func TestBridgesAndPublishesInsideTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if err := w.preparer(t).Prepare(t.Context(), "0/lxd/1"); err != nil {
			t.Fatal(err)
		}
		w.wantStory(t, "acquire ask bridge observe publish release")
		if len(w.published) != 2 || w.published[0].Parent != "br-eth0" {
			t.Errorf("published %+v", w.published)
		}
		want := container.Holder{Worker: "hostprep", Reason: "bridge devices for 0/lxd/1"}
		if w.reasons[0] != want {
			t.Errorf("the lock was held as %+v", w.reasons[0])
		}
	})
}

func TestNothingToDoOnlyAsks(t *testing.T) {
	for name, changes := range map[string]facade.HostChanges{
		"zero":                       {},
		"empty":                      {Devices: []facade.DeviceToBridge{}},
		"a delay and no device":      {ReconfigureDelay: time.Second},
		"a device list of no length": {Devices: make([]facade.DeviceToBridge, 0, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.changes = &changes
			if err := w.preparer(t).Prepare(t.Context(), "0/lxd/1"); err != nil {
				t.Fatal(err)
			}
			w.wantStory(t, "acquire ask release")
		})
	}
}

func TestTheSecondContainerFindsNothingToDo(t *testing.T) {
	w := newWorld()
	p := w.preparer(t)
	for _, id := range []string{"0/lxd/1", "0/lxd/2", "0/kvm/0"} {
		if err := p.Prepare(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.wantStory(t, "acquire ask bridge observe publish release acquire ask release acquire ask release")
}

func TestEachFailure(t *testing.T) {
	for _, test := range []struct {
		call, story, want string
	}{
		{callAcquire, "acquire", "preparing host for container 0/lxd/1: boom"},
		{callAsk, "acquire ask release", "preparing host for container 0/lxd/1: asking for host changes: boom"},
		{callBridge, "acquire ask bridge observe publish release", "preparing host for container 0/lxd/1: bridging eth0 (br-eth0): boom"},
		{callObserve, "acquire ask bridge observe release", "preparing host for container 0/lxd/1: observing the network: boom"},
		{callPublish, "acquire ask bridge observe publish release", "preparing host for container 0/lxd/1: publishing the network: boom"},
	} {
		t.Run(test.call, func(t *testing.T) {
			w := newWorld()
			w.before = func(_ context.Context, call string) error {
				if call == test.call {
					return errors.WithType(errBoom, errors.NotSupported)
				}
				return nil
			}
			err := w.preparer(t).Prepare(t.Context(), "0/lxd/1")
			if !errors.Is(err, errBoom) || !errors.Is(err, errors.NotSupported) || fmt.Sprint(err) != test.want {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
			w.wantStory(t, test.story)
		})
	}
}

// A lost reply: the call had its effect, and failed all the same. The next try
// finds what is done, and the host is ready.
func TestAfterALostReplyTheNextTrySucceeds(t *testing.T) {
	for _, lost := range allCalls {
		t.Run(lost, func(t *testing.T) {
			w := newWorld()
			w.after = func(_ context.Context, call string) error {
				if call == lost && w.count(call) == 1 {
					return errBoom
				}
				return nil
			}
			p := w.preparer(t)
			if err := p.Prepare(t.Context(), "0/lxd/1"); !errors.Is(err, errBoom) {
				t.Errorf("got %v", err)
			}
			w.wantFree(t)
			if err := p.Prepare(t.Context(), "0/lxd/1"); err != nil {
				t.Errorf("the second try: %v", err)
			}
			w.wantFree(t)
			if len(w.published) != 2 {
				t.Errorf("published %+v", w.published)
			}
		})
	}
}

func TestTheBridgersErrorComesFirstAndNoneIsLost(t *testing.T) {
	const errNet = errors.ConstError("no network")
	w := newWorld()
	w.before = func(_ context.Context, call string) error {
		switch call {
		case callBridge:
			return errors.WithType(errBoom, errors.NotSupported)
		case callObserve:
			return errors.WithType(errNet, errors.Unauthorized)
		}
		return nil
	}
	err := w.preparer(t).Prepare(t.Context(), "0/lxd/1")
	for _, kind := range []error{errBoom, errors.NotSupported, errNet, errors.Unauthorized} {
		if !errors.Is(err, kind) {
			t.Errorf("%v is lost in %v", kind, err)
		}
	}
	text := fmt.Sprint(err)
	if first, second := strings.Index(text, "boom"), strings.Index(text, "no network"); first < 0 || second < first {
		t.Errorf("the order is %q", text)
	}
	if n := strings.Count(text, "0/lxd/1"); n != 1 {
		t.Errorf("the container is named %d times in %q", n, text)
	}
	w.wantFree(t)
}

// Each call in turn never answers, but returns when its context ends.
func TestEachCallHasADeadline(t *testing.T) {
	for _, test := range []struct {
		call string
		want time.Duration
	}{
		{callAsk, hostprep.DefaultAskTimeout},
		{callBridge, hostprep.DefaultBridgeTimeout},
		{callObserve, hostprep.DefaultObserveTimeout},
		{callPublish, hostprep.DefaultObserveTimeout},
	} {
		t.Run(test.call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.before = hang(test.call)
				begun := time.Now()
				err := w.preparer(t).Prepare(t.Context(), "0/lxd/1")
				if !errors.Is(err, errors.Timeout) || errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want a Timeout that is not taken for being cancelled", err)
				}
				if took := time.Since(begun); took != test.want {
					t.Errorf("took %s, want %s", took, test.want)
				}
				if bridged := test.call != callAsk; bridged != (w.count(callObserve) == 1) {
					t.Errorf("calls were: %s", w.story())
				}
				w.wantFree(t)
			})
		})
	}
}

// hang makes a call wait for its context to end.
func hang(name string) func(context.Context, string) error {
	return func(ctx context.Context, call string) error {
		if call == name {
			<-ctx.Done()
		}
		return nil
	}
}

func TestTimeoutsAreThoseOfTheConfig(t *testing.T) {
	for _, test := range []struct {
		call string
		want time.Duration
	}{
		{callAsk, time.Second},
		{callBridge, 2*time.Second + time.Minute}, // beyond the delay asked for
		{callObserve, 3 * time.Second},
		{callPublish, 3 * time.Second},
	} {
		t.Run(test.call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.before = hang(test.call)
				w.changes = &facade.HostChanges{
					Devices:          []facade.DeviceToBridge{{Device: "bond0", Bridge: "br-bond0"}},
					ReconfigureDelay: time.Minute,
				}
				p := w.preparer(t, func(c *hostprep.Config) {
					c.AskTimeout, c.BridgeTimeout, c.ObserveTimeout = time.Second, 2*time.Second, 3*time.Second
				})
				begun := time.Now()
				if err := p.Prepare(t.Context(), "0/lxd/1"); !errors.Is(err, errors.Timeout) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begun); took != test.want {
					t.Errorf("took %s, want %s", took, test.want)
				}
			})
		})
	}
}

// Another container is not held up by the one whose question gets no answer.
func TestASlowControllerHoldsTheLockNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.before = func(ctx context.Context, call string) error {
			if call == callAsk && w.count(callAsk) == 1 {
				<-ctx.Done()
			}
			return nil
		}
		p := w.preparer(t)
		var all sync.WaitGroup
		all.Go(func() {
			if err := p.Prepare(t.Context(), "0/lxd/1"); !errors.Is(err, errors.Timeout) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		if err := p.Prepare(t.Context(), "0/lxd/2"); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != hostprep.DefaultAskTimeout {
			t.Errorf("the other waited for %s, want %s", took, hostprep.DefaultAskTimeout)
		}
		all.Wait()
		w.wantFree(t)
	})
}

func TestNothingObservedNothingPublished(t *testing.T) {
	for name, observed := range map[string][]facade.NetworkInterface{
		"nil":      nil,
		"empty":    {},
		"none fit": {{Name: "not a name"}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.observed = func() []facade.NetworkInterface { return observed }
			var log safeBuffer
			if err := w.preparer(t, logTo(&log)).Prepare(t.Context(), "0/lxd/1"); err != nil {
				t.Fatal(err)
			}
			w.wantStory(t, "acquire ask bridge observe release")
			if !strings.Contains(log.String(), "none is published") {
				t.Errorf("logged %s", log.String())
			}
		})
	}
}

func TestAnOddInterfaceIsLeftOut(t *testing.T) {
	w := newWorld()
	seen := []facade.NetworkInterface{{Name: "lo"}, {Name: "a/b"}, {Name: "eth0", Addresses: []string{"10.0.0.5"}}, {Name: "eth1"}}
	w.observed = func() []facade.NetworkInterface { return seen }
	var log safeBuffer
	if err := w.preparer(t, logTo(&log)).Prepare(t.Context(), "0/lxd/1"); err != nil {
		t.Fatal(err)
	}
	if len(w.published) != 2 || w.published[0].Name != "lo" || w.published[1].Name != "eth1" {
		t.Errorf("published %+v", w.published)
	}
	if n := strings.Count(log.String(), "left out"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	if seen[1].Name != "a/b" || len(seen) != 4 {
		t.Error("the observer's own list was changed")
	}
}

func TestAnImpossibleAnswerBridgesNothing(t *testing.T) {
	eth0 := facade.DeviceToBridge{Device: "eth0", Bridge: "br-eth0"}
	for _, test := range []struct {
		name    string
		changes facade.HostChanges
		want    string
	}{
		{"no name", facade.HostChanges{Devices: []facade.DeviceToBridge{eth0, {Bridge: "br"}}}, "Devices[1]: Device"},
		{"no bridge", facade.HostChanges{Devices: []facade.DeviceToBridge{{Device: "eth0"}}}, "Devices[0]: Bridge"},
		{"a path", facade.HostChanges{Devices: []facade.DeviceToBridge{{Device: "../eth0", Bridge: "br"}}}, "Devices[0]: Device"},
		{"a MAC", facade.HostChanges{Devices: []facade.DeviceToBridge{{Device: "eth0", Bridge: "br", MAC: "x"}}}, "MAC"},
		{"twice", facade.HostChanges{Devices: []facade.DeviceToBridge{eth0, eth0}}, "named twice"},
		{"a negative delay", facade.HostChanges{Devices: []facade.DeviceToBridge{eth0}, ReconfigureDelay: -1}, "ReconfigureDelay"},
		{"an hour's delay", facade.HostChanges{Devices: []facade.DeviceToBridge{eth0}, ReconfigureDelay: time.Hour}, "ReconfigureDelay"},
		{"a delay that nobody would use", facade.HostChanges{ReconfigureDelay: time.Hour}, "ReconfigureDelay"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			w.changes = &test.changes
			err := w.preparer(t).Prepare(t.Context(), "0/lxd/1")
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a NotValid with %q", err, test.want)
			}
			w.wantStory(t, "acquire ask release")
		})
	}
}

func TestOnlyTheHostsOwnContainers(t *testing.T) {
	for _, id := range []string{"", "0", "/", "0/", "0/lxd", "0/lxd/", "0/lxd/x", "0/LXD/1", "1/lxd/1", "00/lxd/1", "0/kvm/2/lxd/0", "0/lxd/1/", "0/lxd/-1", strings.Repeat("0/lxd/1/", 1000)} {
		w := newWorld()
		err := w.preparer(t).Prepare(t.Context(), id)
		if !errors.Is(err, errors.NotValid) || len(err.Error()) > 300 {
			t.Errorf("%.40q: got %v", id, err)
		}
		w.wantStory(t, "")
	}
	w := newWorld()
	p := w.preparer(t, func(c *hostprep.Config) { c.MachineID = "0/kvm/2" })
	w.changes = &facade.HostChanges{}
	if err := p.Prepare(t.Context(), "0/kvm/2/lxd/0"); err != nil {
		t.Errorf("a host that is itself a container: %v", err)
	}
}

func TestALockWithoutARelease(t *testing.T) {
	w := newWorld()
	p := w.preparer(t, func(c *hostprep.Config) { c.Lock = badLock{} })
	if err := p.Prepare(t.Context(), "0/lxd/1"); !errors.Is(err, errors.NotValid) {
		t.Errorf("got %v", err)
	}
	w.wantStory(t, "")
}

type badLock struct{}

func (badLock) Acquire(context.Context, container.Holder) (func(), error) { return nil, nil }

func TestWhatWasBridgedIsLogged(t *testing.T) {
	w := newWorld()
	w.changes = &facade.HostChanges{}
	for n := range 25 {
		w.changes.Devices = append(w.changes.Devices, facade.DeviceToBridge{Device: fmt.Sprint("eth", n), Bridge: fmt.Sprint("br-eth", n)})
	}
	var log safeBuffer
	if err := w.preparer(t, logTo(&log)).Prepare(t.Context(), "0/lxd/1"); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "container=0/lxd/1") || !strings.Contains(got, "eth9 (br-eth9), and 15 more") {
		t.Errorf("logged %s", got)
	}
}

func TestConfigNamesTheField(t *testing.T) {
	if err := newWorld().config().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		change func(*hostprep.Config)
		want   string
	}{
		{func(c *hostprep.Config) { c.Facade = nil }, "nil Facade"},
		{func(c *hostprep.Config) { c.MachineID = "" }, "MachineID"},
		{func(c *hostprep.Config) { c.MachineID = "host" }, "MachineID"},
		{func(c *hostprep.Config) { c.MachineID = "0/lxd" }, "MachineID"},
		{func(c *hostprep.Config) { c.Lock = nil }, "nil Lock"},
		{func(c *hostprep.Config) { c.Network = nil }, "nil Network"},
		{func(c *hostprep.Config) { c.Bridger = nil }, "nil Bridger"},
		{func(c *hostprep.Config) { c.Clock = nil }, "nil Clock"},
		{func(c *hostprep.Config) { c.AskTimeout = -1 }, "negative AskTimeout"},
		{func(c *hostprep.Config) { c.BridgeTimeout = -1 }, "negative BridgeTimeout"},
		{func(c *hostprep.Config) { c.ObserveTimeout = -1 }, "negative ObserveTimeout"},
	} {
		config := newWorld().config()
		test.change(&config)
		p, err := hostprep.New(config)
		if p != nil || !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want a NotValid with %q", err, test.want)
		}
	}
}

// H5: two types of container, whose preparers know nothing of each other, ask at
// once. The device is bridged once, and the lock is the one thing that sees to
// it: under race detection nothing else orders what they touch.
func TestManyContainersAtOnceBridgeADeviceOnce(t *testing.T) {
	w := newWorld()
	host := &unguarded{world: w}
	var all sync.WaitGroup
	for _, kind := range []string{"lxd", "kvm"} {
		p := w.preparer(t, func(c *hostprep.Config) { c.Facade, c.Network, c.Bridger = host, host, host })
		for n := range 8 {
			all.Go(func() {
				if err := p.Prepare(t.Context(), fmt.Sprintf("0/%s/%d", kind, n)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if host.bridges != 1 || host.asked != 16 {
		t.Errorf("bridged %d times after %d questions", host.bridges, host.asked)
	}
	w.wantFree(t)
}

// unguarded has no mutex of its own.
type unguarded struct {
	*world
	asked, bridges int
	told           []facade.NetworkInterface
}

func (u *unguarded) HostChangesForContainer(context.Context, string) (facade.HostChanges, error) {
	u.asked++
	if slices.ContainsFunc(u.told, func(i facade.NetworkInterface) bool { return i.Name == "br-eth0" }) {
		return facade.HostChanges{}, nil
	}
	return facade.HostChanges{Devices: []facade.DeviceToBridge{{Device: "eth0", Bridge: "br-eth0"}}}, nil
}

func (u *unguarded) Bridge(context.Context, []facade.DeviceToBridge, time.Duration) error {
	u.bridges++
	return nil
}

func (u *unguarded) Observe(context.Context) ([]facade.NetworkInterface, error) {
	if u.bridges == 0 {
		return []facade.NetworkInterface{{Name: "eth0"}}, nil
	}
	return []facade.NetworkInterface{{Name: "eth0", Parent: "br-eth0"}, {Name: "br-eth0"}}, nil
}

func (u *unguarded) SetHostMachineNetworkConfig(_ context.Context, _ string, all []facade.NetworkInterface) error {
	u.told = all
	return nil
}
