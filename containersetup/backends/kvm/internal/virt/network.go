package virt

import (
	"context"
	"net/netip"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
)

// Network is a virtual network.
type Network struct {
	Name, UUID string
	// Bridge is the interface on the host, or empty for a network that has none.
	Bridge string
	// Active tells whether it is started, and Autostart whether the daemon starts
	// it by itself. One that is not Persistent is forgotten when it is stopped.
	Active, Autostart, Persistent bool
}

// Lease is an address that a network's DHCP server has given to a guest.
type Lease struct {
	// MAC is in lower case, with colons.
	MAC      string
	Address  netip.Prefix
	Hostname string
	Expires  time.Time
}

// Networks returns all of them, active or not.
func (c *Client) Networks(ctx context.Context) ([]Network, error) {
	raw, err := ask(ctx, c, func(lv *libvirt.Libvirt) ([]libvirt.Network, error) {
		networks, _, err := lv.ConnectListAllNetworks(1, 0)
		return networks, err
	})
	if err != nil {
		return nil, errors.Annotate(err, "listing networks")
	}
	var networks []Network
	for _, r := range raw {
		network, err := c.network(ctx, r)
		if errors.Is(err, errors.NotFound) {
			continue // gone in the meantime
		}
		if err != nil {
			return nil, errors.Annotatef(err, "network %q", r.Name)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// Network returns one, or errors.NotFound.
func (c *Client) Network(ctx context.Context, name string) (Network, error) {
	raw, err := c.lookupNetwork(ctx, name)
	if err != nil {
		return Network{}, errors.Annotatef(err, "network %q", name)
	}
	network, err := c.network(ctx, raw)
	return network, errors.Annotatef(err, "network %q", name)
}

// NetworkXML returns the definition of one, or errors.NotFound.
func (c *Client) NetworkXML(ctx context.Context, name string) (string, error) {
	raw, err := c.lookupNetwork(ctx, name)
	if err != nil {
		return "", errors.Annotatef(err, "network %q", name)
	}
	text, err := ask(ctx, c, func(lv *libvirt.Libvirt) (string, error) { return lv.NetworkGetXMLDesc(raw, 0) })
	return text, errors.Annotatef(err, "network %q", name)
}

func (c *Client) lookupNetwork(ctx context.Context, name string) (libvirt.Network, error) {
	return ask(ctx, c, func(lv *libvirt.Libvirt) (libvirt.Network, error) { return lv.NetworkLookupByName(name) })
}

func (c *Client) network(ctx context.Context, raw libvirt.Network) (Network, error) {
	return ask(ctx, c, func(lv *libvirt.Libvirt) (Network, error) {
		active, err := lv.NetworkIsActive(raw)
		if err != nil {
			return Network{}, err
		}
		persistent, err := lv.NetworkIsPersistent(raw)
		if err != nil {
			return Network{}, err
		}
		var autostart int32
		if persistent != 0 {
			if autostart, err = lv.NetworkGetAutostart(raw); err != nil {
				return Network{}, err
			}
		}
		bridge, err := lv.NetworkGetBridgeName(raw)
		if rawCode(err, libvirt.ErrInternalError) {
			bridge, err = "", nil // that is how it says that there is none
		}
		return Network{
			Name: raw.Name, UUID: formatUUID(raw.UUID), Bridge: bridge,
			Active: active != 0, Autostart: autostart != 0, Persistent: persistent != 0,
		}, err
	})
}

// DefineNetwork defines a network, without starting it, or changes the definition of
// the one of the same name and UUID. It is errors.AlreadyExists when there is one of
// the name that has another UUID, or whose UUID is not in the definition.
func (c *Client) DefineNetwork(ctx context.Context, definition string) error {
	err := act(ctx, c, func(lv *libvirt.Libvirt) error {
		_, err := lv.NetworkDefineXML(definition)
		return err
	})
	name := nameIn(definition)
	if code(err, libvirt.ErrOperationFailed) {
		if _, look := c.lookupNetwork(ctx, name); look == nil {
			err = errors.WithType(err, errors.AlreadyExists)
		}
	}
	return errors.Annotatef(err, "defining network %q", name)
}

// StartNetwork starts one. One that is active is success.
func (c *Client) StartNetwork(ctx context.Context, name string) error {
	err := c.onNetwork(ctx, name, (*libvirt.Libvirt).NetworkCreate)
	return errors.Annotatef(c.unlessNetwork(ctx, name, true, err), "starting network %q", name)
}

// StopNetwork stops one, and guests on it are cut off. One that is not active is
// success.
func (c *Client) StopNetwork(ctx context.Context, name string) error {
	err := c.onNetwork(ctx, name, (*libvirt.Libvirt).NetworkDestroy)
	return errors.Annotatef(c.unlessNetwork(ctx, name, false, err), "stopping network %q", name)
}

// SetNetworkAutostart has the daemon start a network by itself, or not.
func (c *Client) SetNetworkAutostart(ctx context.Context, name string, autostart bool) error {
	err := c.onNetwork(ctx, name, func(lv *libvirt.Libvirt, network libvirt.Network) error {
		return lv.NetworkSetAutostart(network, number(autostart))
	})
	return errors.Annotatef(err, "setting autostart of network %q", name)
}

// UndefineNetwork has libvirt forget one, at once or, if it is active, when it is
// stopped.
func (c *Client) UndefineNetwork(ctx context.Context, name string) error {
	err := c.onNetwork(ctx, name, (*libvirt.Libvirt).NetworkUndefine)
	return errors.Annotatef(err, "undefining network %q", name)
}

// Leases returns the addresses that an active network's DHCP server has given to an
// interface, or to all when mac is empty.
func (c *Client) Leases(ctx context.Context, network, mac string) ([]Lease, error) {
	raw, err := c.lookupNetwork(ctx, network)
	if err != nil {
		return nil, errors.Annotatef(err, "network %q", network)
	}
	var of libvirt.OptString
	if mac != "" {
		of = libvirt.OptString{mac}
	}
	list, err := ask(ctx, c, func(lv *libvirt.Libvirt) ([]libvirt.NetworkDhcpLease, error) {
		leases, _, err := lv.NetworkGetDhcpLeases(raw, of, 1, 0)
		return leases, err
	})
	if err != nil {
		return nil, errors.Annotatef(err, "leases of network %q", network)
	}
	var leases []Lease
	for _, r := range list {
		address, ok := prefix(r.Ipaddr, r.Prefix)
		if !ok {
			continue
		}
		leases = append(leases, Lease{
			MAC:      lower(r.Mac),
			Address:  address,
			Hostname: optional(r.Hostname),
			Expires:  time.Unix(r.Expirytime, 0),
		})
	}
	return leases, nil
}

func (c *Client) onNetwork(ctx context.Context, name string, f func(*libvirt.Libvirt, libvirt.Network) error) error {
	network, err := c.lookupNetwork(ctx, name)
	if err != nil {
		return err
	}
	return act(ctx, c, func(lv *libvirt.Libvirt) error { return f(lv, network) })
}

// unlessNetwork returns err unless it is the refusal of what is so already.
func (c *Client) unlessNetwork(ctx context.Context, name string, active bool, err error) error {
	if refused(err) {
		if network, look := c.Network(ctx, name); look == nil && network.Active == active {
			return nil
		}
	}
	return err
}
