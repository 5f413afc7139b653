package lxd

import (
	"cmp"
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/container"
)

// Defaults of the optional fields of [Config].
const (
	DefaultPool         = "default"
	DefaultDriver       = "dir"
	DefaultBridge       = "lxdbr0"
	DefaultReadyTimeout = 2 * time.Minute
	DefaultCallTimeout  = 30 * time.Second
	DefaultCreate       = 30 * time.Minute
	DefaultStopTimeout  = 30 * time.Second
)

// Networking is how containers get to a network.
type Networking string

const (
	// Local puts containers on a bridge of this host, behind its address.
	Local Networking = "local"
	// Provider leaves it to the controller: each container's interfaces name the
	// bridges that they are on, and no bridge is made here.
	Provider Networking = "provider"
)

// Config is what the back end is made with. ModelUUID, ControllerUUID and StateDir are
// required.
type Config struct {
	// ModelUUID and ControllerUUID are whose containers these are. Instances of other
	// models on the same host are never touched.
	ModelUUID, ControllerUUID string
	// StateDir is a folder of the agent's own, where it is recorded what was done to
	// the host, so that it can be undone. It is made if need be.
	StateDir string

	// Host is the machine; the one that this program runs on by default.
	Host host.Host
	// Socket is where the daemon listens; by default it is looked for where Debian's
	// package, the snap and the variable LXD_DIR have it.
	Socket string
	// Clock is where time comes from; the wall clock by default.
	Clock clock.Clock
	// Logger hears what is done; nil discards.
	Logger *slog.Logger

	// Network is about the bridge that containers are on.
	Network NetworkConfig
	// Storage is about the pool that is made if there is none.
	Storage StorageConfig
	// Images is where images come from.
	Images ImageConfig
	// Proxy is how the daemon gets to the world; what is empty is left as it is.
	Proxy ProxyConfig
	// Channel is that of the snap, on Ubuntu; snap's default if empty.
	Channel string
	// CacheDays is for how many days the daemon keeps an image that nobody uses; what
	// it does anyway if 0.
	CacheDays int

	// ReadyTimeout is for how long a daemon that was just installed or started is
	// waited for; 2 min by default.
	ReadyTimeout time.Duration
	// CallTimeout is for one request to the daemon; 30 s by default.
	CallTimeout time.Duration
	// CreateTimeout is for fetching an image and for making an instance from it, each;
	// 30 min by default.
	CreateTimeout time.Duration
	// StopTimeout is for how long a container may take to shut down before it is
	// switched off; 30 s by default.
	StopTimeout time.Duration
}

// NetworkConfig is about the bridge that containers without a parent are on.
type NetworkConfig struct {
	// Networking is [Local] by default.
	Networking Networking
	// Existing is a bridge that is there already, LXD's own or any other; errors.NotFound
	// if it is not. None by default: then the first managed bridge that LXD has is used,
	// and one is made if it has none.
	Existing string
	// Bridge is the name of the one to be made; "lxdbr0" by default.
	Bridge string
	// Subnet is that of the bridge to be made; by default a free one from Pool. One that
	// overlaps an address or a route of the host is errors.NotValid.
	Subnet netip.Prefix
	// Pool has the ranges to choose from; 10.0.0.0/8 by default.
	Pool []netip.Prefix
	// Bits is the prefix length of a chosen subnet; 24 by default.
	Bits int
	// IPv6 has the bridge have an IPv6 subnet, too, from Pool6 (fd00::/8 by default).
	IPv6  bool
	Pool6 []netip.Prefix
}

// StorageConfig is about the storage pool that is made if there is none.
type StorageConfig struct {
	// Pool is its name; "default" by default.
	Pool string
	// Driver is its kind; "dir" by default.
	Driver string
	// Size is in MiB, for drivers that make a file of a fixed size; the driver's own
	// default if 0.
	Size uint64
}

// ImageConfig is where images come from. An image that the daemon has under the alias
// NAME/TRACK, such as "ubuntu/22.04", is used as it is; any other is fetched once, and
// gets that alias.
type ImageConfig struct {
	// Server is the address of an image server; by default Canonical's for Ubuntu and
	// for all other systems.
	Server string
	// Protocol is "simplestreams" (the default) or "lxd".
	Protocol string
}

// ProxyConfig is how the daemon gets to the world.
type ProxyConfig struct {
	// HTTP and HTTPS are addresses of proxies, Ignore a list of hosts with commas.
	HTTP, HTTPS, Ignore string
}

// names is what LXD takes as a name of a pool; interfaceNames what the kernel takes.
func validName(s string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`).MatchString(s)
}

func validInterface(s string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,14}$`).MatchString(s)
}

// Validate returns errors.NotValid, naming the first field that is missing or wrong.
func (c Config) Validate() error {
	if _, err := container.InstancePrefix(c.ModelUUID); err != nil {
		return errors.Annotate(err, "ModelUUID")
	}
	if _, err := container.InstancePrefix(c.ControllerUUID); err != nil {
		return errors.NotValidf("ControllerUUID %q (want a UUID)", c.ControllerUUID)
	}
	switch {
	case !filepath.IsAbs(c.StateDir):
		return errors.NotValidf("StateDir %q (want an absolute path)", c.StateDir)
	case c.Socket != "" && !filepath.IsAbs(c.Socket):
		return errors.NotValidf("Socket %q (want an absolute path)", c.Socket)
	case c.CacheDays < 0:
		return errors.NotValidf("negative CacheDays")
	case c.ReadyTimeout < 0, c.CallTimeout < 0, c.CreateTimeout < 0, c.StopTimeout < 0:
		return errors.NotValidf("negative time-out")
	case c.Storage.Pool != "" && !validName(c.Storage.Pool):
		return errors.NotValidf("Storage.Pool %q", c.Storage.Pool)
	case c.Storage.Driver != "" && !validName(c.Storage.Driver):
		return errors.NotValidf("Storage.Driver %q", c.Storage.Driver)
	case c.Images.Protocol != "" && c.Images.Protocol != "simplestreams" && c.Images.Protocol != "lxd":
		return errors.NotValidf("Images.Protocol %q (want simplestreams or lxd)", c.Images.Protocol)
	}
	if err := c.Images.validate(); err != nil {
		return err
	}
	return c.Network.validate()
}

// validate refuses passwords: LXD quotes the address when something is wrong.
func (i ImageConfig) validate() error {
	if i.Server == "" {
		return nil
	}
	u, err := url.Parse(i.Server)
	if err != nil || u.Host == "" || u.Scheme != "https" || u.User != nil {
		return errors.NotValidf("Images.Server (want https://... without a password)")
	}
	return nil
}

func (n NetworkConfig) validate() error {
	switch n.Networking {
	case "", Local, Provider:
	default:
		return errors.NotValidf("Network.Networking %q (want local or provider)", n.Networking)
	}
	switch {
	case n.Existing != "" && !validInterface(n.Existing):
		return errors.NotValidf("Network.Existing %q (want an interface's name, 2 to 15 characters)", n.Existing)
	case n.Bridge != "" && !validInterface(n.Bridge):
		return errors.NotValidf("Network.Bridge %q (want an interface's name, 2 to 15 characters)", n.Bridge)
	case n.Subnet != (netip.Prefix{}) && (!n.Subnet.IsValid() || !n.Subnet.Addr().Is4() || n.Subnet.Bits() > 30):
		return errors.NotValidf("Network.Subnet %s (want IPv4 with a prefix length of 30 or less)", n.Subnet)
	}
	for i, p := range n.Pool6 {
		if !p.IsValid() || p.Addr().Is4() {
			return errors.NotValidf("Network.Pool6[%d] %s (want IPv6)", i, p)
		}
	}
	for i, p := range n.Pool {
		if !p.IsValid() || !p.Addr().Is4() {
			return errors.NotValidf("Network.Pool[%d] %s (want IPv4)", i, p)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Host == nil {
		c.Host = host.New(host.Config{})
	}
	if c.Clock == nil {
		c.Clock = clock.WallClock
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Network.Networking = cmp.Or(c.Network.Networking, Local)
	c.Network.Bridge = cmp.Or(c.Network.Bridge, DefaultBridge)
	c.Storage.Pool = cmp.Or(c.Storage.Pool, DefaultPool)
	c.Storage.Driver = cmp.Or(c.Storage.Driver, DefaultDriver)
	c.Images.Protocol = cmp.Or(c.Images.Protocol, "simplestreams")
	c.ReadyTimeout = cmp.Or(c.ReadyTimeout, DefaultReadyTimeout)
	c.CallTimeout = cmp.Or(c.CallTimeout, DefaultCallTimeout)
	c.CreateTimeout = cmp.Or(c.CreateTimeout, DefaultCreate)
	c.StopTimeout = cmp.Or(c.StopTimeout, DefaultStopTimeout)
	if c.Network.Pool6 == nil {
		c.Network.Pool6 = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd}), 8)}
	}
	return c
}
