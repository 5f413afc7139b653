package box

import (
	"context"
	"crypto/rand"
	"os"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/files"
)

// preparedFile says that the directory is ready for boxes.
const preparedFile = "prepared.yaml"

const maxPrepared = 4 << 10

// preparation is the content of prepared.yaml.
type preparation struct {
	// ID is another one for each time that it was done.
	ID string `yaml:"id"`
	At string `yaml:"at"`
}

// initialiser prepares the directory that boxes are in.
type initialiser struct{ host *Host }

// Probe returns why this machine can have no boxes: errors.NotSupported, or nil
// if it can.
func Probe() error {
	_, err := bootID()
	return err
}

// Initialise is part of container.Initialiser.
func (i initialiser) Initialise(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := Probe(); err != nil {
		return err
	}
	if prepared, err := i.host.prepared(); prepared || err != nil {
		return err
	}
	return errors.Annotate(i.host.prepare(), "preparing for boxes")
}

// prepared says whether there is nothing to do.
func (h *Host) prepared() (bool, error) {
	info, err := os.Stat(h.config.Dir)
	switch {
	case os.IsNotExist(err):
		return false, nil
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, errors.NotValidf("%s (want a directory)", h.config.Dir)
	case info.Mode().Perm() != 0o700:
		return false, nil
	}
	data, err := files.Read(h.preparedPath(), maxPrepared)
	if errors.Is(err, errors.NotFound) || errors.Is(err, errors.NotValid) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var p preparation
	return yaml.Unmarshal(data, &p) == nil && p.ID != "", nil
}

// prepare ends with what prepared looks for, so that it is begun again when it
// was cut short.
func (h *Host) prepare() error {
	if err := os.MkdirAll(h.config.Dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(h.config.Dir, 0o700); err != nil { //nolint:gosec // a directory, of which 0700 is the least
		return err
	}
	data, err := yaml.Marshal(preparation{ID: rand.Text(), At: h.clock.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	if err := files.Write(h.preparedPath(), data); err != nil {
		return err
	}
	h.logger.Info("this machine is prepared for boxes", "dir", h.config.Dir)
	return nil
}
