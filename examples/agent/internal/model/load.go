package model

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// Limits of a model.
const (
	// MaxModelFile is the greatest size of model.yaml, machine.yaml, an
	// application.yaml and a container's file, in bytes.
	MaxModelFile = 64 << 10
	// MaxCharmFile is the greatest size of a charm's file, in bytes.
	MaxCharmFile = 1 << 20
	// MaxApplications is how many applications a model may have.
	MaxApplications = 10_000
)

// Names of what a model's directory holds.
const (
	SettingsFile    = "model.yaml"
	ApplicationsDir = "applications"
	ApplicationFile = "application.yaml"
	CharmDir        = "charm"
	MetadataFile    = "metadata.yaml"
	ManifestFile    = "manifest.yaml"
)

// Model is what a model's directory said when it was read. It is not changed
// after that and may be read by many goroutines.
type Model struct {
	Settings
	// Applications has all that have a directory with a possible name,
	// readable or not.
	Applications map[string]*Application
	// Machine is the machine that the agent runs on, nil when there is no
	// machine.yaml.
	Machine *Machine
	// MachineErr says why the machine or its containers as a whole cannot be
	// read; then Machine is nil and Containers is empty.
	MachineErr error
	// Containers has all of the machine's that have a file with a possible
	// name, readable or not, by id.
	Containers map[string]*Container
	// Problems is all that is wrong, ordered by file.
	Problems []*Problem
}

// Application is one application of a model.
type Application struct {
	Name string
	// Err says why the application cannot be read; then nothing below is
	// set.
	Err  error
	Life facade.Life
	// Info has the version filled in; addresses left out stand for the
	// controller's own.
	Info facade.OperatorProvisioningInfo
	// CharmErr says why the charm cannot be read; errors.NotFound when it
	// is not there.
	CharmErr error
	Charm    facade.CharmInfo
}

// Load reads the model in dir. It returns an error when model.yaml or the
// directory of the applications cannot be read: then nothing is known about any
// application, least of all that it was removed. Trouble with a single one, or
// with the machine, is in its Err, CharmErr or MachineErr, and in Problems.
func Load(dir string) (*Model, error) {
	settings, err := LoadSettings(dir)
	if err != nil {
		return nil, err
	}
	m := &Model{Settings: settings, Applications: map[string]*Application{}}
	err = forEach(dir, ApplicationsDir, func(entry fs.DirEntry) error { return m.add(dir, entry) })
	if err != nil {
		return nil, err
	}
	m.loadMachine(dir)
	slices.SortFunc(m.Problems, func(a, b *Problem) int { return strings.Compare(a.File, b.File) })
	return m, nil
}

// forEach calls do for each entry of a directory of the model. It returns an error
// when the directory is another one afterwards, or is not there: what was missing
// then was not removed.
func forEach(dir, name string, do func(fs.DirEntry) error) error {
	path := filepath.Join(dir, name)
	before, err := os.Stat(path)
	if err != nil {
		return unreadable(name, err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return unreadable(name, err)
	}
	for _, entry := range entries {
		if err := do(entry); err != nil {
			return err
		}
	}
	after, err := os.Stat(path)
	if err != nil {
		return unreadable(name, err)
	}
	if !os.SameFile(before, after) {
		return &Problem{File: name, Rule: "was replaced while it was being read"}
	}
	return nil
}

// LoadSettings reads the model.yaml in dir and nothing else.
func LoadSettings(dir string) (Settings, error) {
	data, err := readFile(dir, SettingsFile, MaxModelFile)
	if err != nil {
		return Settings{}, err
	}
	return ParseSettings(SettingsFile, data)
}

// add reads one entry of the directory of applications.
func (m *Model) add(dir string, entry fs.DirEntry) error {
	name := entry.Name()
	file := path.Join(ApplicationsDir, name)
	switch {
	case strings.HasPrefix(name, "."):
		return nil // an editor's or a version control's
	case !isDir(dir, file):
		m.note(&Problem{File: file, Rule: "want a directory"})
		return nil
	case facade.ValidateApplicationName(name) != nil:
		m.note(&Problem{File: file, Rule: "want an application's name: " + wantName + ", a letter in each part"})
		return nil
	case len(m.Applications) == MaxApplications:
		return errors.Annotatef(errors.QuotaLimitExceeded, "more than %d applications", MaxApplications)
	}
	app := m.loadApplication(dir, name)
	if app.Err != nil && !isDir(dir, file) {
		return nil // it was removed while it was being read
	}
	m.Applications[name] = app
	m.note(app.Err)
	m.note(app.CharmErr)
	return nil
}

// loadApplication reads one application.
func (m *Model) loadApplication(dir, name string) *Application {
	app := &Application{Name: name}
	file := path.Join(ApplicationsDir, name, ApplicationFile)
	data, err := readFile(dir, file, MaxModelFile)
	if err != nil {
		app.Err = err
		return app
	}
	app.Life, app.Info, app.Err = ParseApplication(file, data)
	if app.Err != nil {
		return app
	}
	if app.Info.Version == "" {
		app.Info.Version = m.Version
	}
	app.Charm, app.CharmErr = loadCharm(dir, name)
	return app
}

// loadCharm reads the charm of an application. A charm without a manifest is
// one of the older format.
func loadCharm(dir, name string) (facade.CharmInfo, error) {
	charm := path.Join(ApplicationsDir, name, CharmDir)
	metadataFile, manifestFile := path.Join(charm, MetadataFile), path.Join(charm, ManifestFile)
	metadata, err := readFile(dir, metadataFile, MaxCharmFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return facade.CharmInfo{}, noCharm(name)
	case err != nil:
		return facade.CharmInfo{}, err
	}
	manifest, err := readFile(dir, manifestFile, MaxCharmFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return facade.CharmInfo{}, err
	}
	return parseCharm(metadataFile, metadata, manifestFile, manifest)
}

// note keeps err if it is a file's problem.
func (m *Model) note(err error) {
	var p *Problem
	if errors.As(err, &p) {
		m.Problems = append(m.Problems, p)
	}
}

func isDir(dir, file string) bool {
	info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file)))
	return err == nil && info.IsDir()
}

// readFile returns what is in a regular file of the model of at most limit
// bytes.
func readFile(dir, file string, limit int64) ([]byte, error) {
	// Not blocking, or a fifo in the model would hold the agent up.
	f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(file)), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(file, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(file, err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Problem{File: file, Rule: "want a regular file"}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, unreadable(file, err)
	}
	if int64(len(data)) > limit {
		return nil, &Problem{File: file, Rule: "want a file of at most " + strconv.FormatInt(limit>>10, 10) + " KiB"}
	}
	return data, nil
}
