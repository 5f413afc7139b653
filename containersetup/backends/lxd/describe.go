package lxd

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/internal/cloudinit"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// configAttribute is before attributes that are LXD's own keys: "lxd.limits.processes".
const configAttribute = "lxd."

var (
	configKey = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[A-Za-z0-9_-]+)+$`)
	tagKey    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
)

// architectures are LXD's words for those that controllers know.
func architecture(arch string) (string, error) {
	known := map[string]string{
		"": "", "amd64": "x86_64", "arm64": "aarch64", "armhf": "armv7l", "i386": "i686",
		"ppc64el": "ppc64le", "riscv64": "riscv64", "s390x": "s390x",
	}
	name, ok := known[arch]
	if !ok {
		return "", errors.NotValidf("Info.Constraints.Arch %q", shortened(arch))
	}
	return name, nil
}

// describe returns what the instance is to be made from, but for its image.
func (b *Broker) describe(ctx context.Context, name string, params container.StartParams) (api.CreateInstance, error) {
	arch, err := architecture(params.Info.Constraints.Arch)
	if err != nil {
		return api.CreateInstance{}, err
	}
	config, err := b.instanceConfig(params)
	if err != nil {
		return api.CreateInstance{}, err
	}
	want := api.CreateInstance{
		Name: name, Description: "container " + params.ContainerID, Architecture: arch,
		Config: config, Devices: api.Devices{},
	}
	if err := b.devices(ctx, want, params); err != nil {
		return api.CreateInstance{}, err
	}
	return want, nil
}

// instanceConfig returns an instance's configuration: what was asked for as LXD's own
// keys first, so that nothing of ours is lost to it.
func (b *Broker) instanceConfig(params container.StartParams) (map[string]string, error) {
	info, config := params.Info, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(info.Attributes)) {
		own, ok := strings.CutPrefix(key, configAttribute)
		switch {
		case key == imageAttribute:
		case !ok:
			return nil, errors.NotValidf("Info.Attributes[%q] (want %q, or LXD's key after %q)", shortened(key), imageAttribute, configAttribute)
		case !configKey.MatchString(own), strings.HasPrefix(own, "user.sutler."), strings.HasPrefix(own, "volatile."):
			return nil, errors.NotValidf("Info.Attributes[%q]: key of LXD", shortened(key))
		default:
			config[own] = info.Attributes[key]
		}
	}
	for tag, value := range info.Tags {
		if !tagKey.MatchString(tag) || strings.HasPrefix(tag, "sutler.") {
			return nil, errors.NotValidf("Info.Tags[%q]", shortened(tag))
		}
		config[tagPrefix+tag] = value
	}
	if user := info.UserData.Reveal(); user != "" {
		config["user.user-data"] = user
	}
	if cores := info.Constraints.Cores; cores > 0 {
		config["limits.cpu"] = strconv.FormatUint(cores, 10)
	}
	if memory := info.Constraints.Memory; memory > 0 {
		config["limits.memory"] = strconv.FormatUint(memory, 10) + "MiB"
	}
	config[modelKey], config[controllerKey] = b.config.ModelUUID, b.config.ControllerUUID
	config[containerKey] = params.ContainerID
	return config, nil
}

// devices adds the instance's own devices: a root disk of the size asked for, and the
// interfaces, each on its parent or on the default bridge. Interfaces of the profile are
// left out then: those that were asked for are all that there are.
func (b *Broker) devices(ctx context.Context, want api.CreateInstance, params container.StartParams) error {
	size := params.Info.Constraints.RootDisk
	if size == 0 && len(params.Interfaces) == 0 {
		return nil // all by the profile
	}
	profile, _, err := b.quick.Profile(ctx, defaultProfile)
	if err != nil {
		return err
	}
	for name, device := range profile.Devices {
		switch {
		case device["type"] == "nic" && len(params.Interfaces) > 0:
			want.Devices[name] = map[string]string{"type": "none"}
		case device["type"] == "disk" && device["path"] == "/" && size > 0:
			root := maps.Clone(device)
			root["size"] = strconv.FormatUint(size, 10) + "MiB"
			want.Devices[name] = root
		}
	}
	if len(params.Interfaces) == 0 {
		return nil
	}
	bridges, err := b.bridges(ctx, params.Interfaces)
	if err != nil {
		return err
	}
	for n, i := range params.Interfaces {
		if want.Devices[i.Name] != nil && want.Devices[i.Name]["type"] != "none" {
			return errors.NotValidf("Interfaces[%d]: name %q, which is there already,", n, i.Name)
		}
		nic := nicOn(bridges[n], i.Name)
		if i.MAC != "" {
			nic["hwaddr"] = i.MAC
		}
		if i.MTU > 0 {
			nic["mtu"] = strconv.Itoa(i.MTU)
		}
		want.Devices[i.Name] = nic
	}
	network, err := cloudinit.Network(cloudinit.Config{
		Interfaces: params.Interfaces, DNS: cloudinit.Resolvers(ctx, b.config.Host),
	})
	if err != nil {
		return err
	}
	want.Config["user.network-config"] = string(network)
	return nil
}

// bridges returns what each interface is to be on.
func (b *Broker) bridges(ctx context.Context, interfaces []facade.NetworkInterface) ([]bridgeOf, error) {
	networks, err := b.quick.Networks(ctx)
	if err != nil {
		return nil, err
	}
	kinds := map[string]bridgeOf{}
	for _, n := range networks {
		if n.Type == "bridge" {
			kinds[n.Name] = bridgeOf{n.Name, n.Managed}
		}
	}
	out := make([]bridgeOf, len(interfaces))
	for n, i := range interfaces {
		parent := i.Parent
		if parent == "" {
			parent = b.bridge.name
		}
		if parent == "" {
			return nil, errors.NotFoundf("bridge for interface %q: it names no parent, and there is no default one: that", i.Name)
		}
		bridge, ok := kinds[parent]
		if !ok {
			return nil, errors.NotFoundf("bridge %q of interface %q", parent, i.Name)
		}
		out[n] = bridge
	}
	return out, nil
}

// result tells what there is of an instance. It is the same each time: addresses that
// come by DHCP are not in it.
func (b *Broker) result(i api.Instance) container.StartResult {
	r := container.StartResult{InstanceID: container.InstanceID(i.Name)}
	r.Hardware.Arch = archOf(i.Architecture)
	r.Hardware.Cores, _ = strconv.ParseUint(i.ExpandedConfig["limits.cpu"], 10, 64)
	r.Hardware.Memory = mebibytes(i.ExpandedConfig["limits.memory"])
	for _, name := range slices.Sorted(maps.Keys(i.ExpandedDevices)) {
		device := i.ExpandedDevices[name]
		switch {
		case device["type"] == "disk" && device["path"] == "/":
			r.Hardware.RootDisk = mebibytes(device["size"])
		case device["type"] == "nic":
			nic := facade.NetworkInterface{
				Name:   firstOf(device["name"], name),
				MAC:    firstOf(device["hwaddr"], i.ExpandedConfig["volatile."+name+".hwaddr"]),
				Type:   facade.EthernetInterface,
				Parent: firstOf(device["network"], device["parent"]),
			}
			nic.MTU, _ = strconv.Atoi(device["mtu"])
			r.Interfaces = append(r.Interfaces, nic)
		}
	}
	r.Interfaces = cloudinit.Addressed(r.Interfaces, []byte(i.Config["user.network-config"]))
	return r
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func archOf(name string) string {
	for _, arch := range []string{"amd64", "arm64", "armhf", "i386", "ppc64el", "riscv64", "s390x"} {
		if known, _ := architecture(arch); known == name {
			return arch
		}
	}
	return ""
}

// mebibytes reads a size as LXD has it.
func mebibytes(size string) uint64 {
	for unit, factor := range map[string]uint64{"MiB": 1, "GiB": 1024, "TiB": 1024 * 1024} {
		if digits, ok := strings.CutSuffix(size, unit); ok {
			n, err := strconv.ParseUint(digits, 10, 40)
			if err != nil {
				return 0
			}
			return n * factor
		}
	}
	return 0
}

// String keeps what a broker holds out of logs.
func (b *Broker) String() string {
	return fmt.Sprintf("LXD containers of model %s", b.config.ModelUUID)
}
