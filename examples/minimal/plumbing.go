package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sutler-dev/sutler/operator"
)

// show prints how the application's operator is doing, whenever that changes,
// until ctx ends. It asks every moment: a manager's watcher tells of
// configurations that change, not of processes.
func show(ctx context.Context, manager operator.Manager, app string, out io.Writer) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for last := ""; ; {
		status := "none yet"
		if op, err := manager.Operator(ctx, app); err == nil {
			status = string(op.Status.Phase)
		}
		if status != last && ctx.Err() == nil {
			last = status
			fmt.Fprintf(out, "operator of %s: %s\n", app, status)
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(out, "stopping")
			return
		case <-tick.C:
		}
	}
}
