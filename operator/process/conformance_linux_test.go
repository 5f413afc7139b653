package process

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/managertest"
)

// writes counts what was written of the files that an operator works from, by
// application.
type writes struct {
	mu    sync.Mutex
	count map[string]int
}

func (w *writes) before(op, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if file := path.Base(name); op == "rename" && (file == templateName || file == infoName) {
		w.count[path.Dir(name)]++
	}
	return nil
}

func (w *writes) of(app string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[app]
}

func TestConformance(t *testing.T) {
	managertest.Run(t, func(t *testing.T) managertest.Harness {
		t.Parallel()
		b := newBench(t)
		w := &writes{count: make(map[string]int)}
		opts := options{before: w.before}
		b.startWith(opts)
		return managertest.Harness{
			Manager: b.manager,
			Restart: func() (operator.Manager, error) {
				b.kill()
				return b.startWith(opts), nil
			},
			// By a rename, since somebody may be writing there.
			Vanish: func(app string) error { return os.Rename(b.path(app), filepath.Join(t.TempDir(), app)) },
			Writes: w.of,
			Incarnation: func(app string) string {
				// What is about to be restarted is none any more.
				data, _ := os.ReadFile(b.path(app, recordName))
				rec, err := decodeRecord(data)
				if err != nil || rec.Process == nil || rec.Started != rec.Wanted || !isRunning(rec.Process.Pid) {
					return ""
				}
				return fmt.Sprint(rec.Process)
			},
			AgentConf: func(app string) (facade.Secret, error) {
				data, err := os.ReadFile(b.path(app, agentConfName))
				return facade.NewSecret(string(data)), err
			},
			OperatorInfo: func(app string) (facade.Secret, error) {
				births := b.births(app)
				if len(births) == 0 || births[len(births)-1].Pid != b.pid(app) {
					return facade.Secret{}, errors.NotFoundf("operator that is up")
				}
				return facade.NewSecret(births[len(births)-1].Info), nil
			},
			WriteAgentConf: func(app string, content facade.Secret) error {
				return os.WriteFile(b.path(app, agentConfName), []byte(content.Reveal()), 0o600)
			},
		}
	})
}
