package controller

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/files"
)

// StateDir is the directory, within the model's, of what the agent keeps.
const StateDir = ".agent"

// Files of the state.
const (
	settingsFile  = "controller.yaml"
	caFile        = "ca.pem"
	passwordsFile = "passwords.yaml"
	recordsFile   = "containers.yaml"
	lockFile      = "lock"
)

const (
	maxSettings  = 4 << 10
	maxCA        = 64 << 10
	maxPasswords = 16 << 20
	// maxContainers is for some thousand containers.
	maxContainers = 16 << 20
)

// settings is the content of controller.yaml.
type settings struct {
	UUID string `yaml:"uuid"`
	// Address is where the log-in endpoint was last, host:port.
	Address string `yaml:"address,omitempty"`
}

// State is what a controller keeps on disk. One process at a time has it open.
type State struct {
	dir       string
	lock      *os.File
	settings  settings
	ca        *authority
	passwords *passwords
	// containers are what is known of the machine's, if there is one.
	containers *containers
}

// OpenState opens the state of the model in modelDir, making what is missing.
// It returns errors.AlreadyExists while another process has it open, and
// errors.NotValid, naming the file, for one that cannot be used: a CA or a
// password that was damaged is not replaced behind anybody's back.
func OpenState(modelDir string, now time.Time) (*State, error) {
	dir := filepath.Join(modelDir, StateDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.Trace(err)
	}
	lock, err := takeLock(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{settingsFile, caFile, passwordsFile, recordsFile} {
		files.Sweep(dir, name)
	}
	s := &State{dir: dir, lock: lock}
	if err := s.load(now); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return s, nil
}

// Close gives the state up.
func (s *State) Close() error { return s.lock.Close() }

// Dir is the directory that the state is in, and where the rest of the agent
// may keep its own.
func (s *State) Dir() string { return s.dir }

// ControllerUUID returns the controller's UUID.
func (s *State) ControllerUUID() string { return s.settings.UUID }

// CACert returns the CA's certificate in PEM.
func (s *State) CACert() string { return s.ca.certPEM }

func (s *State) load(now time.Time) error {
	if err := s.loadSettings(); err != nil {
		return err
	}
	var err error
	if s.ca, err = openAuthority(filepath.Join(s.dir, caFile), now); err != nil {
		return err
	}
	if s.passwords, err = openPasswords(filepath.Join(s.dir, passwordsFile)); err != nil {
		return err
	}
	s.containers, err = openContainers(filepath.Join(s.dir, recordsFile))
	return err
}

func (s *State) loadSettings() error {
	data, err := files.Read(filepath.Join(s.dir, settingsFile), maxSettings)
	if errors.Is(err, errors.NotFound) {
		s.settings.UUID = newUUID()
		return s.saveSettings()
	}
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, &s.settings); err != nil || s.settings.UUID == "" {
		return errors.NotValidf("%s", settingsFile)
	}
	return nil
}

func (s *State) saveSettings() error {
	data, err := yaml.Marshal(s.settings)
	if err != nil {
		return errors.Trace(err)
	}
	return files.Write(filepath.Join(s.dir, settingsFile), data)
}

// JoinedDir is the directory of an agent of that name that joined the controller
// whose state is in stateDir.
func JoinedDir(stateDir, name string) string { return filepath.Join(stateDir, "joined", name) }

// Lock makes a directory for one process, until that closes what is returned or
// ends. It returns errors.AlreadyExists while another has it.
func Lock(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.Trace(err)
	}
	return takeLock(filepath.Join(dir, lockFile))
}

// takeLock locks the file until it is closed or its process ends, however.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Trace(err)
	}
	// A process that an agent was starting when it was killed has the lock
	// for another moment.
	for range 20 {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(25 * time.Millisecond)
	}
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.AlreadyExistsf("agent on this model")
	}
	return nil, errors.Annotate(err, "locking the model")
}

// newUUID returns a random UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
