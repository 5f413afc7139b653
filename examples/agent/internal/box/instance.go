package box

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/examples/agent/internal/files"
	"github.com/sutler-dev/sutler/facade"
)

// Files of an instance.
const (
	recordFile   = "box.yaml"
	userDataFile = "user-data"
	processFile  = "process.yaml"
	logFile      = "box.log"
	lockFile     = "lock"
	socketFile   = "box.sock"
)

// Names of directories that are no instance yet, or no more, begin like this;
// that of the instance follows.
const (
	makingPrefix   = ".making-"
	removingPrefix = ".removing-"
)

const maxRecord = 1 << 20

// record is the content of box.yaml.
type record struct {
	Container string `yaml:"container"`
	Model     string `yaml:"model"`
	// Started tells that the box has been ready: from then on it is to run.
	Started bool `yaml:"started"`
	// Stopping tells that it is to go.
	Stopping bool `yaml:"stopping,omitempty"`

	Base        facade.Base               `yaml:"base"`
	Constraints facade.Constraints        `yaml:"constraints"`
	Nonce       string                    `yaml:"nonce,omitempty"`
	Tags        map[string]string         `yaml:"tags,omitempty"`
	Interfaces  []facade.NetworkInterface `yaml:"interfaces,omitempty"`
}

// readRecord returns errors.NotFound when there is no instance in dir, and
// errors.NotValid for what is no record of one.
func readRecord(dir string) (record, error) {
	data, err := files.Read(filepath.Join(dir, recordFile), maxRecord)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := yaml.Unmarshal(data, &r); err != nil || r.Container == "" {
		return record{}, errors.NotValidf("%s", recordFile)
	}
	return r, nil
}

func (r record) write(dir string) error {
	data, err := yaml.Marshal(r)
	if err != nil {
		return errors.Trace(err)
	}
	return files.Write(filepath.Join(dir, recordFile), data)
}

// instance is one by its name, whether it is there or not.
type instance struct {
	host *Host
	name string
	dir  string
}

func (h *Host) instance(name string) instance {
	return instance{h, name, filepath.Join(h.config.Dir, name)}
}

// make makes the instance's directory, all at once.
func (i instance) make(r record, userData facade.Secret) (err error) {
	dir, err := os.MkdirTemp(i.host.config.Dir, makingPrefix+i.name+"-")
	if err != nil {
		return errors.Annotate(err, "making the directory")
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
			err = errors.Annotate(err, "making the directory")
		}
	}()
	if err := r.write(dir); err != nil {
		return err
	}
	if err := files.Write(filepath.Join(dir, userDataFile), []byte(userData.Reveal())); err != nil {
		return err
	}
	return files.Rename(dir, i.dir)
}

// remove removes the directory, whose process has ended: first its name, then
// the rest. What a crash leaves of that is swept by the next Host.
func (i instance) remove() error {
	trash, err := os.MkdirTemp(i.host.config.Dir, removingPrefix+i.name+"-")
	if err == nil {
		err = files.Rename(i.dir, filepath.Join(trash, "box"))
	}
	if err == nil || os.IsNotExist(err) {
		err = os.RemoveAll(trash)
	}
	return errors.Annotate(err, "removing the directory")
}

// sweep removes what a Host of this model that was killed left of directories
// that were no instances, and of files.
func (h *Host) sweep() {
	files.Sweep(h.config.Dir, preparedFile)
	entries, err := os.ReadDir(h.config.Dir)
	if err != nil {
		return // not made yet
	}
	for _, entry := range entries {
		if h.isName(entry.Name()) {
			// A box itself writes other ones.
			files.Sweep(filepath.Join(h.config.Dir, entry.Name()), recordFile)
		}
		for _, prefix := range []string{makingPrefix, removingPrefix} {
			if strings.HasPrefix(entry.Name(), prefix+h.prefix) {
				_ = os.RemoveAll(filepath.Join(h.config.Dir, entry.Name()))
			}
		}
	}
}

// found is an instance as it is on disk.
type found struct {
	instance
	record  record
	process process
}

// look returns errors.NotFound for an instance that is not there or is not of
// this model. A damaged process.yaml counts as none: the box holds its lock, so
// there will be no second one.
func (i instance) look() (found, error) {
	r, err := readRecord(i.dir)
	if err != nil {
		return found{}, err
	}
	if r.Model != i.host.config.ModelUUID {
		return found{}, errors.NotFoundf("instance %q of this model", i.name)
	}
	p, err := readProcess(i.dir)
	if err != nil {
		i.host.warn(i.name, "process of a box is not known", err)
	}
	return found{i, r, p}, nil
}

// list returns all instances of this model that can be read.
func (h *Host) list() ([]found, error) {
	entries, err := os.ReadDir(h.config.Dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Annotate(err, "listing boxes")
	}
	var out []found
	for _, entry := range entries {
		if !h.isName(entry.Name()) {
			continue
		}
		f, err := h.instance(entry.Name()).look()
		switch {
		case errors.Is(err, errors.NotFound):
			// Just removed, or another's.
		case err != nil:
			h.warn(entry.Name(), "box cannot be read", err)
			f = found{instance: h.instance(entry.Name()), record: record{Container: h.containerOf(entry.Name())}}
			f.process, _ = readProcess(f.dir) // none, if it is damaged too
			out = append(out, f)
		default:
			out = append(out, f)
		}
	}
	return out, nil
}

// isName says whether a directory can be an instance of this model.
func (h *Host) isName(name string) bool {
	rest, ok := strings.CutPrefix(name, h.prefix)
	return ok && rest != "" && len(name) <= container.MaxInstanceName && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// containerOf returns the container of an instance whose record is damaged, as
// far as its name tells.
func (h *Host) containerOf(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, h.prefix), "-", "/")
}

func (f found) running() bool { return f.record.Started && !f.record.Stopping && f.process.alive() }

// status is the state of a box in one or two words.
func (f found) status() string {
	switch {
	case f.record.Stopping:
		return "being removed"
	case !f.record.Started:
		return "half made"
	case f.process.alive():
		return "running"
	}
	return "stopped"
}
