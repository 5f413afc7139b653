package managertest

import (
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator"
)

// Half-made operators, which every manager may find after a crash, and those
// that an operator.Stager makes on purpose.

func halfMadeChecks() []Check {
	return []Check{
		{Name: "HalfMadeOperatorShowsItsConfigAndDoesNotExist", needs: needsHalfMaking, run: checkHalfMade},
		{Name: "HalfMadeOperatorIsCompletedByEnsure", needs: needsHalfMaking, run: checkHalfMadeCompleted},
		{Name: "HalfMadeOperatorIsDeleted", needs: needsHalfMaking, run: checkHalfMadeDeleted},
	}
}

// checkHalfMade is what a crash leaves that came after the configuration was
// stored and before the operator was made. The password in there may be known
// to the controller already, so it must be found; and nobody may take it for an
// operator, or wait for its end.
func checkHalfMade(c *checker) {
	app := c.app(0)
	c.halfMade(app, c.config(app, 1))
	if state := c.state(app); state != (operator.State{}) {
		c.Errorf("OperatorExists of a half-made operator is %+v, want the zero State", state)
	}
	c.shows(app, c.config(app, 1))
	if c.operator(app).Dying {
		c.Errorf("a half-made operator that nobody deletes is dying")
	}
}

// checkHalfMadeCompleted goes on from there, with the same files and with others.
func checkHalfMadeCompleted(c *checker) {
	app, updated := c.app(0), c.app(1)
	c.halfMade(app, c.config(app, 1))
	cfg := c.config(app, 1)
	cfg.Generation = c.shows(app, cfg)
	c.made(app, cfg)

	c.halfMade(updated, c.config(updated, 1))
	cfg = c.config(updated, 2)
	cfg.Generation = c.shows(updated, c.config(updated, 1))
	c.made(updated, cfg)
}

// checkHalfMadeDeleted is an application that was removed before its operator was
// ever made.
func checkHalfMadeDeleted(c *checker) {
	app := c.app(0)
	c.halfMade(app, c.config(app, 1))
	c.delete(app)
	c.removed(app)
	c.made(app, c.config(app, 2))
}

func stagingChecks() []Check {
	checks := []Check{
		{Name: "StagedConfigIsShownWithItsGeneration", run: checkStage},
		{Name: "StagedConfigIsUsedByEnsure", run: checkStageEnsure},
		{Name: "StagingChangesNothingThatRuns", run: checkStageOver},
		{Name: "StagingOverAnotherConfigIsAConflict", run: checkStageConflict},
		{Name: "OfSeveralFirstStagersOneWins", run: checkFirstStagers},
		{Name: "OfSeveralNextStagersOneWins", run: checkNextStagers},
	}
	for i := range checks {
		checks[i].needs = needsStager
	}
	return checks
}

// checkStage has the configuration stored and nothing else.
func checkStage(c *checker) {
	app := c.app(0)
	gen := c.stage(app, c.config(app, 1))
	if gen == "" {
		c.Errorf("StageOperator returns the empty generation")
	}
	if state := c.state(app); state != (operator.State{}) {
		c.Errorf("OperatorExists after staging is %+v, want the zero State", state)
	}
	if shown := c.shows(app, c.config(app, 1)); shown != gen {
		c.Errorf("StageOperator returned generation %q, and %q is shown", gen, shown)
	}
	if c.Incarnation != nil && c.Incarnation(app) != "" {
		c.Errorf("something runs after staging alone")
	}
}

// checkStageEnsure is the way of a new password: stored, told to the controller,
// used. Nothing about what is stored changes in the last step.
func checkStageEnsure(c *checker) {
	app := c.app(0)
	cfg := c.config(app, 1)
	cfg.Generation = c.stage(app, cfg)
	if gen := c.made(app, cfg); gen != cfg.Generation {
		c.Errorf("the generation became %q, from %q, and the files are the same", gen, cfg.Generation)
	}
}

// checkStageOver stages for an operator that is there and goes on as it is until
// it is ensured.
func checkStageOver(c *checker) {
	app := c.app(0)
	gen := c.made(app, c.config(app, 1))
	incarnation := ""
	if c.Incarnation != nil {
		c.eventually("something running", func() string {
			if incarnation = c.Incarnation(app); incarnation == "" {
				return "nothing"
			}
			return ""
		})
	}
	cfg := c.config(app, 2)
	cfg.Generation = gen
	staged := c.stage(app, cfg)
	if staged == gen {
		c.Errorf("staging other files left the generation as it was")
	}
	if state := c.state(app); !state.Exists || state.Terminating {
		c.Errorf("OperatorExists is %+v after staging over an operator", state)
	}
	if shown := c.shows(app, cfg); shown != staged {
		c.Errorf("StageOperator returned generation %q, and %q is shown", staged, shown)
	}
	if c.Incarnation != nil && c.Incarnation(app) != incarnation {
		c.Errorf("staging restarted what runs")
	}
	cfg.Generation = staged
	c.made(app, cfg)
}

// checkStageConflict is the rule of operator.Config.Generation for staging.
func checkStageConflict(c *checker) {
	app := c.app(0)
	first := c.stage(app, c.config(app, 1))
	refused := func(what string, cfg *operator.Config) {
		c.Helper()
		gen, err := c.tryStage(app, cfg)
		c.conflicts(what, err)
		if err != nil && gen != "" {
			c.Errorf("%s: generation %q along with an error", what, gen)
		}
	}
	refused("staging over a config that was not shown", c.config(app, 2))
	c.conflicts("ensuring over a config that was not shown", c.tryEnsure(app, c.config(app, 2)))
	c.shows(app, c.config(app, 1))

	// Equal files are taken, and answered with what is stored.
	if gen := c.stage(app, c.config(app, 1)); gen != first {
		c.Errorf("staging equal files returned generation %q, want the one stored, %q", gen, first)
	}

	cfg := c.config(app, 2)
	cfg.Generation = first
	c.stage(app, cfg)
	late := c.config(app, 3)
	late.Generation = first
	refused("staging with the generation before", late)
	c.shows(app, c.config(app, 2))
}

// checkFirstStagers is why there is staging: of two provisioners that both found
// nothing and made up a password each, one has it stored, and the other is told
// and reads that one.
func checkFirstStagers(c *checker) { c.stagers(c.app(0), "") }

// checkNextStagers is the same over an operator that is there.
func checkNextStagers(c *checker) {
	app := c.app(0)
	c.stagers(app, c.made(app, c.config(app, 0)))
}

// stagers has several stage at once, based on the generation, and checks that
// what is shown afterwards is the winner's, under the generation that it was
// told.
func (c *checker) stagers(app, gen string) {
	c.Helper()
	gens := make([]string, 32)
	winner := c.oneWins(app, gen, func(n int, cfg *operator.Config) error {
		var err error
		gens[n], err = c.tryStage(app, cfg)
		if err != nil && !errors.Is(err, operator.ErrConflict) {
			c.Errorf("StageOperator: %v", err)
		}
		return err
	})
	if shown := c.shows(app, c.config(app, winner)); shown != gens[winner] {
		c.Errorf("the winner was told generation %q, and %q is shown", gens[winner], shown)
	}
}
