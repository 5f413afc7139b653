package virt

import (
	"context"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
	"libvirt.org/go/libvirtxml"
)

// Pool is a storage pool.
type Pool struct {
	Name, UUID string
	// Type is "dir", "logical", ...
	Type string
	// Path is where its volumes are: a directory, for one of type "dir".
	Path string
	// Active tells whether it is started, and Autostart whether the daemon starts
	// it by itself. One that is not Persistent is forgotten when it is stopped.
	Active, Autostart, Persistent bool
	// Capacity, Allocation and Available are in bytes, as of the last refresh, and
	// 0 for one that is not active. Those of a directory are its file system's.
	Capacity, Allocation, Available uint64
}

// DirPool returns the definition of a pool of type "dir".
func DirPool(name, dir string) (string, error) {
	text, err := (&libvirtxml.StoragePool{
		Type:   "dir",
		Name:   name,
		Target: &libvirtxml.StoragePoolTarget{Path: dir},
	}).Marshal()
	return text, errors.Annotatef(err, "storage pool %q", name)
}

// Pools returns all of them, active or not.
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	raw, err := ask(ctx, c, func(lv *libvirt.Libvirt) ([]libvirt.StoragePool, error) {
		pools, _, err := lv.ConnectListAllStoragePools(1, 0)
		return pools, err
	})
	if err != nil {
		return nil, errors.Annotate(err, "listing storage pools")
	}
	var pools []Pool
	for _, r := range raw {
		pool, err := c.pool(ctx, r)
		if errors.Is(err, errors.NotFound) {
			continue // gone in the meantime
		}
		if err != nil {
			return nil, errors.Annotatef(err, "storage pool %q", r.Name)
		}
		pools = append(pools, pool)
	}
	return pools, nil
}

// Pool returns one, or errors.NotFound.
func (c *Client) Pool(ctx context.Context, name string) (Pool, error) {
	raw, err := c.lookupPool(ctx, name)
	if err != nil {
		return Pool{}, errors.Annotatef(err, "storage pool %q", name)
	}
	pool, err := c.pool(ctx, raw)
	return pool, errors.Annotatef(err, "storage pool %q", name)
}

func (c *Client) lookupPool(ctx context.Context, name string) (libvirt.StoragePool, error) {
	return ask(ctx, c, func(lv *libvirt.Libvirt) (libvirt.StoragePool, error) {
		return lv.StoragePoolLookupByName(name)
	})
}

func (c *Client) pool(ctx context.Context, raw libvirt.StoragePool) (Pool, error) {
	pool := Pool{Name: raw.Name, UUID: formatUUID(raw.UUID)}
	text, err := ask(ctx, c, func(lv *libvirt.Libvirt) (text string, err error) {
		var active, autostart, persistent int32
		if active, err = lv.StoragePoolIsActive(raw); err != nil {
			return "", err
		}
		if persistent, err = lv.StoragePoolIsPersistent(raw); err != nil {
			return "", err
		}
		if persistent != 0 {
			if autostart, err = lv.StoragePoolGetAutostart(raw); err != nil {
				return "", err
			}
		}
		pool.Active, pool.Persistent, pool.Autostart = active != 0, persistent != 0, autostart != 0
		return lv.StoragePoolGetXMLDesc(raw, 0)
	})
	if err != nil {
		return Pool{}, err
	}
	var def libvirtxml.StoragePool
	if err := def.Unmarshal(text); err != nil {
		return Pool{}, errMalformed
	}
	pool.Type = def.Type
	if def.Target != nil {
		pool.Path = def.Target.Path
	}
	if !pool.Active {
		return pool, nil
	}
	for _, size := range []struct {
		of   *libvirtxml.StoragePoolSize
		into *uint64
	}{
		{def.Capacity, &pool.Capacity},
		{def.Allocation, &pool.Allocation},
		{def.Available, &pool.Available},
	} {
		if size.of != nil {
			*size.into = size.of.Value
		}
	}
	return pool, nil
}

// DefinePool defines a pool, without starting it, or changes the definition of the
// one of the same name and UUID. It is errors.AlreadyExists when there is one of the
// name that has another UUID, or whose UUID is not in the definition.
func (c *Client) DefinePool(ctx context.Context, definition string) error {
	err := act(ctx, c, func(lv *libvirt.Libvirt) error {
		_, err := lv.StoragePoolDefineXML(definition, 0)
		return err
	})
	name := nameIn(definition)
	if code(err, libvirt.ErrOperationFailed) {
		// That is for the same name, and for others of the same target as well.
		if _, look := c.lookupPool(ctx, name); look == nil {
			err = errors.WithType(err, errors.AlreadyExists)
		}
	}
	return errors.Annotatef(err, "defining storage pool %q", name)
}

// BuildPool makes what a pool needs: the directory, for one of type "dir", where one
// that is there is success.
func (c *Client) BuildPool(ctx context.Context, name string) error {
	err := c.onPool(ctx, name, func(lv *libvirt.Libvirt, pool libvirt.StoragePool) error {
		return lv.StoragePoolBuild(pool, libvirt.StoragePoolBuildNew)
	})
	return errors.Annotatef(err, "building storage pool %q", name)
}

// StartPool starts one. One that is active is success.
func (c *Client) StartPool(ctx context.Context, name string) error {
	err := c.onPool(ctx, name, func(lv *libvirt.Libvirt, pool libvirt.StoragePool) error {
		return lv.StoragePoolCreate(pool, libvirt.StoragePoolCreateNormal)
	})
	return errors.Annotatef(c.unlessPool(ctx, name, true, err), "starting storage pool %q", name)
}

// StopPool stops one; its volumes stay. One that is not active is success.
func (c *Client) StopPool(ctx context.Context, name string) error {
	err := c.onPool(ctx, name, (*libvirt.Libvirt).StoragePoolDestroy)
	return errors.Annotatef(c.unlessPool(ctx, name, false, err), "stopping storage pool %q", name)
}

// SetPoolAutostart has the daemon start a pool by itself, or not.
func (c *Client) SetPoolAutostart(ctx context.Context, name string, autostart bool) error {
	err := c.onPool(ctx, name, func(lv *libvirt.Libvirt, pool libvirt.StoragePool) error {
		return lv.StoragePoolSetAutostart(pool, number(autostart))
	})
	return errors.Annotatef(err, "setting autostart of storage pool %q", name)
}

// RefreshPool has libvirt look for volumes that came and went without it, and for the
// space that is left.
func (c *Client) RefreshPool(ctx context.Context, name string) error {
	err := c.onPool(ctx, name, func(lv *libvirt.Libvirt, pool libvirt.StoragePool) error {
		return lv.StoragePoolRefresh(pool, 0)
	})
	return errors.Annotatef(err, "refreshing storage pool %q", name)
}

// UndefinePool has libvirt forget one that is not active. Its volumes stay.
func (c *Client) UndefinePool(ctx context.Context, name string) error {
	err := c.onPool(ctx, name, (*libvirt.Libvirt).StoragePoolUndefine)
	return errors.Annotatef(err, "undefining storage pool %q", name)
}

func (c *Client) onPool(ctx context.Context, name string, f func(*libvirt.Libvirt, libvirt.StoragePool) error) error {
	pool, err := c.lookupPool(ctx, name)
	if err != nil {
		return err
	}
	return act(ctx, c, func(lv *libvirt.Libvirt) error { return f(lv, pool) })
}

// unlessPool returns err unless it is the refusal of what is so already.
func (c *Client) unlessPool(ctx context.Context, name string, active bool, err error) error {
	if refused(err) {
		if pool, look := c.Pool(ctx, name); look == nil && pool.Active == active {
			return nil
		}
	}
	return err
}
