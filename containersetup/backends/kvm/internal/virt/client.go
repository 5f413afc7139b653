package virt

import (
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// Defaults of Config.
const (
	DefaultURI              = "qemu:///system"
	DefaultCallTimeout      = 30 * time.Second
	DefaultOperationTimeout = 2 * time.Minute
)

// maxSocketPath is what fits into a unix socket's address on Linux.
const maxSocketPath = 107

// Config is what a client is made from.
type Config struct {
	// Socket is the absolute path of libvirtd's socket, such as
	// /run/libvirt/libvirt-sock. It need not be there yet.
	Socket string
	// URI names the driver within the daemon; [DefaultURI] by default.
	URI string
	// Clock is what deadlines are measured on.
	Clock clock.Clock
	// CallTimeout is for how long a plain question may take, the connection
	// included; [DefaultCallTimeout] by default.
	CallTimeout time.Duration
	// OperationTimeout is for how long a change may take;
	// [DefaultOperationTimeout] by default.
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
	dialer net.Dialer
	// dialling is held by the call that makes a connection.
	dialling chan struct{}
	// work are the goroutines of calls, those that nobody waits for any more
	// included.
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// current is the session that new calls use, or nil.
	current *session
	// sessions are all whose connection has not been closed yet.
	sessions map[*session]struct{}
}

// New returns a client. It does not connect: a daemon that is not there is told
// by the first call.
func New(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if config.URI == "" {
		config.URI = DefaultURI
	}
	if config.CallTimeout == 0 {
		config.CallTimeout = DefaultCallTimeout
	}
	if config.OperationTimeout == 0 {
		config.OperationTimeout = DefaultOperationTimeout
	}
	return &Client{
		config:   config,
		dialling: make(chan struct{}, 1),
		sessions: map[*session]struct{}{},
	}, nil
}

// Socket returns the path of the daemon's socket.
func (c *Client) Socket() string { return c.config.Socket }

// Close closes all connections and waits for what uses them: a call that is
// under way fails, and so does every later one. It may be called twice.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.current = nil
	for s := range c.sessions {
		c.drop(s)
	}
	c.mu.Unlock()
	c.work.Wait()
}
