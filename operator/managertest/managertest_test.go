package managertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/managertest"
)

// harness has every hook over the fake; view chooses what of it is tested.
func harness(m *fakes.Manager, view func(*fakes.Manager) operator.Manager) managertest.Harness {
	file := func(content facade.Secret) (facade.Secret, error) {
		if content.IsZero() {
			return facade.Secret{}, errors.NotFoundf("operator")
		}
		return content, nil
	}
	return managertest.Harness{
		Manager: view(m),
		Loops:   20,
		Restart: func() (operator.Manager, error) {
			return view(m.Session(fakes.NewFaults(clock.WallClock))), nil
		},
		HalfMake: func(app string, cfg *operator.Config) error {
			const crash = errors.ConstError("crash")
			m.Faults().Add(fakes.Rule{Method: "EnsureOperator", Key: app, Effect: fakes.Effect{Err: crash, Act: fakes.Half}})
			err := m.EnsureOperator(context.Background(), app, managertest.DefaultAgentPath, cfg)
			if !errors.Is(err, crash) {
				return errors.Annotate(err, "half-making")
			}
			return nil
		},
		Vanish:    func(app string) error { m.Vanish(app); return nil },
		Writes:    m.Writes,
		AgentConf: func(app string) (facade.Secret, error) { return file(m.AgentConf(app)) },
		OperatorInfo: func(app string) (facade.Secret, error) {
			if cfg := m.Running(app); cfg != nil {
				return file(cfg.OperatorInfo)
			}
			return file(facade.Secret{})
		},
		WriteAgentConf: func(app string, content facade.Secret) error {
			m.WriteAgentConf(app, content)
			return nil
		},
	}
}

func newFake() *fakes.Manager { return fakes.NewManager(fakes.NewFaults(clock.WallClock)) }

func full(m *fakes.Manager) operator.Manager { return m }

func plain(m *fakes.Manager) operator.Manager { return m.Plain() }

// bubbles runs every check in virtual time.
func bubbles(t *testing.T, factory managertest.Factory) {
	t.Helper()
	for _, check := range managertest.Checks() {
		t.Run(check.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check.Run(t, factory(t)) })
		})
	}
}

func TestFakeManagerPasses(t *testing.T) {
	managertest.Run(t, func(*testing.T) managertest.Harness {
		h := harness(newFake(), full)
		h.Loops = managertest.DefaultLoops
		return h
	})
}

func TestFakeManagerPassesWithoutHooks(t *testing.T) {
	managertest.Run(t, func(*testing.T) managertest.Harness {
		return managertest.Harness{Manager: newFake(), Loops: 5}
	})
}

func TestPlainFakeManagerPasses(t *testing.T) {
	bubbles(t, func(*testing.T) managertest.Harness { return harness(newFake(), plain) })
}

func TestFakeManagerWithoutGenerationsPasses(t *testing.T) {
	bubbles(t, func(*testing.T) managertest.Harness {
		m := newFake()
		m.HideGenerations()
		return harness(m, plain)
	})
}

// What vanishes may leave its configuration, which can be kept then.
func TestFakeManagerWhoseOperatorsVanishInPartPasses(t *testing.T) {
	bubbles(t, func(*testing.T) managertest.Harness {
		m := newFake()
		h := harness(m, full)
		h.Vanish = func(app string) error { m.VanishOperator(app); return nil }
		return h
	})
}

// One that cannot be glanced at after all is no Glancer.
func TestFakeManagerThatDoesNotGlanceAfterAllPasses(t *testing.T) {
	bubbles(t, func(*testing.T) managertest.Harness {
		m := newFake()
		for _, method := range []string{"GlanceOperator", "KeepOperator"} {
			m.Faults().Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: errors.NotSupportedf("glancing")}})
		}
		return harness(m, full)
	})
}

// A back end that is slow in everything passes too, in no time.
func TestSlowFakeManagerPasses(t *testing.T) {
	for name, termination := range map[string]fakes.Termination{
		"ends after a while": {For: 7 * time.Second},
		"ends after looks":   {Looks: 5},
	} {
		t.Run(name, func(t *testing.T) {
			bubbles(t, func(*testing.T) managertest.Harness {
				m := newFake()
				m.SetTermination(termination)
				m.Faults().SetLatency(200 * time.Millisecond)
				return harness(m, full)
			})
		})
	}
}

// So does one whose reads lag behind its writes.
func TestFakeManagerWithStaleReadsPasses(t *testing.T) {
	for name, stale := range map[string]func(*fakes.Manager){
		"for some reads": func(m *fakes.Manager) { m.SetStale(3, 0) },
		"for a while":    func(m *fakes.Manager) { m.SetStale(0, 2*time.Second) },
		"and slow deletion": func(m *fakes.Manager) {
			m.SetStale(2, time.Second)
			m.SetTermination(fakes.Termination{For: time.Second})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubbles(t, func(*testing.T) managertest.Harness {
				m := newFake()
				stale(m)
				h := harness(m, full)
				h.Poll, h.Loops = 250*time.Millisecond, 5
				return h
			})
		})
	}
}

func TestHarnessWithoutManagerFails(t *testing.T) {
	r := run(t, managertest.Checks()[0], managertest.Harness{})
	if !r.failed() {
		t.Error("a nil Manager passes")
	}
}

func TestConfigsOfDifferentNumbersDiffer(t *testing.T) {
	a, again, b := managertest.Config("app", 1), managertest.Config("app", 1), managertest.Config("app", 2)
	if !a.AgentConf.Equal(again.AgentConf) || !a.OperatorInfo.Equal(again.OperatorInfo) {
		t.Error("the same number gives other files")
	}
	if a.AgentConf.Equal(b.AgentConf) || a.OperatorInfo.Equal(b.OperatorInfo) {
		t.Error("another number gives the same files")
	}
	if err := a.Validate(); err != nil {
		t.Error(err)
	}
}

func TestCheckNamesAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, check := range managertest.Checks() {
		if seen[check.Name] {
			t.Errorf("two checks are called %s", check.Name)
		}
		seen[check.Name] = true
	}
}
