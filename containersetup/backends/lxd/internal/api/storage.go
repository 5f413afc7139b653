package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/juju/errors"
)

// StoragePool is where instances and images have their files.
type StoragePool struct {
	Name        string            `json:"name"`
	Driver      string            `json:"driver"`
	Description string            `json:"description"`
	Config      map[string]string `json:"config"`
	// Status is "Created" for one that is complete.
	Status string `json:"status,omitempty"`
	// UsedBy are the paths of what uses it.
	UsedBy []string `json:"used_by,omitempty"`
}

// everything asks for the things of a collection, not for their paths.
func everything() url.Values { return url.Values{"recursion": {"1"}} }

// StoragePools returns all of them.
func (c *Client) StoragePools(ctx context.Context) ([]StoragePool, error) {
	var pools []StoragePool
	_, err := c.get(ctx, request{path: "/1.0/storage-pools", query: everything(), limit: maxList}, &pools)
	return pools, errors.Annotate(err, "listing storage pools")
}

// StoragePool returns one, or errors.NotFound.
func (c *Client) StoragePool(ctx context.Context, name string) (StoragePool, error) {
	part, err := segment("storage pool", name)
	if err != nil {
		return StoragePool{}, err
	}
	var pool StoragePool
	_, err = c.get(ctx, request{path: "/1.0/storage-pools/" + part}, &pool)
	return pool, errors.Annotatef(err, "storage pool %q", name)
}

// CreateStoragePool makes one. It returns errors.AlreadyExists when there is one
// of that name.
func (c *Client) CreateStoragePool(ctx context.Context, pool StoragePool) error {
	if _, err := segment("storage pool", pool.Name); err != nil {
		return err
	}
	pool.Status, pool.UsedBy = "", nil
	_, err := c.change(ctx, request{
		method:  http.MethodPost,
		path:    "/1.0/storage-pools",
		body:    pool,
		configs: []map[string]string{pool.Config},
	})
	return errors.Annotatef(err, "creating storage pool %q", pool.Name)
}

// DeleteStoragePool removes one that nobody uses, or returns errors.NotFound.
func (c *Client) DeleteStoragePool(ctx context.Context, name string) error {
	part, err := segment("storage pool", name)
	if err != nil {
		return err
	}
	_, err = c.change(ctx, request{method: http.MethodDelete, path: "/1.0/storage-pools/" + part})
	return errors.Annotatef(err, "deleting storage pool %q", name)
}
