package managertest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/managertest"
)

// recorder is a managertest.T that keeps what is reported.
type recorder struct {
	ctx    context.Context
	mu     sync.Mutex
	errors []string
}

func (*recorder) Helper()                    {}
func (r *recorder) Context() context.Context { return r.ctx }
func (*recorder) Logf(string, ...any)        {}
func (*recorder) FailNow()                   { runtime.Goexit() }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errors) > 0
}

// run runs one check and records what it reports.
func run(t *testing.T, check managertest.Check, h managertest.Harness) *recorder {
	r := &recorder{ctx: t.Context()}
	var wg sync.WaitGroup
	wg.Go(func() { check.Run(r, h) })
	wg.Wait()
	return r
}

// everything is a manager with everything, for variants to embed.
type everything interface {
	operator.Manager
	operator.Stager
	operator.Glancer
	operator.Lister
	operator.Watcher
}

// variant is a manager with one mistake, and the checks that must see it.
type variant struct {
	broken func(m *fakes.Manager) operator.Manager
	seenBy []string
	vanish func(m *fakes.Manager) func(string) error // or nil for everything
}

func variants() map[string]variant {
	return map[string]variant{
		"looks for conflicts nowhere": {
			broken: func(m *fakes.Manager) operator.Manager { return noConflicts{m} },
			seenBy: []string{
				"UpdateOfAnOlderConfigIsAConflictAndChangesNothing", "OfConcurrentUpdatesOneWins",
				"StagingOverAnotherConfigIsAConflict", "OfSeveralFirstStagersOneWins", "OfSeveralNextStagersOneWins",
			},
		},
		"makes the operator anew on each Ensure": {
			broken: func(m *fakes.Manager) operator.Manager { return remakes{m} },
			seenBy: []string{"SecondEnsureWithEqualConfigChangesNothing", "Issue/RepeatedEnsureWritesNothing"},
		},
		"leaves the configuration behind": {
			broken: func(m *fakes.Manager) operator.Manager { return litters{m} },
			seenBy: []string{"DeletedOperatorGoesAway", "EnsureAfterDeletionMakesANewOne", "Issue/DeployRemoveLoop"},
		},
		"takes a half-made operator for a whole one": {
			broken: func(m *fakes.Manager) operator.Manager { return halfIsWhole{m} },
			seenBy: []string{"HalfMadeOperatorShowsItsConfigAndDoesNotExist", "StagedConfigIsShownWithItsGeneration"},
		},
		"calls a half-made operator terminating": {
			broken: func(m *fakes.Manager) operator.Manager { return halfIsTerminating{m} },
			seenBy: []string{"HalfMadeOperatorShowsItsConfigAndDoesNotExist"},
		},
		"shows half-made operators to nobody": {
			broken: func(m *fakes.Manager) operator.Manager { return halfIsNothing{m} },
			seenBy: []string{"HalfMadeOperatorShowsItsConfigAndDoesNotExist", "WholeAndHalfMadeOperatorsAreListedAndNoOthers"},
		},
		"keeps the caller's config": {
			broken: func(m *fakes.Manager) operator.Manager {
				return &shares{everything: m, given: map[string]*operator.Config{}}
			},
			seenBy: []string{"ConfigsAreNotShared"},
		},
		"quotes what it was given in an error": {
			broken: func(m *fakes.Manager) operator.Manager { return quotes{m} },
			seenBy: []string{"UpdateOfAnOlderConfigIsAConflictAndChangesNothing", "ImpossibleConfigsAreRefusedAndNothingIsMade"},
		},
		"takes absence for an error": {
			broken: func(m *fakes.Manager) operator.Manager { return absenceFails{m} },
			seenBy: []string{
				"AbsentOperatorIsZeroStateAndNotFound", "DeletingTheAbsentIsSuccess", "Issue/ReadDuringRemovalIsAnOutcome",
			},
		},
		"never hears that it was cancelled": {
			broken: func(m *fakes.Manager) operator.Manager { return deaf{m} },
			seenBy: []string{"CancelledContextIsAnErrorAndNothingIsDone"},
		},
		"takes any name": {
			broken: func(m *fakes.Manager) operator.Manager { return renames{m, tame} },
			seenBy: []string{"InvalidNamesAreRefusedAndNothingIsMade"},
		},
		"cuts long names": {
			broken: func(m *fakes.Manager) operator.Manager {
				return renames{m, func(app string) string { return app[:min(len(app), 52)] }}
			},
			seenBy: []string{"Issue/LongNamesWorkAndDoNotClash"},
		},
		"refuses long names": {
			broken: func(m *fakes.Manager) operator.Manager {
				return renames{m, func(app string) string { return app + strings.Repeat("x", facade.MaxApplicationName-52) }}
			},
			seenBy: []string{"Issue/LongNamesWorkAndDoNotClash"},
		},
		"lists what is not its own": {
			broken: func(m *fakes.Manager) operator.Manager { return listsTwice{m} },
			seenBy: []string{"WholeAndHalfMadeOperatorsAreListedAndNoOthers"},
		},
		"watches without a baseline": {
			broken: func(m *fakes.Manager) operator.Manager { return noBaseline{m} },
			seenBy: []string{"WatcherTellsTheBaselineThenChanges", "WatcherEndsWhenKilled"},
		},
		"watches once": {
			broken: func(m *fakes.Manager) operator.Manager { return silent{m} },
			seenBy: []string{"WatcherTellsTheBaselineThenChanges"},
		},
		"takes impossible configs": {
			broken: func(m *fakes.Manager) operator.Manager { return fillsIn{m} },
			seenBy: []string{"ImpossibleConfigsAreRefusedAndNothingIsMade", "ImpossibleConfigsLeaveAnOperatorAlone"},
		},
		"stages by starting": {
			broken: func(m *fakes.Manager) operator.Manager { return stageStarts{m} },
			seenBy: []string{"StagedConfigIsShownWithItsGeneration"},
		},
		"glances at the files": {
			broken: func(m *fakes.Manager) operator.Manager { return staresAt{m} },
			seenBy: []string{"GlanceShowsTheGenerationAndNoFiles"},
		},
		"glances at what was once": {
			broken: func(m *fakes.Manager) operator.Manager {
				return &glancesOnce{everything: m, first: map[string]*operator.Operator{}}
			},
			seenBy: []string{"GlanceAtTheAbsentIsNotFound", "NoGenerationComesAgainWithOtherFiles"},
		},
		"glances at everything but the tags": {
			broken: func(m *fakes.Manager) operator.Manager { return glancesAtLittle{m} },
			seenBy: []string{"GlanceShowsTheGenerationAndNoFiles"},
		},
		"finds something at each glance": {
			broken: func(m *fakes.Manager) operator.Manager { return seesGhosts{m} },
			seenBy: []string{"GlanceAtTheAbsentIsNotFound"},
		},
		"counts the generations of each operator anew": {
			broken: func(m *fakes.Manager) operator.Manager {
				return &recounts{everything: m, shown: map[string][]string{}}
			},
			seenBy: []string{"NoGenerationComesAgainWithOtherFiles"},
		},
		"keeps whatever is stored": {
			broken: func(m *fakes.Manager) operator.Manager { return keepsWhatever{m} },
			seenBy: []string{"ToKeepAnotherGenerationIsAConflictAndChangesNothing"},
		},
		"keeps what it has changed already": {
			broken: func(m *fakes.Manager) operator.Manager { return looksLate{m} },
			seenBy: []string{"ToKeepAnotherGenerationIsAConflictAndChangesNothing"},
		},
		"keeps what is not there": {
			broken: func(m *fakes.Manager) operator.Manager { return keepsNothing{m} },
			seenBy: []string{"ToKeepTheAbsentIsAConflictAndMakesNothing"},
		},
		"keeps by doing nothing": {
			broken: func(m *fakes.Manager) operator.Manager { return keepsIdly{m} },
			seenBy: []string{
				"KeptIsWhatIsBesideTheFilesToo", "HalfMadeOperatorIsCompletedWhenKept", "VanishedPartIsBroughtBackWhenKept",
			},
			vanish: func(m *fakes.Manager) func(string) error {
				return func(app string) error { m.VanishOperator(app); return nil }
			},
		},
		"makes anew what it keeps": {
			broken: func(m *fakes.Manager) operator.Manager { return remakesKept{m} },
			seenBy: []string{"WhatIsKeptAsItIsDoesNotChange"},
		},
		"keeps files that it is given": {
			broken: func(m *fakes.Manager) operator.Manager { return takesFiles{m} },
			seenBy: []string{"ImpossibleConfigsAreNotKept"},
		},
		"fills in what it keeps": {
			broken: func(m *fakes.Manager) operator.Manager { return fillsInKept{m} },
			seenBy: []string{"KeptIsWhatIsBesideTheFilesToo"},
		},
		"keeps under any name": {
			broken: func(m *fakes.Manager) operator.Manager { return tamesKept{m} },
			seenBy: []string{"InvalidNamesAreRefusedAndNothingIsMade"},
		},
		"never hears that it was cancelled while it keeps": {
			broken: func(m *fakes.Manager) operator.Manager { return deafKeeper{m} },
			seenBy: []string{"CancelledContextIsAnErrorAndNothingIsDone"},
		},
		"quotes what it is to keep": {
			broken: func(m *fakes.Manager) operator.Manager { return quotesKept{m} },
			seenBy: []string{"ToKeepAnotherGenerationIsAConflictAndChangesNothing"},
		},
		"looks first and keeps later": {
			broken: func(m *fakes.Manager) operator.Manager { return looksFirst{m} },
			seenBy: []string{"UpdateIsNotUndoneByWhoKeeps"},
		},
		"takes all operators away with one": {
			broken: func(m *fakes.Manager) operator.Manager { return deletesAll{m} },
			seenBy: []string{"DeletedOperatorGoesAway"},
		},
		"mixes up its files": {
			broken: func(m *fakes.Manager) operator.Manager { return swaps{m} },
			seenBy: []string{"EnsuredOperatorIsThereAndShowsItsConfig"},
		},
	}
}

func TestBrokenManagersAreCaught(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			var seenBy []string
			for _, check := range managertest.Checks() {
				synctest.Test(t, func(t *testing.T) {
					m := newFake()
					h := harness(m, v.broken)
					h.Budget, h.Poll, h.Loops = time.Second, 100*time.Millisecond, 5
					if v.vanish != nil {
						h.Vanish = v.vanish(m)
					}
					if run(t, check, h).failed() {
						seenBy = append(seenBy, check.Name)
					}
				})
			}
			for _, want := range v.seenBy {
				if !slices.Contains(seenBy, want) {
					t.Errorf("%s does not see it; %q do", want, seenBy)
				}
			}
		})
	}
}

// Hooks that know what runs see a manager that restarts it, or that lets the
// stored file replace the operator's own.
func TestBrokenHooksAreCaught(t *testing.T) {
	tests := map[string]struct {
		change func(*managertest.Harness, *fakes.Manager)
		seenBy string
	}{
		"own file lost": {
			func(h *managertest.Harness, m *fakes.Manager) {
				h.AgentConf = func(app string) (facade.Secret, error) { return m.Config(app).AgentConf, nil }
			},
			"Issue/SeedNeverReplacesTheOperatorsOwnFile",
		},
		"old certificate in use": {
			func(h *managertest.Harness, m *fakes.Manager) {
				h.OperatorInfo = func(app string) (facade.Secret, error) {
					return managertest.Config(app, 1).OperatorInfo, nil
				}
			},
			"Issue/EffectiveChangeReachesTheOperator",
		},
		"restarted on each Ensure": {
			func(h *managertest.Harness, m *fakes.Manager) {
				h.Incarnation = func(app string) string { return fmt.Sprint(m.Faults().Count("EnsureOperator", app)) }
			},
			"Issue/RepeatedEnsureWritesNothing",
		},
		"restarted by staging": {
			func(h *managertest.Harness, m *fakes.Manager) {
				h.Incarnation = func(app string) string { return fmt.Sprint(m.Writes(app)) }
			},
			"StagingChangesNothingThatRuns",
		},
		"forgets at a restart": {
			func(h *managertest.Harness, m *fakes.Manager) {
				h.Restart = func() (operator.Manager, error) { return newFake(), nil }
			},
			"RestartKeepsEverything",
		},
		"vanishing is not noticed": {
			func(h *managertest.Harness, m *fakes.Manager) {
				h.Vanish = func(string) error { return nil }
			},
			"Issue/VanishedOperatorIsMadeAgain",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(managertest.Checks(), func(c managertest.Check) bool { return c.Name == test.seenBy })
			synctest.Test(t, func(t *testing.T) {
				m := newFake()
				h := harness(m, full)
				test.change(&h, m)
				if !run(t, managertest.Checks()[i], h).failed() {
					t.Errorf("%s does not see it", test.seenBy)
				}
			})
		})
	}
}

// The variants. Each is the fake with one method, or a few, done wrong.

type noConflicts struct{ *fakes.Manager }

func (b noConflicts) shown(app string, cfg *operator.Config) *operator.Config {
	cfg = cfg.Clone()
	if stored := b.Config(app); stored != nil && cfg != nil {
		cfg.Generation = stored.Generation
	}
	return cfg
}

func (b noConflicts) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	return b.Manager.EnsureOperator(ctx, app, path, b.shown(app, cfg))
}

func (b noConflicts) StageOperator(ctx context.Context, app, path string, cfg *operator.Config) (string, error) {
	return b.Manager.StageOperator(ctx, app, path, b.shown(app, cfg))
}

type remakes struct{ *fakes.Manager }

func (b remakes) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	if stored := b.Config(app); stored != nil && cfg != nil && b.State(app).Exists {
		b.Vanish(app)
		cfg = cfg.Clone()
		cfg.Generation = ""
	}
	return b.Manager.EnsureOperator(ctx, app, path, cfg)
}

type litters struct{ *fakes.Manager }

func (b litters) DeleteOperator(_ context.Context, app string) error {
	b.VanishOperator(app)
	return nil
}

type halfIsWhole struct{ *fakes.Manager }

func (b halfIsWhole) OperatorExists(ctx context.Context, app string) (operator.State, error) {
	state, err := b.Manager.OperatorExists(ctx, app)
	state.Exists = b.Config(app) != nil
	return state, err
}

type halfIsTerminating struct{ *fakes.Manager }

func (b halfIsTerminating) OperatorExists(ctx context.Context, app string) (operator.State, error) {
	state, err := b.Manager.OperatorExists(ctx, app)
	state.Terminating = !state.Exists && b.Config(app) != nil
	return state, err
}

type halfIsNothing struct{ *fakes.Manager }

func (b halfIsNothing) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	if !b.State(app).Exists {
		return nil, errors.NotFoundf("operator")
	}
	return b.Manager.Operator(ctx, app)
}

func (b halfIsNothing) Operators(ctx context.Context) ([]string, error) {
	names, err := b.Manager.Operators(ctx)
	return slices.DeleteFunc(names, func(app string) bool { return !b.State(app).Exists }), err
}

type shares struct {
	everything
	mu    sync.Mutex
	given map[string]*operator.Config
}

func (b *shares) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	err := b.everything.EnsureOperator(ctx, app, path, cfg)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.given[app] = cfg
	}
	return err
}

func (b *shares) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := b.everything.Operator(ctx, app)
	b.mu.Lock()
	defer b.mu.Unlock()
	if cfg := b.given[app]; cfg != nil && err == nil {
		gen := op.Config.Generation
		op.Config = cfg.Clone()
		op.Config.Generation = gen
	}
	return op, err
}

type quotes struct{ *fakes.Manager }

func (b quotes) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	err := b.Manager.EnsureOperator(ctx, app, path, cfg)
	if err != nil && cfg != nil {
		return errors.Annotatef(err, "storing %s with %s", cfg.AgentConf.Reveal(), cfg.ImageDetails.Password.Reveal())
	}
	return err
}

type absenceFails struct{ *fakes.Manager }

func (b absenceFails) OperatorExists(ctx context.Context, app string) (operator.State, error) {
	if b.Config(app) == nil {
		return operator.State{}, errors.NotFoundf("operator")
	}
	return b.Manager.OperatorExists(ctx, app)
}

func (b absenceFails) DeleteOperator(ctx context.Context, app string) error {
	if b.Config(app) == nil {
		return errors.NotFoundf("operator")
	}
	return b.Manager.DeleteOperator(ctx, app)
}

type deaf struct{ *fakes.Manager }

func (b deaf) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	return b.Manager.EnsureOperator(context.WithoutCancel(ctx), app, path, cfg)
}

// renames keeps each operator under another name.
type renames struct {
	m    *fakes.Manager
	name func(string) string
}

func tame(app string) string {
	if facade.ValidateApplicationName(app) != nil {
		return "tame"
	}
	return app
}

func (b renames) OperatorExists(ctx context.Context, app string) (operator.State, error) {
	return b.m.OperatorExists(ctx, b.name(app))
}

func (b renames) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	return b.m.Operator(ctx, b.name(app))
}

func (b renames) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	return b.m.EnsureOperator(ctx, b.name(app), path, cfg)
}

func (b renames) DeleteOperator(ctx context.Context, app string) error {
	return b.m.DeleteOperator(ctx, b.name(app))
}

type listsTwice struct{ *fakes.Manager }

func (b listsTwice) Operators(ctx context.Context) ([]string, error) {
	names, err := b.Manager.Operators(ctx)
	return append(names, names...), err
}

type noBaseline struct{ *fakes.Manager }

func (b noBaseline) WatchOperators(context.Context) (facade.StringsWatcher, error) {
	return fakes.NewWatcher(func(a, b []string) []string { return append(a, b...) }), nil
}

type silent struct{ *fakes.Manager }

func (b silent) WatchOperators(context.Context) (facade.StringsWatcher, error) {
	return fakes.NewStringsWatcher(b.Apps()...), nil
}

type fillsIn struct{ *fakes.Manager }

func (b fillsIn) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	if cfg == nil || cfg.Validate() != nil {
		cfg = managertest.Config(app, 7)
		if stored := b.Config(app); stored != nil {
			cfg.Generation = stored.Generation
		}
	}
	return b.Manager.EnsureOperator(ctx, app, path, cfg)
}

type stageStarts struct{ *fakes.Manager }

func (b stageStarts) StageOperator(ctx context.Context, app, path string, cfg *operator.Config) (string, error) {
	if err := b.EnsureOperator(ctx, app, path, cfg); err != nil {
		return "", err
	}
	return b.Config(app).Generation, nil
}

type deletesAll struct{ *fakes.Manager }

func (b deletesAll) DeleteOperator(ctx context.Context, app string) error {
	for _, other := range b.Apps() {
		b.Vanish(other)
	}
	return b.Manager.DeleteOperator(ctx, app)
}

type swaps struct{ *fakes.Manager }

func (b swaps) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := b.Manager.Operator(ctx, app)
	if err == nil {
		op.Config.AgentConf, op.Config.OperatorInfo = op.Config.OperatorInfo, op.Config.AgentConf
	}
	return op, err
}

type staresAt struct{ *fakes.Manager }

func (b staresAt) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	return b.Operator(ctx, app)
}

// glancesOnce remembers what it has seen.
type glancesOnce struct {
	everything
	mu    sync.Mutex
	first map[string]*operator.Operator
}

func (b *glancesOnce) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := b.everything.GlanceOperator(ctx, app)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first[app] == nil {
		b.first[app] = op
	}
	if first := b.first[app]; first != nil {
		seen := *first
		seen.Config = first.Config.Clone()
		return &seen, nil
	}
	return op, err
}

type glancesAtLittle struct{ *fakes.Manager }

func (b glancesAtLittle) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := b.Manager.GlanceOperator(ctx, app)
	if err == nil {
		op.Config.ResourceTags = nil
	}
	return op, err
}

type seesGhosts struct{ *fakes.Manager }

func (b seesGhosts) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := b.Manager.GlanceOperator(ctx, app)
	if errors.Is(err, errors.NotFound) {
		return &operator.Operator{Config: &operator.Config{}}, nil
	}
	return op, err
}

// recounts has generations 1, 2, ... of each operator.
type recounts struct {
	everything
	mu    sync.Mutex
	shown map[string][]string // the true ones
}

// number is what it makes of a true generation.
func (b *recounts) number(app string, op *operator.Operator) {
	if op == nil || op.Config.Generation == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.shown[app], op.Config.Generation)
	if i < 0 {
		i = len(b.shown[app])
		b.shown[app] = append(b.shown[app], op.Config.Generation)
	}
	op.Config.Generation = fmt.Sprint(i + 1)
}

// meant is the configuration with the true generation.
func (b *recounts) meant(app string, cfg *operator.Config) *operator.Config {
	cfg = cfg.Clone()
	b.mu.Lock()
	defer b.mu.Unlock()
	if cfg == nil {
		return nil
	}
	if n, err := strconv.Atoi(cfg.Generation); err == nil && n >= 1 && n <= len(b.shown[app]) {
		cfg.Generation = b.shown[app][n-1]
	}
	return cfg
}

func (b *recounts) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := b.everything.Operator(ctx, app)
	b.number(app, op)
	return op, err
}

func (b *recounts) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := b.everything.GlanceOperator(ctx, app)
	b.number(app, op)
	return op, err
}

func (b *recounts) EnsureOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	return b.everything.EnsureOperator(ctx, app, path, b.meant(app, cfg))
}

func (b *recounts) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	return b.everything.KeepOperator(ctx, app, path, b.meant(app, cfg))
}

func (b *recounts) DeleteOperator(ctx context.Context, app string) error {
	b.mu.Lock()
	delete(b.shown, app)
	b.mu.Unlock()
	return b.everything.DeleteOperator(ctx, app)
}

type keepsWhatever struct{ *fakes.Manager }

func (b keepsWhatever) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	if stored := b.Config(app); stored != nil && cfg != nil && cfg.Generation != "" {
		cfg = cfg.Clone()
		cfg.Generation = stored.Generation
	}
	return b.Manager.KeepOperator(ctx, app, path, cfg)
}

// looksLate keeps first and compares then.
type looksLate struct{ *fakes.Manager }

func (b looksLate) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	err := b.Manager.KeepOperator(ctx, app, path, cfg)
	if errors.Is(err, operator.ErrConflict) && b.Config(app) != nil {
		_ = keepsWhatever(b).KeepOperator(ctx, app, path, cfg)
	}
	return err
}

// keepsNothing makes up what is not there.
type keepsNothing struct{ *fakes.Manager }

func (b keepsNothing) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	if cfg.ValidateKeep() == nil && b.Config(app) == nil {
		return b.EnsureOperator(ctx, app, path, managertest.Config(app, 1))
	}
	return b.Manager.KeepOperator(ctx, app, path, cfg)
}

// keepsIdly only compares.
type keepsIdly struct{ *fakes.Manager }

func (b keepsIdly) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	if stored := b.Config(app); stored != nil && cfg.ValidateKeep() == nil && stored.Generation == cfg.Generation {
		return ctx.Err()
	}
	return b.Manager.KeepOperator(ctx, app, path, cfg)
}

type remakesKept struct{ *fakes.Manager }

func (b remakesKept) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	b.VanishOperator(app)
	return b.Manager.KeepOperator(ctx, app, path, cfg)
}

type takesFiles struct{ *fakes.Manager }

func (b takesFiles) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	if cfg = cfg.Clone(); cfg != nil {
		cfg.AgentConf, cfg.OperatorInfo = facade.Secret{}, facade.Secret{}
	}
	return b.Manager.KeepOperator(ctx, app, path, cfg)
}

// fillsInKept fills the files in where its caller sees them.
type fillsInKept struct{ *fakes.Manager }

func (b fillsInKept) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	err := b.Manager.KeepOperator(ctx, app, path, cfg)
	if stored := b.Config(app); err == nil {
		cfg.AgentConf, cfg.OperatorInfo = stored.AgentConf, stored.OperatorInfo
	}
	return err
}

type tamesKept struct{ *fakes.Manager }

func (b tamesKept) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	return b.Manager.KeepOperator(ctx, tame(app), path, cfg)
}

type deafKeeper struct{ *fakes.Manager }

func (b deafKeeper) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	return b.Manager.KeepOperator(context.WithoutCancel(ctx), app, path, cfg)
}

type quotesKept struct{ *fakes.Manager }

func (b quotesKept) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	err := b.Manager.KeepOperator(ctx, app, path, cfg)
	if err != nil && cfg != nil {
		return errors.Annotatef(err, "keeping %s", cfg.ImageDetails.Password.Reveal())
	}
	return err
}

// looksFirst takes its time between comparing and storing.
type looksFirst struct{ *fakes.Manager }

func (b looksFirst) KeepOperator(ctx context.Context, app, path string, cfg *operator.Config) error {
	if err := b.Manager.KeepOperator(ctx, app, path, cfg); err != nil {
		return err
	}
	stored := b.Config(app)
	time.Sleep(3 * time.Millisecond)
	if now := b.Config(app); stored != nil && now != nil {
		stored.Generation = now.Generation
		return b.EnsureOperator(ctx, app, path, stored)
	}
	return nil
}
