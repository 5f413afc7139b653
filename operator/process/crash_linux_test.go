package process

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator"
)

// crasher stops a manager from changing the world any more, from its n-th step
// on: what a kill -9 at that instant leaves.
type crasher struct {
	mu    sync.Mutex
	after int
	steps []string
}

const errCrashed = errors.ConstError("the agent is dead")

func (c *crasher) before(op, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.steps) >= c.after {
		return errCrashed
	}
	c.steps = append(c.steps, op+" "+name)
	return nil
}

// crashed reports whether it has come to that.
func (c *crasher) crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.steps) >= c.after
}

// TestCrashAtEveryStep plays each story once for each single write, rename,
// sync, start and removal in it, and crashes there. The next manager, given the
// same calls, must end up where the story ends without a crash.
func TestCrashAtEveryStep(t *testing.T) {
	const app = "mysql"
	first, next := config(app, 1), config(app, 2)
	ensure := func(b *bench, cfg *operator.Config) error {
		cfg = cfg.Clone()
		if op, err := b.manager.Operator(b.Context(), app); err == nil {
			cfg.Generation = op.Config.Generation
		}
		return b.manager.EnsureOperator(b.Context(), app, "/", cfg)
	}
	runs := func(b *bench, cfg *operator.Config) {
		b.Helper()
		b.settled(app)
		b.eventually("it has the configuration", func() bool {
			last := b.last(app)
			return last.Pid == b.pid(app) && last.Template == cfg.AgentConf.Reveal() && last.Info == cfg.OperatorInfo.Reveal()
		})
		b.settled(app)
	}
	for _, story := range []struct {
		name    string
		prepare func(*bench) // without a crash
		act     func(*bench) error
		done    func(*bench) bool // all steps have been made
		check   func(*bench)      // after the crash, and act again
	}{{
		name: "first Ensure",
		act:  func(b *bench) error { return ensure(b, first) },
		done: func(b *bench) bool { return b.pid(app) != 0 },
		check: func(b *bench) {
			runs(b, first)
			if got := b.births(app)[0].AgentConf; got != first.AgentConf.Reveal() {
				b.Error("another agent.conf")
			}
			if n := len(b.births(app)); n != 1 {
				b.Errorf("%d processes were started for one configuration", n)
			}
		},
	}, {
		name: "stage, then Ensure",
		act: func(b *bench) error {
			cfg := first.Clone()
			if op, err := b.manager.Operator(b.Context(), app); err == nil {
				cfg.Generation = op.Config.Generation
			}
			gen, err := b.manager.StageOperator(b.Context(), app, "/", cfg)
			if err != nil {
				return err
			}
			cfg.Generation = gen
			return b.manager.EnsureOperator(b.Context(), app, "/", cfg)
		},
		done:  func(b *bench) bool { return b.pid(app) != 0 },
		check: func(b *bench) { runs(b, first) },
	}, {
		name:    "update",
		prepare: func(b *bench) { b.ensure(app, first.Clone()); b.born(app, 1); b.settled(app) },
		act:     func(b *bench) error { return ensure(b, next) },
		done: func(b *bench) bool {
			last := b.last(app)
			return last.Template == next.AgentConf.Reveal() && b.pid(app) == last.Pid
		},
		check: func(b *bench) {
			runs(b, next)
			if got := b.births(app)[1].AgentConf; got != first.AgentConf.Reveal() {
				b.Error("its own agent.conf was touched")
			}
		},
	}, {
		name:    "deletion",
		prepare: func(b *bench) { b.ensure(app, first.Clone()); b.born(app, 1); b.settled(app) },
		act:     func(b *bench) error { return b.manager.DeleteOperator(b.Context(), app) },
		done:    func(b *bench) bool { entries, _ := os.ReadDir(b.dir); return len(entries) == 1 },
		check:   func(b *bench) { b.gone(app) },
	}} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			var steps int
			for after := 0; ; after++ {
				b := newBench(t)
				b.start() // which gives the directory its id
				if story.prepare != nil {
					story.prepare(b)
				}
				b.kill()
				c := &crasher{after: after}
				b.startWith(options{before: c.before})
				if err := story.act(b); err != nil && !errors.Is(err, errCrashed) {
					t.Fatalf("crash after %d steps: %v", after, err)
				}
				b.eventually("the crash, or the end", func() bool { return c.crashed() || story.done(b) })
				whole := !c.crashed()
				b.restart()
				if err := story.act(b); err != nil && !errors.Is(err, errors.NotYetAvailable) {
					t.Fatalf("after a crash after %q: %v", c.steps, err)
				}
				story.check(b)
				b.eventually("nothing half made is left", func() bool {
					entries, _ := os.ReadDir(b.dir)
					for _, e := range entries {
						if e.Name() != app && e.Name() != lockName {
							return false
						}
					}
					return true
				})
				if t.Failed() {
					t.Fatalf("after a crash after %q", c.steps)
				}
				if whole {
					steps = len(c.steps)
					t.Logf("%d steps: %s", steps, strings.Join(c.steps, ", "))
					break
				}
				b.finish()
			}
			if steps < 5 {
				t.Errorf("only %d steps: the story was not told", steps)
			}
		})
	}
}
