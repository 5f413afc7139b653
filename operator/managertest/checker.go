package managertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator"
)

// checker is what a check works with. The methods whose doc comment says that
// they end the check must be called from its own goroutine only; all others
// from any.
type checker struct {
	T
	Harness
	prefix string

	mu      sync.Mutex
	apps    map[string]bool
	secrets map[string]bool
}

func newChecker(t T, name string, h Harness) *checker {
	// The beginnings of the checks' names are different enough to tell their
	// applications apart.
	prefix := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return -1
	}, name)
	if len(prefix) > 28 {
		prefix = prefix[:28]
	}
	return &checker{T: t, Harness: h, prefix: prefix, apps: make(map[string]bool), secrets: make(map[string]bool)}
}

// app returns the name of the check's i-th application.
func (c *checker) app(i int) string { return c.named(fmt.Sprintf("%s-a%d", c.prefix, i)) }

// named makes the check own an application of that name.
func (c *checker) named(app string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apps[app] = true
	return app
}

// config returns a configuration for the application, whose secrets are looked
// for from then on.
func (c *checker) config(app string, n int) *operator.Config {
	return c.guarded(c.Config(app, n))
}

func (c *checker) guarded(cfg *operator.Config) *operator.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range secretsOf(cfg) {
		c.secrets[s] = true
	}
	return cfg
}

// fatalf ends the check.
func (c *checker) fatalf(format string, args ...any) {
	c.Helper()
	c.Errorf(format, args...)
	c.FailNow()
}

// clean fails the check when the text, which is called what, has a secret in
// it, and does not repeat it.
func (c *checker) clean(what, text string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.secrets {
		if strings.Contains(text, s) {
			c.Errorf("%s repeats a line of agent.conf or operator.yaml, or a password", what)
			return
		}
	}
}

// looked passes an error on after it was searched for secrets.
func (c *checker) looked(what string, err error) error {
	c.Helper()
	if err != nil {
		c.clean("the error of "+what, fmt.Sprintf("%v %+v", err, err))
	}
	return err
}

// Calls of the manager, each with its error searched.

func (c *checker) tryState(app string) (operator.State, error) {
	state, err := c.Manager.OperatorExists(c.Context(), app)
	return state, c.looked("OperatorExists", err)
}

func (c *checker) tryOperator(app string) (*operator.Operator, error) {
	op, err := c.Manager.Operator(c.Context(), app)
	return op, c.looked("Operator", err)
}

func (c *checker) tryEnsure(app string, cfg *operator.Config) error {
	return c.looked("EnsureOperator", c.Manager.EnsureOperator(c.Context(), app, c.AgentPath, cfg))
}

func (c *checker) tryDelete(app string) error {
	return c.looked("DeleteOperator", c.Manager.DeleteOperator(c.Context(), app))
}

func (c *checker) tryStage(app string, cfg *operator.Config) (string, error) {
	gen, err := c.Manager.(operator.Stager).StageOperator(c.Context(), app, c.AgentPath, cfg)
	return gen, c.looked("StageOperator", err)
}

// The same, where an error ends the check.

func (c *checker) state(app string) operator.State {
	c.Helper()
	state, err := c.tryState(app)
	if err != nil {
		c.fatalf("OperatorExists(%q): %v", app, err)
	}
	return state
}

// operator returns what Operator shows once it finds something, since reads
// may lag behind writes, and ends the check when that is not as it must always
// be.
func (c *checker) operator(app string) *operator.Operator {
	c.Helper()
	var op *operator.Operator
	c.eventually(fmt.Sprintf("Operator(%q) found", app), func() string {
		var err error
		if op, err = c.tryOperator(app); err != nil {
			return err.Error()
		}
		return ""
	})
	switch {
	case op == nil:
		c.fatalf("Operator(%q) is nil without an error", app)
	case op.Config == nil:
		c.fatalf("Operator(%q) has a nil Config", app)
	}
	c.clean("the operator's ID", op.ID)
	c.clean("the operator's status", op.Status.Message)
	return op
}

func (c *checker) ensure(app string, cfg *operator.Config) {
	c.Helper()
	if err := c.tryEnsure(app, cfg); err != nil {
		c.fatalf("EnsureOperator(%q): %v", app, err)
	}
}

func (c *checker) delete(app string) {
	c.Helper()
	if err := c.tryDelete(app); err != nil {
		c.fatalf("DeleteOperator(%q): %v", app, err)
	}
}

func (c *checker) stage(app string, cfg *operator.Config) string {
	c.Helper()
	gen, err := c.tryStage(app, cfg)
	if err != nil {
		c.fatalf("StageOperator(%q): %v", app, err)
	}
	return gen
}

// shows waits until Operator shows the files of cfg, and returns the generation
// that it shows with them.
func (c *checker) shows(app string, cfg *operator.Config) string {
	c.Helper()
	var got *operator.Config
	last := c.poll(func() string {
		got = c.operator(app).Config
		switch {
		case !got.AgentConf.Equal(cfg.AgentConf):
			return "another AgentConf"
		case !got.OperatorInfo.Equal(cfg.OperatorInfo):
			return "another OperatorInfo"
		}
		return ""
	})
	if last != "" {
		c.Errorf("Operator(%q) shows %s than was stored last", app, last)
	}
	return got.Generation
}

// sameFiles tells whether both configurations hold the same files.
func sameFiles(a, b *operator.Config) bool {
	return a.AgentConf.Equal(b.AgentConf) && a.OperatorInfo.Equal(b.OperatorInfo)
}

// absent is the check that nothing at all is there; it does not wait.
func (c *checker) absent(app string) {
	c.Helper()
	if why := c.presence(app); why != "" {
		c.Errorf("operator of %q: %s", app, why)
	}
}

// lists waits until the Lister lists each of the applications once.
func (c *checker) lists(apps ...string) {
	c.Helper()
	c.eventually("applications listed once each", func() string {
		names, err := c.Manager.(operator.Lister).Operators(c.Context())
		if c.looked("Operators", err) != nil {
			return err.Error()
		}
		for _, app := range apps {
			if n := count(names, app); n != 1 {
				return fmt.Sprintf("%q is listed %d times", app, n)
			}
		}
		return ""
	})
}

// unlisted waits until the Lister does not list the application.
func (c *checker) unlisted(app string) {
	c.Helper()
	c.eventually(fmt.Sprintf("%q listed no more", app), func() string {
		names, err := c.Manager.(operator.Lister).Operators(c.Context())
		if c.looked("Operators", err) != nil {
			return err.Error()
		}
		if count(names, app) != 0 {
			return "it is listed"
		}
		return ""
	})
}

func count(names []string, name string) int {
	n := 0
	for _, s := range names {
		if s == name {
			n++
		}
	}
	return n
}

// presence says what is there of an operator that should be gone.
func (c *checker) presence(app string) string {
	if state, err := c.tryState(app); err != nil {
		return fmt.Sprintf("OperatorExists returns the error %v", err)
	} else if state != (operator.State{}) {
		return fmt.Sprintf("OperatorExists is %+v, not the zero State", state)
	}
	switch op, err := c.tryOperator(app); {
	case err == nil:
		return "Operator finds one"
	case !errors.Is(err, errors.NotFound):
		return fmt.Sprintf("Operator returns %v, want errors.NotFound", err)
	case op != nil:
		return "Operator returns one along with its error"
	}
	return ""
}

// eventually ends the check when why does not return "" within the budget.
func (c *checker) eventually(what string, why func() string) {
	c.Helper()
	if last := c.poll(why); last != "" {
		c.fatalf("%s: not within %v: %s", what, c.Budget, last)
	}
}

func (c *checker) poll(why func() string) string {
	for deadline := time.Now().Add(c.Budget); ; time.Sleep(c.Poll) {
		last := why()
		if last == "" || !time.Now().Before(deadline) {
			return last
		}
	}
}

// whole waits until the operator is fully there.
func (c *checker) whole(app string) {
	c.Helper()
	c.eventually(fmt.Sprintf("operator of %q there", app), func() string {
		if state, err := c.tryState(app); err != nil {
			return err.Error()
		} else if !state.Exists || state.Terminating {
			return fmt.Sprintf("%+v", state)
		}
		return ""
	})
}

// made ensures the operator, waits until it is there, and returns the
// generation shown.
func (c *checker) made(app string, cfg *operator.Config) string {
	c.Helper()
	c.ensure(app, cfg)
	c.whole(app)
	return c.shows(app, cfg)
}

// remade does what a provisioner does that wants the operator to be as cfg
// says, whatever is there: it reads, ensures, and looks, until it is so.
func (c *checker) remade(app string, cfg *operator.Config) {
	c.Helper()
	if last := c.remaking(app, cfg); last != "" {
		c.fatalf("operator of %q made anew: not within %v: %s", app, c.Budget, last)
	}
}

// remaking is remade for any goroutine: it says what is missing in the end.
func (c *checker) remaking(app string, cfg *operator.Config) string {
	return c.poll(func() string {
		next := cfg.Clone()
		if op, err := c.tryOperator(app); err == nil && op != nil && op.Config != nil {
			next.Generation = op.Config.Generation
		}
		if err := c.tryEnsure(app, next); err != nil {
			return err.Error()
		}
		state, err := c.tryState(app)
		switch {
		case err != nil:
			return err.Error()
		case !state.Exists || state.Terminating:
			return fmt.Sprintf("%+v", state)
		}
		op, err := c.tryOperator(app)
		switch {
		case err != nil:
			return err.Error()
		case op == nil || op.Config == nil || !sameFiles(op.Config, cfg):
			return "Operator shows another configuration"
		}
		return ""
	})
}

// removed deletes the operator until nothing is there.
func (c *checker) removed(app string) {
	c.Helper()
	c.eventually(fmt.Sprintf("operator of %q gone", app), func() string {
		if err := c.tryDelete(app); err != nil {
			return err.Error()
		}
		return c.presence(app)
	})
}

// vanish takes the operator away behind the manager's back. The operator may be
// writing to what is taken from under it, so once may not be enough.
func (c *checker) vanish(app string) {
	c.Helper()
	c.eventually(fmt.Sprintf("operator of %q made to vanish", app), func() string {
		if err := c.Vanish(app); err != nil {
			return err.Error()
		}
		return ""
	})
}

// halfMade leaves the application with a configuration alone.
func (c *checker) halfMade(app string, cfg *operator.Config) {
	c.Helper()
	if c.HalfMake == nil {
		c.stage(app, cfg)
		return
	}
	if err := c.HalfMake(app, cfg); err != nil {
		c.fatalf("HalfMake(%q): %v", app, err)
	}
}

// together runs f for 0 to n-1 at once and waits for all.
func (c *checker) together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// pause is between two reads of a loop that ends when another goroutine says
// so: in virtual time nobody else gets on while it spins.
func (c *checker) pause() { time.Sleep(c.Poll / 10) }

// cleanUp deletes what the check has made, also when the check has failed or
// its context is over. All deletions begin before the first is waited for.
func (c *checker) cleanUp() {
	gone := func(app string) string {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), c.Budget)
		defer cancel()
		if err := c.Manager.DeleteOperator(ctx, app); err != nil {
			return err.Error()
		}
		if _, err := c.Manager.Operator(ctx, app); !errors.Is(err, errors.NotFound) {
			return "it is still there"
		}
		return ""
	}
	for app := range c.apps {
		_ = gone(app)
	}
	for app := range c.apps {
		if last := c.poll(func() string { return gone(app) }); last != "" {
			c.Errorf("clean-up of %q: %s", app, last)
		}
	}
}
