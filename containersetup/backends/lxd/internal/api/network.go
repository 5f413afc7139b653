package api

import (
	"context"
	"net/http"

	"github.com/juju/errors"
)

// Network is one of LXD's own, or an interface of the machine that it sees.
type Network struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	Description string            `json:"description"`
	Config      map[string]string `json:"config"`
	// Managed tells whether it is LXD's own.
	Managed bool `json:"managed,omitempty"`
	// Status of a managed one is "Created" when it is complete.
	Status string `json:"status,omitempty"`
	// UsedBy are the paths of what uses it.
	UsedBy []string `json:"used_by,omitempty"`
}

// Networks returns all of them, those that are not managed included.
func (c *Client) Networks(ctx context.Context) ([]Network, error) {
	var networks []Network
	_, err := c.get(ctx, request{path: "/1.0/networks", query: everything(), limit: maxList}, &networks)
	return networks, errors.Annotate(err, "listing networks")
}

// Network returns one, managed or not, or errors.NotFound.
func (c *Client) Network(ctx context.Context, name string) (Network, error) {
	part, err := segment("network", name)
	if err != nil {
		return Network{}, err
	}
	var network Network
	_, err = c.get(ctx, request{path: "/1.0/networks/" + part}, &network)
	return network, errors.Annotatef(err, "network %q", name)
}

// CreateNetwork makes a managed one. It returns errors.AlreadyExists when there
// is a network or an interface of that name.
func (c *Client) CreateNetwork(ctx context.Context, network Network) error {
	if _, err := segment("network", network.Name); err != nil {
		return err
	}
	network.Managed, network.Status, network.UsedBy = false, "", nil
	_, err := c.change(ctx, request{
		method:  http.MethodPost,
		path:    "/1.0/networks",
		body:    network,
		configs: []map[string]string{network.Config},
	})
	if refused(err) && !errors.Is(err, errors.AlreadyExists) {
		// LXD 5.0 has no code for that.
		if _, look := c.Network(ctx, network.Name); look == nil {
			err = errors.WithType(err, errors.AlreadyExists)
		}
	}
	return errors.Annotatef(err, "creating network %q", network.Name)
}

// DeleteNetwork removes a managed one that nobody uses, or returns
// errors.NotFound.
func (c *Client) DeleteNetwork(ctx context.Context, name string) error {
	part, err := segment("network", name)
	if err != nil {
		return err
	}
	_, err = c.change(ctx, request{method: http.MethodDelete, path: "/1.0/networks/" + part})
	return errors.Annotatef(err, "deleting network %q", name)
}
