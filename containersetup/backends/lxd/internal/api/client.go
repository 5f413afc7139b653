package api

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// Defaults of Config.
const (
	DefaultCallTimeout      = 30 * time.Second
	DefaultOperationTimeout = 10 * time.Minute
)

// maxSocketPath is what fits into a unix socket's address on Linux.
const maxSocketPath = 107

// Config is what a client is made from.
type Config struct {
	// Socket is the absolute path of the daemon's socket. It need not be there
	// yet.
	Socket string
	// Clock is what deadlines are measured on.
	Clock clock.Clock
	// CallTimeout is for how long a plain question may take;
	// [DefaultCallTimeout] by default.
	CallTimeout time.Duration
	// OperationTimeout is for how long a change may take, the wait for its
	// operation included; [DefaultOperationTimeout] by default.
	OperationTimeout time.Duration
}

// Validate returns errors.NotValid, naming the field.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.Socket):
		return errors.NotValidf("Socket %q (want an absolute path)", c.Socket)
	case len(c.Socket) > maxSocketPath:
		return errors.NotValidf("Socket of %d bytes (a unix socket's path has %d at most)", len(c.Socket), maxSocketPath)
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.CallTimeout < 0:
		return errors.NotValidf("negative CallTimeout")
	case c.OperationTimeout < 0:
		return errors.NotValidf("negative OperationTimeout")
	}
	return nil
}

// Client is a client of one daemon.
type Client struct {
	config Config
	http   *http.Client
}

// New returns a client. It does not connect: a daemon that is not there is told
// by the first call.
func New(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if config.CallTimeout == 0 {
		config.CallTimeout = DefaultCallTimeout
	}
	if config.OperationTimeout == 0 {
		config.OperationTimeout = DefaultOperationTimeout
	}
	var dialer net.Dialer
	return &Client{
		config: config,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return dialer.DialContext(ctx, "unix", config.Socket)
				},
				// A connection costs next to nothing here, and one that is kept
				// may turn out to be a former daemon's, when it is too late to
				// tell whether a request was carried out.
				DisableKeepAlives:      true,
				MaxResponseHeaderBytes: 64 << 10,
			},
			// LXD redirects nobody.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close lets go of connections that nobody uses. Calls that are under way are
// not disturbed.
func (c *Client) Close() { c.http.CloseIdleConnections() }
