package box

import (
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Type is the type of container that a box is.
const Type container.Type = "box"

// DefaultStopTimeout is how long a box has between SIGTERM and SIGKILL where the
// setting [StopTimeoutSetting] does not say.
const DefaultStopTimeout = 5 * time.Second

// StopTimeoutSetting is the key of the one setting that boxes have, a duration
// such as "2s", up to a minute.
const StopTimeoutSetting = "stop-timeout"

const maxStopTimeout = time.Minute

// DirPlaceholder stands for an instance's directory in [Config.Command].
const DirPlaceholder = "{dir}"

// Config is what a [Host] works with; all of it is required.
type Config struct {
	// Dir is where the boxes are. It is made by the Initialiser.
	Dir string
	// ModelUUID is the model that they are for.
	ModelUUID string
	// Command runs a box: a program's path and its arguments, one of which
	// has the placeholder {dir}.
	Command []string
	Clock   clock.Clock
	Logger  *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible.
func (c Config) Validate() error {
	switch {
	case c.Dir == "" || !filepath.IsAbs(c.Dir):
		return errors.NotValidf("Dir %q (want an absolute path)", c.Dir)
	case len(c.Command) == 0 || !slices.Contains(c.Command, DirPlaceholder):
		return errors.NotValidf("Command %q (want a program and %s)", c.Command, DirPlaceholder)
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.Logger == nil:
		return errors.NotValidf("nil Logger")
	}
	_, err := container.InstancePrefix(c.ModelUUID)
	return errors.Annotate(err, "ModelUUID")
}
