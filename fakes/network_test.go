package fakes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// link returns the interface of that name.
func link(t *testing.T, h *fakes.Host, name string) facade.NetworkInterface {
	t.Helper()
	seen, err := h.Network().Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(seen, func(i facade.NetworkInterface) bool { return i.Name == name })
	if i < 0 {
		return facade.NetworkInterface{}
	}
	return seen[i]
}

func bridge(device string) facade.DeviceToBridge {
	return facade.DeviceToBridge{Device: device, Bridge: "br-" + device}
}

func TestBridgingMovesWhatBelongsToTheDevice(t *testing.T) {
	_, _, h := site()
	for range 2 {
		if err := h.Bridger().Bridge(t.Context(), []facade.DeviceToBridge{bridge("eth0"), bridge("eth1")}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range h.Interfaces() {
		if err := i.Validate(); err != nil {
			t.Error(err)
		}
	}
	before := fakes.HostInterfaces()[1]
	br, eth := link(t, h, "br-eth0"), link(t, h, "eth0")
	if br.Type != facade.BridgeInterface || br.MAC != before.MAC || br.Gateway != before.Gateway ||
		!slices.Equal(br.Addresses, before.Addresses) || !slices.Equal(br.DNS, before.DNS) || !br.Up {
		t.Errorf("bridge %+v", br)
	}
	if eth.Parent != "br-eth0" || eth.Addresses != nil || eth.Gateway != "" || eth.MAC != before.MAC {
		t.Errorf("device %+v", eth)
	}
	if h.Bridgings("eth0") != 1 || h.Bridgings("eth1") != 1 || h.Bridgings("lo") != 0 || h.Rollbacks() != 0 {
		t.Errorf("bridged %d times", h.Bridgings("eth0"))
	}
}

func TestTwoDevicesUnderOneBridge(t *testing.T) {
	_, _, h := site()
	devices := []facade.DeviceToBridge{{Device: "eth0", Bridge: "br0"}, {Device: "eth1", Bridge: "br0"}}
	if err := h.Bridger().Bridge(t.Context(), devices, 0); err != nil {
		t.Fatal(err)
	}
	if br := link(t, h, "br0"); len(br.Addresses) != 2 || br.Gateway != "10.0.0.1" {
		t.Errorf("bridge %+v", br)
	}
}

func TestBridgingThatFailsChangesNothing(t *testing.T) {
	item := fakes.Effect{Err: boom}
	tests := []struct {
		name      string
		rule      fakes.Rule
		devices   []facade.DeviceToBridge
		err       error
		rollbacks int
	}{
		{"not there", fakes.Rule{}, []facade.DeviceToBridge{bridge("eth0"), bridge("eth7")}, errors.NotFound, 1},
		{"not valid", fakes.Rule{}, []facade.DeviceToBridge{bridge("eth0"), {Device: "eth1"}}, errors.NotValid, 1},
		{"another MAC", fakes.Rule{}, []facade.DeviceToBridge{{Device: "eth0", Bridge: "br0", MAC: "00:00:00:00:00:01"}}, errors.NotValid, 0},
		{"no bridge", fakes.Rule{}, []facade.DeviceToBridge{{Device: "eth0", Bridge: "eth1"}}, errors.NotValid, 0},
		{"under another", fakes.Rule{}, []facade.DeviceToBridge{bridge("eth0"), {Device: "eth0", Bridge: "br1"}}, errors.NotValid, 1},
		{"at once", fakes.Rule{Method: "Bridge", Effect: item}, []facade.DeviceToBridge{bridge("eth0")}, boom, 0},
		{"half", fakes.Rule{Method: "Bridge", Effect: fakes.Effect{Err: boom, Act: fakes.Half}}, []facade.DeviceToBridge{bridge("eth0")}, boom, 0},
		{"the second", fakes.Rule{Method: "Bridge", Key: "eth1", Effect: item}, []facade.DeviceToBridge{bridge("eth0"), bridge("eth1")}, boom, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, _, h := site()
			if test.rule.Method != "" {
				f.Add(test.rule)
			}
			if err := h.Bridger().Bridge(t.Context(), test.devices, 0); !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if got := h.Interfaces(); len(got) != 3 || got[1].Parent != "" || len(got[1].Addresses) != 1 {
				t.Errorf("network %+v", got)
			}
			if h.Rollbacks() != test.rollbacks || h.Bridgings("eth0") != 0 {
				t.Errorf("put back %d times", h.Rollbacks())
			}
		})
	}
}

// One that cannot put back what it did, or that fails after all was done.
func TestBridgingThatFailsAfterAll(t *testing.T) {
	f, _, h := site()
	f.Add(fakes.Rule{Method: "Bridge", Effect: fakes.Effect{Err: boom, Act: fakes.Fully}})
	if err := h.Bridger().Bridge(t.Context(), []facade.DeviceToBridge{bridge("eth0")}, 0); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if link(t, h, "eth0").Parent != "br-eth0" {
		t.Error("nothing was done")
	}
}

func TestBondsTakeTheDelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, h := site()
		h.SetInterfaces(append(fakes.HostInterfaces(), facade.NetworkInterface{Name: "bond0", Type: facade.BondInterface})...)
		took := func(ctx context.Context, device string) (time.Duration, error) {
			began := time.Now()
			err := h.Bridger().Bridge(ctx, []facade.DeviceToBridge{bridge(device)}, time.Minute)
			return time.Since(began), err
		}
		if d, err := took(t.Context(), "eth0"); d != 0 || err != nil {
			t.Errorf("eth0 took %v, %v", d, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d, err := took(ctx, "bond0"); d != time.Second || !errors.Is(err, context.DeadlineExceeded) || h.Bridgings("bond0") != 0 {
			t.Errorf("bond0 took %v, %v", d, err)
		}
		if d, err := took(t.Context(), "bond0"); d != time.Minute || err != nil || h.Bridgings("bond0") != 1 {
			t.Errorf("bond0 took %v, %v", d, err)
		}
	})
}

func TestNetworkIsNotShared(t *testing.T) {
	f, _, h := site()
	seen, err := h.Network().Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen[1].Addresses[0], seen[1].Name = "changed", "changed"
	if i := link(t, h, "eth0"); i.Addresses[0] != "10.0.0.5/24" {
		t.Errorf("eth0 is %+v", i)
	}
	f.Fail("Observe", "", boom)
	if _, err := h.Network().Observe(t.Context()); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	h.SetInterfaces()
	if seen, err := h.Network().Observe(t.Context()); err != nil || len(seen) != 0 {
		t.Errorf("seen %v, %v", seen, err)
	}
}
