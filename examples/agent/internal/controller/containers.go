package controller

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/examples/agent/internal/files"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/facade"
)

// containers are what the controller knows of containers beyond the model, on
// disk and in memory.
type containers struct {
	path string

	mu   sync.Mutex
	kept kept // replaced as a whole, and never changed in place
}

// kept is the content of containers.yaml.
type kept struct {
	Containers map[string]containerRecord `yaml:"containers,omitempty"`
	// Network is the host's, as it was published last.
	Network []facade.NetworkInterface `yaml:"network,omitempty"`
}

// containerRecord is one container's. Of one that is gone from the model only
// the addresses are left, until they are given back.
type containerRecord struct {
	Nonce string `yaml:"nonce,omitempty"`
	// Retry is what the model said last.
	Retry   string                `yaml:"retry,omitempty"`
	State   facade.ContainerState `yaml:"state,omitempty"`
	Message string                `yaml:"message,omitempty"`
	// Dead is for good: whatever the file says later is about the next
	// container of that id.
	Dead bool `yaml:"dead,omitempty"`
	// Instance is empty before one is recorded, and so are Hardware and
	// Interfaces.
	Instance   string                    `yaml:"instance,omitempty"`
	Hardware   facade.Hardware           `yaml:"hardware,omitempty"`
	Interfaces []facade.NetworkInterface `yaml:"interfaces,omitempty"`
	// Addresses are what was allocated.
	Addresses []facade.NetworkInterface `yaml:"addresses,omitempty"`
}

// The range that addresses are given out of, which is one for examples: nobody
// routes it. Its first address is the gateway's.
const (
	addressRange = "192.0.2.0/24"
	gateway      = "192.0.2.1"
)

func openContainers(path string) (*containers, error) {
	c := &containers{path: path, kept: kept{Containers: map[string]containerRecord{}}}
	data, err := files.Read(path, maxContainers)
	switch {
	case errors.Is(err, errors.NotFound):
		return c, nil
	case err != nil:
		return nil, err
	}
	if c.kept, err = parseContainers(data); err != nil {
		// The library's error might quote.
		return nil, errors.NotValidf("%s", filepath.Base(path))
	}
	return c, nil
}

// parseContainers refuses what this agent cannot have written.
func parseContainers(data []byte) (kept, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	k := kept{Containers: map[string]containerRecord{}}
	if err := dec.Decode(&k); err != nil && !errors.Is(err, io.EOF) {
		return kept{}, err
	}
	if k.Containers == nil { // as "containers: null" has it
		k.Containers = map[string]containerRecord{}
	}
	interfaces := slices.Clone(k.Network)
	for id, r := range k.Containers {
		if _, err := container.ParseID(id); err != nil {
			return kept{}, err
		}
		if r.State != "" {
			if err := validateState(r.State); err != nil {
				return kept{}, err
			}
		}
		interfaces = append(interfaces, r.Interfaces...)
		interfaces = append(interfaces, r.Addresses...)
	}
	for _, i := range interfaces {
		if err := i.Validate(); err != nil {
			return kept{}, err
		}
	}
	return k, nil
}

// now returns what is kept; it is not to be changed.
func (c *containers) now() kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

// of returns what is kept of one container.
func (c *containers) of(id string) (containerRecord, bool) {
	r, ok := c.now().Containers[id]
	return r, ok
}

// update has change work on a copy, which is kept once it is on disk. What
// change returns an error for is not kept.
func (c *containers) update(change func(*kept) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := kept{Containers: maps.Clone(c.kept.Containers), Network: c.kept.Network}
	if err := change(&next); err != nil {
		return err
	}
	if reflect.DeepEqual(next.Containers, c.kept.Containers) && reflect.DeepEqual(next.Network, c.kept.Network) {
		return nil
	}
	data, err := yaml.Marshal(next)
	if err != nil {
		return errors.Trace(err)
	}
	if err := files.Write(c.path, data); err != nil {
		return err
	}
	c.kept = next
	return nil
}

// follow takes in a reading of the model: a container that is new begins as
// pending, and so does one that somebody asks for again. Of one that is gone,
// all but its addresses is forgotten: an instance may be left that has them.
func (c *containers) follow(m *model.Model) error {
	if m.Machine == nil {
		return nil
	}
	return c.update(func(k *kept) error {
		for id, r := range k.Containers {
			switch {
			case m.Containers[id] != nil:
			case len(r.Addresses) > 0:
				k.Containers[id] = containerRecord{Addresses: r.Addresses}
			default:
				delete(k.Containers, id)
			}
		}
		for id, asked := range m.Containers {
			r := k.Containers[id]
			switch {
			case r.Nonce == "":
				r.Nonce, r.State, r.Retry = rand.Text(), facade.ContainerPending, asked.Retry
			case asked.Err == nil && r.Retry != asked.Retry:
				r.Retry = asked.Retry
				if r.Instance == "" {
					// The message stands until there is news.
					r.State = facade.ContainerPending
				}
			}
			r.Dead = r.Dead || asked.Err == nil && asked.Life == facade.Dead
			k.Containers[id] = r
		}
		return nil
	})
}

// forget drops what is known of a container of which nothing is left but, if
// they were not given back, its addresses.
func (c *containers) forget(id string) error {
	return c.update(func(k *kept) error {
		addresses := k.Containers[id].Addresses
		delete(k.Containers, id)
		if len(addresses) > 0 {
			k.Containers[id] = containerRecord{Addresses: addresses}
		}
		return nil
	})
}

// life is the container's: that of its file, until that said that it is dead.
func (r containerRecord) life(c *model.Container) facade.Life {
	if r.Dead {
		return facade.Dead
	}
	return c.Life
}

// taken are the addresses that others have: the gateway, containers, and the
// host itself, which may be in an example of its own.
func (k *kept) taken() map[string]bool {
	interfaces := slices.Clone(k.Network)
	for _, r := range k.Containers {
		interfaces = append(interfaces, r.Addresses...)
	}
	taken := map[string]bool{gateway: true}
	for _, i := range interfaces {
		for _, addr := range i.Addresses {
			if prefix, err := netip.ParsePrefix(addr); err == nil {
				taken[prefix.Addr().String()] = true
			}
		}
	}
	return taken
}

// allocate gives the container an address, or the one that it has.
func (k *kept) allocate(id string) error {
	r := k.Containers[id]
	if len(r.Addresses) > 0 {
		return nil
	}
	taken := k.taken()
	network, err := netip.ParsePrefix(addressRange)
	if err != nil {
		return errors.Trace(err)
	}
	// From the one after the network's own, and without the last one.
	for addr := network.Addr().Next(); network.Contains(addr.Next()); addr = addr.Next() {
		if taken[addr.String()] {
			continue
		}
		b := addr.As4()
		r.Addresses = []facade.NetworkInterface{{
			Name: "eth0",
			// Of the range for whoever wants one, and its own since the
			// address is.
			MAC:       fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]),
			MTU:       1500,
			Type:      facade.EthernetInterface,
			Addresses: []string{netip.PrefixFrom(addr, network.Bits()).String()},
			Gateway:   gateway,
			Up:        true,
		}}
		k.Containers[id] = r
		return nil
	}
	return errors.Annotatef(errors.QuotaLimitExceeded, "no address is free in %s", addressRange)
}

func validateState(s facade.ContainerState) error {
	switch s {
	case facade.ContainerPending, facade.ContainerProvisioning, facade.ContainerRunning, facade.ContainerError:
		return nil
	}
	return errors.NotValidf("state of a container (want pending, provisioning, running or error)")
}

// cloneInterfaces returns a copy that its owner may change.
func cloneInterfaces(list []facade.NetworkInterface) []facade.NetworkInterface {
	list = slices.Clone(list)
	for i := range list {
		list[i].Addresses = slices.Clone(list[i].Addresses)
		list[i].DNS = slices.Clone(list[i].DNS)
	}
	return list
}
