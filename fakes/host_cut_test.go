package fakes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// firstContainer makes the calls, one after the other, that the first container
// of a machine takes, until one fails.
func firstContainer(ctx context.Context, m *fakes.Machine, h *fakes.Host, id string) error {
	prepare := func() (container.Broker, error) {
		release, err := h.Lock().Acquire(ctx, holder("agent"))
		if err != nil {
			return nil, err
		}
		defer release()
		if err := h.Backend("lxd").Initialiser.Initialise(ctx); err != nil {
			return nil, err
		}
		changes, err := m.HostChangesForContainer(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := h.Bridger().Bridge(ctx, changes.Devices, changes.ReconfigureDelay); err != nil {
			return nil, err
		}
		seen, err := h.Network().Observe(ctx)
		if err != nil {
			return nil, err
		}
		if err := m.SetHostMachineNetworkConfig(ctx, "0", seen); err != nil {
			return nil, err
		}
		return h.Backend("lxd").NewBroker(ctx, nil)
	}
	b, err := prepare()
	if err != nil {
		return err
	}
	interfaces, err := m.PrepareContainerInterfaceInfo(ctx, id)
	if err != nil {
		return err
	}
	p := params(id)
	p.Interfaces = interfaces
	result, err := b.StartInstance(ctx, p)
	if err != nil {
		return err
	}
	results, err := m.SetInstanceInfo(ctx, []facade.InstanceInfo{{ID: id, InstanceID: string(result.InstanceID), Nonce: p.Info.Nonce}})
	if err != nil {
		return err
	}
	return results[0]
}

// The agent crashes at each of the calls, before or after it has acted, and the
// next one does it all.
func TestCrashAtEachCallOfAFirstContainer(t *testing.T) {
	const calls, id = 10, "0/lxd/0"
	for n := 1; n <= calls+1; n++ {
		for _, acts := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, acts %t", n, acts), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					first, m, h := site()
					m.AddContainer(id, fakes.Container{})
					m.RequireLock(h.Lock())
					h.SetInitialiseTime(time.Minute)
					h.SetStartTime(time.Minute)
					first.CutAt(n, acts)
					ctx, cancel := context.WithCancel(t.Context())
					go func() { <-first.Severed(); cancel() }()
					err := firstContainer(ctx, m, h, id)
					if n > calls {
						if err != nil || len(first.Calls()) != calls {
							t.Fatalf("%v after %d calls", err, len(first.Calls()))
						}
						first.Cut()
					} else if !errors.Is(err, context.Canceled) {
						t.Errorf("error %v", err)
					}
					before := fmt.Sprint(h.Instances(), h.Interfaces(), m.InstanceInfo(id))
					_ = firstContainer(ctx, m, h, id)
					if after := fmt.Sprint(h.Instances(), h.Interfaces(), m.InstanceInfo(id)); after != before {
						t.Errorf("the crashed agent has an effect: %s, before %s", after, before)
					}

					second := fakes.NewFaults(clock.WallClock)
					if err := firstContainer(t.Context(), m.Session(second), h.Session(second), id); err != nil {
						t.Fatal(err)
					}
					if got := h.Running(); !slices.Equal(got, []string{id}) || h.Starts(id) != 1 || h.Initialisations("lxd") != 1 || h.Bridgings("eth0") != 1 {
						t.Errorf("running %q, started %d times, initialised %d, bridged %d", got, h.Starts(id), h.Initialisations("lxd"), h.Bridgings("eth0"))
					}
					if a, r := m.Allocations(id); a != 1 || r != 0 || m.Recordings(id) != 1 {
						t.Errorf("allocated %d, released %d, recorded %d times", a, r, m.Recordings(id))
					}
					if err := h.Session(second).Lock().CheckFree(); err != nil {
						t.Error(err)
					}
					if got := append(h.Violations(), m.Violations()...); len(got) != 0 {
						t.Errorf("violations %q", got)
					}
				})
			})
		}
	}
}

// Many agents do everything at once, over connections that are cut one after the
// other; what holds is: no race, no call that never returns, one at a time has
// the lock, and nobody has it in the end.
func TestEverythingOnAHostAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	bubble(t, func(t *testing.T) {
		_, m, h := site()
		h.SetInitialiseTime(time.Second)
		h.SetStartTime(time.Second)
		h.SetStale(1, time.Second)
		var wg sync.WaitGroup
		for agent := range 8 {
			rnd := rand.New(rand.NewPCG(seed, uint64(agent)))
			wg.Go(func() {
				for range 5 {
					f := fakes.NewFaults(clock.WallClock)
					f.SetLatency(time.Duration(rnd.IntN(100)) * time.Millisecond)
					f.CutAt(1+rnd.IntN(40), rnd.IntN(2) == 0)
					m, h := m.Session(f), h.Session(f)
					ctx, cancel := context.WithCancel(t.Context())
					go func() { <-f.Severed(); cancel() }()
					for ctx.Err() == nil {
						id := fmt.Sprintf("0/lxd/%d", rnd.IntN(3))
						anythingOnAHost(ctx, rnd, m, h, id)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		h = h.Session(fakes.NewFaults(clock.WallClock))
		if err := h.Lock().CheckFree(); err != nil {
			t.Error(err)
		}
		if got := h.Lock().Waiting(); len(got) != 0 {
			t.Errorf("waiting: %v", got)
		}
		var last fakes.Hold
		for i, hold := range h.Lock().History() {
			if hold.Acquired.Before(last.Freed) || hold.Acquired.Before(hold.Asked) || hold.Freed.IsZero() {
				t.Fatalf("hold %d: %+v after %+v", i, hold, last)
			}
			last = hold
		}
		if got := h.Initialisations("lxd"); got > 1 {
			t.Errorf("initialised %d times", got)
		}
		for _, i := range h.Interfaces() {
			if err := i.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}

// anythingOnAHost makes some calls, or changes something by hand.
func anythingOnAHost(ctx context.Context, rnd *rand.Rand, m *fakes.Machine, h *fakes.Host, id string) {
	b, err := h.Backend("lxd").NewBroker(ctx, nil)
	if err != nil {
		_ = h.Backend("lxd").Initialiser.Initialise(ctx)
		return
	}
	switch rnd.IntN(10) {
	case 0:
		m.AddContainer(id, fakes.Container{})
	case 1:
		_ = firstContainer(ctx, m, h, id)
	case 2:
		_, _ = b.StartInstance(ctx, params(id))
	case 3:
		_ = b.StopInstances(ctx, fakes.InstanceID(id))
	case 4:
		_, _ = b.AllInstances(ctx)
	case 5:
		_, _ = m.SetContainerStatus(ctx, []facade.ContainerStatus{{ID: id, State: facade.ContainerRunning}})
	case 6:
		if w, err := m.WatchAllContainers(ctx, "0"); err == nil {
			<-w.Changes()
			w.Kill()
		}
	case 7:
		h.Halt(id)
	case 8:
		m.SetLife(id, facade.Dead)
		_, _ = m.MarkForRemoval(ctx, []string{id})
	case 9:
		_ = m.ReleaseContainerAddresses(ctx, id)
	}
}
