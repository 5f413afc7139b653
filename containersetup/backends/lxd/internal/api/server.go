package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/juju/errors"
)

// readyTimeout is for how long one of the questions of WaitReady may take.
const readyTimeout = 5 * time.Second

// Server is what the daemon tells of itself.
type Server struct {
	Version       string
	APIExtensions []string
	// Trusted tells whether the daemon lets this process do things.
	Trusted bool
	// Config is the server's; a password that is set shows as "true".
	Config map[string]string
	// Architectures are those that instances may have, in LXD's words
	// ("x86_64"), the machine's own first.
	Architectures []string
	// StorageDrivers are those that pools can be made with.
	StorageDrivers []string
	// Firewall is "nftables" or "xtables".
	Firewall string
	// Clustered tells whether it is a member of a cluster.
	Clustered bool
}

// Has tells whether the daemon has an API extension.
func (s Server) Has(extension string) bool { return slices.Contains(s.APIExtensions, extension) }

// serverJSON is LXD's form of a Server.
type serverJSON struct {
	APIExtensions []string       `json:"api_extensions"`
	Auth          string         `json:"auth"`
	Config        map[string]any `json:"config"`
	Environment   struct {
		ServerVersion   string   `json:"server_version"`
		Architectures   []string `json:"architectures"`
		Firewall        string   `json:"firewall"`
		ServerClustered bool     `json:"server_clustered"`
		StorageDrivers  []struct {
			Name string
		} `json:"storage_supported_drivers"`
	} `json:"environment"`
}

// Server returns what the daemon tells of itself.
func (c *Client) Server(ctx context.Context) (Server, error) {
	server, err := c.server(ctx, c.config.CallTimeout)
	return server, errors.Annotate(err, "asking LXD what it is")
}

func (c *Client) server(ctx context.Context, limit time.Duration) (Server, error) {
	a, err := c.ask(ctx, limit, request{method: http.MethodGet, path: "/1.0"})
	if err != nil {
		return Server{}, err
	}
	var raw serverJSON
	if err := decode("/1.0", a.Metadata, &raw); err != nil {
		return Server{}, err
	}
	s := Server{
		Version:       raw.Environment.ServerVersion,
		APIExtensions: raw.APIExtensions,
		Trusted:       raw.Auth == "trusted",
		Config:        make(map[string]string, len(raw.Config)),
		Architectures: raw.Environment.Architectures,
		Firewall:      raw.Environment.Firewall,
		Clustered:     raw.Environment.ServerClustered,
	}
	for key, value := range raw.Config {
		s.Config[key] = fmt.Sprint(value)
	}
	for _, driver := range raw.Environment.StorageDrivers {
		s.StorageDrivers = append(s.StorageDrivers, driver.Name)
	}
	return s, nil
}

// WaitReady returns when the daemon answers. It asks again and again, whatever is
// wrong, until the context ends: just after an installation there is no socket,
// then one that others may not use yet, then a daemon that refuses to be asked.
// Then the error is the context's and has the last one's text; it is
// errors.Timeout if the context had a deadline.
func (c *Client) WaitReady(ctx context.Context) error {
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause/2) {
		_, err := c.server(ctx, readyTimeout)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
			err = c.sleep(ctx, pause)
		}
		if ended := ctx.Err(); ended != nil {
			err = errors.Annotate(ended, "waiting for LXD")
			if last != nil {
				err = errors.Annotatef(ended, "waiting for LXD (%v)", last)
			}
			if errors.Is(ended, context.DeadlineExceeded) {
				err = errors.WithType(err, errors.Timeout)
			}
			return err
		}
		if err != nil {
			return err
		}
	}
}

// PatchServerConfig sets keys of the daemon's configuration, and leaves the
// others as they are. An empty value takes a key away.
func (c *Client) PatchServerConfig(ctx context.Context, set map[string]string) error {
	_, err := c.change(ctx, request{
		method:  http.MethodPatch,
		path:    "/1.0",
		body:    map[string]any{"config": set},
		configs: []map[string]string{set},
	})
	return errors.Annotate(err, "configuring LXD")
}
