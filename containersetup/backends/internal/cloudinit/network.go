package cloudinit

import (
	"context"
	"net/netip"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/facade"
)

// Config is what a network configuration is made from.
type Config struct {
	// Interfaces are those of the instance. Each without an address asks for one by
	// DHCP, and then also for name servers.
	Interfaces []facade.NetworkInterface
	// DNS are the name servers of interfaces that have addresses and name none.
	DNS []string
	// ByMAC has an interface found by its MAC and given its name, as it has to be where
	// the kernel of the instance chooses names: in a virtual machine. By default it has
	// its name already, as in a container.
	ByMAC bool
}

// network is cloud-init's configuration, version 2.
type network struct {
	Version   int                 `yaml:"version"`
	Ethernets map[string]ethernet `yaml:"ethernets"`
}

type ethernet struct {
	Match       *match       `yaml:"match,omitempty"`
	SetName     string       `yaml:"set-name,omitempty"`
	DHCP4       bool         `yaml:"dhcp4"`
	Addresses   []string     `yaml:"addresses,omitempty"`
	Routes      []route      `yaml:"routes,omitempty"`
	Nameservers *nameservers `yaml:"nameservers,omitempty"`
	MTU         int          `yaml:"mtu,omitempty"`
}

type match struct {
	MAC string `yaml:"macaddress"`
}

type route struct {
	To  string `yaml:"to"`
	Via string `yaml:"via"`
}

type nameservers struct {
	Addresses []string `yaml:"addresses"`
}

// Network returns a network configuration. The same config gives the same bytes.
// errors.NotValid names an interface that is malformed, named twice, or that is to be
// found by its MAC and has none of its own.
func Network(c Config) ([]byte, error) {
	config := network{Version: 2, Ethernets: map[string]ethernet{}}
	macs := map[string]bool{}
	for n, i := range c.Interfaces {
		if err := i.Validate(); err != nil {
			return nil, errors.Annotatef(err, "Interfaces[%d]", n)
		}
		if _, ok := config.Ethernets[i.Name]; ok {
			return nil, errors.NotValidf("Interfaces[%d]: name %q, which another one has,", n, i.Name)
		}
		e := ethernet{DHCP4: len(i.Addresses) == 0, Addresses: i.Addresses, MTU: i.MTU}
		if c.ByMAC {
			mac := strings.ToLower(i.MAC)
			if mac == "" || macs[mac] {
				return nil, errors.NotValidf("Interfaces[%d]: MAC %q (want one of its own)", n, i.MAC)
			}
			macs[mac] = true
			e.Match, e.SetName = &match{mac}, i.Name
		}
		if i.Gateway != "" {
			e.Routes = []route{{To: everywhere(i.Gateway), Via: i.Gateway}}
		}
		dns := i.DNS
		if len(dns) == 0 && !e.DHCP4 {
			dns = c.DNS
		}
		if len(dns) > 0 {
			e.Nameservers = &nameservers{dns}
		}
		config.Ethernets[i.Name] = e
	}
	data, err := yaml.Marshal(config)
	return data, errors.Trace(err)
}

func everywhere(gateway string) string {
	if addr, err := netip.ParseAddr(gateway); err == nil && addr.Is6() {
		return "::/0"
	}
	return "0.0.0.0/0"
}

// Addressed returns interfaces with the addresses, gateways and name servers that a
// network configuration gives to those of their names. What is not one gives none.
func Addressed(interfaces []facade.NetworkInterface, config []byte) []facade.NetworkInterface {
	out := append([]facade.NetworkInterface(nil), interfaces...)
	var c network
	if len(config) == 0 || yaml.Unmarshal(config, &c) != nil {
		return out
	}
	for n := range out {
		e, ok := c.Ethernets[out[n].Name]
		if !ok {
			continue
		}
		out[n].Addresses = e.Addresses
		if len(e.Routes) > 0 {
			out[n].Gateway = e.Routes[0].Via
		}
		if e.Nameservers != nil {
			out[n].DNS = e.Nameservers.Addresses
		}
	}
	return out
}

// Resolvers returns the host's name servers but for those that only the host reaches;
// none where there are none, or none that can be told.
func Resolvers(ctx context.Context, files host.Files) []string {
	for _, name := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		data, err := files.ReadFile(ctx, name)
		if err != nil {
			continue
		}
		var servers []string
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != "nameserver" {
				continue
			}
			addr, err := netip.ParseAddr(f[1])
			if err == nil && addr.Zone() == "" && !addr.IsLoopback() && !addr.IsUnspecified() {
				servers = append(servers, addr.String())
			}
		}
		if len(servers) > 0 {
			return servers
		}
	}
	return nil
}
