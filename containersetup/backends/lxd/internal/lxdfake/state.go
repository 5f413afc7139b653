package lxdfake

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
)

const architecture = "x86_64"

// state is what survives a restart.
type state struct {
	extensions []string
	config     map[string]string
	pools      map[string]*poolState
	networks   map[string]*networkState
	profiles   map[string]*profileState
	instances  map[string]*instanceState
	images     map[string]imageState // by fingerprint
	aliases    map[string]string     // to fingerprints
	remote     map[string]string     // aliases elsewhere, to fingerprints
	downloads  int
	numbers    int
}

type poolState struct {
	driver, description string
	config              map[string]string
}

type networkState struct {
	kind, description string
	managed           bool
	config            map[string]string
}

type profileState struct {
	description string
	config      map[string]string
	devices     api.Devices
}

type instanceState struct {
	kind, description string
	status            int
	config            map[string]string
	devices           api.Devices
	profiles          []string
	ephemeral         bool
	created           time.Time
	number            int  // makes addresses
	halfMade          bool // has no files yet
	stubborn          bool
}

type imageState struct {
	autoUpdate bool
}

func newState() state {
	return state{
		extensions: []string{
			"etag", "patch", "network", "storage", "entity_description", "resource_limits", "network_state",
			"instances", "instance_nic_network", "image_types", "projects", "api_filtering", "firewall_driver", "network_hwaddr",
			"usedby_consistency", "image_profiles", "images_default_architecture", "server_supported_storage_drivers",
			"cloud_init", "instance_get_full", "init_preseed",
		},
		config:   map[string]string{},
		pools:    map[string]*poolState{},
		networks: map[string]*networkState{"lo": {kind: "loopback"}},
		profiles: map[string]*profileState{"default": {
			description: "Default LXD profile", config: map[string]string{}, devices: api.Devices{},
		}},
		instances: map[string]*instanceState{},
		images:    map[string]imageState{},
		aliases:   map[string]string{},
		remote:    map[string]string{},
	}
}

func (s *state) next() int {
	s.numbers++
	return s.numbers
}

// expand returns an instance's configuration and devices with its profiles'.
func (s *state) expand(i *instanceState) (map[string]string, api.Devices) {
	config, devices := map[string]string{}, api.Devices{}
	for _, name := range i.profiles {
		if p := s.profiles[name]; p != nil {
			maps.Copy(config, p.config)
			maps.Copy(devices, cloneDevices(p.devices))
		}
	}
	maps.Copy(config, i.config)
	maps.Copy(devices, cloneDevices(i.devices))
	return config, devices
}

func (s *state) usesNetwork(name string) []string {
	return s.uses(func(d map[string]string) bool {
		return d["type"] == "nic" && (d["network"] == name || d["parent"] == name)
	})
}

func (s *state) usesPool(name string) []string {
	return s.uses(func(d map[string]string) bool { return d["type"] == "disk" && d["pool"] == name })
}

// uses returns the paths of what has a device of some sort.
func (s *state) uses(is func(map[string]string) bool) []string {
	var paths []string
	has := func(devices api.Devices) bool {
		for _, d := range devices {
			if is(d) {
				return true
			}
		}
		return false
	}
	for _, name := range names(s.instances) {
		if _, devices := s.expand(s.instances[name]); has(devices) {
			paths = append(paths, "/1.0/instances/"+name)
		}
	}
	for _, name := range names(s.profiles) {
		if has(s.profiles[name].devices) {
			paths = append(paths, "/1.0/profiles/"+name)
		}
	}
	return paths
}

func (s *state) usesProfile(name string) []string {
	var paths []string
	for _, instance := range names(s.instances) {
		if slices.Contains(s.instances[instance].profiles, name) {
			paths = append(paths, "/1.0/instances/"+instance)
		}
	}
	return paths
}

// image returns the fingerprint that begins so.
func (s *state) image(prefix string) (string, bool) {
	if prefix == "" {
		return "", false
	}
	for fingerprint := range s.images {
		if strings.HasPrefix(fingerprint, prefix) {
			return fingerprint, true
		}
	}
	return "", false
}

// interfaces are those of an instance that runs, with an address each if their
// network has a subnet.
func (s *state) interfaces(i *instanceState) map[string]any {
	address := func(family, address, netmask, scope string) map[string]any {
		return map[string]any{"family": family, "address": address, "netmask": netmask, "scope": scope}
	}
	all := map[string]any{"lo": map[string]any{
		"addresses": []any{address("inet", "127.0.0.1", "8", "local")},
		"hwaddr":    "", "host_name": "", "mtu": 65536, "state": "up", "type": "loopback",
	}}
	config, devices := s.expand(i)
	for _, device := range names(devices) {
		d := devices[device]
		if d["type"] != "nic" {
			continue
		}
		name := d["name"]
		if name == "" {
			name = device
		}
		hwaddr := d["hwaddr"]
		if hwaddr == "" {
			hwaddr = config["volatile."+device+".hwaddr"]
		}
		addresses := []any{}
		network := s.networks[d["network"]]
		if network == nil {
			network = s.networks[d["parent"]]
		}
		if network != nil {
			if prefix, err := netip.ParsePrefix(network.config["ipv4.address"]); err == nil {
				a := d["ipv4.address"]
				if a == "" {
					last := prefix.Masked().Addr().As4()
					last[3] += byte(10 + i.number)
					a = netip.AddrFrom4(last).String()
				}
				addresses = append(addresses, address("inet", a, fmt.Sprint(prefix.Bits()), "global"))
			}
		}
		all[name] = map[string]any{
			"addresses": addresses, "hwaddr": hwaddr, "mtu": 1500, "state": "up", "type": "broadcast",
			"host_name": fmt.Sprintf("veth%04x%s", i.number, device),
		}
	}
	return all
}

func words(status int) string {
	switch status {
	case api.StatusStopped:
		return "Stopped"
	case api.StatusRunning:
		return "Running"
	case api.StatusFrozen:
		return "Frozen"
	case api.StatusError:
		return "Error"
	}
	return fmt.Sprint("Status ", status)
}

func names[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

func clone(m map[string]string) map[string]string {
	c := make(map[string]string, len(m))
	maps.Copy(c, m)
	return c
}

func cloneDevices(m api.Devices) api.Devices {
	c := make(api.Devices, len(m))
	for name, device := range m {
		c[name] = clone(device)
	}
	return c
}
