package fakes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// HostInterfaces returns the network that a [Host] has in the beginning: lo,
// eth0 with the default route, and eth1.
func HostInterfaces() []facade.NetworkInterface {
	return []facade.NetworkInterface{
		{
			Index: 1, Name: "lo", MTU: 65536, Type: facade.LoopbackInterface,
			Addresses: []string{"127.0.0.1/8"}, Up: true,
		},
		{
			Index: 2, Name: "eth0", MAC: "52:54:00:00:00:02", MTU: 1500, Type: facade.EthernetInterface,
			Addresses: []string{"10.0.0.5/24"}, Gateway: "10.0.0.1", DNS: []string{"10.0.0.2"}, Up: true,
		},
		{
			Index: 3, Name: "eth1", MAC: "52:54:00:00:00:03", MTU: 1500, Type: facade.EthernetInterface,
			Addresses: []string{"10.0.2.5/24"}, Up: true,
		},
	}
}

// Network returns the host's network over this view's connection.
func (h *Host) Network() container.NetworkObserver { return network{h} }

// Bridger returns what changes the host's network, over this view's connection.
// What it changes is what [Host.Network] shows. A Bridge that fails has changed
// nothing, unless its effect says that it did all of its work: then it is one
// whose putting back failed too.
func (h *Host) Bridger() container.Bridger { return network{h} }

type network struct{ host *Host }

// Observe is part of container.NetworkObserver.
func (n network) Observe(ctx context.Context) ([]facade.NetworkInterface, error) {
	s := n.host.state
	return run(ctx, n.host.faults, Call{Method: "Observe"}, func(plan) ([]facade.NetworkInterface, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return cloneInterfaces(s.network), nil
	})
}

// Bridge is part of container.Bridger. Where a device is a bond, it takes the
// delay.
func (n network) Bridge(ctx context.Context, devices []facade.DeviceToBridge, delay time.Duration) error {
	s := n.host.state
	call := Call{Method: "Bridge", Keys: make([]string, len(devices)), Args: []any{slices.Clone(devices), delay}}
	for i, d := range devices {
		call.Keys[i] = d.Device
	}
	defer n.host.begin("Bridge " + strings.Join(call.Keys, " "))()
	if !s.anyBond(devices) {
		delay = 0
	}
	// The changes themselves are the last step, so that whatever ends the
	// call before has left all as it was.
	wait := func(plan) (struct{}, error) { return struct{}{}, nil }
	bridge := func(p plan) (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return struct{}{}, s.bridge(devices, p)
	}
	_, err := runSteps(ctx, n.host.faults, call, delay, wait, bridge)
	return err
}

func (s *hostState) anyBond(devices []facade.DeviceToBridge) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.network, func(i facade.NetworkInterface) bool {
		return i.Type == facade.BondInterface && slices.ContainsFunc(devices, func(d facade.DeviceToBridge) bool {
			return d.Device == i.Name
		})
	})
}

// bridge puts every device under its bridge, or changes nothing.
func (s *hostState) bridge(devices []facade.DeviceToBridge, p plan) error {
	before := cloneInterfaces(s.network)
	var done []string
	for i, d := range devices {
		changed, err := s.bridgeOne(d)
		if effect := p.items[i]; err == nil && effect.Err != nil {
			err = effect.Err
		}
		if err != nil {
			if len(done) > 0 || changed {
				s.rollbacks++
			}
			s.network = before
			return errors.Annotatef(err, "device %q", d.Device)
		}
		if changed {
			done = append(done, d.Device)
		}
	}
	for _, device := range done {
		s.bridgings[device]++
	}
	return nil
}

// bridgeOne moves what belongs to the device to the bridge, which has the
// device's hardware address then.
func (s *hostState) bridgeOne(d facade.DeviceToBridge) (changed bool, err error) {
	if err := d.Validate(); err != nil {
		return false, err
	}
	at := s.interfaceAt(d.Device)
	switch {
	case at < 0:
		return false, errors.NotFoundf("interface %q", d.Device)
	case s.network[at].Parent == d.Bridge:
		return false, nil
	case s.network[at].Parent != "":
		return false, errors.NotValidf("bridging of a part of %q", s.network[at].Parent)
	case d.MAC != "" && d.MAC != s.network[at].MAC:
		return false, errors.NotValidf("MAC %q, the device's is %q,", d.MAC, s.network[at].MAC)
	}
	if s.interfaceAt(d.Bridge) < 0 {
		bridge := s.network[at]
		bridge.Index, bridge.Name, bridge.Type = len(s.network)+1, d.Bridge, facade.BridgeInterface
		bridge.Addresses, bridge.Gateway, bridge.DNS = nil, "", nil
		s.network = append(s.network, bridge)
	}
	device, bridge := &s.network[at], &s.network[s.interfaceAt(d.Bridge)]
	if bridge.Type != facade.BridgeInterface {
		return false, errors.NotValidf("bridge %q, which is of type %s,", d.Bridge, bridge.Type)
	}
	bridge.Addresses = append(bridge.Addresses, device.Addresses...)
	bridge.DNS = append(bridge.DNS, device.DNS...)
	if device.Gateway != "" {
		bridge.Gateway = device.Gateway
	}
	device.Addresses, device.Gateway, device.DNS = nil, "", nil
	device.Parent = d.Bridge
	return true, nil
}

func (s *hostState) interfaceAt(name string) int {
	return slices.IndexFunc(s.network, func(i facade.NetworkInterface) bool { return i.Name == name })
}

// Interfaces returns what the host's network is like now.
func (h *Host) Interfaces() []facade.NetworkInterface {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return cloneInterfaces(h.state.network)
}

// SetInterfaces changes the host's network to anything, also to none.
func (h *Host) SetInterfaces(interfaces ...facade.NetworkInterface) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.network = cloneInterfaces(interfaces)
}

// Bridgings returns how often the device was put under a bridge; finding it
// there already does not count.
func (h *Host) Bridgings(device string) int {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.bridgings[device]
}

// Rollbacks returns how many Bridge calls failed after they had changed
// something, and put it back.
func (h *Host) Rollbacks() int {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.rollbacks
}
