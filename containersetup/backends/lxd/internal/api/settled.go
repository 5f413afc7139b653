package api

import (
	"context"
	"maps"
	"slices"

	"github.com/juju/errors"
)

// Settled waits until no operation is under way on an instance, whoever began it: a
// call that was cut short leaves its operation to LXD, which lets nobody else touch the
// instance meanwhile. How the operations ended is not told; look at what is there.
func (c *Client) Settled(ctx context.Context, name string) error {
	path, err := instancePath(name)
	if err != nil {
		return err
	}
	return c.within(ctx, c.config.OperationTimeout, func(ctx context.Context) error {
		return errors.Annotatef(c.settled(ctx, path), "waiting for what goes on with instance %q", name)
	})
}

func (c *Client) settled(ctx context.Context, path string) error {
	// LXD has them by their state: "running", "success", ...
	var operations map[string][]struct {
		ID         string              `json:"id"`
		Class      string              `json:"class"`
		StatusCode int                 `json:"status_code"`
		Resources  map[string][]string `json:"resources"`
	}
	if _, err := c.get(ctx, request{path: "/1.0/operations", query: everything(), limit: maxList}, &operations); err != nil {
		return err
	}
	for _, state := range slices.Sorted(maps.Keys(operations)) {
		for _, op := range operations[state] {
			on := slices.Concat(op.Resources["instances"], op.Resources["containers"])
			if op.Class != "task" || op.StatusCode >= statusSuccess || !slices.Contains(on, path) {
				continue
			}
			_, err := c.wait(ctx, "/1.0/operations/"+op.ID, nil)
			if err != nil && !refused(err) && !errors.Is(err, ErrOperationLost) {
				return err
			}
		}
	}
	return nil
}
