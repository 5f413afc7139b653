package guides_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/guides"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/managertest"
)

func TestManagerPasses(t *testing.T) {
	managertest.Run(t, func(t *testing.T) managertest.Harness {
		dir := t.TempDir()
		manager, err := guides.NewManager(dir)
		if err != nil {
			t.Fatal(err)
		}
		return managertest.Harness{
			Manager: manager,
			Loops:   50,
			Restart: func() (operator.Manager, error) { return guides.NewManager(dir) },
			Vanish:  func(app string) error { return os.RemoveAll(filepath.Join(dir, app)) },
			Incarnation: func(app string) string {
				// The supervisor starts the operator again when this file
				// is replaced.
				info, err := os.Stat(filepath.Join(dir, app, "enabled"))
				if err != nil {
					return ""
				}
				return fmt.Sprint(info.ModTime().UnixNano())
			},
			AgentConf:    func(app string) (facade.Secret, error) { return read(dir, app, "agent.conf") },
			OperatorInfo: func(app string) (facade.Secret, error) { return read(dir, app, "operator.yaml") },
			WriteAgentConf: func(app string, content facade.Secret) error {
				return os.WriteFile(filepath.Join(dir, app, "agent.conf"), []byte(content.Reveal()), 0o600)
			},
		}
	})
}

func read(dir, app, file string) (facade.Secret, error) {
	data, err := os.ReadFile(filepath.Join(dir, app, file))
	return facade.NewSecret(string(data)), err
}

const agentPath = managertest.DefaultAgentPath

func newManager(t *testing.T, dir string) *guides.Manager {
	t.Helper()
	m, err := guides.NewManager(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An agent that is killed in the middle of a deletion leaves nothing that the
// next application of that name could take for its own.
func TestNewManagerFinishesADeletion(t *testing.T) {
	dir := t.TempDir()
	m := newManager(t, dir)
	if err := m.EnsureOperator(t.Context(), "mysql", agentPath, managertest.Config("mysql", 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "mysql"), filepath.Join(dir, ".removed-mysql")); err != nil {
		t.Fatal(err)
	}

	m = newManager(t, dir)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
	if err := m.EnsureOperator(t.Context(), "mysql", agentPath, managertest.Config("mysql", 2)); err != nil {
		t.Fatal(err)
	}
	got, err := read(dir, "mysql", "agent.conf")
	if err != nil || !got.Equal(managertest.Config("mysql", 2).AgentConf) {
		t.Errorf("the operator has another agent.conf (%v)", err)
	}
}

// Whatever of the files is there, the next Ensure makes the rest.
func TestEnsureCompletesWhateverACrashHasLeft(t *testing.T) {
	files := []string{"stored.json", "agent.conf", "operator.yaml", "enabled"}
	for there := range files {
		t.Run(strings.Join(files[:there], ","), func(t *testing.T) {
			dir := t.TempDir()
			m := newManager(t, dir)
			cfg := managertest.Config("mysql", 1)
			if err := m.EnsureOperator(t.Context(), "mysql", agentPath, cfg); err != nil {
				t.Fatal(err)
			}
			for _, file := range files[there:] {
				if err := os.Remove(filepath.Join(dir, "mysql", file)); err != nil {
					t.Fatal(err)
				}
			}

			m = newManager(t, dir)
			if state, err := m.OperatorExists(t.Context(), "mysql"); err != nil || state != (operator.State{}) {
				t.Errorf("OperatorExists = %+v, %v, want the zero State", state, err)
			}
			if err := m.EnsureOperator(t.Context(), "mysql", agentPath, cfg); err != nil {
				t.Fatal(err)
			}
			if state, err := m.OperatorExists(t.Context(), "mysql"); err != nil || !state.Exists {
				t.Errorf("OperatorExists = %+v, %v", state, err)
			}
		})
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	m := newManager(t, dir)
	if err := m.EnsureOperator(t.Context(), "mysql", agentPath, managertest.Config("mysql", 1)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Join(dir, "mysql"), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", entry.Name(), info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDamagedRecordIsAnErrorThatQuotesNothing(t *testing.T) {
	dir := t.TempDir()
	m := newManager(t, dir)
	cfg := managertest.Config("mysql", 1)
	if err := m.EnsureOperator(t.Context(), "mysql", agentPath, cfg); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mysql", "stored.json"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := m.Operator(t.Context(), "mysql")
	for what, err := range map[string]error{
		"Operator":       err,
		"EnsureOperator": m.EnsureOperator(t.Context(), "mysql", agentPath, cfg),
	} {
		if !errors.Is(err, errors.NotValid) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// It can still be deleted.
	if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
		t.Error(err)
	}
}

func TestManagerRefusesWhatItCannotDo(t *testing.T) {
	if _, err := guides.NewManager("operators"); !errors.Is(err, errors.NotValid) {
		t.Errorf("NewManager of a relative path: %v", err)
	}
	m := newManager(t, t.TempDir())
	cfg := managertest.Config("mysql", 1)
	cfg.CharmStorage = &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: "kubernetes"}
	if err := m.EnsureOperator(t.Context(), "mysql", agentPath, cfg); !errors.Is(err, errors.NotSupported) {
		t.Errorf("EnsureOperator with storage: %v", err)
	}
}
