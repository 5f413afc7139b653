package managertest

import (
	"context"
	"time"

	"github.com/sutler-dev/sutler/operator"
)

func lifeCycleChecks() []Check {
	return []Check{
		{Name: "AbsentOperatorIsZeroStateAndNotFound", run: func(c *checker) { c.absent(c.app(0)) }},
		{Name: "EnsuredOperatorIsThereAndShowsItsConfig", run: checkEnsure},
		{Name: "SecondEnsureWithEqualConfigChangesNothing", run: checkSecondEnsure},
		{Name: "ConfigsAreNotShared", run: checkNotShared},
		{Name: "UpdateIsShown", run: checkUpdate},
		{Name: "DeletedOperatorGoesAway", run: checkDelete},
		{Name: "DeletingTheAbsentIsSuccess", run: checkDeleteAbsent},
		{Name: "DeletionCanBeRepeated", run: checkDeleteRepeated},
		{Name: "EnsureAfterDeletionMakesANewOne", run: checkEnsureAfterDelete},
		{Name: "CancelledEnsureIsCompletedByTheNext", run: checkCancelledMidway},
		{
			Name: "RestartKeepsEverything", run: checkRestart,
			needs: func(h Harness) string {
				if h.Restart == nil {
					return "no Restart"
				}
				return ""
			},
		},
	}
}

// checkEnsure is the story that everything else builds on: an operator is made,
// and what a provisioner reads of it afterwards is what it has stored, byte by
// byte. That is how it finds the password again after a restart.
func checkEnsure(c *checker) {
	app := c.app(0)
	c.made(app, c.config(app, 1))
	op := c.operator(app)
	if op.ID == "" {
		c.Errorf("Operator(%q) has no ID", app)
	}
	if op.Dying {
		c.Errorf("Operator(%q) is dying, and nobody deletes it", app)
	}
	switch op.Status.Phase {
	case operator.Running, operator.Waiting, operator.Terminated, "":
	default:
		c.Errorf("Operator(%q) has the phase %q, which is none", app, op.Status.Phase)
	}
	c.absent(c.app(1))
}

// checkSecondEnsure holds the promise that a provisioner relies on in every pass:
// it ensures what is there already, and nothing may come of it, no write and
// above all no restart of the operator.
func checkSecondEnsure(c *checker) {
	app := c.app(0)
	gen := c.made(app, c.config(app, 1))
	// With the generation that was shown, and as after a restart with none.
	c.unchanged(app, func() {
		for _, shown := range []string{gen, "", gen} {
			cfg := c.config(app, 1)
			cfg.Generation = shown
			c.ensure(app, cfg)
		}
	})
}

// unchanged fails the check when f changes anything about the operator, as far
// as the harness can see.
func (c *checker) unchanged(app string, f func()) {
	c.Helper()
	before := c.operator(app)
	writes, incarnation := 0, ""
	if c.Writes != nil {
		writes = c.Writes(app)
	}
	if c.Incarnation != nil {
		c.eventually("something running for "+app, func() string {
			if incarnation = c.Incarnation(app); incarnation == "" {
				return "nothing"
			}
			return ""
		})
	}

	f()

	after := c.operator(app)
	if after.ID != before.ID {
		c.Errorf("the ID of the operator of %q became %q, from %q", app, after.ID, before.ID)
	}
	if after.Config.Generation != before.Config.Generation {
		c.Errorf("the generation of %q became %q, from %q", app, after.Config.Generation, before.Config.Generation)
	}
	if !sameFiles(after.Config, before.Config) {
		c.Errorf("the stored files of %q changed", app)
	}
	if c.Writes != nil {
		if n := c.Writes(app) - writes; n != 0 {
			c.Errorf("%d effective changes of %q, want none", n, app)
		}
	}
	if c.Incarnation != nil {
		if now := c.Incarnation(app); now != incarnation {
			c.Errorf("what runs for %q was restarted", app)
		}
	}
}

// checkNotShared changes what it gave and what it got. A manager in memory that
// keeps or hands out its own maps would be changed from outside, and under the
// race detector says so.
func checkNotShared(c *checker) {
	app := c.app(0)
	cfg, want := c.config(app, 1), c.config(app, 1)
	cfg.Generation = ""
	c.ensure(app, cfg)
	if !sameFiles(cfg, want) || cfg.Generation != "" || len(cfg.ResourceTags) != len(want.ResourceTags) {
		c.Errorf("EnsureOperator changed the config that it was given")
	}
	// What the caller does to its own afterwards is its own affair.
	other := c.config(app, 2)
	cfg.AgentConf, cfg.OperatorInfo = other.AgentConf, other.OperatorInfo
	clear(cfg.ResourceTags)
	c.whole(app)
	c.shows(app, want)

	got := c.operator(app).Config
	got.AgentConf, got.OperatorInfo = other.AgentConf, other.OperatorInfo
	clear(got.ResourceTags)
	c.shows(app, want)
}

// checkUpdate goes through several updates, each based on what the one before
// has left.
func checkUpdate(c *checker) {
	app := c.app(0)
	gen := c.made(app, c.config(app, 1))
	for n := 2; n <= 4; n++ {
		cfg := c.config(app, n)
		cfg.Generation = gen
		next := c.made(app, cfg)
		if gen != "" && next == gen {
			c.Errorf("update %d of %q left the generation as it was", n, app)
		}
		gen = next
	}
}

// checkDelete looks at the neighbour, too: the names of both begin alike, which
// is what a selector or a pattern that is too wide falls for.
func checkDelete(c *checker) {
	app, other := c.app(0), c.app(1)
	c.made(app, c.config(app, 1))
	c.made(other, c.config(other, 1))
	c.delete(app)
	c.removed(app)
	if state := c.state(other); !state.Exists || state.Terminating {
		c.Errorf("the operator of another application is %+v after the deletion", state)
	}
	c.shows(other, c.config(other, 1))
}

// checkDeleteAbsent is for a provisioner that was restarted after its deletion
// was done and before it knew.
func checkDeleteAbsent(c *checker) {
	app := c.app(0)
	for range 2 {
		c.delete(app)
		c.absent(app)
	}
}

// checkDeleteRepeated is for a provisioner that looks again and again until a
// slow deletion is over.
func checkDeleteRepeated(c *checker) {
	app := c.app(0)
	c.made(app, c.config(app, 1))
	for range 5 {
		c.delete(app)
	}
	c.removed(app)
	c.delete(app)
	c.absent(app)
}

// checkEnsureAfterDelete is an application that was removed and deployed again
// under its name.
func checkEnsureAfterDelete(c *checker) {
	app := c.app(0)
	c.made(app, c.config(app, 1))
	c.removed(app)
	// Other files, and no generation: nothing of the first one is left that
	// these could be in conflict with.
	c.made(app, c.config(app, 2))
}

// checkRestart is a restart of the agent: the operators have not noticed, and
// the new manager must find whole ones, half-made ones and no others.
func checkRestart(c *checker) {
	whole, half, gone := c.app(0), c.app(1), c.app(2)
	c.made(whole, c.config(whole, 1))
	c.made(gone, c.config(gone, 1))
	c.removed(gone)
	withHalf := needsHalfMaking(c.Harness) == ""
	if withHalf {
		c.halfMade(half, c.config(half, 1))
	}

	c.unchanged(whole, func() {
		next, err := c.Restart()
		if err != nil {
			c.fatalf("Restart: %v", err)
		}
		c.Manager = next
		c.whole(whole)
		cfg := c.config(whole, 1)
		cfg.Generation = c.shows(whole, cfg)
		c.ensure(whole, cfg)
	})
	c.absent(gone)
	if withHalf {
		if state := c.state(half); state != (operator.State{}) {
			c.Errorf("a half-made operator is %+v after the restart, want the zero State", state)
		}
		c.shows(half, c.config(half, 1))
	}
	c.removed(whole)
	c.removed(half)
}

// checkCancelledMidway leaves calls unfinished at different points; a deadline
// of a provisioner does that in every day's work. Whatever is left must be what
// the next call can finish or take away.
func checkCancelledMidway(c *checker) {
	app := c.app(0)
	for i := range 8 {
		// From "before it began" to "after it was done", as near as may be.
		ctx, cancel := context.WithTimeout(c.Context(), time.Duration(i*i)*500*time.Microsecond)
		cfg := c.config(app, i)
		if op, err := c.tryOperator(app); err == nil {
			cfg.Generation = op.Config.Generation
		}
		_ = c.looked("EnsureOperator", c.Manager.EnsureOperator(ctx, app, c.AgentPath, cfg))
		cancel()
		c.remade(app, c.config(app, i))

		ctx, cancel = context.WithTimeout(c.Context(), time.Duration(i*i)*500*time.Microsecond)
		_ = c.looked("DeleteOperator", c.Manager.DeleteOperator(ctx, app))
		cancel()
		if i%2 == 0 {
			c.removed(app)
		}
	}
}
