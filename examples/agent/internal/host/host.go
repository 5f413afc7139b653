// Package host is what the example's container set-up is told of the machine
// that it runs on, with nothing but the standard library: what its network looks
// like, and that nobody here puts devices under bridges.
package host

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// sysClassNet is where Linux tells more of a device than its addresses.
const sysClassNet = "/sys/class/net"

// Network sees this machine's network. It is a container.NetworkObserver and may
// be used from many goroutines.
type Network struct {
	// Logger hears of devices that are left out; nil discards.
	Logger *slog.Logger
}

// Bridges is a container.Bridger for machines whose network is not to be
// changed.
type Bridges struct{}

var (
	_ container.NetworkObserver = Network{}
	_ container.Bridger         = Bridges{}
)

// Observe is part of container.NetworkObserver. A device that vanishes meanwhile
// is left out, and so is one that a controller would not take: it must not hold
// up those that are as usual.
func (n Network) Observe(ctx context.Context) ([]facade.NetworkInterface, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	devices, err := net.Interfaces()
	if err != nil {
		return nil, errors.Annotate(err, "listing network devices")
	}
	var out []facade.NetworkInterface
	for _, device := range devices {
		addrs, err := device.Addrs()
		if err == nil {
			i := describe(device, addrs, sysClassNet)
			if err = i.Validate(); err == nil {
				out = append(out, i)
			}
		}
		if err != nil && n.Logger != nil {
			n.Logger.DebugContext(ctx, "network device left out", "device", device.Name, "error", err.Error())
		}
	}
	return out, nil
}

// describe makes an interface of a device.
func describe(device net.Interface, addrs []net.Addr, sys string) facade.NetworkInterface {
	i := facade.NetworkInterface{
		Index:  device.Index,
		Name:   device.Name,
		MTU:    device.MTU,
		Type:   facade.EthernetInterface,
		Up:     device.Flags&net.FlagUp != 0,
		Parent: parent(filepath.Join(sys, device.Name)),
	}
	// What a tunnel has for one may have any length.
	if mac := device.HardwareAddr.String(); mac != "" {
		if _, err := net.ParseMAC(mac); err == nil {
			i.MAC = mac
		}
	}
	for _, addr := range addrs {
		if prefix, ok := addr.(*net.IPNet); ok {
			i.Addresses = append(i.Addresses, prefix.String())
		}
	}
	switch {
	case device.Flags&net.FlagLoopback != 0:
		i.Type = facade.LoopbackInterface
	case isThere(sys, device.Name, "bridge"):
		i.Type = facade.BridgeInterface
	case isThere(sys, device.Name, "bonding"):
		i.Type = facade.BondInterface
	}
	return i
}

// parent is the bridge or bond that the device is part of.
func parent(dir string) string {
	target, err := os.Readlink(filepath.Join(dir, "master"))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

func isThere(elements ...string) bool {
	_, err := os.Stat(filepath.Join(elements...))
	return err == nil
}

// Bridge is part of container.Bridger. No devices are no trouble; any others are
// errors.NotSupported.
func (Bridges) Bridge(_ context.Context, devices []facade.DeviceToBridge, _ time.Duration) error {
	if len(devices) == 0 {
		return nil
	}
	return errors.NotSupportedf("bridging of devices in this agent")
}
