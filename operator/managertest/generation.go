package managertest

import (
	"sync/atomic"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator"
)

// The rules of operator.Config.Generation, for managers that show one.

func generationChecks() []Check {
	return []Check{
		{Name: "UpdateOfAnOlderConfigIsAConflictAndChangesNothing", run: checkConflict},
		{Name: "EqualFilesWithAnOldGenerationAreNoConflict", run: checkEqualNoConflict},
		{Name: "OfConcurrentUpdatesOneWins", run: checkOneUpdateWins},
	}
}

// conflicts fails the check unless err is a conflict.
func (c *checker) conflicts(what string, err error) {
	c.Helper()
	if !errors.Is(err, operator.ErrConflict) {
		c.Errorf("%s: error %v, want operator.ErrConflict", what, err)
	}
}

// generations reports whether the manager shows any; a check of their rules
// ends without them.
func (c *checker) generations(shown string) bool {
	if shown == "" {
		c.Logf("does not apply: the manager shows no generations")
	}
	return shown != ""
}

// checkConflict is two provisioners that overlap for a while: what one has worked
// out from an older configuration must not replace what the other has stored
// meanwhile, since the controller has been told the password in there.
func checkConflict(c *checker) {
	app := c.app(0)
	old := c.made(app, c.config(app, 1))
	if !c.generations(old) {
		return
	}
	cfg := c.config(app, 2)
	cfg.Generation = old
	c.made(app, cfg)

	c.unchanged(app, func() {
		late := c.config(app, 3)
		late.Generation = old
		c.conflicts("update with the generation before", c.tryEnsure(app, late))
		blind := c.config(app, 3)
		c.conflicts("update with no generation", c.tryEnsure(app, blind))
	})
}

// checkEqualNoConflict is a provisioner that did not hear that its update was
// taken, and sends it again with the generation of before.
func checkEqualNoConflict(c *checker) {
	app := c.app(0)
	old := c.made(app, c.config(app, 1))
	if !c.generations(old) {
		return
	}
	cfg := c.config(app, 2)
	cfg.Generation = old
	c.made(app, cfg)
	c.unchanged(app, func() { c.ensure(app, cfg) })

	// Something besides the two files may change under an old generation.
	other := cfg.Clone()
	other.ResourceTags = map[string]string{"purpose": "conformance", "second": "yes"}
	c.made(app, other)
}

// checkOneUpdateWins has the updates race: comparing and storing must be one
// step.
func checkOneUpdateWins(c *checker) {
	app := c.app(0)
	gen := c.made(app, c.config(app, 0))
	if !c.generations(gen) {
		return
	}
	winner := c.oneWins(app, gen, func(_ int, cfg *operator.Config) error { return c.tryEnsure(app, cfg) })
	c.whole(app)
	c.shows(app, c.config(app, winner))
}

// oneWins stores several configurations at once, all based on the same
// generation, checks that one is taken and the others are refused, and returns
// the number of the one.
func (c *checker) oneWins(app, gen string, store func(n int, cfg *operator.Config) error) int {
	c.Helper()
	const rivals = 8
	var won, winner atomic.Int64
	c.together(rivals, func(i int) {
		cfg := c.config(app, i+1)
		cfg.Generation = gen
		switch err := store(i+1, cfg); {
		case err == nil:
			won.Add(1)
			winner.Store(int64(i + 1))
		default:
			c.conflicts("one of several at once", err)
		}
	})
	if n := won.Load(); n != 1 {
		c.fatalf("%d of %d that stored at once were told that they succeeded, want one", n, rivals)
	}
	return int(winner.Load())
}
