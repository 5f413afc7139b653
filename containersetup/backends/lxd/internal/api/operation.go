package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
)

const (
	// slice is for how long one request waits for an operation.
	slice = 10 * time.Second
	// away is for how long a daemon may be away during a wait.
	away = 2 * time.Minute
	// firstPause and lastPause are between two attempts to reach a daemon.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Codes of LXD for the status of operations and instances.
const (
	StatusStopped  = 102
	StatusRunning  = 103
	StatusPending  = 105
	StatusStarting = 106
	StatusStopping = 107
	StatusFrozen   = 110
	StatusError    = 112

	statusSuccess   = 200
	statusFailure   = 400
	statusCancelled = 401
)

// operation is what LXD does in the background.
type operation struct {
	Status     string          `json:"status"`
	StatusCode int             `json:"status_code"`
	Err        string          `json:"err"`
	Metadata   json.RawMessage `json:"metadata"`
}

// wait waits until an operation has ended, or the context has.
func (c *Client) wait(ctx context.Context, path string, configs []map[string]string) (*operation, error) {
	id, err := operationID(path)
	if err != nil {
		return nil, err
	}
	r := request{
		method:  http.MethodGet,
		path:    "/1.0/operations/" + id + "/wait",
		query:   url.Values{"timeout": {strconv.Itoa(int(slice / time.Second))}},
		configs: configs,
	}
	var (
		gone  time.Time // since when nobody answers
		pause = firstPause
	)
	for {
		// The deadline is the daemon's; this one is for a daemon that hangs.
		a, err := c.ask(ctx, slice+c.config.CallTimeout, r)
		switch {
		case err == nil:
			var op operation
			if err := decode(r.path, a.Metadata, &op); err != nil {
				return nil, err
			}
			if done, err := op.ended(configs); done {
				return &op, err
			}
			gone, pause = time.Time{}, firstPause
			// A daemon that answers at once that it is not done is not asked at
			// once.
			if err := c.sleep(ctx, firstPause); err != nil {
				return nil, err
			}
			continue
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errors.NotFound):
			return nil, lost(err)
		case !passing(err):
			return nil, err
		}
		// Restarting, or about to.
		now := c.config.Clock.Now()
		if gone.IsZero() {
			gone = now
		} else if now.Sub(gone) >= away {
			return nil, lost(err)
		}
		if err := c.sleep(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, lastPause)
	}
}

// lost returns the error of an operation that cannot be asked for any more. It
// does not keep the kind of what was answered: that an operation is not found
// must not pass for an instance that is not found.
func lost(err error) error {
	return errors.WithType(errors.Errorf("%s: %v", ErrOperationLost, err), ErrOperationLost)
}

// passing tells whether a daemon that restarts gives such an error.
func passing(err error) bool {
	return errors.Is(err, errors.NotYetAvailable) || errors.Is(err, ErrNoReply) || errors.Is(err, errors.Timeout)
}

// ended tells whether an operation has ended, and with what error.
func (op *operation) ended(configs []map[string]string) (bool, error) {
	switch {
	case op.StatusCode == statusSuccess:
		return true, nil
	case op.StatusCode == statusCancelled:
		return true, &Error{Message: "operation was cancelled"}
	case op.StatusCode >= statusFailure:
		return true, &Error{Message: oneLine(redact(op.Err, configs))}
	}
	return false, nil
}

// sleep waits for d, or until the context ends.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := c.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.Chan():
		return nil
	}
}

// operationID returns an operation's id from its path.
func operationID(path string) (string, error) {
	id, ok := strings.CutPrefix(path, "/1.0/operations/")
	id, _, _ = strings.Cut(id, "?") // the project
	plain := strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
	if !ok || id == "" || len(id) > 64 || !plain {
		return "", errors.Errorf("answer without the path of an operation")
	}
	return id, nil
}
