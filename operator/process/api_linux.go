package process

import (
	"bytes"
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// OperatorExists implements operator.Manager. An operator is fully there when
// it was ensured and both its files are in place, whether or not its process
// runs; it is terminating from DeleteOperator on until its directory is gone.
func (m *Manager) OperatorExists(ctx context.Context, app string) (state operator.State, err error) {
	err = m.with(ctx, app, func(u *unit) error {
		// While its directory is there, that is: a unit goes with it.
		state.Terminating = u.rec.Deleting
		if !u.stored || !u.rec.Ensured {
			return nil
		}
		for _, name := range []string{templateName, infoName} {
			if there, err := m.disk.has(u.path(name)); err != nil || !there {
				return err
			}
		}
		state.Exists = true
		return nil
	})
	if err != nil {
		return operator.State{}, errors.Annotatef(err, "looking for the operator of %q", app)
	}
	return state, nil
}

// Operator implements operator.Manager. The ID is the path of the operator's
// directory; AgentConf is the template, not what the operator made of it.
func (m *Manager) Operator(ctx context.Context, app string) (op *operator.Operator, err error) {
	err = m.with(ctx, app, func(u *unit) error {
		if !u.stored && u.process == nil {
			return errors.NotFoundf("operator of %q", app)
		}
		agentConf, info, err := m.readConfig(u)
		if err != nil {
			return errors.Annotatef(err, "reading the operator of %q", app)
		}
		cfg := u.rec.Config.config()
		cfg.AgentConf = facade.NewSecret(string(agentConf))
		cfg.OperatorInfo = facade.NewSecret(string(info))
		cfg.Generation = revision(agentConf, info)
		op = &operator.Operator{
			ID:     filepath.Join(m.config.Dir, app),
			Dying:  u.rec.Deleting,
			Status: u.status(m.isHalted()),
			Config: cfg,
		}
		return nil
	})
	return op, err
}

// EnsureOperator implements operator.Manager. It stores the configuration and
// returns; the process is started, or restarted if it has to read something
// again, soon after. agentPath is not needed: the files are in the operator's
// own directory, which Config.Command can name. Images, storage and tags are kept
// and shown, and otherwise play no part: there is nothing to pull or to attach.
//
// While the application's previous operator is terminating, it returns
// errors.NotYetAvailable.
func (m *Manager) EnsureOperator(ctx context.Context, app, _ string, cfg *operator.Config) error {
	_, err := m.put(ctx, app, cfg, true)
	return errors.Annotatef(err, "ensuring the operator of %q", app)
}

// StageOperator implements operator.Stager. It returns errors.NotYetAvailable
// as EnsureOperator does.
func (m *Manager) StageOperator(ctx context.Context, app, _ string, cfg *operator.Config) (string, error) {
	generation, err := m.put(ctx, app, cfg, false)
	return generation, errors.Annotatef(err, "staging the operator of %q", app)
}

// DeleteOperator implements operator.Manager. It records the deletion, which
// nothing takes back, and returns; the process is told to end, and the directory
// removed, soon after.
func (m *Manager) DeleteOperator(ctx context.Context, app string) error {
	err := m.with(ctx, app, func(u *unit) error {
		if u.rec.Deleting || !u.stored && u.process == nil {
			return nil
		}
		// Recorded before anything is touched: whatever happens now, it
		// goes.
		rec := u.rec
		rec.Deleting = true
		var err error
		if u.stored {
			err = m.save(u, m.completed(u, rec))
		} else {
			// The directory was taken away and the process is still there.
			err = m.create(u, m.completed(u, rec))
		}
		if err != nil {
			return err
		}
		m.notify(app)
		m.supervise(u)
		u.wake()
		return nil
	})
	return errors.Annotatef(err, "deleting the operator of %q", app)
}

// Operators implements operator.Lister. It reads the directory, so it also finds
// what somebody put there.
func (m *Manager) Operators(ctx context.Context) ([]string, error) {
	names, err := m.names(ctx)
	return names, errors.Annotate(err, "listing operators")
}

// names is Operators, for the watchers too.
func (m *Manager) names(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	found, err := m.entries()
	if err != nil {
		return nil, err
	}
	names := found.apps
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foreign = found.foreign
	for app, u := range m.units {
		// Its directory may have been taken away.
		if u.view.Load().process != nil && !slices.Contains(found.apps, app) {
			names = append(names, app)
		}
	}
	return names, nil
}

// with calls f with the application's unit and its lock, after a look at what
// is there.
func (m *Manager) with(ctx context.Context, app string, f func(*unit) error) error {
	if err := facade.ValidateApplicationName(app); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.enter(); err != nil {
		return err
	}
	defer m.leave()
	u, err := m.lockUnit(ctx, app)
	if err != nil {
		return err
	}
	defer u.unlock()
	// One for which nothing is there is not remembered: names may come from
	// anywhere, and memory is not for them to fill.
	defer m.forget(u)
	if err := m.refresh(u); err != nil {
		return err
	}
	defer func() { u.publish(m.isHalted()) }()
	return f(u)
}

// lockUnit returns the application's unit, made if need be, with its lock.
func (m *Manager) lockUnit(ctx context.Context, app string) (*unit, error) {
	for {
		m.mu.Lock()
		u := m.units[app]
		if u == nil {
			u = newUnit(app)
			m.units[app] = u
		}
		m.mu.Unlock()
		if err := u.lock(ctx, m.catacomb.Dying()); err != nil {
			return nil, err
		}
		if !u.gone {
			return u, nil
		}
		// It was forgotten while we waited for it; there may be a new one.
		u.unlock()
	}
}

// forget drops a unit of which nothing is left. The caller holds its lock.
func (m *Manager) forget(u *unit) {
	if !u.vacant() || u.supervised || u.gone {
		return
	}
	u.gone = true
	m.mu.Lock()
	delete(m.units, u.app)
	m.mu.Unlock()
}

// readConfig returns the stored files; nil for one that is not there.
func (m *Manager) readConfig(u *unit) (agentConf, info []byte, err error) {
	if !u.stored {
		return nil, nil, nil
	}
	agentConf, _, err = m.disk.read(u.path(templateName))
	if err == nil {
		info, _, err = m.disk.read(u.path(infoName))
	}
	return agentConf, info, err
}

// put stores cfg and, with ensure, makes it what the operator is to run with.
// It returns the generation of what is stored then.
func (m *Manager) put(ctx context.Context, app string, cfg *operator.Config, ensure bool) (generation string, err error) {
	if err := cfg.Validate(); err != nil {
		return "", err
	}
	err = m.with(ctx, app, func(u *unit) error {
		if u.rec.Deleting {
			return errors.NotYetAvailablef("its predecessor is still terminating")
		}
		agentConf, info, err := m.readConfig(u)
		if err != nil {
			return err
		}
		// The lock makes this comparison and the writes below one thing, and
		// the directory has no other manager.
		stored := configFiles{agentConf, info}
		wanted := configFiles{[]byte(cfg.AgentConf.Reveal()), []byte(cfg.OperatorInfo.Reveal())}
		if stored.revision() != cfg.Generation && !stored.equal(wanted) {
			return operator.ErrConflict
		}
		generation = wanted.revision()
		return m.store(u, storeConfig(cfg), stored, wanted, ensure)
	})
	return generation, err
}

// configFiles are the two files of a configuration, empty where there is none.
type configFiles struct{ agentConf, info []byte }

func (c configFiles) revision() string { return revision(c.agentConf, c.info) }

func (c configFiles) equal(other configFiles) bool {
	return bytes.Equal(c.agentConf, other.agentConf) && bytes.Equal(c.info, other.info)
}

// store writes what differs, in this order: a directory with a record that says
// no more than whose it is; agent.conf, which has the password, before anything
// that makes somebody use it; operator.yaml; and the record last, which makes
// the operator exist and the process restart. A crash in between leaves a
// configuration that can be read and that the next call finds to differ.
func (m *Manager) store(u *unit, config storedConfig, stored, wanted configFiles, ensure bool) error {
	rec := m.completed(u, u.rec)
	rec.Config = config
	// Watchers hear of an attempt that failed half way, too.
	wrote := false
	defer func() {
		if wrote {
			u.signature = m.sign(u)
			m.notify(u.app)
		}
	}()
	if !u.stored {
		wrote = true
		if err := m.create(u, rec); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name         string
		stored, data []byte
	}{
		{templateName, stored.agentConf, wanted.agentConf},
		{infoName, stored.info, wanted.info},
	} {
		if bytes.Equal(file.stored, file.data) {
			continue
		}
		wrote = true
		if err := m.disk.write(u.path(file.name), file.data); err != nil {
			return errors.Annotatef(err, "writing %s", file.name)
		}
	}
	if ensure {
		rec.Ensured = true
		rec.Wanted = u.effective(wanted.agentConf, wanted.info)
	}
	if reflect.DeepEqual(rec, u.rec) {
		return nil
	}
	wrote = true
	changed := rec.Ensured != u.rec.Ensured || rec.Wanted != u.rec.Wanted
	if err := m.save(u, rec); err != nil {
		return err
	}
	if changed {
		// What made it fail may be mended.
		u.delay, u.attempt, u.nextStart, u.problem = 0, 0, time.Time{}, ""
	}
	m.supervise(u)
	u.wake()
	return nil
}

// completed gives a record that is new, or was damaged, what every one has.
func (m *Manager) completed(u *unit, rec record) record {
	rec.Format = recordFormat
	if rec.Token == "" {
		rec.Token = newToken(m.id, u.app)
	}
	return rec
}
