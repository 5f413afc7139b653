package virt

import (
	"context"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
	"libvirt.org/go/libvirtxml"
)

// Volume is a volume of a pool.
type Volume struct {
	Pool, Name string
	// Path is where it is: a file, in a pool of type "dir".
	Path string
	// Format is "qcow2", "raw", "iso", ...; empty if libvirt does not tell.
	Format string
	// Backing is the path of what it is an overlay of, or empty.
	Backing string
	// Capacity is what a guest sees, and Allocation what it takes of the pool, both
	// in bytes.
	Capacity, Allocation uint64
}

// Volumes returns all of an active pool, as of its last refresh. It is
// errors.NotFound when there is no such pool.
func (c *Client) Volumes(ctx context.Context, pool string) ([]Volume, error) {
	raw, err := c.lookupPool(ctx, pool)
	if err != nil {
		return nil, errors.Annotatef(err, "storage pool %q", pool)
	}
	list, err := ask(ctx, c, func(lv *libvirt.Libvirt) ([]libvirt.StorageVol, error) {
		volumes, _, err := lv.StoragePoolListAllVolumes(raw, 1, 0)
		return volumes, err
	})
	if err != nil {
		return nil, errors.Annotatef(err, "listing volumes of storage pool %q", pool)
	}
	var volumes []Volume
	for _, r := range list {
		volume, err := c.volume(ctx, r)
		if errors.Is(err, errors.NotFound) {
			continue // gone in the meantime
		}
		if err != nil {
			return nil, errors.Annotatef(err, "volume %q of storage pool %q", r.Name, pool)
		}
		volumes = append(volumes, volume)
	}
	return volumes, nil
}

// Volume returns one, or errors.NotFound when there is no such pool or volume.
func (c *Client) Volume(ctx context.Context, pool, name string) (Volume, error) {
	raw, err := c.lookupVolume(ctx, pool, name)
	if err != nil {
		return Volume{}, errors.Annotatef(err, "volume %q of storage pool %q", name, pool)
	}
	volume, err := c.volume(ctx, raw)
	return volume, errors.Annotatef(err, "volume %q of storage pool %q", name, pool)
}

// DeleteVolume removes one for good, or returns errors.NotFound. libvirt does not care
// whether a domain uses it.
func (c *Client) DeleteVolume(ctx context.Context, pool, name string) error {
	raw, err := c.lookupVolume(ctx, pool, name)
	if err == nil {
		err = act(ctx, c, func(lv *libvirt.Libvirt) error { return lv.StorageVolDelete(raw, libvirt.StorageVolDeleteNormal) })
	}
	return errors.Annotatef(err, "deleting volume %q of storage pool %q", name, pool)
}

func (c *Client) lookupVolume(ctx context.Context, pool, name string) (libvirt.StorageVol, error) {
	raw, err := c.lookupPool(ctx, pool)
	if err != nil {
		return libvirt.StorageVol{}, err
	}
	return ask(ctx, c, func(lv *libvirt.Libvirt) (libvirt.StorageVol, error) {
		return lv.StorageVolLookupByName(raw, name)
	})
}

func (c *Client) volume(ctx context.Context, raw libvirt.StorageVol) (Volume, error) {
	text, err := ask(ctx, c, func(lv *libvirt.Libvirt) (string, error) { return lv.StorageVolGetXMLDesc(raw, 0) })
	if err != nil {
		return Volume{}, err
	}
	var def libvirtxml.StorageVolume
	if err := def.Unmarshal(text); err != nil {
		return Volume{}, errMalformed
	}
	volume := Volume{Pool: raw.Pool, Name: raw.Name}
	if def.Target != nil {
		volume.Path = def.Target.Path
		if def.Target.Format != nil {
			volume.Format = def.Target.Format.Type
		}
	}
	if def.BackingStore != nil {
		volume.Backing = def.BackingStore.Path
	}
	if def.Capacity != nil {
		volume.Capacity = def.Capacity.Value
	}
	if def.Allocation != nil {
		volume.Allocation = def.Allocation.Value
	}
	return volume, nil
}
