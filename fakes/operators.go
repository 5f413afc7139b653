package fakes

import (
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Termination is how the deletion of an operator goes on. The zero value is
// one that ends at once.
type Termination struct {
	// For is how long it takes on the clock.
	For time.Duration
	// Looks is how many times OperatorExists, Operator and GlanceOperator,
	// counted together, still find the operator.
	Looks int
	// Forever is a deletion that hangs until [Manager.Finish].
	Forever bool
}

// Write is one effective change of an operator by EnsureOperator, StageOperator
// or KeepOperator.
type Write struct {
	Method string
	Time   time.Time
	// Shown is the generation that the caller gave, Replaced the one that
	// was stored, Generation the one that is stored now.
	Shown, Replaced, Generation string
	// SameFiles tells that AgentConf and OperatorInfo stayed as they were.
	SameFiles bool
}

// view is what a reader sees of an operator.
type view struct {
	state    operator.State
	operator *operator.Operator
}

// staleView is what readers see for a while although it is over.
type staleView struct {
	view  view
	reads int
	until time.Time
}

// view is what there is now.
func (s *managerState) view(app string) view {
	rec := s.record(app)
	if rec == nil {
		return view{}
	}
	cfg := rec.stored.Clone()
	if cfg == nil {
		cfg = &operator.Config{}
	}
	cfg.Generation = s.shown(rec)
	return view{
		state: operator.State{Exists: rec.stored != nil && rec.applied != nil, Terminating: rec.terminating},
		operator: &operator.Operator{
			ID:     "operator-" + app,
			Dying:  rec.terminating,
			Status: rec.status,
			Config: cfg,
		},
	}
}

// look is what a call that reads sees, and counts as one look.
func (s *managerState) look(app string) view {
	if stale := s.stale[app]; stale != nil {
		if stale.reads > 0 || s.clock.Now().Before(stale.until) {
			stale.reads--
			out := stale.view
			if out.operator != nil {
				// The caller owns what it gets.
				op := *out.operator
				op.Config = op.Config.Clone()
				out.operator = &op
			}
			return out
		}
		delete(s.stale, app)
	}
	out := s.view(app)
	if rec := s.records[app]; rec != nil && rec.terminating && rec.termination.Looks > 0 {
		rec.termination.Looks--
		if rec.termination.Looks == 0 && rec.termination.For == 0 && !rec.termination.Forever {
			s.remove(app)
		}
	}
	return out
}

// read is what a call sees that wants the operator and not only its state.
func (s *managerState) read(app string) (*operator.Operator, error) {
	op := s.look(app).operator
	if op == nil {
		return nil, errors.NotFoundf("operator of application %q", app)
	}
	return op, nil
}

// SetTermination says how deletions go on that start from now on, of the
// applications named, or of all without one of their own when none is named.
func (m *Manager) SetTermination(t Termination, apps ...string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if len(apps) == 0 {
		m.state.termination = t
	}
	for _, app := range apps {
		m.state.terminate[app] = t
	}
}

// Finish ends the deletion of the application's operator, if one is under way.
func (m *Manager) Finish(app string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if rec := m.state.records[app]; rec != nil && rec.terminating {
		m.state.remove(app)
	}
}

// SetStale makes what is read of an operator lag behind: after each change,
// its next reads, and those of the time given, still see what was before. Both
// zero, the default, is no lag. Writes always go by what is really there.
func (m *Manager) SetStale(reads int, d time.Duration) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.staleReads, m.state.staleFor = reads, d
	clear(m.state.stale)
}

// HideGenerations makes this a manager without revisions, which shows the
// empty generation always and never returns operator.ErrConflict. It is not a
// proper operator.Stager or Glancer then: use [Manager.Plain].
func (m *Manager) HideGenerations() {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.hideGen = true
}

// Vanish takes the application's operator away with everything that belongs to
// it, behind everybody's back. Watchers are told.
func (m *Manager) Vanish(app string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.remove(app)
}

// VanishOperator takes the application's operator away and leaves its
// configuration: it is then half-made. Watchers are told.
func (m *Manager) VanishOperator(app string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.removeApplied(app)
}

// VanishConfig takes the configuration of the application's operator away and
// leaves the operator itself. Watchers are told.
func (m *Manager) VanishConfig(app string) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	rec := m.state.records[app]
	switch {
	case rec == nil || rec.stored == nil:
	case rec.applied == nil:
		m.state.remove(app)
	default:
		m.state.change(app, func() { rec.stored, rec.generation = nil, "" })
	}
}

// SetStatus changes how the application's operator is doing. Watchers are
// told.
func (m *Manager) SetStatus(app string, status operator.Status) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if rec := m.state.records[app]; rec != nil && rec.applied != nil {
		m.state.change(app, func() { rec.status = status })
	}
}

// State returns what there really is of the application's operator, whatever
// readers are shown.
func (m *Manager) State(app string) operator.State {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.view(app).state
}

// Config returns a copy of what is really stored of the configuration, with
// its generation; nil when nothing is.
func (m *Manager) Config(app string) *operator.Config {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	rec := m.state.record(app)
	if rec == nil || rec.stored == nil {
		return nil
	}
	return m.state.view(app).operator.Config
}

// Running returns a copy of the configuration that the application's operator
// was last made or updated from, without generation; nil when there is no
// operator.
func (m *Manager) Running(app string) *operator.Config {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if rec := m.state.records[app]; rec != nil {
		return rec.applied.Clone()
	}
	return nil
}

// AgentConf returns the agent.conf that the application's operator itself
// works with: what it wrote, or else what it was started with.
func (m *Manager) AgentConf(app string) facade.Secret {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if rec := m.state.records[app]; rec != nil {
		return rec.live
	}
	return facade.Secret{}
}

// WriteAgentConf does what an operator does that writes its agent.conf, with a
// password of its own for instance.
func (m *Manager) WriteAgentConf(app string, content facade.Secret) {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if rec := m.state.records[app]; rec != nil && rec.applied != nil {
		rec.live = content
	}
}

// Apps returns every application of which there is an operator or a part of
// one, sorted.
func (m *Manager) Apps() []string {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.names()
}

// Writes returns how often the application's operator, or its stored
// configuration, was effectively changed by EnsureOperator, StageOperator and
// KeepOperator.
func (m *Manager) Writes(app string) int { return len(m.History(app)) }

// History returns the changes that [Manager.Writes] counts, oldest first.
func (m *Manager) History(app string) []Write {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return append([]Write(nil), m.state.tally(app).writes...)
}

// Restarts returns how often the application's operator, already there, was
// changed in a way that restarts it.
func (m *Manager) Restarts(app string) int {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.tally(app).restarts
}

// Conflicts returns how many writes for the application were refused with
// operator.ErrConflict.
func (m *Manager) Conflicts(app string) int {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.tally(app).conflicts
}

// CheckHistory returns an error when a write took effect that was based on
// another configuration than the one it replaced. It is a check of this fake
// as much as of its user, and says nothing after [Manager.HideGenerations].
func (m *Manager) CheckHistory() error {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	if m.state.hideGen {
		return nil
	}
	for app, t := range m.state.tallies {
		for i, w := range t.writes {
			if !w.SameFiles && w.Shown != w.Replaced {
				return errors.Errorf("write %d of %q, by %s, was shown generation %q and replaced %q", i, app, w.Method, w.Shown, w.Replaced)
			}
		}
	}
	return nil
}

// Watchers returns the watchers that WatchOperators has handed out over this
// view's connection and that have not ended, oldest first, for a test to
// break.
func (m *Manager) Watchers() []*Watcher[[]string] {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.watchers.live("WatchOperators", m.faults)
}
