package hostnet

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// Way is by what a host's network is configured.
type Way string

const (
	// Auto looks for each device: netplan if its files mention it, else ifupdown if
	// its files do, else the kernel alone.
	Auto Way = ""
	// Netplan rewrites netplan's files and has them applied.
	Netplan Way = "netplan"
	// Ifupdown rewrites ifupdown's files, takes the device down and the bridge up.
	Ifupdown Way = "ifupdown"
	// Netlink tells the kernel, and no one else: after a reboot all is as before.
	Netlink Way = "netlink"
)

// Validate returns errors.NotValid for anything else.
func (w Way) Validate() error {
	switch w {
	case Auto, Netplan, Ifupdown, Netlink:
		return nil
	}
	return errors.NotValidf("Way %q (want netplan, ifupdown, netlink or nothing)", string(w)[:min(len(w), 40)])
}

// Defaults of the optional fields of [BridgerConfig].
const (
	DefaultInterfacesFile  = "/etc/network/interfaces"
	DefaultVerifyTimeout   = 30 * time.Second
	DefaultToolTimeout     = 2 * time.Minute
	DefaultRollbackTimeout = 2 * time.Minute
)

// BridgerConfig is what a [Bridger] works with. Host, Clock and StateDir are required.
type BridgerConfig struct {
	// Host is where files are and commands run. The kernel is told directly, so a dry
	// run of the host does not keep a Bridger from changing the network.
	Host host.Host
	// Clock is where time comes from.
	Clock clock.Clock
	// StateDir is a directory for this package alone, made with mode 0700 when it is
	// missing. It outlives a reboot: what it takes to put all back is there while
	// something is being changed, and the original of every configuration file that
	// ever was.
	StateDir string
	// Logger hears what was changed and what was put back; nil discards.
	Logger *slog.Logger

	// Watchdog is a program, by path, and its arguments, that calls [RunWatchdog] for
	// the same StateDir. It is started, in a session of its own, before anything
	// changes, and puts all back when this process dies meanwhile or takes too long.
	// Without one that is left to [Bridger.Recover] of the next process.
	Watchdog []string
	// Way is by what the network is configured; [Auto] by default.
	Way Way
	// Namespace is the path of a network namespace, such as /run/netns/NAME; this
	// process's own by default. Commands run where Host runs them.
	Namespace string
	// ContainerBridges are names of bridges that serve containers, beside those that
	// are known by their names.
	ContainerBridges []string
	// InterfacesFile is ifupdown's; [DefaultInterfacesFile] by default.
	InterfacesFile string
	// IfupdownArgs are further arguments of ifup and ifdown.
	IfupdownArgs []string
	// NetplanRoot is the directory under which netplan's are found; / by default.
	NetplanRoot string

	// VerifyTimeout is for how long addresses and routes may be missing after the
	// change, as those from DHCP; 30 s by default.
	VerifyTimeout time.Duration
	// ToolTimeout is for how long netplan, ifup or ifdown may run; 2 min by default.
	ToolTimeout time.Duration
	// RollbackTimeout is for how long putting back may take; 2 min by default.
	RollbackTimeout time.Duration
}

// Validate returns errors.NotValid that names the first field that is missing or
// impossible, or nil.
func (c BridgerConfig) Validate() error {
	switch {
	case c.Host == nil:
		return errors.NotValidf("nil Host")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.VerifyTimeout < 0:
		return errors.NotValidf("negative VerifyTimeout")
	case c.ToolTimeout < 0:
		return errors.NotValidf("negative ToolTimeout")
	case c.RollbackTimeout < 0:
		return errors.NotValidf("negative RollbackTimeout")
	case len(c.Watchdog) > 0 && !filepath.IsAbs(c.Watchdog[0]):
		return errors.NotValidf("Watchdog[0] %q (want an absolute path)", c.Watchdog[0])
	}
	if err := validateStateDir(c.StateDir); err != nil {
		return err
	}
	for name, path := range map[string]string{"InterfacesFile": c.InterfacesFile, "NetplanRoot": c.NetplanRoot} {
		if path != "" && !filepath.IsAbs(path) {
			return errors.NotValidf("%s %q (want an absolute path)", name, path)
		}
	}
	if err := c.Way.Validate(); err != nil {
		return err
	}
	return validateNamespace(c.Namespace)
}

func validateStateDir(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
		return errors.NotValidf("StateDir %q (want an absolute path of its own)", dir)
	}
	return nil
}

// withDefaults returns the config with every optional field set.
func (c BridgerConfig) withDefaults() BridgerConfig {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.InterfacesFile == "" {
		c.InterfacesFile = DefaultInterfacesFile
	}
	for d, value := range map[*time.Duration]time.Duration{
		&c.VerifyTimeout:   DefaultVerifyTimeout,
		&c.ToolTimeout:     DefaultToolTimeout,
		&c.RollbackTimeout: DefaultRollbackTimeout,
	} {
		if *d == 0 {
			*d = value
		}
	}
	return c
}
