package virt

import (
	"context"
	"encoding/xml"
	"net/netip"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
)

// State is what a domain does.
type State int

// States of a domain, as libvirt numbers them.
const (
	StateNone State = iota
	StateRunning
	StateBlocked
	StatePaused
	// StateShutdown is that of one on its way to StateShutoff.
	StateShutdown
	StateShutoff
	StateCrashed
	// StateSuspended is that of one whose guest has suspended itself.
	StateSuspended
)

// String returns libvirt's word for it.
func (s State) String() string {
	switch s {
	case StateRunning:
		return "running"
	case StateBlocked:
		return "idle"
	case StatePaused:
		return "paused"
	case StateShutdown:
		return "in shutdown"
	case StateShutoff:
		return "shut off"
	case StateCrashed:
		return "crashed"
	case StateSuspended:
		return "suspended"
	}
	return "no state"
}

// Domain is a virtual machine.
type Domain struct {
	Name, UUID string
	// ID is its number while it is active, and 0 else.
	ID    int
	State State
	// Autostart tells whether the daemon starts it by itself. One that is not
	// Persistent is forgotten when it stops.
	Autostart, Persistent bool
	// Metadata is what is within the element of that name: elements of other
	// namespaces that libvirt keeps and does not look at.
	Metadata string
}

// Active tells whether there is a process for it, whatever its guest does. A crashed
// one may have one or not: that is told by its ID.
func (d Domain) Active() bool { return d.ID != 0 }

// Interface is an interface of a guest.
type Interface struct {
	// Name is that of the other end on the host.
	Name string
	// MAC is in lower case, with colons.
	MAC       string
	Addresses []netip.Prefix
}

// Domains returns all of them, active or not.
func (c *Client) Domains(ctx context.Context) ([]Domain, error) {
	raw, err := ask(ctx, c, func(lv *libvirt.Libvirt) ([]libvirt.Domain, error) {
		domains, _, err := lv.ConnectListAllDomains(1, 0)
		return domains, err
	})
	if err != nil {
		return nil, errors.Annotate(err, "listing domains")
	}
	var domains []Domain
	for _, r := range raw {
		domain, err := c.domain(ctx, r)
		if errors.Is(err, errors.NotFound) {
			continue // gone in the meantime
		}
		if err != nil {
			return nil, errors.Annotatef(err, "domain %q", r.Name)
		}
		domains = append(domains, domain)
	}
	return domains, nil
}

// Domain returns one, or errors.NotFound.
func (c *Client) Domain(ctx context.Context, name string) (Domain, error) {
	raw, err := ask(ctx, c, func(lv *libvirt.Libvirt) (libvirt.Domain, error) { return lv.DomainLookupByName(name) })
	if err != nil {
		return Domain{}, errors.Annotatef(err, "domain %q", name)
	}
	domain, err := c.domain(ctx, raw)
	return domain, errors.Annotatef(err, "domain %q", name)
}

func (c *Client) domain(ctx context.Context, raw libvirt.Domain) (Domain, error) {
	domain := Domain{Name: raw.Name, UUID: formatUUID(raw.UUID)}
	if raw.ID > 0 {
		domain.ID = int(raw.ID)
	}
	text, err := ask(ctx, c, func(lv *libvirt.Libvirt) (text string, err error) {
		var state, autostart, persistent int32
		if state, _, err = lv.DomainGetState(raw, 0); err != nil {
			return "", err
		}
		if persistent, err = lv.DomainIsPersistent(raw); err != nil {
			return "", err
		}
		if persistent != 0 {
			if autostart, err = lv.DomainGetAutostart(raw); err != nil {
				return "", err
			}
		}
		domain.State, domain.Persistent, domain.Autostart = State(state), persistent != 0, autostart != 0
		return lv.DomainGetXMLDesc(raw, 0)
	})
	if err != nil {
		return Domain{}, err
	}
	var def struct {
		Metadata struct {
			Inner string `xml:",innerxml"`
		} `xml:"metadata"`
	}
	if err := xml.Unmarshal([]byte(text), &def); err != nil {
		return Domain{}, errMalformed
	}
	domain.Metadata = def.Metadata.Inner
	return domain, nil
}

// DefineDomain defines a domain, without starting it, or changes the definition of the
// one of the same name and UUID. It is errors.AlreadyExists when there is one of the
// name that has another UUID, or whose UUID is not in the definition.
func (c *Client) DefineDomain(ctx context.Context, definition string) (Domain, error) {
	name := nameIn(definition)
	raw, err := change(ctx, c, func(lv *libvirt.Libvirt) (libvirt.Domain, error) {
		return lv.DomainDefineXMLFlags(definition, 0)
	})
	if code(err, libvirt.ErrOperationFailed) {
		if _, look := c.Domain(ctx, name); look == nil {
			err = errors.WithType(err, errors.AlreadyExists)
		}
	}
	if err != nil {
		return Domain{}, errors.Annotatef(err, "defining domain %q", name)
	}
	domain, err := c.domain(ctx, raw)
	return domain, errors.Annotatef(err, "domain %q", name)
}

// StartDomain starts one. One that is active is success.
func (c *Client) StartDomain(ctx context.Context, domain Domain) error {
	err := c.onDomain(ctx, domain, (*libvirt.Libvirt).DomainCreate)
	return errors.Annotatef(c.unlessDomain(ctx, domain, true, err), "starting domain %q", domain.Name)
}

// SetDomainAutostart has the daemon start a domain by itself, or not.
func (c *Client) SetDomainAutostart(ctx context.Context, domain Domain, autostart bool) error {
	err := c.onDomain(ctx, domain, func(lv *libvirt.Libvirt, raw libvirt.Domain) error {
		return lv.DomainSetAutostart(raw, number(autostart))
	})
	return errors.Annotatef(err, "setting autostart of domain %q", domain.Name)
}

// ShutdownDomain presses a domain's power button, and does not wait for what the guest
// makes of it: it may take its time, or not listen at all. One that is not active is
// success.
func (c *Client) ShutdownDomain(ctx context.Context, domain Domain) error {
	err := c.onDomain(ctx, domain, func(lv *libvirt.Libvirt, raw libvirt.Domain) error {
		err := lv.DomainShutdownFlags(raw, libvirt.DomainShutdownAcpiPowerBtn)
		if rawCode(err, libvirt.ErrInvalidArg) {
			// A driver that has no button, such as the one for tests.
			err = lv.DomainShutdown(raw)
		}
		return err
	})
	return errors.Annotatef(c.unlessDomain(ctx, domain, false, err), "shutting down domain %q", domain.Name)
}

// DestroyDomain ends a domain at once, as pulling the plug does; it stays defined. One
// that is not active is success.
func (c *Client) DestroyDomain(ctx context.Context, domain Domain) error {
	err := c.onDomain(ctx, domain, (*libvirt.Libvirt).DomainDestroy)
	return errors.Annotatef(c.unlessDomain(ctx, domain, false, err), "destroying domain %q", domain.Name)
}

// UndefineDomain has libvirt forget a domain, with what it keeps of it: saved memory,
// variables of its firmware, snapshots' records. Volumes stay. One that is active runs
// on, and is forgotten when it stops.
func (c *Client) UndefineDomain(ctx context.Context, domain Domain) error {
	err := c.onDomain(ctx, domain, func(lv *libvirt.Libvirt, raw libvirt.Domain) error {
		flags := libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata
		err := lv.DomainUndefineFlags(raw, flags|libvirt.DomainUndefineNvram|libvirt.DomainUndefineCheckpointsMetadata)
		if rawCode(err, libvirt.ErrInvalidArg) {
			// A driver that knows nothing of firmware's variables.
			err = lv.DomainUndefineFlags(raw, flags)
		}
		return err
	})
	return errors.Annotatef(err, "undefining domain %q", domain.Name)
}

// DomainXML returns the definition of a domain, as it is now: with what libvirt has
// chosen, such as the names of interfaces on the host, while it is active. Passwords
// are left out.
func (c *Client) DomainXML(ctx context.Context, domain Domain) (string, error) {
	raw, err := ref(domain)
	if err != nil {
		return "", errors.Trace(err)
	}
	text, err := ask(ctx, c, func(lv *libvirt.Libvirt) (string, error) { return lv.DomainGetXMLDesc(raw, 0) })
	return text, errors.Annotatef(err, "domain %q", domain.Name)
}

// DomainAddresses returns the interfaces of an active domain that have addresses by
// DHCP from networks of libvirt's. Those on a bridge of the host are not known to it.
func (c *Client) DomainAddresses(ctx context.Context, domain Domain) ([]Interface, error) {
	raw, err := ref(domain)
	if err != nil {
		return nil, errors.Trace(err)
	}
	list, err := ask(ctx, c, func(lv *libvirt.Libvirt) ([]libvirt.DomainInterface, error) {
		return lv.DomainInterfaceAddresses(raw, uint32(libvirt.DomainInterfaceAddressesSrcLease), 0)
	})
	if err != nil {
		return nil, errors.Annotatef(err, "addresses of domain %q", domain.Name)
	}
	var interfaces []Interface
	for _, r := range list {
		nic := Interface{Name: r.Name, MAC: lower(r.Hwaddr)}
		for _, a := range r.Addrs {
			if address, ok := prefix(a.Addr, a.Prefix); ok {
				nic.Addresses = append(nic.Addresses, address)
			}
		}
		interfaces = append(interfaces, nic)
	}
	return interfaces, nil
}

func (c *Client) onDomain(ctx context.Context, domain Domain, f func(*libvirt.Libvirt, libvirt.Domain) error) error {
	raw, err := ref(domain)
	if err != nil {
		return err
	}
	return act(ctx, c, func(lv *libvirt.Libvirt) error { return f(lv, raw) })
}

// unlessDomain returns err unless it is the refusal of what is so already.
func (c *Client) unlessDomain(ctx context.Context, domain Domain, active bool, err error) error {
	if !refused(err) {
		return err
	}
	raw, bad := ref(domain)
	if bad != nil {
		return err
	}
	now, look := ask(ctx, c, func(lv *libvirt.Libvirt) (int32, error) { return lv.DomainIsActive(raw) })
	if look == nil && (now != 0) == active {
		return nil
	}
	return err
}

// ref is how the daemon is told which domain is meant: it goes by the UUID.
func ref(domain Domain) (libvirt.Domain, error) {
	uuid, err := parseUUID(domain.UUID)
	if err != nil {
		return libvirt.Domain{}, errors.Annotatef(err, "domain %q", domain.Name)
	}
	return libvirt.Domain{Name: domain.Name, UUID: uuid, ID: -1}, nil
}
