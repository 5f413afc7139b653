package hostnet

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// ObserverConfig is what an [Observer] works with. Host is required.
type ObserverConfig struct {
	// Host is where the resolvers' files are read.
	Host host.Host
	// Namespace is the path of a network namespace, such as /run/netns/NAME or
	// /proc/self/fd/N; this process's own by default.
	Namespace string
	// ContainerBridges are names of bridges that serve containers, beside those that
	// are known by their names: lxdbr0, lxcbr0, virbr0, docker0 and the like.
	ContainerBridges []string
	// Logger hears of interfaces that cannot be told of; nil discards.
	Logger *slog.Logger
}

// Validate returns errors.NotValid, naming the field.
func (c ObserverConfig) Validate() error {
	if c.Host == nil {
		return errors.NotValidf("nil Host")
	}
	return validateNamespace(c.Namespace)
}

// Observer sees what this host's network looks like. It keeps nothing between calls, and
// needs no closing.
type Observer struct {
	config ObserverConfig
	open   func() (kernel.Kernel, error)
}

var _ container.NetworkObserver = (*Observer)(nil)

// NewObserver returns an observer. It returns errors.NotValid for an impossible config.
func NewObserver(config ObserverConfig) (*Observer, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "observer config")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Observer{config: config, open: func() (kernel.Kernel, error) {
		return kernel.Open(config.Namespace, clock.WallClock)
	}}, nil
}

// Observe returns every interface of the host itself, in the order of the kernel's
// numbers; see the package's documentation for what is left out.
func (o *Observer) Observe(ctx context.Context) ([]facade.NetworkInterface, error) {
	k, err := o.open()
	if err != nil {
		return nil, errors.Trace(err)
	}
	defer k.Close()
	state, err := k.Look(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	dns, err := resolvers(ctx, o.config.Host)
	if err != nil {
		return nil, errors.Trace(err)
	}
	seen := rules{state, o.config.ContainerBridges}.interfaces(dns)
	return slices.DeleteFunc(seen, func(i facade.NetworkInterface) bool {
		err := i.Validate()
		if err != nil {
			o.config.Logger.WarnContext(ctx, "an interface is left out", slog.String("error", err.Error()))
		}
		return err != nil
	}), nil
}

// interfaces returns what there is to tell.
func (r rules) interfaces(dns []string) []facade.NetworkInterface {
	var out []facade.NetworkInterface
	for _, l := range r.state.Links {
		if r.containerEnd(l) {
			continue
		}
		i := facade.NetworkInterface{
			Index:  l.Index,
			Name:   l.Name,
			MAC:    l.MAC,
			MTU:    l.MTU,
			Type:   interfaceType(l),
			Parent: cmp.Or(l.Master, l.Parent),
			Up:     l.Up,
		}
		if !r.containerBridge(l.Name) {
			global := false
			for _, a := range r.state.AddressesOf(l.Name) {
				if a.Useless {
					continue
				}
				i.Addresses = append(i.Addresses, a.Prefix.String())
				global = global || !a.Prefix.Addr().IsLinkLocalUnicast()
			}
			i.Gateway = r.gateway(l.Name)
			if global && l.Kind != kernel.Loopback {
				i.DNS = slices.Clone(dns)
			}
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b facade.NetworkInterface) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

func interfaceType(l kernel.Link) facade.InterfaceType {
	switch l.Kind {
	case kernel.Loopback:
		return facade.LoopbackInterface
	case kernel.Bridge:
		return facade.BridgeInterface
	case kernel.Bond:
		return facade.BondInterface
	case kernel.VLAN:
		return facade.VLANInterface
	case kernel.Veth:
		// To a host that is itself a container it is what a card is to others.
		return facade.EthernetInterface
	case kernel.Device, "":
		if l.Ethernet {
			return facade.EthernetInterface
		}
	}
	return facade.InterfaceType(l.Kind)
}

// gateway returns that of the default route which is taken first over the link, IPv4's
// before IPv6's; empty for none.
func (r rules) gateway(link string) string {
	var best kernel.Route
	var found netip.Addr
	for _, route := range r.state.Routes {
		if !route.Default() || route.Table != kernel.TableMain {
			continue
		}
		for _, hop := range route.Hops {
			if hop.Link != link || !hop.Gateway.IsValid() {
				continue
			}
			is4, was4 := route.Dst.Addr().Is4(), best.Dst.Addr().Is4()
			if !found.IsValid() || is4 && !was4 || is4 == was4 && route.Metric < best.Metric {
				best, found = route, hop.Gateway
			}
		}
	}
	if !found.IsValid() {
		return ""
	}
	return found.WithZone("").String()
}

// resolvers returns the addresses of the host's name servers. One on the host itself,
// which no container can reach, is passed over for those that systemd-resolved asks.
func resolvers(ctx context.Context, files host.Files) ([]string, error) {
	for _, name := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		data, err := files.ReadFile(ctx, name)
		if errors.Is(err, errors.NotFound) {
			continue
		}
		if err != nil {
			return nil, errors.Annotate(err, name)
		}
		if servers := nameservers(string(data)); len(servers) > 0 {
			return servers, nil
		}
	}
	return nil, nil
}

// nameservers returns those of a resolv.conf that a container could ask.
func nameservers(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		addr, err := netip.ParseAddr(f[1])
		// A zone is a link of this host's: it means nothing elsewhere.
		if err != nil || addr.Zone() != "" || addr.IsLoopback() || addr.IsUnspecified() || slices.Contains(out, addr.String()) {
			continue
		}
		out = append(out, addr.String())
	}
	return out
}

// validateNamespace returns errors.NotValid for a path that depends on where one stands.
func validateNamespace(path string) error {
	if path != "" && !strings.HasPrefix(path, "/") {
		return errors.NotValidf("Namespace %q (want an absolute path)", path[:min(len(path), 100)])
	}
	return nil
}
