package managertest

import (
	"strings"
	"sync/atomic"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// Old bug reports about systems that do a like job. Each says what went wrong
// there; the check is what is right here.

func issueChecks() []Check {
	return []Check{
		{Name: "Issue/LongNamesWorkAndDoNotClash", run: checkLongNames},
		{Name: "Issue/RepeatedEnsureWritesNothing", run: checkNoHotLoop},
		{Name: "Issue/VanishedOperatorIsMadeAgain", needs: needsVanish, run: checkVanished},
		{Name: "Issue/RedeployWhileTheOldOneTerminates", run: checkRedeploy},
		{Name: "Issue/DeployRemoveLoop", run: checkDeployRemoveLoop},
		{Name: "Issue/OneApplicationFromAllSidesAtOnce", run: checkAllSides},
		{Name: "Issue/SeedNeverReplacesTheOperatorsOwnFile", needs: needsOwnFile, run: checkOwnFile},
		{Name: "Issue/EffectiveChangeReachesTheOperator", needs: needsInfoFile, run: checkChangeReaches},
		{Name: "Issue/ReadDuringRemovalIsAnOutcome", run: checkReadDuringRemoval},
	}
}

func needsVanish(h Harness) string {
	if h.Vanish == nil {
		return "no Vanish"
	}
	return ""
}

func needsOwnFile(h Harness) string {
	if h.AgentConf == nil || h.WriteAgentConf == nil {
		return "no AgentConf or no WriteAgentConf"
	}
	return ""
}

func needsInfoFile(h Harness) string {
	if h.OperatorInfo == nil {
		return "no OperatorInfo"
	}
	return ""
}

// https://github.com/kubernetes/kubernetes/issues/64023: with a name of more
// than 52 characters, the set was there and its pod never; nobody was told.
// Names that are cut to fit must not become the same.
func checkLongNames(c *checker) {
	var apps []string
	for _, n := range []int{43, 44, 52, 53, 63, 64, 107, facade.MaxApplicationName} {
		// Two of each length that differ only at the end; all begin alike.
		stem := c.prefix + "-" + strings.Repeat("x", n)
		apps = append(apps, stem[:n-1]+"a", stem[:n-1]+"b")
	}
	for _, app := range apps {
		c.named(app)
		c.ensure(app, c.config(app, 1))
	}
	for _, app := range apps {
		c.whole(app)
		c.shows(app, c.config(app, 1))
	}
	if _, ok := c.Manager.(operator.Lister); ok {
		c.lists(apps...) // as they are, not as they were cut to fit
	}
	// What is taken away is the one that was meant.
	c.removed(apps[0])
	c.whole(apps[1])
	c.shows(apps[1], c.config(apps[1], 1))
}

// https://github.com/openshift/hive/issues/2943: what the server filled in by
// default made every comparison differ, and every pass wrote.
// https://github.com/juju/juju/pull/10706: an object that was made anew on
// each pass raced its own deletion.
func checkNoHotLoop(c *checker) {
	app := c.app(0)
	cfg := c.config(app, 1)
	cfg.Generation = c.made(app, cfg)
	c.unchanged(app, func() {
		for range 20 {
			c.ensure(app, cfg)
		}
	})
}

// https://github.com/scylladb/scylla-operator/issues/449: a set that was
// deleted by hand was not made again, and the status stayed as it was.
func checkVanished(c *checker) {
	app := c.app(0)
	c.made(app, c.config(app, 1))
	c.vanish(app)
	c.eventually("the operator not existing any more", func() string {
		if state, err := c.tryState(app); err != nil {
			return err.Error()
		} else if state.Exists {
			return "it still exists"
		}
		return ""
	})
	c.remade(app, c.config(app, 1))
}

// https://github.com/juju/juju/pull/10091 and
// https://github.com/juju/juju/pull/11352: an application was deployed again
// while the operator of the one before was still terminating.
func checkRedeploy(c *checker) {
	app := c.app(0)
	c.made(app, c.config(app, 1))
	c.delete(app)
	c.remade(app, c.config(app, 2))
	// It is the new one for good, not what the deletion has left.
	c.whole(app)
	c.shows(app, c.config(app, 2))
	c.removed(app)
}

// The same, over and over: nothing may pile up that one day does not fit.
func checkDeployRemoveLoop(c *checker) {
	app := c.app(0)
	for i := range c.Loops {
		c.remade(app, c.config(app, i%2+1))
		if i%5 == 0 {
			c.removed(app)
		} else {
			c.delete(app)
		}
	}
	c.removed(app)
}

// https://github.com/kubernetes-sigs/kubefed/issues/1379: one object was in
// work twice at the same time. A provisioner does not do that to a manager,
// but two that overlap for a while do.
func checkAllSides(c *checker) {
	app := c.app(0)
	const rounds = 10
	c.together(4, func(side int) {
		for i := range rounds {
			switch side {
			case 0, 1:
				cfg := c.config(app, side+1)
				if op, err := c.tryOperator(app); err == nil {
					cfg.Generation = op.Config.Generation
				}
				// Refused for a conflict or a deletion under way, or not.
				_ = c.tryEnsure(app, cfg)
			case 2:
				if _, err := c.tryState(app); err != nil {
					c.Errorf("OperatorExists: %v", err)
				}
			case 3:
				if err := c.tryDelete(app); err != nil && i > 0 {
					c.Logf("DeleteOperator: %v", err)
				}
			}
		}
	})
	c.remade(app, c.config(app, 3))
	c.removed(app)
}

// https://github.com/juju/juju/pull/22632: the first agent.conf was written
// over the one in use, which had the password that the agent had chosen; the
// agent could not log in any more.
func checkOwnFile(c *checker) {
	app := c.app(0)
	gen := c.made(app, c.config(app, 1))
	c.eventually("the operator seeing its agent.conf", func() string {
		if _, err := c.AgentConf(app); err != nil {
			return err.Error()
		}
		return ""
	})
	own := c.config(app, 9).AgentConf
	if err := c.WriteAgentConf(app, own); err != nil {
		c.fatalf("WriteAgentConf: %v", err)
	}
	kept := func(when string) {
		c.Helper()
		c.eventually("the operator seeing its own agent.conf "+when, func() string {
			switch now, err := c.AgentConf(app); {
			case err != nil:
				return err.Error()
			case !now.Equal(own):
				return "it sees another one"
			}
			return ""
		})
	}
	c.ensure(app, c.config(app, 1))
	kept("after a second Ensure")
	cfg := c.config(app, 2)
	cfg.Generation = gen
	c.made(app, cfg)
	kept("after an update")
	if c.Restart != nil {
		next, err := c.Restart()
		if err != nil {
			c.fatalf("Restart: %v", err)
		}
		c.Manager = next
		c.whole(app)
		kept("after a restart of the manager")
	}
}

// https://github.com/rook/rook/issues/10719: the stored certificate was
// renewed, and the process went on with the old one.
func checkChangeReaches(c *checker) {
	app := c.app(0)
	gen := c.made(app, c.config(app, 1))
	cfg := c.config(app, 2)
	cfg.Generation = gen
	c.made(app, cfg)
	c.eventually("the operator seeing its new operator.yaml", func() string {
		switch now, err := c.OperatorInfo(app); {
		case err != nil:
			return err.Error()
		case !now.Equal(cfg.OperatorInfo):
			return "it sees another one"
		}
		return ""
	})
}

// https://github.com/juju/juju/pull/10287 and
// https://github.com/juju/juju/pull/11444: a worker crashed, and crashed
// again, when what it read was removed between two of its reads.
func checkReadDuringRemoval(c *checker) {
	for i := range 5 {
		app := c.app(i)
		c.made(app, c.config(app, 1))
		var gone atomic.Bool
		c.together(3, func(side int) {
			if side == 2 {
				defer gone.Store(true)
				last := c.poll(func() string {
					if err := c.tryDelete(app); err != nil {
						return err.Error()
					}
					return c.presence(app)
				})
				if last != "" {
					c.Errorf("operator of %q gone: not within %v: %s", app, c.Budget, last)
				}
				return
			}
			for last := false; !last; {
				last = gone.Load()
				c.pause()
				if _, err := c.tryState(app); err != nil {
					c.Errorf("OperatorExists during a removal: %v", err)
					return
				}
				if op, err := c.tryOperator(app); err != nil && !errors.Is(err, errors.NotFound) {
					c.Errorf("Operator during a removal: %v", err)
					return
				} else if err == nil && (op == nil || op.Config == nil) {
					c.Errorf("Operator during a removal shows no Config")
					return
				}
			}
		})
	}
}
