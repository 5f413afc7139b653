package fakes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Manager is an in-memory operator.Manager with all of that one's optional
// interfaces; see [Manager.Plain] and [Manager.With] for less. It keeps the
// rules of that interface strictly: the suite in operator/managertest holds it
// to them.
//
// A Manager is a view of the operators over one connection, its [Faults];
// [Manager.Session] makes another view of the same operators. All of its
// methods may be called from many goroutines at once. Those that are not part
// of an operator interface go by the faults: they are the test's own hand.
type Manager struct {
	faults *Faults
	state  *managerState
}

var (
	_ operator.Manager = (*Manager)(nil)
	_ operator.Watcher = (*Manager)(nil)
	_ operator.Lister  = (*Manager)(nil)
	_ operator.Stager  = (*Manager)(nil)
	_ operator.Glancer = (*Manager)(nil)
)

type managerState struct {
	mu       sync.Mutex
	clock    clock.Clock
	records  map[string]*record
	tallies  map[string]*tally
	stale    map[string]*staleView
	watchers watchers

	generation  int
	hideGen     bool
	termination Termination
	terminate   map[string]Termination
	staleReads  int
	staleFor    time.Duration
}

// record is what there is of one operator.
type record struct {
	// stored is the configuration that is kept, nil when there is none;
	// generation is the revision of its AgentConf and OperatorInfo.
	stored     *operator.Config
	generation string
	// applied is what the operator was made from, nil when there is no
	// operator, only its configuration.
	applied   *operator.Config
	agentPath string
	// live is the agent.conf that the operator itself works with; seed is
	// what it was first given, to tell whether it wrote one of its own.
	live, seed facade.Secret
	status     operator.Status

	terminating bool
	termination Termination
	// until is when a deletion that takes time is over, else zero; end
	// tells watchers then.
	until time.Time
	end   clock.Timer
}

// tally counts what was done to one application's operator, whether it is
// still there or not.
type tally struct {
	writes              []Write
	restarts, conflicts int
}

// NewManager returns a manager without operators, whose calls go through the
// faults given.
func NewManager(faults *Faults) *Manager {
	return &Manager{
		faults: faults,
		state: &managerState{
			clock:     faults.clock,
			records:   make(map[string]*record),
			tallies:   make(map[string]*tally),
			stale:     make(map[string]*staleView),
			terminate: make(map[string]Termination),
		},
	}
}

// Session returns a view of the same operators over another connection.
func (m *Manager) Session(faults *Faults) *Manager {
	return &Manager{faults: faults, state: m.state}
}

// Faults returns what this view's calls go through.
func (m *Manager) Faults() *Faults { return m.faults }

// OperatorExists is part of operator.Manager.
func (m *Manager) OperatorExists(ctx context.Context, app string) (operator.State, error) {
	return perform(ctx, m, Call{Method: "OperatorExists", Key: app}, func(plan) (operator.State, error) {
		return m.state.look(app).state, nil
	})
}

// Operator is part of operator.Manager.
func (m *Manager) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	return perform(ctx, m, Call{Method: "Operator", Key: app}, func(plan) (*operator.Operator, error) {
		return m.state.read(app)
	})
}

// GlanceOperator is part of operator.Glancer.
func (m *Manager) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	return perform(ctx, m, Call{Method: "GlanceOperator", Key: app}, func(plan) (*operator.Operator, error) {
		op, err := m.state.read(app)
		if err == nil {
			op.Config.AgentConf, op.Config.OperatorInfo = facade.Secret{}, facade.Secret{}
		}
		return op, err
	})
}

// EnsureOperator is part of operator.Manager. While the operator is being
// deleted it returns errors.NotYetAvailable and changes nothing.
func (m *Manager) EnsureOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	call := Call{Method: "EnsureOperator", Key: app, Args: []any{agentPath, cfg.Clone()}}
	_, err := perform(ctx, m, call, func(p plan) (struct{}, error) {
		return struct{}{}, m.state.write(call.Method, app, agentPath, cfg, !p.half())
	})
	return err
}

// KeepOperator is part of operator.Glancer. While the operator is being deleted
// it returns errors.NotYetAvailable and changes nothing.
func (m *Manager) KeepOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	call := Call{Method: "KeepOperator", Key: app, Args: []any{agentPath, cfg.Clone()}}
	_, err := perform(ctx, m, call, func(p plan) (struct{}, error) {
		return struct{}{}, m.state.keep(call.Method, app, agentPath, cfg, !p.half())
	})
	return err
}

// StageOperator is part of operator.Stager. While the operator is being
// deleted it returns errors.NotYetAvailable and changes nothing.
func (m *Manager) StageOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) (string, error) {
	call := Call{Method: "StageOperator", Key: app, Args: []any{agentPath, cfg.Clone()}}
	return perform(ctx, m, call, func(plan) (string, error) {
		if err := m.state.write(call.Method, app, agentPath, cfg, false); err != nil {
			return "", err
		}
		return m.state.shown(m.state.records[app]), nil
	})
}

// DeleteOperator is part of operator.Manager.
func (m *Manager) DeleteOperator(ctx context.Context, app string) error {
	_, err := perform(ctx, m, Call{Method: "DeleteOperator", Key: app}, func(p plan) (struct{}, error) {
		m.state.delete(app, p.half())
		return struct{}{}, nil
	})
	return err
}

// Operators is part of operator.Lister. The names are sorted.
func (m *Manager) Operators(ctx context.Context) ([]string, error) {
	return run(ctx, m.faults, Call{Method: "Operators"}, func(plan) ([]string, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		return m.state.names(), nil
	})
}

// WatchOperators is part of operator.Watcher. Its baseline is every
// application of which there is a part of an operator.
func (m *Manager) WatchOperators(ctx context.Context) (facade.StringsWatcher, error) {
	const method = "WatchOperators"
	return run(ctx, m.faults, Call{Method: method}, func(plan) (facade.StringsWatcher, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		return m.state.watchers.add(method, m.faults, m.state.names()), nil
	})
}

// perform takes a call about one application through the faults and acts with
// the state locked.
func perform[T any](ctx context.Context, m *Manager, c Call, act func(plan) (T, error)) (T, error) {
	return run(ctx, m.faults, c, func(p plan) (T, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		var zero T
		if err := facade.ValidateApplicationName(c.Key); err != nil {
			return zero, err
		}
		return act(p)
	})
}

// write stores the configuration and, when start is set, makes the operator be
// as it says.
func (s *managerState) write(method, app, agentPath string, cfg *operator.Config, start bool) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	rec := s.record(app)
	if rec == nil {
		rec = &record{}
	}
	if rec.terminating {
		return beingDeleted(app)
	}
	sameFiles := rec.stored != nil && rec.stored.AgentConf.Equal(cfg.AgentConf) &&
		rec.stored.OperatorInfo.Equal(cfg.OperatorInfo)
	if !s.hideGen && cfg.Generation != rec.generation && !sameFiles {
		return s.conflict(app)
	}
	startSame := !start || equalConfigs(rec.applied, cfg) && rec.agentPath == agentPath
	if equalConfigs(rec.stored, cfg) && startSame {
		return nil
	}

	s.change(app, func() {
		based := rec.generation
		if !sameFiles {
			s.generation++
			rec.generation = fmt.Sprint(s.generation)
		}
		s.records[app] = rec
		rec.stored = cfg.Clone()
		rec.stored.Generation = ""
		if !startSame {
			if rec.applied != nil {
				s.tally(app).restarts++
			}
			rec.start(agentPath, s.clock.Now())
		}
		t := s.tally(app)
		t.writes = append(t.writes, Write{
			Method: method, Time: s.clock.Now(), Shown: cfg.Generation, Replaced: based,
			Generation: rec.generation, SameFiles: sameFiles,
		})
	})
	return nil
}

// keep is write with the files that are stored under the generation given.
func (s *managerState) keep(method, app, agentPath string, cfg *operator.Config, start bool) error {
	if err := cfg.ValidateKeep(); err != nil {
		return err
	}
	rec := s.record(app)
	switch {
	case rec != nil && rec.terminating:
		return beingDeleted(app)
	case rec == nil || rec.stored == nil || s.shown(rec) != cfg.Generation:
		return s.conflict(app)
	}
	cfg = cfg.Clone()
	cfg.AgentConf, cfg.OperatorInfo = rec.stored.AgentConf, rec.stored.OperatorInfo
	return s.write(method, app, agentPath, cfg, start)
}

func beingDeleted(app string) error {
	return errors.NotYetAvailablef("operator of application %q, which is being deleted,", app)
}

// conflict counts a refused write and returns why.
func (s *managerState) conflict(app string) error {
	s.tally(app).conflicts++
	return errors.WithType(errors.Errorf("operator of application %q: its stored configuration is another one", app), operator.ErrConflict)
}

// start makes the operator from what is stored.
func (r *record) start(agentPath string, now time.Time) {
	r.applied, r.agentPath = r.stored.Clone(), agentPath
	// What the operator wrote itself is never replaced.
	if r.live.Equal(r.seed) {
		r.live, r.seed = r.stored.AgentConf, r.stored.AgentConf
	}
	r.status = operator.Status{Phase: operator.Running, Since: now}
}

// delete starts or continues a deletion; half takes only the operator and
// leaves its configuration.
func (s *managerState) delete(app string, half bool) {
	rec := s.record(app)
	switch {
	case rec == nil || rec.terminating:
	case half:
		s.removeApplied(app)
	default:
		t, ok := s.terminate[app]
		if !ok {
			t = s.termination
		}
		if rec.applied == nil || t == (Termination{}) {
			s.remove(app)
			return
		}
		s.change(app, func() {
			rec.terminating, rec.termination = true, t
			if t.For > 0 && !t.Forever {
				rec.until = s.clock.Now().Add(t.For)
				rec.end = s.clock.AfterFunc(t.For, func() { s.finish(app, rec) })
			}
		})
	}
}

// record returns what there is of the operator. A deletion whose time is over
// has ended, also when its timer comes later in the same instant.
func (s *managerState) record(app string) *record {
	rec := s.records[app]
	if rec != nil && !rec.until.IsZero() && !s.clock.Now().Before(rec.until) {
		rec.until = time.Time{}
		s.remove(app)
		return nil
	}
	return rec
}

// finish ends the deletion of the record, if it is still that one.
func (s *managerState) finish(app string, rec *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records[app] == rec {
		s.remove(app)
	}
}

// remove makes everything of the operator be gone.
func (s *managerState) remove(app string) {
	rec := s.records[app]
	if rec == nil {
		return
	}
	if rec.end != nil {
		rec.end.Stop()
	}
	s.change(app, func() { delete(s.records, app) })
}

// removeApplied leaves only the configuration, and nothing when that is not
// there either.
func (s *managerState) removeApplied(app string) {
	rec := s.records[app]
	switch {
	case rec == nil:
	case rec.stored == nil:
		s.remove(app)
	case rec.applied != nil:
		s.change(app, func() {
			if rec.end != nil {
				rec.end.Stop()
			}
			s.records[app] = &record{stored: rec.stored, generation: rec.generation, live: rec.live, seed: rec.seed}
		})
	}
}

// change makes a change of which readers hear late and watchers at once.
func (s *managerState) change(app string, f func()) {
	before := s.view(app)
	f()
	if s.staleReads > 0 || s.staleFor > 0 {
		s.stale[app] = &staleView{view: before, reads: s.staleReads, until: s.clock.Now().Add(s.staleFor)}
	}
	s.watchers.send("WatchOperators", app)
}

func (s *managerState) names() []string { return slices.Sorted(maps.Keys(s.records)) }

func (s *managerState) tally(app string) *tally {
	t := s.tallies[app]
	if t == nil {
		t = &tally{}
		s.tallies[app] = t
	}
	return t
}

// shown is the generation that callers are shown.
func (s *managerState) shown(rec *record) string {
	if s.hideGen {
		return ""
	}
	return rec.generation
}

// equalConfigs compares all but the generation; an empty map is as good as
// none.
func equalConfigs(a, b *operator.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equalImages(a.ImageDetails, b.ImageDetails) &&
		equalImages(a.BaseImageDetails, b.BaseImageDetails) &&
		a.Version == b.Version &&
		equalStorage(a.CharmStorage, b.CharmStorage) &&
		maps.Equal(a.ResourceTags, b.ResourceTags) &&
		a.AgentConf.Equal(b.AgentConf) &&
		a.OperatorInfo.Equal(b.OperatorInfo)
}

func equalImages(a, b facade.ImageDetails) bool {
	for _, secrets := range [][2]*facade.Secret{
		{&a.Password, &b.Password}, {&a.Auth, &b.Auth},
		{&a.IdentityToken, &b.IdentityToken}, {&a.RegistryToken, &b.RegistryToken},
	} {
		if !secrets[0].Equal(*secrets[1]) {
			return false
		}
		*secrets[0], *secrets[1] = facade.Secret{}, facade.Secret{}
	}
	return a == b
}

func equalStorage(a, b *facade.CharmStorage) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.StorageName == b.StorageName && a.Size == b.Size && a.Provider == b.Provider &&
		maps.Equal(a.Attributes, b.Attributes) && maps.Equal(a.ResourceTags, b.ResourceTags)
}
