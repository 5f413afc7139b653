package managertest

import (
	"sync/atomic"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// These say most under the race detector.

func concurrencyChecks() []Check {
	return []Check{
		{Name: "ManyApplicationsAtOnce", run: checkMany},
		{Name: "OneApplicationManyTimesAtOnce", run: checkSameApp},
		{Name: "ReadersSeeWholeFiles", run: checkReaders},
		{Name: "OneApplicationsFailureIsNotAnothers", run: checkIsolation},
	}
}

// checkMany makes and deletes many at once, as a provisioner does after its
// start on a model that is new to it.
func checkMany(c *checker) {
	apps := make([]string, c.Parallel)
	for i := range apps {
		apps[i] = c.app(i)
	}
	c.together(len(apps), func(i int) {
		if err := c.tryEnsure(apps[i], c.config(apps[i], 1)); err != nil {
			c.Errorf("EnsureOperator(%q): %v", apps[i], err)
		}
	})
	for _, app := range apps {
		c.whole(app)
		c.shows(app, c.config(app, 1))
	}
	c.together(len(apps), func(i int) {
		if err := c.tryDelete(apps[i]); err != nil {
			c.Errorf("DeleteOperator(%q): %v", apps[i], err)
		}
	})
	for _, app := range apps {
		c.removed(app)
	}
}

// checkSameApp has everybody want the same for one application.
func checkSameApp(c *checker) {
	app := c.app(0)
	c.together(c.Parallel, func(int) {
		// Equal files are never in conflict, whoever stores them first.
		if err := c.tryEnsure(app, c.config(app, 1)); err != nil {
			c.Errorf("EnsureOperator: %v", err)
		}
	})
	c.whole(app)
	c.shows(app, c.config(app, 1))
	c.together(c.Parallel, func(int) {
		if err := c.tryDelete(app); err != nil {
			c.Errorf("DeleteOperator: %v", err)
		}
	})
	c.removed(app)
}

// checkReaders reads while another goroutine writes: a file that is written in
// place is seen half-written sooner or later.
func checkReaders(c *checker) {
	app := c.app(0)
	first, second := c.config(app, 1), c.config(app, 2)
	c.made(app, first)
	var done atomic.Bool
	const readers = 4
	c.together(readers+1, func(i int) {
		if i == readers {
			defer done.Store(true)
			for n := range 10 {
				if last := c.remaking(app, c.config(app, n%2+1)); last != "" {
					c.Errorf("update %d: not within %v: %s", n, c.Budget, last)
				}
			}
			return
		}
		for last := false; !last; {
			// Once more after the writer is done, so that all read.
			last = done.Load()
			c.pause()
			op, err := c.tryOperator(app)
			if err != nil {
				c.Errorf("Operator: %v", err)
				return
			}
			// Each file is one of the two; a pair of an old and a new one
			// is what a manager without transactions may show.
			agentConf, info := op.Config.AgentConf, op.Config.OperatorInfo
			if !agentConf.Equal(first.AgentConf) && !agentConf.Equal(second.AgentConf) ||
				!info.Equal(first.OperatorInfo) && !info.Equal(second.OperatorInfo) {
				c.Errorf("Operator shows a file that nobody stored")
				return
			}
		}
	})
	c.removed(app)
}

// checkIsolation has one application fail all the time, beside one that is made
// at the same time.
func checkIsolation(c *checker) {
	good, bad := c.app(0), c.app(1)
	c.made(bad, c.config(bad, 1))
	c.together(c.Parallel, func(i int) {
		if i%2 == 0 {
			cfg := c.config(bad, 2)
			cfg.AgentConf = facade.Secret{}
			if err := c.tryEnsure(bad, cfg); !errors.Is(err, errors.NotValid) {
				c.Errorf("EnsureOperator with an empty AgentConf: %v", err)
			}
			return
		}
		if err := c.tryEnsure(good, c.config(good, 1)); err != nil {
			c.Errorf("EnsureOperator beside one that fails: %v", err)
		}
	})
	c.whole(good)
	c.shows(good, c.config(good, 1))
	c.shows(bad, c.config(bad, 1))
}
