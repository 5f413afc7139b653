package hostnet

import (
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
)

// journal is what it takes to put all back, also for another process. It is there from
// before the first change until the change is found good, or was put back. It has
// configuration files in it, which may have secrets: it is private, and never printed.
type journal struct {
	// ID tells one change from another.
	ID string
	// Boot is the kernel's name for the time since it was started: what a kernel was
	// told is nothing to a later one.
	Boot string
	// Began is when, Limit for how long the change may take.
	Began time.Time
	Limit time.Duration
	// Attempts counts those to put all back.
	Attempts int

	Namespace        string
	ContainerBridges []string
	Bridgings        []bridging
	Before           kernel.State
	Files            []savedFile
	// UndoBefore are run before the files are put back, and may fail; UndoAfter after.
	UndoBefore, UndoAfter [][]string
	ToolTimeout           time.Duration
}

// savedFile is a configuration file as it was.
type savedFile struct {
	Name    string
	Existed bool
	Data    []byte
}

// String keeps configuration files out of logs.
func (f savedFile) String() string { return f.Name }

// Names in the state directory.
const (
	journalName    = "change.json"
	armedName      = "armed"
	lockName       = "lock"
	undoLockName   = "undo.lock"
	originalsName  = "originals"
	maxJournal     = 64 << 20
	privateFile    = 0o600
	privateFolders = 0o700
)

// store keeps what has to outlive the process.
type store struct{ dir string }

func (s store) path(name string) string { return filepath.Join(s.dir, name) }

func (s store) make() error { return errors.Annotate(os.MkdirAll(s.dir, privateFolders), "StateDir") }

// begun returns what an earlier change left; nil for nothing.
func (s store) begun() (*journal, error) {
	data, err := s.read(journalName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Annotate(err, "journal of an earlier change")
	}
	var j journal
	if err := json.Unmarshal(data, &j); err != nil || j.ID == "" {
		// Without what was read: it may hold secrets.
		return nil, errors.NotValidf("journal of an earlier change, %s,", s.path(journalName))
	}
	return &j, nil
}

func (s store) read(name string) ([]byte, error) {
	info, err := os.Stat(s.path(name))
	if err != nil {
		return nil, err
	}
	if info.Size() > maxJournal {
		return nil, errors.NotValidf("file of %d bytes", info.Size())
	}
	return os.ReadFile(s.path(name))
}

func (s store) begin(j *journal) error {
	data, err := json.Marshal(j)
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(s.write(journalName, data), "writing down what is to be put back")
}

// end forgets the change.
func (s store) end() error {
	for _, name := range []string{journalName, armedName} {
		if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Trace(err)
		}
	}
	return s.sync(s.dir)
}

// arm says that somebody watches over the change of that id.
func (s store) arm(id string) error { return s.write(armedName, []byte(id)) }

func (s store) armed(id string) bool {
	data, err := s.read(armedName)
	return err == nil && string(data) == id
}

// original keeps a configuration file as it was before this package ever changed it.
func (s store) original(f savedFile) error {
	name := filepath.Join(originalsName, strings.ReplaceAll(strings.TrimPrefix(f.Name, "/"), "/", "%"))
	if _, err := os.Lstat(s.path(name)); !f.Existed || err == nil {
		return nil
	}
	return errors.Annotatef(s.write(name, f.Data), "keeping the original of %s", f.Name)
}

// write puts a private file in place as a whole.
func (s store) write(name string, data []byte) (err error) {
	path := s.path(name)
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, privateFolders); err != nil {
		return errors.Trace(err)
	}
	temp, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return errors.Trace(err)
	}
	defer func() {
		if err != nil {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
	}()
	if _, err := temp.Write(data); err != nil {
		return errors.Trace(err)
	}
	if err := temp.Sync(); err != nil {
		return errors.Trace(err)
	}
	if err := temp.Close(); err != nil {
		return errors.Trace(err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return errors.Trace(err)
	}
	return s.sync(dir)
}

func (store) sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { _ = d.Close() }()
	return errors.Trace(d.Sync())
}

func newID() string { return rand.Text() }
