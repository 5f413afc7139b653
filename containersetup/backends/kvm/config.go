package kvm

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Defaults of the optional fields of [Config].
const (
	DefaultSocket        = "/var/run/libvirt/libvirt-sock"
	DefaultPool          = "sutler"
	DefaultNetwork       = "default"
	DefaultReadyTimeout  = 2 * time.Minute
	DefaultCallTimeout   = 30 * time.Second
	DefaultChangeTimeout = 2 * time.Minute
	DefaultFetchTimeout  = 30 * time.Minute
	DefaultStopTimeout   = time.Minute
)

// Networking is how virtual machines get to a network.
type Networking string

const (
	// Local puts them on a network of libvirt's, or on a bridge of this host.
	Local Networking = "local"
	// Provider leaves it to the controller: each machine's interfaces name the bridges
	// that they are on, and no network is needed here.
	Provider Networking = "provider"
)

// Config is what the back end is made with. ModelUUID, ControllerUUID and StateDir are
// required.
type Config struct {
	// ModelUUID and ControllerUUID are whose machines these are. Domains of other models
	// on the same host are never touched.
	ModelUUID, ControllerUUID string
	// StateDir is a folder of the agent's own, where it is recorded what was done to the
	// host, so that it can be undone. It is made if need be. Unless Pool.Dir names another
	// place, images are in there, so that the hypervisor's user has to get through
	// all folders above it.
	StateDir string

	// Host is the machine; the one that this program runs on by default. Images are read
	// and written beside it, by this program itself.
	Host host.Host
	// Socket is where libvirtd listens; "/var/run/libvirt/libvirt-sock" by default.
	Socket string
	// Clock is where time comes from; the wall clock by default.
	Clock clock.Clock
	// Logger hears what is done; nil discards.
	Logger *slog.Logger

	// Pool is where images are.
	Pool PoolConfig
	// Network is what machines are on.
	Network NetworkConfig
	// Images has where the image of a base comes from, by "NAME/TRACK", such as
	// "ubuntu/22.04". One that is not in it has to be named by the container's attributes.
	Images map[string]Image
	// AllowEmulation has machines be emulated by software where the processor cannot run
	// them. They are slower by ten times and more.
	AllowEmulation bool

	// ReadyTimeout is for how long a daemon that was just installed or restarted is
	// waited for; 2 min by default.
	ReadyTimeout time.Duration
	// CallTimeout is for one question to the daemon, ChangeTimeout for one change; 30 s
	// and 2 min by default.
	CallTimeout, ChangeTimeout time.Duration
	// FetchTimeout is for fetching an image; 30 min by default.
	FetchTimeout time.Duration
	// StopTimeout is for how long a machine may take to shut down before it is switched
	// off; 1 min by default.
	StopTimeout time.Duration

	// connect returns a connection to the daemon, which need not be there.
	connect func(Config) (daemon, error)
}

// PoolConfig is about the storage pool of type "dir" that images are in.
type PoolConfig struct {
	// Name is its name; "sutler" by default. One that is there already is used where it
	// is.
	Name string
	// Dir is its folder; "images" in StateDir by default. A pool of the name that is
	// elsewhere is errors.AlreadyExists, if this is set.
	Dir string
}

// NetworkConfig is about what interfaces are on that name no parent.
type NetworkConfig struct {
	// Networking is [Local] by default.
	Networking Networking
	// Name is a network of libvirt's, which is started if need be; "default" by default.
	// errors.NotFound if it is not there.
	Name string
	// Bridge is a bridge of the host's to be used instead; errors.NotFound if it is not
	// there. None by default.
	Bridge string
}

// Image is where a base image comes from: qcow2, or raw with a boot sector.
type Image struct {
	// URL is file:///PATH, http://... or https://...
	URL string
	// SHA256 is its checksum in hex.
	SHA256 string
	// Size is in bytes; 0 if it is not known.
	Size uint64
}

func (i Image) source() images.Source {
	return images.Source{URL: i.URL, SHA256: i.SHA256, Size: i.Size}
}

// baseOf is what Images has the image of a base under.
func baseOf(base facade.Base) string {
	track, _, _ := strings.Cut(base.Channel, "/")
	return base.Name + "/" + track
}

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
		return errors.NotValidf("ControllerUUID %q (want a UUID)", shortened(c.ControllerUUID))
	}
	switch {
	case !filepath.IsAbs(c.StateDir):
		return errors.NotValidf("StateDir %q (want an absolute path)", c.StateDir)
	case c.Socket != "" && !filepath.IsAbs(c.Socket):
		return errors.NotValidf("Socket %q (want an absolute path)", c.Socket)
	case c.Pool.Name != "" && !validName(c.Pool.Name):
		return errors.NotValidf("Pool.Name %q", shortened(c.Pool.Name))
	case c.Pool.Dir != "" && !filepath.IsAbs(c.Pool.Dir):
		return errors.NotValidf("Pool.Dir %q (want an absolute path)", shortened(c.Pool.Dir))
	case c.ReadyTimeout < 0, c.CallTimeout < 0, c.ChangeTimeout < 0, c.FetchTimeout < 0, c.StopTimeout < 0:
		return errors.NotValidf("negative time-out")
	}
	for base, image := range c.Images {
		if name, track, ok := strings.Cut(base, "/"); !ok || name == "" || track == "" {
			return errors.NotValidf("Images[%q] (want NAME/TRACK)", shortened(base))
		}
		if err := image.source().Validate(); err != nil {
			return errors.Annotatef(err, "Images[%q]", base)
		}
	}
	return c.Network.validate()
}

func (n NetworkConfig) validate() error {
	switch n.Networking {
	case "", Local, Provider:
	default:
		return errors.NotValidf("Network.Networking %q (want local or provider)", shortened(string(n.Networking)))
	}
	switch {
	case n.Name != "" && !validName(n.Name):
		return errors.NotValidf("Network.Name %q", shortened(n.Name))
	case n.Bridge != "" && !validInterface(n.Bridge):
		return errors.NotValidf("Network.Bridge %q (want an interface's name, 2 to 15 characters)", shortened(n.Bridge))
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
	if c.connect == nil {
		c.connect = connect
	}
	c.Socket = cmp.Or(c.Socket, DefaultSocket)
	c.Pool.Name = cmp.Or(c.Pool.Name, DefaultPool)
	c.Network.Networking = cmp.Or(c.Network.Networking, Local)
	c.Network.Name = cmp.Or(c.Network.Name, DefaultNetwork)
	c.ReadyTimeout = cmp.Or(c.ReadyTimeout, DefaultReadyTimeout)
	c.CallTimeout = cmp.Or(c.CallTimeout, DefaultCallTimeout)
	c.ChangeTimeout = cmp.Or(c.ChangeTimeout, DefaultChangeTimeout)
	c.FetchTimeout = cmp.Or(c.FetchTimeout, DefaultFetchTimeout)
	c.StopTimeout = cmp.Or(c.StopTimeout, DefaultStopTimeout)
	return c
}

// dir is the folder of a pool that is to be made.
func (c Config) dir() string {
	return filepath.Clean(cmp.Or(c.Pool.Dir, filepath.Join(c.StateDir, "images")))
}

// String keeps addresses of images, which may have passwords in them, out of logs.
func (c Config) String() string { return fmt.Sprintf("KVM for model %s", c.ModelUUID) }
