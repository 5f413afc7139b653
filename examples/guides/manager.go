package guides

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// The files in an operator's folder, all of mode 0600.
const (
	// storedFile is the configuration that is stored: a record.
	storedFile = "stored.json"
	// infoFile is what the operator reads; agentConfFile is its own, of which
	// it gets a first version.
	infoFile      = "operator.yaml"
	agentConfFile = "agent.conf"
	// enabledFile has the supervisor run an operator in this folder, and
	// start it again when the file is replaced.
	enabledFile = "enabled"
)

// removedPrefix begins the names of folders that are about to be gone. No
// application has a name like that.
const removedPrefix = ".removed-"

// Manager is an operator.Manager over a folder that a supervisor of services
// looks at: whatever has a file called "enabled" in it is run, by the machine's
// own means. It is an operator.Lister and an operator.Stager, too.
type Manager struct {
	dir string
	// lock has room for one: whoever puts something in holds it.
	lock chan struct{}
}

var (
	_ operator.Manager = (*Manager)(nil)
	_ operator.Lister  = (*Manager)(nil)
	_ operator.Stager  = (*Manager)(nil)
)

// NewManager returns a manager of the operators in a folder, which is made if
// need be, and finishes what an earlier one has left half removed. A folder has
// one manager at a time.
func NewManager(dir string) (*Manager, error) {
	if !filepath.IsAbs(dir) {
		return nil, errors.NotValidf("relative dir")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.Annotate(err, "operator folder")
	}
	left, err := filepath.Glob(filepath.Join(dir, removedPrefix+"*"))
	if err != nil {
		return nil, errors.Annotate(err, "operator folder")
	}
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return nil, errors.Annotate(err, "operator folder")
		}
	}
	return &Manager{dir: dir, lock: make(chan struct{}, 1)}, nil
}

// begin is how every call begins. Nothing is done for a name that would be a
// dangerous path, or for a caller that has given up.
func (m *Manager) begin(ctx context.Context, app string) (folder string, end func(), err error) {
	if err := facade.ValidateApplicationName(app); err != nil {
		return "", nil, err
	}
	if err := ctx.Err(); err != nil {
		return "", nil, err
	}
	select {
	case m.lock <- struct{}{}:
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	return filepath.Join(m.dir, app), func() { <-m.lock }, nil
}

// record is an operator.Config as it is stored. Secrets are plain here, in a
// file that only this user can read: a facade.Secret would be written as
// "[redacted]".
type record struct {
	AgentPath    string            `json:"agent-path"`
	Version      string            `json:"version"`
	ResourceTags map[string]string `json:"resource-tags"`
	AgentConf    string            `json:"agent-conf"`
	OperatorInfo string            `json:"operator-info"`
}

// generation is the revision of the two files, empty when there are none. A
// digest needs no counter that could be lost.
func (r record) generation() string {
	if r.AgentConf == "" && r.OperatorInfo == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(r.AgentConf), r.AgentConf, r.OperatorInfo))
	return hex.EncodeToString(sum[:12])
}

func (r record) config() *operator.Config {
	return &operator.Config{
		Version:      r.Version,
		ResourceTags: r.ResourceTags,
		AgentConf:    facade.NewSecret(r.AgentConf),
		OperatorInfo: facade.NewSecret(r.OperatorInfo),
		Generation:   r.generation(),
	}
}

// load returns what is stored, and the zero record when nothing is.
func load(folder string) (r record, err error) {
	data, err := os.ReadFile(filepath.Join(folder, storedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return record{}, errors.Annotate(err, "reading the stored configuration")
	}
	if json.Unmarshal(data, &r) != nil {
		// The error might quote what it could not read.
		return record{}, errors.NotValidf("stored configuration")
	}
	return r, nil
}

// OperatorExists is part of operator.Manager.
func (m *Manager) OperatorExists(ctx context.Context, app string) (operator.State, error) {
	folder, end, err := m.begin(ctx, app)
	if err != nil {
		return operator.State{}, err
	}
	defer end()
	stored, err := has(folder, storedFile)
	if err != nil {
		return operator.State{}, err
	}
	enabled, err := has(folder, enabledFile)
	if err != nil {
		return operator.State{}, err
	}
	// Deletion takes no time here, so nothing is ever Terminating.
	return operator.State{Exists: stored && enabled}, nil
}

// Operator is part of operator.Manager.
func (m *Manager) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	folder, end, err := m.begin(ctx, app)
	if err != nil {
		return nil, err
	}
	defer end()
	r, err := load(folder)
	if err != nil {
		return nil, err
	}
	enabled, err := has(folder, enabledFile)
	if err != nil {
		return nil, err
	}
	if r.generation() == "" && !enabled {
		return nil, errors.NotFoundf("operator of application %q", app)
	}
	return &operator.Operator{ID: folder, Config: r.config()}, nil
}

// EnsureOperator is part of operator.Manager.
func (m *Manager) EnsureOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	folder, end, err := m.begin(ctx, app)
	if err != nil {
		return err
	}
	defer end()
	r, err := store(folder, agentPath, cfg)
	if err != nil {
		return err
	}
	// Its own agent.conf is never written again: the operator may have
	// changed its password since.
	if there, err := has(folder, agentConfFile); err != nil {
		return err
	} else if !there {
		if err := write(folder, agentConfFile, r.AgentConf); err != nil {
			return err
		}
	}
	if err := write(folder, infoFile, r.OperatorInfo); err != nil {
		return err
	}
	// Last, since it is what makes the operator exist, and what restarts it
	// when there is something to read again.
	return write(folder, enabledFile, r.generation()+"\n")
}

// store checks the configuration, and stores it if it may take the place of
// the one that is there.
func store(folder, agentPath string, cfg *operator.Config) (record, error) {
	if err := cfg.Validate(); err != nil {
		return record{}, err
	}
	if cfg.CharmStorage != nil {
		return record{}, errors.NotSupportedf("charm storage")
	}
	stored, err := load(folder)
	if err != nil {
		return record{}, err
	}
	r := record{
		AgentPath:    agentPath,
		Version:      cfg.Version,
		ResourceTags: cfg.ResourceTags,
		AgentConf:    cfg.AgentConf.Reveal(),
		OperatorInfo: cfg.OperatorInfo.Reveal(),
	}
	if stored.generation() != cfg.Generation && stored.generation() != r.generation() {
		return record{}, errors.Annotate(operator.ErrConflict, "storing the configuration")
	}
	data, err := json.Marshal(r)
	if err != nil {
		return record{}, errors.Annotate(err, "storing the configuration")
	}
	return r, write(folder, storedFile, string(data))
}

// DeleteOperator is part of operator.Manager.
func (m *Manager) DeleteOperator(ctx context.Context, app string) error {
	folder, end, err := m.begin(ctx, app)
	if err != nil {
		return err
	}
	defer end()
	// All at once, by its name. Were it to lose one file after the other, a
	// crash could leave an agent.conf to the next application of that name.
	removed := filepath.Join(m.dir, removedPrefix+app)
	if err := os.RemoveAll(removed); err != nil {
		return errors.Annotate(err, "removing the operator")
	}
	if err := os.Rename(folder, removed); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return errors.Annotate(err, "removing the operator")
	}
	if err := syncFolder(m.dir); err != nil {
		return errors.Annotate(err, "removing the operator")
	}
	return errors.Annotate(os.RemoveAll(removed), "removing the operator")
}

// Operators is part of operator.Lister.
func (m *Manager) Operators(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, errors.Annotate(err, "operator folder")
	}
	var apps []string
	for _, entry := range entries {
		if entry.IsDir() && facade.ValidateApplicationName(entry.Name()) == nil {
			apps = append(apps, entry.Name())
		}
	}
	return apps, nil
}

// StageOperator is part of operator.Stager.
func (m *Manager) StageOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) (string, error) {
	folder, end, err := m.begin(ctx, app)
	if err != nil {
		return "", err
	}
	defer end()
	r, err := store(folder, agentPath, cfg)
	if err != nil {
		return "", err
	}
	return r.generation(), nil
}

// has tells whether the folder has the file.
func has(folder, name string) (bool, error) {
	_, err := os.Stat(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, errors.Annotate(err, "looking for the operator")
}

// write makes text the content of the file, all of it or nothing, whenever the
// machine stops. A file that has that content already is left alone.
func write(folder, name, text string) (err error) {
	path := filepath.Join(folder, name)
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	defer func() { err = errors.Annotatef(err, "writing %s", name) }()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(folder, ".new-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = strings.NewReader(text).WriteTo(temp)
	if err == nil {
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return err
	}
	return syncFolder(folder)
}

// syncFolder makes the names in a folder last.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
