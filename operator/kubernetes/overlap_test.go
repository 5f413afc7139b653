package kubernetes

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/juju/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// Two agents work on one model for a while, when one takes over from another and the
// other does not know it yet. Each has a client and caches of its own.

func TestOfConcurrentStagersOneWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managers := []*managed{w.listed(t), w.listed(t), w.listed(t)}
	const apps = 10
	type result struct {
		n          int
		generation string
		err        error
	}
	results := make([][]result, apps)
	var done sync.WaitGroup
	var mu sync.Mutex
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		for n, m := range managers {
			cfg := operatorConfig(t, app, n)
			done.Go(func() {
				generation, err := m.StageOperator(t.Context(), app, testAgentPath, cfg)
				mu.Lock()
				defer mu.Unlock()
				results[i] = append(results[i], result{n, generation, err})
			})
		}
	}
	done.Wait()
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		winner := -1
		for _, r := range results[i] {
			switch {
			case r.err == nil && winner < 0:
				winner = r.n
				// The winner, and everybody else, is shown what it stored.
				for _, m := range managers {
					kubetest.Eventually(t, "the winner's configuration shown", func() error {
						op, err := m.Operator(t.Context(), app)
						if err != nil {
							return err
						}
						if op.Config.Generation != r.generation || !op.Config.AgentConf.Equal(operatorConfig(t, app, r.n).AgentConf) {
							return fmt.Errorf("shown is generation %s, and %s was stored", op.Config.Generation, r.generation)
						}
						return nil
					})
				}
			case r.err == nil:
				t.Errorf("%s: both %d and %d have won", app, winner, r.n)
			case !errors.Is(r.err, operator.ErrConflict):
				t.Errorf("%s: %v", app, r.err)
			}
		}
		if winner < 0 {
			t.Errorf("%s: nobody has won: %v", app, results[i])
		}
	}
}

// TestManagersAtOnceMakeOneOperatorOfEach has them do the same for the same and for
// different applications.
func TestManagersAtOnceMakeOneOperatorOfEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managers := []*managed{w.listed(t), w.listed(t)}
	const apps, calls = 8, 3
	var parts [][]string
	var done sync.WaitGroup
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		parts = append(parts, partsOf(app))
		cfg := operatorConfig(t, app, 1)
		for n, m := range managers {
			if i >= 6 && n != i-6 {
				continue // the last two have a manager each
			}
			done.Go(func() {
				for range calls {
					err := m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
					if err != nil && !errors.Is(err, errors.NotYetAvailable) {
						t.Errorf("EnsureOperator(%q): %v", app, err)
					}
				}
			})
		}
	}
	done.Wait()
	first := make(map[string]*corev1.Pod)
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		managers[0].again(t, app, operatorConfig(t, app, 1))
		first[app] = w.rolledOut(t, app)
	}
	w.complete(t, parts...)
	// Neither has started again what the other has started, and both are done.
	for _, m := range managers {
		w.caughtUp(t, m)
		for app, pod := range first {
			m.again(t, app, operatorConfig(t, app, 1))
			if got := w.rolledOut(t, app); got.UID != pod.UID {
				t.Errorf("%s: the pod is another one", app)
			}
			m.silent(t, func() { m.again(t, app, operatorConfig(t, app, 1)) })
		}
	}
}

// TestManagersAtOnceOfDifferentMindsEndInOne has each want another configuration, and
// take what it is shown when it is told of a conflict, as a provisioner does.
func TestManagersAtOnceOfDifferentMindsEndInOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managers := []*managed{w.listed(t), w.listed(t)}
	const apps, rounds = 6, 4
	var done sync.WaitGroup
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		for n, m := range managers {
			cfgs := make([]*operator.Config, rounds)
			for round := range cfgs {
				cfgs[round] = operatorConfig(t, app, 10*n+round)
			}
			done.Go(func() {
				for _, cfg := range cfgs {
					cfg = cfg.Clone()
					op, err := m.Operator(t.Context(), app)
					if err == nil {
						cfg.Generation = op.Config.Generation
					}
					if err == nil && n == 1 {
						// This one keeps what there is.
						cfg.AgentConf, cfg.OperatorInfo = op.Config.AgentConf, op.Config.OperatorInfo
					}
					err = m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
					if err != nil && !errors.Is(err, operator.ErrConflict) && !errors.Is(err, errors.NotYetAvailable) && !errors.Is(err, errors.NotValid) {
						t.Errorf("EnsureOperator(%q): %v", app, err)
					}
				}
			})
		}
	}
	done.Wait()
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		w.caughtUp(t, managers[0])
		op, err := managers[0].Operator(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range managers {
			resume(t, m, app, operatorConfig(t, app, 99))
		}
		managers[1].shows(t, app, op.Config)
		if files := kubetest.Files(t, w.rolledOut(t, app)); w.FakeNode() &&
			files[testAgentPath+"/agents/application-"+app+"/template-agent.conf"] != op.Config.AgentConf.Reveal() {
			t.Errorf("%s: the pod has other files than those that are stored", app)
		}
	}
}

// TestCreationAndDeletionByTwoAtOnce has one make what the other takes away.
func TestCreationAndDeletionByTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker, taker := w.listed(t), w.listed(t)
	const apps, calls = 8, 5
	var done sync.WaitGroup
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		cfg := operatorConfig(t, app, 1)
		done.Go(func() {
			for range calls {
				err := maker.EnsureOperator(t.Context(), app, testAgentPath, cfg)
				if err != nil && !errors.Is(err, errors.NotYetAvailable) {
					t.Errorf("EnsureOperator(%q): %v", app, err)
				}
			}
		})
		done.Go(func() {
			for range calls {
				if err := taker.DeleteOperator(t.Context(), app); err != nil {
					t.Errorf("DeleteOperator(%q): %v", app, err)
				}
			}
		})
	}
	done.Wait()
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		done.Go(func() {
			maker.remade(t, app, operatorConfig(t, app, 1))
			w.rolledOut(t, app)
			w.knows(t, taker, app)
			taker.removed(t, app)
		})
	}
	done.Wait()
	w.bare(t)
}

// TestStaleCacheOverwritesNothing has a manager that knows nothing of what another one
// has done since, in each of its calls that write.
func TestStaleCacheOverwritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newer := func(cfg *operator.Config) *operator.Config {
		cfg = cfg.Clone()
		cfg.Version = "3.0.0"
		return cfg
	}
	for name, test := range map[string]struct {
		do func(t *testing.T, m *managed, app, shown string) error
		// settled says that the manager has no reason to look.
		settled bool
	}{
		"ensuring-another": {do: func(t *testing.T, m *managed, app, shown string) error {
			cfg := operatorConfig(t, app, 3)
			cfg.Generation = shown
			return m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
		}},
		"ensuring-the-same": {settled: true, do: func(t *testing.T, m *managed, app, shown string) error {
			cfg := operatorConfig(t, app, 1)
			cfg.Generation = shown
			return m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
		}},
		"ensuring-the-same-of-a-newer-version": {do: func(t *testing.T, m *managed, app, shown string) error {
			cfg := newer(operatorConfig(t, app, 1))
			cfg.Generation = shown
			return m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
		}},
		"ensuring-without-a-generation": {do: func(t *testing.T, m *managed, app, _ string) error {
			return m.EnsureOperator(t.Context(), app, testAgentPath, operatorConfig(t, app, 3))
		}},
		"staging": {do: func(t *testing.T, m *managed, app, shown string) error {
			cfg := operatorConfig(t, app, 3)
			cfg.Generation = shown
			_, err := m.StageOperator(t.Context(), app, testAgentPath, cfg)
			return err
		}},
		"keeping": {settled: true, do: func(t *testing.T, m *managed, app, shown string) error {
			cfg := operatorConfig(t, app, 1)
			cfg.AgentConf, cfg.OperatorInfo, cfg.Generation = facade.Secret{}, facade.Secret{}, shown
			return m.KeepOperator(t.Context(), app, testAgentPath, cfg)
		}},
		"keeping-in-a-newer-version": {do: func(t *testing.T, m *managed, app, shown string) error {
			cfg := newer(operatorConfig(t, app, 1))
			cfg.AgentConf, cfg.OperatorInfo, cfg.Generation = facade.Secret{}, facade.Secret{}, shown
			return m.KeepOperator(t.Context(), app, testAgentPath, cfg)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := "a-" + name
			var wire stall
			behind, ahead := w.managerAs(t, wire.wrap(w.Config)), w.listed(t)
			behind.list(t)
			shown := behind.made(t, app, operatorConfig(t, app, 1))
			w.rolledOut(t, app)
			w.knows(t, behind, app)
			wire.hold()
			stored := ahead.made(t, app, operatorConfig(t, app, 2))
			pod, set := w.rolledOut(t, app), w.set(t, app)

			for range 2 {
				err := test.do(t, behind, app, shown)
				if !errors.Is(err, operator.ErrConflict) && !(test.settled && err == nil) {
					t.Errorf("error %v, want operator.ErrConflict", err)
				}
			}
			if got := get[*corev1.Secret](t, w, secrets, namesOf(app).config()); got.ResourceVersion != stored {
				t.Error("the Secret was changed")
			}
			if got := get[*appsv1.StatefulSet](t, w, statefulSets, namesOf(app).operator()); got.UID != set.UID || got.Generation != set.Generation {
				t.Error("the set was changed")
			}
			if got := w.rolledOut(t, app); got.UID != pod.UID {
				t.Error("the pod was started again")
			}
			// What it is shown when it looks is what is there, caches or not.
			if got := behind.shows(t, app, operatorConfig(t, app, 2)); got != stored {
				t.Errorf("shown is generation %s, and %s is stored", got, stored)
			}
			wire.release()
			behind.made(t, app, operatorConfig(t, app, 4))
			ahead.shows(t, app, operatorConfig(t, app, 4))
		})
	}
}

// TestStaleCacheWithNothingInItOverwritesNothing has the other one begin.
func TestStaleCacheWithNothingInItOverwritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wire stall
	behind, ahead := w.managerAs(t, wire.wrap(w.Config)), w.listed(t)
	behind.list(t)
	wire.hold()
	for _, app := range []string{"staged", "made"} {
		if app == "staged" {
			ahead.staged(t, app, operatorConfig(t, app, 1))
		} else {
			ahead.made(t, app, operatorConfig(t, app, 1))
		}
		_, err := behind.StageOperator(t.Context(), app, testAgentPath, operatorConfig(t, app, 2))
		if !errors.Is(err, operator.ErrConflict) {
			t.Errorf("StageOperator of what was %s: %v", app, err)
		}
		if err := behind.EnsureOperator(t.Context(), app, testAgentPath, operatorConfig(t, app, 2)); !errors.Is(err, operator.ErrConflict) {
			t.Errorf("EnsureOperator of what was %s: %v", app, err)
		}
		ahead.shows(t, app, operatorConfig(t, app, 1))
		// The same is no conflict, and what the other has begun is completed.
		behind.ensure(t, app, operatorConfig(t, app, 1))
		w.rolledOut(t, app)
	}
	if apps, err := behind.Operators(t.Context()); err != nil || !slices.Equal(apps, []string{"made", "staged"}) {
		t.Errorf("Operators = %q, %v", apps, err)
	}
	wire.release()
	w.caughtUp(t, behind)
	w.complete(t, partsOf("staged"), partsOf("made"))
}
