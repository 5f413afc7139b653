package managertest

import (
	"context"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

func inputChecks() []Check {
	return []Check{
		{Name: "InvalidNamesAreRefusedAndNothingIsMade", run: checkNames},
		{Name: "ImpossibleConfigsAreRefusedAndNothingIsMade", run: checkConfigs},
		{Name: "ImpossibleConfigsLeaveAnOperatorAlone", run: checkConfigsOver},
		{Name: "CancelledContextIsAnErrorAndNothingIsDone", run: checkCancelled},
	}
}

// invalidNames are no application names, and some would do harm as a path, an
// argument or a label.
func invalidNames() []string {
	return []string{
		"", " ", "A", "Upper", "1a", "-a", "a-", "a--b", "a-1", "a_b", "a.b", "a b", "a\n", "a\x00",
		".", "..", "../a", "a/b", "/a", "a/../../b", "a\\b", "*", "$(a)", "a;b", "ä",
		strings.Repeat("a", facade.MaxApplicationName+1),
	}
}

// checkNames holds the manager to looking at names before they become a path,
// a label or an argument.
func checkNames(c *checker) {
	for _, name := range invalidNames() {
		if err := c.tryEnsure(name, c.config("valid", 1)); !errors.Is(err, errors.NotValid) {
			c.Errorf("EnsureOperator(%q): error %v, want errors.NotValid", name, err)
		}
		if _, ok := c.Manager.(operator.Stager); ok {
			if _, err := c.tryStage(name, c.config("valid", 1)); !errors.Is(err, errors.NotValid) {
				c.Errorf("StageOperator(%q): error %v, want errors.NotValid", name, err)
			}
		}
		if c.isGlancer() {
			if _, err := c.tryGlance(name); !errors.Is(err, errors.NotValid) && !errors.Is(err, errors.NotFound) {
				c.Errorf("GlanceOperator(%q): error %v, want errors.NotFound or NotValid", name, err)
			}
			if err := c.tryKeep(name, c.kept("valid", "1")); !errors.Is(err, errors.NotValid) {
				c.Errorf("KeepOperator(%q): error %v, want errors.NotValid", name, err)
			}
		}
		// To look for what cannot be there is refused, or finds nothing.
		if state, err := c.tryState(name); err != nil && !errors.Is(err, errors.NotValid) || state != (operator.State{}) {
			c.Errorf("OperatorExists(%q) = %+v, %v, want nothing or errors.NotValid", name, state, err)
		}
		if _, err := c.tryOperator(name); !errors.Is(err, errors.NotValid) && !errors.Is(err, errors.NotFound) {
			c.Errorf("Operator(%q): error %v, want errors.NotFound or NotValid", name, err)
		}
		if err := c.tryDelete(name); err != nil && !errors.Is(err, errors.NotValid) {
			c.Errorf("DeleteOperator(%q): error %v, want none or errors.NotValid", name, err)
		}
	}
	if l, ok := c.Manager.(operator.Lister); ok {
		names, err := l.Operators(c.Context())
		if err != nil {
			c.fatalf("Operators: %v", err)
		}
		for _, name := range invalidNames() {
			if slices.Contains(names, name) {
				c.Errorf("Operators lists %q", name)
			}
		}
	}
}

// impossible returns configurations that no manager can make an operator from,
// each under the name of what is wrong.
func (c *checker) impossible(app string) map[string]*operator.Config {
	noAgentConf, noInfo, noProvider := c.config(app, 2), c.config(app, 2), c.config(app, 2)
	noAgentConf.AgentConf = facade.Secret{}
	noInfo.OperatorInfo = facade.Secret{}
	noProvider.CharmStorage = &facade.CharmStorage{StorageName: "data", Size: 1024}
	noProvider.ImageDetails.Username = "puller"
	noProvider.ImageDetails.Password = facade.NewSecret("canary-of-the-registry")
	return map[string]*operator.Config{
		"nil config":         nil,
		"empty AgentConf":    noAgentConf,
		"empty OperatorInfo": noInfo,
		"storage without a provider, registry with a password": c.guarded(noProvider),
	}
}

// refuses fails the check unless every impossible configuration is refused.
func (c *checker) refuses(app string) {
	c.Helper()
	for what, cfg := range c.impossible(app) {
		if err := c.tryEnsure(app, cfg); !errors.Is(err, errors.NotValid) {
			c.Errorf("EnsureOperator with %s: error %v, want errors.NotValid", what, err)
		}
		if _, ok := c.Manager.(operator.Stager); !ok {
			continue
		}
		if _, err := c.tryStage(app, cfg); !errors.Is(err, errors.NotValid) {
			c.Errorf("StageOperator with %s: error %v, want errors.NotValid", what, err)
		}
	}
}

// checkConfigs has nothing there before, and nothing must be there after.
func checkConfigs(c *checker) {
	app := c.app(0)
	c.refuses(app)
	c.absent(app)
}

// checkConfigsOver has an operator there, which a refused update must not touch.
func checkConfigsOver(c *checker) {
	app := c.app(0)
	c.made(app, c.config(app, 1))
	c.unchanged(app, func() { c.refuses(app) })
	c.shows(app, c.config(app, 1))
}

// checkCancelled is a worker that is being killed: what it has begun must come
// back at once, and must not be done after all.
func checkCancelled(c *checker) {
	there, absent := c.app(0), c.app(1)
	c.made(there, c.config(there, 1))
	ctx, cancel := context.WithCancel(c.Context())
	cancel()

	calls := map[string]func() error{
		"OperatorExists": func() error { _, err := c.Manager.OperatorExists(ctx, there); return err },
		"Operator":       func() error { _, err := c.Manager.Operator(ctx, there); return err },
		"EnsureOperator": func() error {
			return c.Manager.EnsureOperator(ctx, absent, c.AgentPath, c.config(absent, 1))
		},
		"DeleteOperator": func() error { return c.Manager.DeleteOperator(ctx, there) },
	}
	if s, ok := c.Manager.(operator.Stager); ok {
		calls["StageOperator"] = func() error {
			_, err := s.StageOperator(ctx, absent, c.AgentPath, c.config(absent, 1))
			return err
		}
	}
	if c.isGlancer() {
		g := c.Manager.(operator.Glancer)
		gen := c.operator(there).Config.Generation
		calls["GlanceOperator"] = func() error { _, err := g.GlanceOperator(ctx, there); return err }
		calls["KeepOperator"] = func() error {
			cfg := c.kept(there, gen)
			cfg.Version = "1.0.0"
			return g.KeepOperator(ctx, there, c.AgentPath, cfg)
		}
	}
	if l, ok := c.Manager.(operator.Lister); ok {
		calls["Operators"] = func() error { _, err := l.Operators(ctx); return err }
	}
	c.unchanged(there, func() {
		for name, call := range calls {
			if err := c.looked(name, call()); !errors.Is(err, context.Canceled) {
				c.Errorf("%s with a cancelled context: error %v, want context.Canceled", name, err)
			}
		}
	})
	c.whole(there)
	c.absent(absent)
}
