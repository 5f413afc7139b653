package machinelock

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// DefaultPoll is the default of Config.Poll.
const DefaultPoll = 250 * time.Millisecond

// Config is what a [Lock] works with.
type Config struct {
	// Path is the lock file, whose name is the host's choice, such as
	// /var/lib/agent/locks/machine-lock. It is absolute, and its directory
	// exists.
	Path string
	// Clock is where time comes from.
	Clock clock.Clock
	// Logger hears when the lock has to be waited for, and when its file was
	// tampered with; nil discards.
	Logger *slog.Logger
	// Poll is how often a lock that another process holds is tried; 250 ms
	// by default. Each wait is between half and one and a half of it, so that
	// processes which began to wait together do not go on trying together.
	Poll time.Duration
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil. It does not look at the disk.
func (c Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.NotValidf("empty Path")
	case !filepath.IsAbs(c.Path):
		return errors.NotValidf("Path %q (want an absolute one)", c.Path)
	case filepath.Clean(c.Path) != c.Path:
		return errors.NotValidf("Path %q (want %q)", c.Path, filepath.Clean(c.Path))
	case c.Path == filepath.Dir(c.Path):
		return errors.NotValidf("Path %q (want a file)", c.Path)
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.Poll < 0:
		return errors.NotValidf("negative Poll")
	}
	return nil
}
