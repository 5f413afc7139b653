package managertest

import (
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// What a provisioner does in every pass about an operator that it knows: it
// glances, and has it kept.

func glancingChecks() []Check {
	both := func(needs func(Harness) string) func(Harness) string {
		return func(h Harness) string {
			if lack := needsGlancer(h); lack != "" {
				return lack
			}
			return needs(h)
		}
	}
	return []Check{
		{Name: "GlanceShowsTheGenerationAndNoFiles", needs: needsGlancer, run: checkGlance},
		{Name: "GlanceAtTheAbsentIsNotFound", needs: needsGlancer, run: checkGlanceAbsent},
		{Name: "NoGenerationComesAgainWithOtherFiles", needs: needsGlancer, run: checkGlanceUpdate},
		{Name: "WhatIsKeptAsItIsDoesNotChange", needs: needsGlancer, run: checkKeep},
		{Name: "KeptIsWhatIsBesideTheFilesToo", needs: needsGlancer, run: checkKeepBeside},
		{Name: "ToKeepAnotherGenerationIsAConflictAndChangesNothing", needs: needsGlancer, run: checkKeepConflict},
		{Name: "ToKeepTheAbsentIsAConflictAndMakesNothing", needs: needsGlancer, run: checkKeepAbsent},
		{Name: "ImpossibleConfigsAreNotKept", needs: needsGlancer, run: checkKeepImpossible},
		{Name: "HalfMadeOperatorIsCompletedWhenKept", needs: both(needsHalfMaking), run: checkKeepHalfMade},
		{Name: "VanishedPartIsBroughtBackWhenKept", needs: both(needsVanish), run: checkKeepVanished},
		{Name: "UpdateIsNotUndoneByWhoKeeps", needs: needsGlancer, run: checkKeepAndUpdate},
	}
}

func needsGlancer(h Harness) string {
	if _, ok := h.Manager.(operator.Glancer); !ok {
		return "the manager is no operator.Glancer"
	}
	return ""
}

// isGlancer reports whether the manager glances: it may say that it cannot after
// all.
func (c *checker) isGlancer() bool {
	if needsGlancer(c.Harness) != "" {
		return false
	}
	_, err := c.tryGlance(c.app(0))
	if errors.Is(err, errors.NotSupported) {
		c.Logf("does not apply: GlanceOperator is not supported")
		return false
	}
	return true
}

func (c *checker) tryGlance(app string) (*operator.Operator, error) {
	op, err := c.Manager.(operator.Glancer).GlanceOperator(c.Context(), app)
	return op, c.looked("GlanceOperator", err)
}

func (c *checker) tryKeep(app string, cfg *operator.Config) error {
	return c.looked("KeepOperator", c.Manager.(operator.Glancer).KeepOperator(c.Context(), app, c.AgentPath, cfg))
}

// kept is the configuration for the application as it is to be kept.
func (c *checker) kept(app, generation string) *operator.Config {
	cfg := c.config(app, 1)
	cfg.AgentConf, cfg.OperatorInfo, cfg.Generation = facade.Secret{}, facade.Secret{}, generation
	return cfg
}

func (c *checker) keep(app string, cfg *operator.Config) {
	c.Helper()
	if err := c.tryKeep(app, cfg); err != nil {
		c.fatalf("KeepOperator(%q): %v", app, err)
	}
}

// glances makes the application's operator and returns its generation. It is
// false when the manager cannot glance after all.
func (c *checker) glances(app string) (generation string, ok bool) {
	c.Helper()
	if !c.isGlancer() {
		return "", false
	}
	generation = c.made(app, c.config(app, 1))
	if generation == "" {
		c.fatalf("a manager that is glanced at shows no generation of %q", app)
	}
	return generation, true
}

// glance waits until a glance shows the generation, since reads may lag behind
// writes, and returns what it shows.
func (c *checker) glance(app, generation string) *operator.Operator {
	c.Helper()
	var op *operator.Operator
	c.eventually(fmt.Sprintf("generation of %q seen at a glance", app), func() string {
		var err error
		op, err = c.tryGlance(app)
		switch {
		case err != nil:
			return err.Error()
		case op == nil || op.Config == nil:
			return "no Config and no error"
		case op.Config.Generation != generation:
			return fmt.Sprintf("it is %q, and Operator shows %q", op.Config.Generation, generation)
		}
		return ""
	})
	return op
}

// checkGlance compares a glance with the full view.
func checkGlance(c *checker) {
	app := c.app(0)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	got, want := c.glance(app, gen), c.operator(app)
	if !got.Config.AgentConf.IsZero() || !got.Config.OperatorInfo.IsZero() {
		c.Errorf("a glance at %q shows the stored files", app)
	}
	if got.ID != want.ID || got.Dying != want.Dying {
		c.Errorf("a glance shows the operator %q, dying %t, and Operator %q, %t", got.ID, got.Dying, want.ID, want.Dying)
	}
	if got.Config.Version != want.Config.Version || !maps.Equal(got.Config.ResourceTags, want.Config.ResourceTags) {
		c.Errorf("a glance shows version %q and tags %q, and Operator %q and %q",
			got.Config.Version, got.Config.ResourceTags, want.Config.Version, want.Config.ResourceTags)
	}
	c.clean("the operator's ID at a glance", got.ID)
	c.clean("the operator's status at a glance", got.Status.Message)

	// It is the caller's, as what Operator shows.
	clear(got.Config.ResourceTags)
	got.Config.Generation = "another"
	c.shows(app, c.config(app, 1))
	if again := c.glance(app, gen); len(again.Config.ResourceTags) != len(want.Config.ResourceTags) {
		c.Errorf("what a glance has shown is shared with the manager")
	}
}

// checkGlanceAbsent has nothing there, not yet and not any more.
func checkGlanceAbsent(c *checker) {
	app := c.app(0)
	absent := func() {
		c.Helper()
		op, err := c.tryGlance(app)
		if !errors.Is(err, errors.NotFound) || op != nil {
			c.Errorf("a glance at what is not there: %v, error %v, want errors.NotFound", op != nil, err)
		}
	}
	if !c.isGlancer() {
		return
	}
	absent()
	c.glance(app, c.made(app, c.config(app, 1)))
	c.removed(app)
	c.eventually("nothing seen at a glance", func() string {
		if _, err := c.tryGlance(app); !errors.Is(err, errors.NotFound) {
			return fmt.Sprintf("error %v, want errors.NotFound", err)
		}
		return ""
	})
	absent()
}

// checkGlanceUpdate is what all of it hangs on: whoever sees the generation that
// it knows takes the files for those that it knows. The operator that is made
// anew is one of an application that was removed and deployed again.
func checkGlanceUpdate(c *checker) {
	app := c.app(0)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	seen := map[string]string{gen: "the first files"}
	for n := 2; n <= 5; n++ {
		cfg := c.config(app, n)
		what := fmt.Sprintf("update %d", n)
		if n >= 4 {
			what = fmt.Sprintf("deletion and new files %d", n)
			c.removed(app)
		} else {
			cfg.Generation = gen
		}
		gen = c.made(app, cfg)
		if of, again := seen[gen]; again {
			c.Errorf("the generation after %s is %q, as that of %s", what, gen, of)
		}
		seen[gen] = what
		c.glance(app, gen)
	}
}

// checkKeep is what most passes do.
func checkKeep(c *checker) {
	app := c.app(0)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	c.unchanged(app, func() {
		for range 5 {
			c.keep(app, c.kept(app, c.glance(app, gen).Config.Generation))
		}
	})
	c.whole(app)
}

// checkKeepBeside changes what is not in the files. Afterwards all is as if it
// had been ensured with them.
func checkKeepBeside(c *checker) {
	app := c.app(0)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	before := c.operator(app).Config
	cfg := c.kept(app, gen)
	const version, tag = "2.9.50", "second"
	cfg.Version = version
	cfg.ResourceTags = map[string]string{"purpose": "conformance", tag: "yes"}
	given := cfg.Clone()
	c.keep(app, cfg)
	if !cfg.AgentConf.IsZero() || !cfg.OperatorInfo.IsZero() || cfg.Generation != given.Generation ||
		!maps.Equal(cfg.ResourceTags, given.ResourceTags) {
		c.Errorf("KeepOperator changed the config that it was given")
	}
	c.whole(app)
	c.shows(app, c.config(app, 1))
	c.eventually("what was kept with the files shown", func() string {
		now := c.operator(app).Config
		switch {
		case before.Version != "" && now.Version != version:
			return fmt.Sprintf("the version is %q", now.Version)
		case len(before.ResourceTags) > 0 && now.ResourceTags[tag] == "":
			return fmt.Sprintf("the tags are %q", now.ResourceTags)
		}
		return ""
	})

	same := c.config(app, 1)
	same.Version, same.ResourceTags = cfg.Version, cfg.ResourceTags
	c.unchanged(app, func() {
		// What is beside the files may count for the generation, or not.
		same.Generation = c.shows(app, c.config(app, 1))
		c.ensure(app, same)
		cfg.Generation = same.Generation
		c.keep(app, cfg)
	})
}

// checkKeepConflict is a provisioner that knows files which another one has
// replaced. All that it wants was worked out beside these files, and may be as
// old.
func checkKeepConflict(c *checker) {
	app := c.app(0)
	old, ok := c.glances(app)
	if !ok {
		return
	}
	update := c.config(app, 2)
	update.Generation = old
	c.made(app, update)
	version := c.operator(app).Config.Version
	c.unchanged(app, func() {
		for _, gen := range []string{old, "no-such-generation"} {
			cfg := c.kept(app, gen)
			cfg.Version = "1.0.0"
			cfg.ImageDetails.Username = "puller"
			cfg.ImageDetails.Password = facade.NewSecret("canary-of-the-registry")
			c.conflicts("keeping another generation", c.tryKeep(app, c.guarded(cfg)))
		}
	})
	if now := c.operator(app).Config.Version; now != version {
		c.Errorf("the version of %q became %q by a conflict", app, now)
	}
	c.shows(app, update)
}

// checkKeepAbsent has all of it vanish between the glance and the keeping: there
// are no files left to keep it with.
func checkKeepAbsent(c *checker) {
	app, never := c.app(0), c.app(1)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	c.conflicts("keeping what was never there", c.tryKeep(never, c.kept(never, gen)))
	c.absent(never)
	c.removed(app)
	c.conflicts("keeping what was deleted", c.tryKeep(app, c.kept(app, gen)))
	c.absent(app)
}

// checkKeepImpossible gives what cannot be meant.
func checkKeepImpossible(c *checker) {
	app := c.app(0)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	withAgentConf, withInfo, noProvider := c.kept(app, gen), c.kept(app, gen), c.kept(app, gen)
	withAgentConf.AgentConf = c.config(app, 1).AgentConf
	withInfo.OperatorInfo = c.config(app, 2).OperatorInfo
	noProvider.CharmStorage = &facade.CharmStorage{StorageName: "data", Size: 1024}
	c.unchanged(app, func() {
		for what, cfg := range map[string]*operator.Config{
			"nil config": nil, "AgentConf": withAgentConf, "OperatorInfo": withInfo,
			"empty Generation": c.kept(app, ""), "storage without a provider": noProvider,
		} {
			if err := c.tryKeep(app, cfg); !errors.Is(err, errors.NotValid) {
				c.Errorf("KeepOperator with %s: error %v, want errors.NotValid", what, err)
			}
		}
	})
	c.shows(app, c.config(app, 1))
}

// checkKeepHalfMade has a crash leave the configuration alone.
func checkKeepHalfMade(c *checker) {
	app := c.app(0)
	if _, ok := c.glances(c.app(1)); !ok {
		return
	}
	c.halfMade(app, c.config(app, 1))
	gen := c.shows(app, c.config(app, 1))
	c.keep(app, c.kept(app, c.glance(app, gen).Config.Generation))
	c.whole(app)
	c.shows(app, c.config(app, 1))
}

// checkKeepVanished has it vanish in part, which is brought back as it was; or
// all of it, configuration included, of which nothing can be kept. A manager that
// has not noticed yet may take it for complete.
func checkKeepVanished(c *checker) {
	app := c.app(0)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	c.vanish(app)
	c.eventually("the operator brought back, or a conflict", func() string {
		err := c.tryKeep(app, c.kept(app, gen))
		if err != nil && !errors.Is(err, operator.ErrConflict) {
			return err.Error()
		}
		state, stateErr := c.tryState(app)
		op, opErr := c.tryOperator(app)
		switch {
		case stateErr != nil:
			return stateErr.Error()
		case opErr != nil && !errors.Is(opErr, errors.NotFound):
			return opErr.Error()
		case err == nil && (!state.Exists || opErr != nil || !sameFiles(op.Config, c.config(app, 1))):
			return "KeepOperator succeeds, and it is not there as it was"
		case err != nil && opErr == nil && op.Config.Generation == gen:
			return "KeepOperator finds another generation than Operator"
		}
		return ""
	})
	c.remade(app, c.config(app, 1))
}

// checkKeepAndUpdate is two provisioners that overlap: one keeps what it has
// glanced at, while the other updates. To compare and to keep must be one step, at
// least for the files.
func checkKeepAndUpdate(c *checker) {
	app := c.app(0)
	gen, ok := c.glances(app)
	if !ok {
		return
	}
	const updates = 8
	var done atomic.Bool
	c.together(4, func(side int) {
		if side > 0 {
			for last := false; !last; {
				last = done.Load()
				c.pause()
				op, err := c.tryGlance(app)
				if err != nil || op == nil || op.Config == nil {
					c.Errorf("a glance beside an update: %v", err)
					return
				}
				if err := c.tryKeep(app, c.kept(app, op.Config.Generation)); err != nil && !errors.Is(err, operator.ErrConflict) {
					c.Errorf("keeping beside an update: %v", err)
					return
				}
			}
			return
		}
		defer done.Store(true)
		for n := 2; n < 2+updates; n++ {
			if last := c.remaking(app, c.config(app, n)); last != "" {
				c.Errorf("update %d beside those who keep: not within %v: %s", n, c.Budget, last)
				return
			}
			c.pause()
			if op, err := c.tryOperator(app); err != nil || !sameFiles(op.Config, c.config(app, n)) {
				c.Errorf("update %d was undone, or cannot be read: %v", n, err)
				return
			}
		}
	})
	c.whole(app)
	if now := c.shows(app, c.config(app, 1+updates)); now == gen {
		c.Errorf("the generation is that of before the updates")
	}
}
