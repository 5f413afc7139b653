package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/provisioner"
)

// brokenProvisioner is a provisioner with a fault that the simulation has to
// find. All are made from the real one by lies that it is told.
type brokenProvisioner struct {
	about   string
	variant func() Variant
	// kind is the kind of pass in which mishaps at every call find it, too;
	// empty where it takes more than one application, or more luck.
	kind string
	// says is what has to be found wrong; one of them suffices.
	says []string
}

// wrapping is a Variant that changes the facade and the manager.
func wrapping(f func(*fakes.Controller, *fakes.Manager) (facade.Applications, operator.Manager)) func() Variant {
	return func() Variant {
		return Variant{Wrap: func(config *provisioner.Config, c *fakes.Controller, m *fakes.Manager) {
			config.Facade, config.OperatorManager = f(c, m)
		}}
	}
}

// configuring is a Variant that changes the rest of the config.
func configuring(f func(*provisioner.Config)) func() Variant {
	return func() Variant {
		return Variant{Wrap: func(config *provisioner.Config, _ *fakes.Controller, _ *fakes.Manager) { f(config) }}
	}
}

func brokenProvisioners() []brokenProvisioner {
	return []brokenProvisioner{{
		about: "a password is minted on every retry",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return c, forgetful{m}
		}),
		kind: "create", says: []string{"replaced a stored password"},
	}, {
		about: "the controller is told after the start",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			late := &tellingLate{Controller: c, pending: make(map[string]facade.Secret)}
			return late, startingFirst{m, late}
		}),
		kind: "create", says: []string{"cannot log in"},
	}, {
		about: "the charm's format is asked before the life",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return charmFirst{c}, m
		}),
		kind: "delete unheard of", says: []string{"there is a part of an operator"},
	}, {
		about: "one back-off is shared by all",
		variant: func() Variant {
			var mu sync.Mutex
			failures := 0
			return configuring(func(config *provisioner.Config) {
				config.Backoff = func(time.Duration, int) time.Duration {
					mu.Lock()
					defer mu.Unlock()
					failures++
					return backoff(0, failures)
				}
			})()
		},
		says: []string{"which explains no more than"},
	}, {
		about: "the mark of a password that was not told is ignored",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return c, markless{m}
		}),
		kind: "replace corrupt config", says: []string{"cannot log in"},
	}, {
		about: "nothing is staged",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return c, m.With(AllFeatures &^ fakes.Staging)
		}),
		kind: "create", says: []string{"cannot log in"},
	}, {
		about: "operators are not listed",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return c, m.With(AllFeatures &^ (fakes.Listing | fakes.Watching))
		}),
		kind: "delete unheard of", says: []string{"there is a part of an operator"},
	}, {
		about: "generations are ignored",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return c, blind{m}
		}),
		kind: "create", says: []string{"replaced a stored password", "cannot log in"},
	}, {
		about: "what is kept is not compared",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return c, &assuming{Manager: m, shown: make(map[string]string)}
		}),
		kind: "replace corrupt known files", says: []string{"its stored agent.conf does not parse"},
	}, {
		about: "the operators of dying applications are deleted",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return impatient{c}, m
		}),
		says: []string{"is dying, and its operator is gone"},
	}, {
		about: "the format of charms is ignored",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return formatless{c}, m
		}),
		says: []string{"whose charm has format 2"},
	}, {
		about: "errors quote the configuration",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return c, talkative{m}
		}),
		says: []string{"a secret was printed"},
	}, {
		about:   "calls have no deadline",
		variant: configuring(func(config *provisioner.Config) { config.CallTimeout = 1000 * time.Hour }),
		kind:    "create", says: []string{"the report says", "has no operator"},
	}, {
		about:   "any error of the controller ends the worker",
		variant: configuring(func(config *provisioner.Config) { config.IsFatal = func(error) bool { return true } }),
		kind:    "create", says: []string{"without a reason that ends a worker"},
	}, {
		about: "the end of a watcher is not noticed",
		variant: wrapping(func(c *fakes.Controller, m *fakes.Manager) (facade.Applications, operator.Manager) {
			return undying{c}, m
		}),
		says: []string{"after its watcher ended"},
	}, {
		about: "there is no resync",
		variant: func() Variant {
			v := configuring(func(config *provisioner.Config) {
				config.ResyncInterval = 10000 * time.Hour
			})()
			v.Without = fakes.ProvisioningEvents
			return v
		},
		says: []string{"old information", "other addresses", "another version", "another CA"},
	}}
}

// TestCrashesFindWhatIsBroken demands that the enumeration of crashes finds the
// fault, and tells at which point.
func TestCrashesFindWhatIsBroken(t *testing.T) {
	for _, broken := range brokenProvisioners() {
		if broken.kind == "" {
			continue
		}
		t.Run(broken.about, func(t *testing.T) {
			t.Parallel()
			plays, point := crashUntilWrong(t, broken)
			if point == "" {
				t.Fatalf("not found in %d plays", plays)
			}
			t.Logf("found by play %d: %s", plays, point)
		})
	}
}

// crashUntilWrong plays until the fault is found.
func crashUntilWrong(t *testing.T, broken brokenProvisioner) (plays int, where string) {
	t.Helper()
	options := Options{Seed: 5, Features: AllFeatures, Concurrency: 2}
	kinds := passKinds()
	kind := kinds[slices.IndexFunc(kinds, func(k passKind) bool { return k.name == broken.kind })]
	calls := callsOf(t, kind, options)
	options.Variant = broken.variant()
	ways := []struct {
		about string
		play  func(w *World, first *Session, p point)
	}{
		{"crash", func(w *World, first *Session, p point) {
			first.Faults().CutAt(p.call, p.after)
			w.Start(first)
			w.outlast(first)
		}},
		{"time-out", func(w *World, first *Session, p point) {
			befall(first, mishap{effect: func() fakes.Effect { return fakes.Effect{Delay: over} }}, p.call)
			w.Start(first)
			w.outlast(first)
		}},
		{"overtaken", func(w *World, first *Session, p point) {
			w.overtake(p, first, nil)
			w.Sleep(time.Second)
			first.Kill()
		}},
		{"overtaken, and crash thereafter,", func(w *World, first *Session, p point) {
			first.Faults().CutAt(p.call, true)
			w.overtake(p, first, nil)
			w.Sleep(time.Second)
			first.Crash()
		}},
	}
	for _, way := range ways {
		for _, p := range pausesOf(calls) {
			plays++
			wrong := bubble(t, func() []string {
				w := NewWorld(options)
				kind.arrange(w)
				way.play(w, w.Prepare("first"), p)
				return w.end("last")
			})
			if what := broken.found(wrong); what != "" {
				return plays, fmt.Sprintf("%s, %s %s: %s", kind.name, way.about, p, what)
			}
		}
	}
	return plays, ""
}

// found returns the line that says what has to be found, empty if none does.
func (b brokenProvisioner) found(wrong []string) string {
	for _, line := range wrong {
		for _, says := range b.says {
			if strings.Contains(line, says) {
				line, _, _ = strings.Cut(line, "\n")
				return line[:min(len(line), 160)]
			}
		}
	}
	return ""
}

// TestStoriesFindWhatIsBroken demands that random stories find the fault, and
// tells how many it took.
func TestStoriesFindWhatIsBroken(t *testing.T) {
	const most = 1000
	for _, broken := range brokenProvisioners() {
		t.Run(broken.about, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(most) {
				var st *Story
				wrong := bubble(t, func() []string {
					st = NewStory(1+n, broken.variant())
					return st.Tell()
				})
				if what := broken.found(wrong); what != "" {
					t.Logf("found by story %d: %s", n+1, what)
					return
				}
			}
			t.Fatalf("not found in %d stories", most)
		})
	}
}

// forgetful does not show the configuration of what is only half made.
type forgetful struct{ *fakes.Manager }

func (m forgetful) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := m.Manager.Operator(ctx, app)
	if op != nil && !m.State(app).Exists {
		op.Config.AgentConf = facade.Secret{}
	}
	return op, err
}

// tellingLate keeps passwords back until they are asked for.
type tellingLate struct {
	*fakes.Controller

	mu      sync.Mutex
	pending map[string]facade.Secret
}

func (c *tellingLate) SetPasswords(_ context.Context, passwords []facade.ApplicationPassword) ([]error, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range passwords {
		c.pending[p.Name] = p.Password
	}
	return make([]error, len(passwords)), nil
}

// startingFirst tells the controller when the operator has been started.
type startingFirst struct {
	*fakes.Manager
	controller *tellingLate
}

func (m startingFirst) EnsureOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	if err := m.Manager.EnsureOperator(ctx, app, agentPath, cfg); err != nil {
		return err
	}
	m.controller.mu.Lock()
	password, ok := m.controller.pending[app]
	delete(m.controller.pending, app)
	m.controller.mu.Unlock()
	if !ok {
		return nil
	}
	results, err := m.controller.Controller.SetPasswords(ctx, []facade.ApplicationPassword{{Name: app, Password: password}})
	if err == nil {
		err = results[0]
	}
	return err
}

// charmFirst reads the charm first, and takes it for an error that there is
// none any more.
type charmFirst struct{ *fakes.Controller }

func (c charmFirst) Life(ctx context.Context, app string) (facade.Life, error) {
	if _, err := c.CharmInfo(ctx, app); err != nil {
		return "", errors.New("no charm")
	}
	return c.Controller.Life(ctx, app)
}

func (c charmFirst) ApplicationsInfo(ctx context.Context, apps []string) ([]facade.ApplicationInfo, error) {
	infos, err := c.Controller.ApplicationsInfo(ctx, apps)
	for i := range infos {
		if infos[i].Err != nil {
			infos[i].Err = errors.New("no charm")
		}
	}
	return infos, err
}

// markless does not show marks.
type markless struct{ *fakes.Manager }

func (m markless) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := m.Manager.Operator(ctx, app)
	if op == nil {
		return op, err
	}
	if conf := parseConf(op.Config.AgentConf); conf != nil && len(conf.Values) > 0 {
		conf.Values = nil
		content, err := conf.Render()
		if err != nil {
			return nil, err
		}
		op.Config.AgentConf = facade.NewSecret(string(content))
	}
	return op, err
}

// blind writes over whatever is there.
type blind struct{ *fakes.Manager }

func (m blind) newest(app string, cfg *operator.Config) *operator.Config {
	cfg = cfg.Clone()
	cfg.Generation = ""
	if now := m.Config(app); now != nil {
		cfg.Generation = now.Generation
	}
	return cfg
}

func (m blind) EnsureOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	for {
		err := m.Manager.EnsureOperator(ctx, app, agentPath, m.newest(app, cfg))
		if !errors.Is(err, operator.ErrConflict) {
			return err
		}
	}
}

func (m blind) StageOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) (string, error) {
	for {
		generation, err := m.Manager.StageOperator(ctx, app, agentPath, m.newest(app, cfg))
		if !errors.Is(err, operator.ErrConflict) {
			return generation, err
		}
	}
}

// assuming takes what is stored for what it saw there last, and keeps it.
type assuming struct {
	*fakes.Manager

	mu    sync.Mutex
	shown map[string]string
}

func (m *assuming) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := m.Manager.Operator(ctx, app)
	if op != nil && op.Config != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.shown[app] = op.Config.Generation
	}
	return op, err
}

func (m *assuming) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	op, err := m.Manager.GlanceOperator(ctx, app)
	if op != nil && op.Config != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		op.Config.Generation = m.shown[app]
	}
	return op, err
}

func (m *assuming) KeepOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	return m.Manager.KeepOperator(ctx, app, agentPath, blind{m.Manager}.newest(app, cfg))
}

// impatient takes dying for dead.
type impatient struct{ *fakes.Controller }

func (c impatient) Life(ctx context.Context, app string) (facade.Life, error) {
	life, err := c.Controller.Life(ctx, app)
	if life == facade.Dying {
		life = facade.Dead
	}
	return life, err
}

func (c impatient) ApplicationsInfo(ctx context.Context, apps []string) ([]facade.ApplicationInfo, error) {
	infos, err := c.Controller.ApplicationsInfo(ctx, apps)
	for i := range infos {
		if infos[i].Life == facade.Dying {
			infos[i].Life = facade.Dead
		}
	}
	return infos, err
}

// formatless takes every charm for one of format 1.
type formatless struct{ *fakes.Controller }

func (c formatless) CharmInfo(ctx context.Context, app string) (facade.CharmInfo, error) {
	info, err := c.Controller.CharmInfo(ctx, app)
	info.Bases = nil
	return info, err
}

func (c formatless) ApplicationsInfo(ctx context.Context, apps []string) ([]facade.ApplicationInfo, error) {
	infos, err := c.Controller.ApplicationsInfo(ctx, apps)
	for i := range infos {
		infos[i].Format = min(infos[i].Format, 1)
	}
	return infos, err
}

// talkative says what it was given when it fails.
type talkative struct{ *fakes.Manager }

func (m talkative) EnsureOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	err := m.Manager.EnsureOperator(ctx, app, agentPath, cfg)
	return errors.Annotatef(err, "making %s from %s", app, cfg.AgentConf.Reveal())
}

// undying hands out watchers of which nobody is told when they end.
type undying struct{ *fakes.Controller }

func (c undying) WatchApplications(ctx context.Context) (facade.StringsWatcher, error) {
	w, err := c.Controller.WatchApplications(ctx)
	if w == nil {
		return nil, err
	}
	u := &undyingWatcher{StringsWatcher: w, changes: make(chan []string), killed: make(chan struct{})}
	u.wg.Go(u.loop)
	return u, err
}

type undyingWatcher struct {
	facade.StringsWatcher
	changes chan []string
	killed  chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

func (w *undyingWatcher) Changes() <-chan []string { return w.changes }

func (w *undyingWatcher) Kill() {
	w.once.Do(func() { close(w.killed) })
	w.StringsWatcher.Kill()
}

func (w *undyingWatcher) Wait() error {
	<-w.killed
	w.wg.Wait()
	return w.StringsWatcher.Wait()
}

func (w *undyingWatcher) loop() {
	from := w.StringsWatcher.Changes()
	for {
		select {
		case <-w.killed:
			return
		case names, ok := <-from:
			if !ok {
				from = nil
				continue
			}
			select {
			case <-w.killed:
				return
			case w.changes <- names:
			}
		}
	}
}
