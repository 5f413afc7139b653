package lxd

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/subnet"
)

// What is decided here is decided from what was observed and from nothing else, so that
// the same function plans, acts, and is tested by a table.

// observed is what was seen of the host.
type observed struct {
	// installed tells that there is an LXD program, answers that its daemon does.
	installed, answers bool
	version            string
	extensions         map[string]bool
	// server is the daemon's configuration.
	server map[string]string

	pools    []pool
	networks []network
	// profile are the devices of the default profile.
	profile map[string]map[string]string

	// taken are addresses and routes of the host, and subnets of LXD's networks.
	taken []netip.Prefix
	// bridges are those that the host has.
	bridges map[string]bool
	seed    uint64
}

type pool struct{ name, driver string }

type network struct {
	name    string
	managed bool
	kind    string
}

// kind is what a step is about.
type kind string

const (
	install       kind = "install"
	await         kind = "await"
	makePool      kind = "storage pool"
	makeNetwork   kind = "network"
	addDevice     kind = "profile device"
	configureItem kind = "configuration"
)

// step is one thing to do to the host.
type step struct {
	Kind kind `json:"kind"`
	// Name is what is made, added or set.
	Name string `json:"name"`
	// Config is what it gets; for a configuration item, under "value".
	Config map[string]string `json:"config,omitempty"`
	// Before is the value of a configuration item that was there; for a network, whether
	// LXD had a table in the firewall.
	Before string `json:"before,omitempty"`
	// Added are the packages that an installation added; Had are those that there were
	// before, while it is not known to have ended.
	Added []string `json:"added,omitempty"`
	Had   []string `json:"had,omitempty"`

	// why is what was seen that makes it necessary.
	why string
}

// String tells it to people. Values of the configuration are left out: a proxy's address
// may have a password in it.
func (s step) String() string {
	switch s.Kind {
	case install:
		return "install LXD"
	case await:
		return "wait for the daemon"
	case makePool:
		return fmt.Sprintf("make the storage pool %s (%s)", s.Name, s.Config["driver"])
	case makeNetwork:
		subnets := s.Config["ipv4.address"]
		if six := s.Config["ipv6.address"]; six != "none" {
			subnets += ", " + six
		}
		return fmt.Sprintf("make the bridge %s (%s)", s.Name, subnets)
	case addDevice:
		return fmt.Sprintf("add the device %s to the default profile", s.Name)
	default:
		return fmt.Sprintf("set %s", s.Name)
	}
}

// required are the API extensions that the back end needs; LXD 5.0 has them all.
func required() []string {
	return []string{"instances", "storage", "network", "instance_nic_network", "etag", "patch"}
}

// decide returns what is yet to be done, in order. What cannot be known before an
// earlier step was done is decided as for a daemon that is new.
func decide(c Config, o observed) ([]step, error) {
	var steps []step
	if !o.answers {
		if !o.installed {
			steps = append(steps, step{Kind: install, Name: "lxd", why: "there is no program lxd and no daemon answers"})
		}
		steps = append(steps, step{Kind: await, why: "no daemon answers"})
	} else if err := o.tooOld(); err != nil {
		return nil, err
	}

	poolName, poolSteps := decidePool(c, o)
	steps = append(steps, poolSteps...)
	bridge, networkSteps, err := decideNetwork(c, o)
	if err != nil {
		return nil, err
	}
	steps = append(steps, networkSteps...)
	steps = append(steps, decideProfile(o, poolName, bridge)...)
	return append(steps, decideServer(c, o)...), nil
}

// decidePool returns the pool for root disks: the configured one if it is there, else the
// first of those that are, else one to be made.
func decidePool(c Config, o observed) (string, []step) {
	if len(o.pools) > 0 {
		for _, p := range o.pools {
			if p.name == c.Storage.Pool {
				return p.name, nil
			}
		}
		return o.pools[0].name, nil
	}
	config := map[string]string{"driver": c.Storage.Driver}
	if c.Storage.Size > 0 && c.Storage.Driver != "dir" {
		config["size"] = strconv.FormatUint(c.Storage.Size, 10) + "MiB"
	}
	return c.Storage.Pool, []step{{Kind: makePool, Name: c.Storage.Pool, Config: config, why: "LXD has no storage pool"}}
}

// bridgeOf is the bridge for interfaces that name no parent.
type bridgeOf struct {
	name    string
	managed bool
}

// decideNetwork returns the bridge that containers are on by default, empty for none.
func decideNetwork(c Config, o observed) (bridgeOf, []step, error) {
	var managed []string
	for _, n := range o.networks {
		if n.managed && n.kind == "bridge" {
			managed = append(managed, n.name)
		}
	}
	if name := c.Network.Existing; name != "" {
		switch {
		case slices.Contains(managed, name):
			return bridgeOf{name, true}, nil, nil
		case o.bridges[name]:
			return bridgeOf{name, false}, nil, nil
		}
		return bridgeOf{}, nil, errors.NotFoundf("bridge %q, which is configured,", name)
	}
	if c.Network.Networking == Provider {
		return bridgeOf{}, nil, nil
	}
	if len(managed) > 0 {
		// What is configured wins over any choice: containers that are there have
		// addresses of it.
		if slices.Contains(managed, c.Network.Bridge) {
			return bridgeOf{c.Network.Bridge, true}, nil, nil
		}
		return bridgeOf{managed[0], true}, nil, nil
	}
	name := c.Network.Bridge
	if o.bridges[name] {
		return bridgeOf{}, nil, errors.AlreadyExistsf("bridge %q, which is none of LXD's: name another to be made, or this one as the existing one; it", name)
	}
	config, err := addressing(c, o)
	if err != nil {
		return bridgeOf{}, nil, errors.Annotatef(err, "bridge %q", name)
	}
	return bridgeOf{name, true}, []step{{Kind: makeNetwork, Name: name, Config: config, why: "LXD has no bridge of its own"}}, nil
}

// addressing chooses the subnets of a bridge.
func addressing(c Config, o observed) (map[string]string, error) {
	four := c.Network.Subnet
	if four.IsValid() {
		if clash, ok := subnet.Overlaps(four, o.taken); ok {
			return nil, errors.NotValidf("subnet %s, which overlaps %s,", four, clash)
		}
	} else {
		var err error
		four, err = subnet.Choose(subnet.Request{Taken: o.taken, Pool: c.Network.Pool, Bits: c.Network.Bits, Seed: o.seed})
		if err != nil {
			return nil, err
		}
	}
	config := map[string]string{"ipv4.address": gateway(four), "ipv4.nat": "true", "ipv6.address": "none"}
	if c.Network.IPv6 {
		six, err := subnet.Choose(subnet.Request{Taken: o.taken, Pool: c.Network.Pool6, Seed: o.seed})
		if err != nil {
			return nil, err
		}
		config["ipv6.address"], config["ipv6.nat"] = gateway(six), "true"
	}
	return config, nil
}

// gateway is the bridge's own address: the first of the subnet.
func gateway(p netip.Prefix) string {
	return netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits()).String()
}

// decideProfile has the default profile have a root disk, and a NIC if there is a bridge
// to put it on.
func decideProfile(o observed, pool string, bridge bridgeOf) []step {
	var steps []step
	root, nic := false, false
	for _, device := range o.profile {
		switch device["type"] {
		case "disk":
			root = root || device["path"] == "/"
		case "nic":
			nic = true
		}
	}
	if !root {
		steps = append(steps, step{
			Kind: addDevice, Name: freeName(o.profile, "root"),
			Config: map[string]string{"type": "disk", "path": "/", "pool": pool},
			why:    "the default profile has no root disk",
		})
	}
	if !nic && bridge.name != "" {
		steps = append(steps, step{
			Kind: addDevice, Name: freeName(o.profile, "eth0"),
			Config: nicOn(bridge, "eth0"),
			why:    "the default profile has no network interface",
		})
	}
	return steps
}

func nicOn(bridge bridgeOf, name string) map[string]string {
	if bridge.managed {
		return map[string]string{"type": "nic", "name": name, "network": bridge.name}
	}
	return map[string]string{"type": "nic", "name": name, "nictype": "bridged", "parent": bridge.name}
}

// freeName is the name, or one like it that no device has.
func freeName(devices map[string]map[string]string, name string) string {
	free := name
	for i := 1; devices[free] != nil; i++ {
		free = name + "-" + strconv.Itoa(i)
	}
	return free
}

// decideServer has the daemon be configured as asked for. What nobody asks for stays.
func decideServer(c Config, o observed) []step {
	want := map[string]string{
		"core.proxy_http":         c.Proxy.HTTP,
		"core.proxy_https":        c.Proxy.HTTPS,
		"core.proxy_ignore_hosts": c.Proxy.Ignore,
	}
	if c.CacheDays > 0 {
		want["images.remote_cache_expiry"] = strconv.Itoa(c.CacheDays)
	}
	defaults := map[string]string{"images.remote_cache_expiry": "10"}
	var steps []step
	for _, key := range slices.Sorted(maps.Keys(want)) {
		// LXD does not show a key that has its default.
		if value := want[key]; value != "" && o.server[key] != value && (o.server[key] != "" || value != defaults[key]) {
			steps = append(steps, step{
				Kind: configureItem, Name: key, Before: o.server[key],
				Config: map[string]string{"value": value},
				why:    "it is not as the settings say",
			})
		}
	}
	return steps
}

// Step is one thing that an [Initialiser] would do, for people.
type Step struct {
	// What is to be done.
	What string
	// Why says what was seen that makes it necessary.
	Why string
}

// String returns what and why, in one line.
func (s Step) String() string { return s.What + ": " + s.Why }

// told returns the steps for people.
func told(steps []step) []Step {
	out := make([]Step, len(steps))
	for i, s := range steps {
		out[i] = Step{What: s.String(), Why: strings.TrimSpace(s.why)}
	}
	return out
}
