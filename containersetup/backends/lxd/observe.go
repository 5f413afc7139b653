package lxd

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/subnet"
)

// defaultProfile is the one that instances have.
const defaultProfile = "default"

// socketOf returns where the daemon listens, or would: the configured place, else the
// first of the known ones where there is a socket, else the last of them.
func socketOf(ctx context.Context, c Config, environment func(string) string) string {
	if c.Socket != "" {
		return c.Socket
	}
	places := []string{"/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket"}
	if dir := environment("LXD_DIR"); dir != "" {
		places = append([]string{dir + "/unix.socket"}, places...)
	}
	for _, place := range places {
		if found, err := c.Host.Glob(ctx, place); err == nil && len(found) > 0 {
			return place
		}
	}
	return places[len(places)-1]
}

// observe looks at the host, and changes nothing.
func (i *Initialiser) observe(ctx context.Context) (observed, error) {
	o := observed{extensions: map[string]bool{}, bridges: map[string]bool{}}
	client, err := i.connect(ctx)
	if err != nil {
		return o, err
	}
	defer client.Close()
	server, err := client.Server(ctx)
	switch {
	case err == nil:
		o.answers, o.installed = true, true
		if err := i.observeDaemon(ctx, client, server, &o); err != nil {
			return o, err
		}
	case errors.Is(err, errors.NotYetAvailable), errors.Is(err, errors.Timeout), errors.Is(err, api.ErrNoReply):
		if ctx.Err() != nil {
			return o, err
		}
		if o.installed, err = i.installed(ctx); err != nil {
			return o, err
		}
	default:
		return o, err
	}
	return o, i.observeNetwork(ctx, &o)
}

// installed tells whether there is a program that could be the daemon.
func (i *Initialiser) installed(ctx context.Context) (bool, error) {
	_, err := i.config.Host.Run(ctx, host.Look("lxd", "--version"))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, errors.NotFound) {
		return false, errors.Annotate(err, "looking for LXD")
	}
	packages, err := host.Packages(ctx, i.config.Host, i.config.Clock)
	if err != nil {
		return false, errors.Annotate(err, "looking for LXD")
	}
	// A snap's programs need not be where this one looks.
	_, err = packages.Version(ctx, "lxd")
	if errors.Is(err, errors.NotFound) {
		return false, nil
	}
	return err == nil, errors.Annotate(err, "looking for LXD")
}

func (i *Initialiser) observeDaemon(ctx context.Context, client *api.Client, server api.Server, o *observed) error {
	if !server.Trusted {
		return forbidden()
	}
	o.version, o.server = server.Version, server.Config
	for _, extension := range server.APIExtensions {
		o.extensions[extension] = true
	}
	pools, err := client.StoragePools(ctx)
	if err != nil {
		return err
	}
	for _, p := range pools {
		o.pools = append(o.pools, pool{p.Name, p.Driver})
	}
	networks, err := client.Networks(ctx)
	if err != nil {
		return err
	}
	for _, n := range networks {
		o.networks = append(o.networks, network{n.Name, n.Managed, n.Type})
		if !n.Managed && n.Type == "bridge" {
			o.bridges[n.Name] = true
		}
		for _, key := range []string{"ipv4.address", "ipv6.address"} {
			if p, err := netip.ParsePrefix(n.Config[key]); err == nil {
				o.taken = append(o.taken, p)
			}
		}
	}
	profile, _, err := client.Profile(ctx, defaultProfile)
	if err != nil {
		return err
	}
	o.profile = profile.Devices
	return nil
}

// ipAddress and ipRoute are what iproute2 prints.
type ipAddress struct {
	Name  string `json:"ifname"`
	Infos []struct {
		Local     string `json:"local"`
		PrefixLen int    `json:"prefixlen"`
	} `json:"addr_info"`
}

type ipRoute struct {
	Type string `json:"type"`
	Dst  string `json:"dst"`
}

// observeNetwork finds out which subnets are taken. It is asked of the host, not of this
// process: the daemon may be in another network namespace.
func (i *Initialiser) observeNetwork(ctx context.Context, o *observed) error {
	var addresses, bridges []ipAddress
	if err := i.ip(ctx, &addresses, "address", "show"); err != nil {
		return err
	}
	for _, a := range addresses {
		for _, info := range a.Infos {
			addr, err := netip.ParseAddr(info.Local)
			if err == nil && !addr.IsLinkLocalUnicast() {
				o.taken = append(o.taken, netip.PrefixFrom(addr, info.PrefixLen))
			}
		}
	}
	if err := i.ip(ctx, &bridges, "link", "show", "type", "bridge"); err != nil {
		return err
	}
	for _, b := range bridges {
		if b.Name != "" {
			o.bridges[b.Name] = true
		}
	}
	for _, family := range []string{"-4", "-6"} {
		var routes []ipRoute
		if err := i.ip(ctx, &routes, family, "route", "show", "table", "all"); err != nil {
			return err
		}
		for _, r := range routes {
			if p, ok := routePrefix(r); ok {
				o.taken = append(o.taken, p)
			}
		}
	}
	slices.SortFunc(o.taken, netip.Prefix.Compare)
	o.taken = slices.Compact(o.taken)
	o.seed = i.seed(ctx)
	return nil
}

// routePrefix returns where a route leads, unless that is everywhere, or nowhere beyond
// one link.
func routePrefix(r ipRoute) (netip.Prefix, bool) {
	if r.Dst == "default" || r.Dst == "" {
		return netip.Prefix{}, false
	}
	p, err := netip.ParsePrefix(r.Dst)
	if err != nil {
		addr, err := netip.ParseAddr(r.Dst)
		if err != nil {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	if p.Addr().IsLinkLocalUnicast() || p.Addr().IsMulticast() || p.Bits() == 0 {
		return netip.Prefix{}, false
	}
	return p, true
}

func (i *Initialiser) ip(ctx context.Context, into any, args ...string) error {
	out, err := i.config.Host.Run(ctx, host.Look(append([]string{"ip", "-json"}, args...)...))
	if err != nil {
		return errors.Annotate(err, "looking at the network")
	}
	text := strings.TrimSpace(string(out.Stdout))
	if text == "" {
		return nil // nothing of the kind
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return errors.NotValidf("answer of ip %s", strings.Join(args, " "))
	}
	return nil
}

// seed is the same for this host and model each time, and another one on a host beside
// it.
func (i *Initialiser) seed(ctx context.Context) uint64 {
	parts := []string{i.config.ModelUUID}
	for _, name := range []string{"/etc/machine-id", "/proc/sys/kernel/hostname"} {
		if data, err := i.config.Host.ReadFile(ctx, name); err == nil {
			parts = append(parts, strings.TrimSpace(string(data)))
		}
	}
	return subnet.SeedFrom(append(parts, i.macs(ctx)...)...)
}

// macs are the hardware addresses of what may be network cards: machines made from one
// image differ in nothing else.
func (i *Initialiser) macs(ctx context.Context) []string {
	var links []struct {
		Type    string `json:"link_type"`
		Address string `json:"address"`
		Index   int    `json:"ifindex"`
		Info    struct {
			Kind string `json:"info_kind"`
		} `json:"linkinfo"`
	}
	if err := i.ip(ctx, &links, "-details", "link", "show"); err != nil {
		return nil
	}
	var macs []string
	for _, l := range links {
		if l.Type == "ether" && l.Info.Kind == "" {
			macs = append(macs, strconv.Itoa(len(macs))+"="+l.Address)
		}
	}
	return macs
}
