package managertest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
	operator.Lister
	operator.Watcher
}

// variant is a manager with one mistake, and the checks that must see it.
type variant struct {
	broken func(m *fakes.Manager) operator.Manager
	seenBy []string
}

func variants() map[string]variant {
	return map[string]variant{
		"looks for conflicts nowhere": {
			func(m *fakes.Manager) operator.Manager { return noConflicts{m} },
			[]string{
				"UpdateOfAnOlderConfigIsAConflictAndChangesNothing", "OfConcurrentUpdatesOneWins",
				"StagingOverAnotherConfigIsAConflict", "OfSeveralFirstStagersOneWins", "OfSeveralNextStagersOneWins",
			},
		},
		"makes the operator anew on each Ensure": {
			func(m *fakes.Manager) operator.Manager { return remakes{m} },
			[]string{"SecondEnsureWithEqualConfigChangesNothing", "Issue/RepeatedEnsureWritesNothing"},
		},
		"leaves the configuration behind": {
			func(m *fakes.Manager) operator.Manager { return litters{m} },
			[]string{"DeletedOperatorGoesAway", "EnsureAfterDeletionMakesANewOne", "Issue/DeployRemoveLoop"},
		},
		"takes a half-made operator for a whole one": {
			func(m *fakes.Manager) operator.Manager { return halfIsWhole{m} },
			[]string{"HalfMadeOperatorShowsItsConfigAndDoesNotExist", "StagedConfigIsShownWithItsGeneration"},
		},
		"calls a half-made operator terminating": {
			func(m *fakes.Manager) operator.Manager { return halfIsTerminating{m} },
			[]string{"HalfMadeOperatorShowsItsConfigAndDoesNotExist"},
		},
		"shows half-made operators to nobody": {
			func(m *fakes.Manager) operator.Manager { return halfIsNothing{m} },
			[]string{"HalfMadeOperatorShowsItsConfigAndDoesNotExist", "WholeAndHalfMadeOperatorsAreListedAndNoOthers"},
		},
		"keeps the caller's config": {
			func(m *fakes.Manager) operator.Manager {
				return &shares{everything: m, given: map[string]*operator.Config{}}
			},
			[]string{"ConfigsAreNotShared"},
		},
		"quotes what it was given in an error": {
			func(m *fakes.Manager) operator.Manager { return quotes{m} },
			[]string{"UpdateOfAnOlderConfigIsAConflictAndChangesNothing", "ImpossibleConfigsAreRefusedAndNothingIsMade"},
		},
		"takes absence for an error": {
			func(m *fakes.Manager) operator.Manager { return absenceFails{m} },
			[]string{
				"AbsentOperatorIsZeroStateAndNotFound", "DeletingTheAbsentIsSuccess", "Issue/ReadDuringRemovalIsAnOutcome",
			},
		},
		"never hears that it was cancelled": {
			func(m *fakes.Manager) operator.Manager { return deaf{m} },
			[]string{"CancelledContextIsAnErrorAndNothingIsDone"},
		},
		"takes any name": {
			func(m *fakes.Manager) operator.Manager { return renames{m, tame} },
			[]string{"InvalidNamesAreRefusedAndNothingIsMade"},
		},
		"cuts long names": {
			func(m *fakes.Manager) operator.Manager {
				return renames{m, func(app string) string { return app[:min(len(app), 52)] }}
			},
			[]string{"Issue/LongNamesWorkAndDoNotClash"},
		},
		"refuses long names": {
			func(m *fakes.Manager) operator.Manager {
				return renames{m, func(app string) string { return app + strings.Repeat("x", facade.MaxApplicationName-52) }}
			},
			[]string{"Issue/LongNamesWorkAndDoNotClash"},
		},
		"lists what is not its own": {
			func(m *fakes.Manager) operator.Manager { return listsTwice{m} },
			[]string{"WholeAndHalfMadeOperatorsAreListedAndNoOthers"},
		},
		"watches without a baseline": {
			func(m *fakes.Manager) operator.Manager { return noBaseline{m} },
			[]string{"WatcherTellsTheBaselineThenChanges", "WatcherEndsWhenKilled"},
		},
		"watches once": {
			func(m *fakes.Manager) operator.Manager { return silent{m} },
			[]string{"WatcherTellsTheBaselineThenChanges"},
		},
		"takes impossible configs": {
			func(m *fakes.Manager) operator.Manager { return fillsIn{m} },
			[]string{"ImpossibleConfigsAreRefusedAndNothingIsMade", "ImpossibleConfigsLeaveAnOperatorAlone"},
		},
		"stages by starting": {
			func(m *fakes.Manager) operator.Manager { return stageStarts{m} },
			[]string{"StagedConfigIsShownWithItsGeneration"},
		},
		"takes all operators away with one": {
			func(m *fakes.Manager) operator.Manager { return deletesAll{m} },
			[]string{"DeletedOperatorGoesAway"},
		},
		"mixes up its files": {
			func(m *fakes.Manager) operator.Manager { return swaps{m} },
			[]string{"EnsuredOperatorIsThereAndShowsItsConfig"},
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
