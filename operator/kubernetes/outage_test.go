package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// returns fails the test unless f returns before anybody would have lost patience.
func returns(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(kubetest.Patience):
		t.Fatalf("%s has not ended", what)
	}
}

// stops ends the manager, whatever the cluster does.
func (m *managed) stops(t testing.TB) {
	t.Helper()
	returns(t, "the manager", func() { m.stop(t) })
}

// call is one of a manager's methods.
type call struct {
	// cached says that it is answered without the API server.
	cached bool
	do     func(ctx context.Context) error
}

// calls returns all of the manager's methods; app is there, other is not.
func (m *managed) calls(t testing.TB, app, other string) map[string]call {
	t.Helper()
	cfg, first := operatorConfig(t, app, 99), operatorConfig(t, other, 1)
	keep := func(ctx context.Context) error {
		op, err := m.GlanceOperator(ctx, app)
		if err != nil {
			return err
		}
		kept := operatorConfig(t, app, 1)
		kept.AgentConf, kept.OperatorInfo, kept.Version = facade.Secret{}, facade.Secret{}, "3"
		kept.Generation = op.Config.Generation
		return m.KeepOperator(ctx, app, testAgentPath, kept)
	}
	return map[string]call{
		"OperatorExists":          {true, func(ctx context.Context) error { _, err := m.OperatorExists(ctx, app); return err }},
		"GlanceOperator":          {true, func(ctx context.Context) error { _, err := m.GlanceOperator(ctx, app); return err }},
		"Operators":               {true, func(ctx context.Context) error { _, err := m.Operators(ctx); return err }},
		"Operator":                {false, func(ctx context.Context) error { _, err := m.Operator(ctx, app); return err }},
		"EnsureOperator":          {false, func(ctx context.Context) error { return m.EnsureOperator(ctx, app, testAgentPath, cfg) }},
		"EnsureOperator of a new": {false, func(ctx context.Context) error { return m.EnsureOperator(ctx, other, testAgentPath, first) }},
		"StageOperator": {false, func(ctx context.Context) error {
			_, err := m.StageOperator(ctx, other, testAgentPath, first)
			return err
		}},
		"KeepOperator":   {false, keep},
		"DeleteOperator": {false, func(ctx context.Context) error { return m.DeleteOperator(ctx, app) }},
		"WatchOperators": {true, func(ctx context.Context) error {
			watcher, err := m.WatchOperators(ctx)
			if err != nil {
				return err
			}
			return worker.Stop(watcher)
		}},
	}
}

// fails calls all methods at once, with a deadline, and wants each to heed it. Those
// that are answered from the caches must not fail.
func (m *managed) fails(t *testing.T, app, other string) {
	t.Helper()
	var done sync.WaitGroup
	for name, call := range m.calls(t, app, other) {
		done.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := call.do(ctx); (err == nil) != call.cached {
				t.Errorf("%s: %v", name, err)
			} else if errors.Is(err, errors.NotFound) || errors.Is(err, errors.NotValid) || errors.Is(err, operator.ErrConflict) {
				t.Errorf("%s says something of the operator: %v", name, err)
			}
		})
	}
	returns(t, "one of the calls", done.Wait)
}

// troubles returns what the report says of watches that fail, by kind.
func (m *managed) troubles() map[string]string {
	out := make(map[string]string)
	for kind, watch := range m.Report()["watches"].(map[string]any) {
		if err, ok := watch.(map[string]any)["error"]; ok {
			out[kind] = err.(string)
		}
	}
	return out
}

// untroubled waits until all watches work, and a change by hand is told.
func (w *world) untroubled(t testing.TB, m *managed, told *watching, app string) {
	t.Helper()
	kubetest.Eventually(t, "the end of trouble", func() error {
		if troubles := m.troubles(); len(troubles) > 0 {
			return fmt.Errorf("there is %v", troubles)
		}
		return nil
	})
	w.caughtUp(t, m)
	told.forget()
	edit(t, w, services, namesOf(app).operator(), func(s *corev1.Service) { s.Spec.Ports[0].Port++ })
	told.wait(t, app)
}

// TestManagerOutlivesTheAPIServer stops it, starts it again, and stops it in its tracks.
func TestManagerOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	plane := kubetest.Private(t)
	w := worldOn(t, plane.Cluster)
	m := w.listed(t)
	told := m.watch(t)
	for i := range 3 {
		app := fmt.Sprintf("a%da", i)
		m.made(t, app, operatorConfig(t, app, 1))
		w.rolledOut(t, app)
	}
	for what, outage := range map[string]struct{ begin, end func(testing.TB) }{
		"stopped": {plane.Stop, plane.Start},
		"frozen":  {plane.Freeze, plane.Thaw},
	} {
		second := w.listed(t)
		pods := make(map[string]*corev1.Pod)
		for i := range 3 {
			app := fmt.Sprintf("a%da", i)
			pods[app] = w.rolledOut(t, app)
		}
		outage.begin(t)
		began := m.wire.Count(func(kubetest.Request) bool { return true })
		m.fails(t, "a0a", "b"+what)

		// One that begins now waits, and says for what.
		third := w.manager(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := third.OperatorExists(ctx, "a0a")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "watching") && !strings.Contains(err.Error(), "first listing") {
			t.Errorf("%s: OperatorExists of a manager that has seen nothing = %v", what, err)
		}
		if what == "stopped" {
			kubetest.Eventually(t, "the report telling", func() error {
				if troubles := m.troubles(); len(troubles) != int(kindCount) || !strings.Contains(troubles["secrets"], "connection refused") {
					return fmt.Errorf("it tells %v", troubles)
				}
				return nil
			})
		}
		second.stops(t)
		third.stops(t)
		// Nobody storms a server that is down.
		if n := m.wire.Count(func(kubetest.Request) bool { return true }) - began; n > 2000 {
			t.Errorf("%s: %d requests", what, n)
		}

		outage.end(t)
		// No new manager: everything goes on by itself.
		app := "c" + what
		m.remade(t, app, operatorConfig(t, app, 1))
		w.rolledOut(t, app)
		w.untroubled(t, m, told, "a1a")
		m.made(t, "a1a", operatorConfig(t, "a1a", 1))
		m.removed(t, app)
		// What was refused meanwhile was not done, or is done, but not half.
		for _, app := range []string{"a1a", "a2a"} {
			if got := w.rolledOut(t, app); got.UID != pods[app].UID {
				t.Errorf("%s: the pod of %s is another one", what, app)
			}
		}
		m.remade(t, "a0a", operatorConfig(t, "a0a", 1))
		m.remade(t, "b"+what, operatorConfig(t, "b"+what, 1))
		m.removed(t, "b"+what)
	}
}

// TestSlowAPIServerIsWaitedFor has every request take its time, and some more than the
// call has.
func TestSlowAPIServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	notWatches := func(q kubetest.Request) bool { return q.Verb != "watch" }
	m.wire.Inject(notWatches, kubetest.Fault{Delay: 100 * time.Millisecond})
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	w.rolledOut(t, "mysql")
	m.wire.Heal()

	for _, verb := range []string{"create", "patch", "get", "delete"} {
		m.wire.Inject(kubetest.On(verb, ""), kubetest.Fault{Delay: time.Hour})
	}
	for name, call := range m.calls(t, "mysql", "redis") {
		returns(t, name, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := call.do(ctx); call.cached && err != nil || !call.cached && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	m.wire.Heal()
	m.remade(t, "mysql", operatorConfig(t, "mysql", 2))
	m.remade(t, "redis", operatorConfig(t, "redis", 1))
	w.complete(t, partsOf("mysql"), partsOf("redis"))
}

// TestThrottlingIsHeeded has the API server ask for patience.
func TestThrottlingIsHeeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	var at []time.Time
	m.wire.Inject(kubetest.On("create", "services"), kubetest.Fault{
		Last: 2, Status: 429, Message: "not so fast", RetryAfter: 1,
		Before: func(kubetest.Request) { at = append(at, time.Now()) },
	})
	m.ensure(t, "mysql", operatorConfig(t, "mysql", 1))
	if n := m.wire.Count(kubetest.On("create", "services")); n != 3 {
		t.Errorf("%d attempts", n)
	}
	if len(at) != 2 || at[1].Sub(at[0]) < time.Second {
		t.Errorf("attempts were at %v", at)
	}
	// Where it does not say for how long, the caller's own pauses count.
	m.wire.Heal()
	m.wire.Reset()
	m.wire.Inject(kubetest.On("create", ""), kubetest.Fault{Status: 429, Message: "not so fast"})
	err := m.EnsureOperator(t.Context(), "redis", testAgentPath, operatorConfig(t, "redis", 1))
	wantKind(t, err, errors.NotYetAvailable, "not so fast", `operator of "redis"`)
	if n := len(m.wire.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
	m.wire.Heal()
	m.ensure(t, "redis", operatorConfig(t, "redis", 1))
}

// TestTroubleOfTheServerHasItsKind answers in the API server's stead.
func TestTroubleOfTheServerHasItsKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	for status, want := range map[int]errors.ConstError{
		503: errors.NotYetAvailable, 504: errors.Timeout, 401: errors.Unauthorized, 403: errors.Forbidden,
	} {
		for _, verb := range []string{"create", "patch", "get", "delete"} {
			m.wire.Inject(kubetest.On(verb, ""), kubetest.Fault{Status: status, Message: fmt.Sprintf("words of %d", status)})
		}
		for name, call := range m.calls(t, "mysql", "redis") {
			if call.cached {
				continue
			}
			app := "mysql"
			if strings.Contains(name, "new") || name == "StageOperator" {
				app = "redis"
			}
			wantKind(t, call.do(t.Context()), want, fmt.Sprintf("words of %d", status), fmt.Sprintf("operator of %q", app))
		}
		m.wire.Heal()
	}
	w.complete(t, partsOf("mysql"))
}

// TestCutWatchesAreTakenUpAgain loses connections, and then what would let the watches
// go on where they were.
func TestCutWatchesAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wire stall
	m := w.managerAs(t, wire.wrap(w.Config))
	m.list(t)
	told := m.watch(t)
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	w.rolledOut(t, "mysql")
	for range 3 {
		w.caughtUp(t, m)
		if wire.cut() == 0 { // those of before may still be pausing
			t.Error("no watch was cut")
		}
		w.untroubled(t, m, told, "mysql")
		m.remade(t, "mysql", operatorConfig(t, "mysql", 1))
	}
	m.wire.Inject(kubetest.On("watch", ""), kubetest.Fault{Last: int(kindCount), Status: 410, Message: "too old resource version"})
	wire.cut()
	w.remove(t, services, "mysql-operator", metav1.DeletePropagationBackground)
	told.wait(t, "mysql")
	w.untroubledWithout(t, m)
	m.remade(t, "mysql", operatorConfig(t, "mysql", 1))
	w.complete(t, partsOf("mysql"))
}

// untroubledWithout waits until all watches work, and nothing was missed.
func (w *world) untroubledWithout(t testing.TB, m *managed) {
	t.Helper()
	kubetest.Eventually(t, "the end of trouble", func() error {
		if troubles := m.troubles(); len(troubles) > 0 {
			return fmt.Errorf("there is %v", troubles)
		}
		return nil
	})
	w.caughtUp(t, m)
}

// grant changes what the service account may do.
func (w *world) grant(t testing.TB, account string, rules []rbacv1.PolicyRule) {
	t.Helper()
	edit(t, w, roles, account, func(r *rbacv1.Role) { r.Rules = rules })
}

// unlistable returns the rules without the right to list objects of that kind, and to
// watch them, which may be the same.
func unlistable(resource string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range Rules() {
		for _, r := range rule.Resources {
			one := *rule.DeepCopy()
			one.Resources = []string{r}
			if r == resource {
				one.Verbs = slices.DeleteFunc(one.Verbs, func(v string) bool { return v == "list" || v == "watch" })
			}
			out = append(out, one)
		}
	}
	return out
}

// TestWithoutRightsThereIsNoSilence has the right to list Secrets missing at first, then
// given, then all rights taken away.
func TestWithoutRightsThereIsNoSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	account := w.ServiceAccount(t, w.namespace, "agent", unlistable("secrets")...)
	var wire stall
	var log lockedBuffer
	m := w.managerAs(t, wire.wrap(account), func(c *Config) { c.Logger = logInto(&log) })
	words := []string{"watching secrets", w.namespace, `system:serviceaccount:` + w.namespace + `:agent`, "forbidden"}
	for round := range 2 {
		for name, call := range m.calls(t, "mysql", "redis") {
			err := call.do(t.Context())
			if !errors.Is(err, errors.Forbidden) {
				t.Errorf("round %d, %s: %v", round, name, err)
			}
			wantKind(t, err, errors.Forbidden, words...)
		}
	}
	if trouble := m.troubles()["secrets"]; !strings.Contains(trouble, "forbidden") {
		t.Errorf("the report says %q", trouble)
	}
	if n := strings.Count(log.String(), "cannot watch the cluster"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}

	w.grant(t, "agent", Rules())
	m.remade(t, "mysql", operatorConfig(t, "mysql", 1))
	w.rolledOut(t, "mysql")
	w.untroubledWithout(t, m)

	// A watch that is under way goes on for a while, as the API server has it.
	w.grant(t, "agent", nil)
	wire.cut()
	kubetest.Eventually(t, "an error", func() error {
		if _, err := m.OperatorExists(t.Context(), "mysql"); !errors.Is(err, errors.Forbidden) {
			return fmt.Errorf("OperatorExists returns %v", err)
		}
		return nil
	})
	for name, call := range m.calls(t, "mysql", "redis") {
		if err := call.do(t.Context()); !errors.Is(err, errors.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.grant(t, "agent", Rules())
	kubetest.Eventually(t, "recovery", func() error { _, err := m.Operators(t.Context()); return err })
	m.made(t, "mysql", operatorConfig(t, "mysql", 2))
	m.removed(t, "mysql")
}

// TestListingWithoutWatchingIsNotEnough has the right to list, with which the informer
// helps itself for a moment each time.
func TestListingWithoutWatchingIsNotEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log lockedBuffer
	m := w.manager(t, func(c *Config) { c.Logger = logInto(&log) })
	m.wire.Inject(kubetest.On("watch", "secrets"), kubetest.Fault{Status: 403, Message: "no watching"})
	kubetest.Eventually(t, "an error", func() error {
		if _, err := m.Operators(t.Context()); !errors.Is(err, errors.Forbidden) {
			return fmt.Errorf("Operators returns %v", err)
		}
		return nil
	})
	kubetest.Eventually(t, "some more listings", func() error {
		_, err := m.Operators(t.Context())
		wantKind(t, err, errors.Forbidden, "no watching")
		if n := m.wire.Count(kubetest.On("list", "secrets")); n < 4 && !t.Failed() {
			return fmt.Errorf("there were %d", n)
		}
		return nil
	})
	if n := strings.Count(log.String(), "cannot watch the cluster"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, log.String())
	}
	m.wire.Heal()
	kubetest.Eventually(t, "recovery", func() error { _, err := m.Operators(t.Context()); return err })
}

// TestOwnWritesAreReadAtOnce holds back all that the watches tell.
func TestOwnWritesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wire stall
	m := w.managerAs(t, wire.wrap(w.Config))
	m.list(t)
	wire.hold()

	// Staged, and deleted again, and once more.
	generations := make(map[string]bool)
	for n := range 3 {
		cfg := operatorConfig(t, "redis", n)
		generation, err := m.StageOperator(t.Context(), "redis", testAgentPath, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.shows(t, "redis", cfg); got != generation || generations[got] {
			t.Errorf("generation %q, and %q was staged", got, generation)
		}
		generations[generation] = true
		if apps, err := m.Operators(t.Context()); err != nil || !slices.Equal(apps, []string{"redis"}) {
			t.Errorf("Operators = %q, %v", apps, err)
		}
		m.delete(t, "redis")
		if _, err := m.Operator(t.Context(), "redis"); !errors.Is(err, errors.NotFound) {
			t.Errorf("Operator = %v", err)
		}
		if apps, err := m.Operators(t.Context()); err != nil || len(apps) > 0 {
			t.Errorf("Operators = %q, %v", apps, err)
		}
	}

	// Made, changed, and changed again.
	for n := range 3 {
		cfg := operatorConfig(t, "mysql", n)
		m.made(t, "mysql", cfg)
		if state := m.state(t, "mysql"); state != (operator.State{Exists: true}) {
			t.Errorf("the operator is %+v", state)
		}
		m.silent(t, func() { m.again(t, "mysql", cfg) })
	}
	m.delete(t, "mysql")
	if state := m.state(t, "mysql"); state != (operator.State{Exists: true, Terminating: true}) {
		t.Errorf("the operator is %+v", state)
	}
	wantKind(t, m.EnsureOperator(t.Context(), "mysql", testAgentPath, operatorConfig(t, "mysql", 1)), errors.NotYetAvailable)

	// What others did meanwhile counts once it is told: of what was staged and
	// deleted, somebody has made another one; what was staged, somebody has deleted.
	m.staged(t, "valkey", operatorConfig(t, "valkey", 1))
	w.remove(t, secrets, namesOf("valkey").config(), metav1.DeletePropagationBackground)
	other := w.listed(t)
	other.made(t, "redis", operatorConfig(t, "redis", 7))
	other.removed(t, "mysql")
	wire.release()
	kubetest.Eventually(t, "the others' work seen", func() error {
		if _, err := m.Operator(t.Context(), "valkey"); !errors.Is(err, errors.NotFound) {
			return fmt.Errorf("Operator of valkey: %v", err)
		}
		if _, err := m.Operator(t.Context(), "mysql"); !errors.Is(err, errors.NotFound) {
			return fmt.Errorf("Operator of mysql: %v", err)
		}
		if state := m.state(t, "redis"); !state.Exists {
			return fmt.Errorf("redis is %+v", state)
		}
		return nil
	})
	m.shows(t, "redis", operatorConfig(t, "redis", 7))
}

// staged stages the configuration.
func (m *managed) staged(t testing.TB, app string, cfg *operator.Config) {
	t.Helper()
	if _, err := m.StageOperator(t.Context(), app, testAgentPath, cfg); err != nil {
		t.Fatalf("StageOperator(%q): %v", app, err)
	}
}

// TestEndOfTheManagerEndsItsCalls has calls wait for a first listing that does not come.
func TestEndOfTheManagerEndsItsCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wire stall
	wire.hold()
	m := w.managerAs(t, wire.wrap(w.Config))
	calls := m.calls(t, "mysql", "redis")
	results := make(chan error, len(calls))
	for _, call := range calls {
		go func() { results <- call.do(t.Context()) }()
	}
	returns(t, "the manager", func() {
		m.Kill()
		if err := m.Wait(); err != nil {
			t.Error(err)
		}
	})
	returns(t, "the calls", func() {
		for range calls {
			if err := <-results; err == nil || !strings.Contains(err.Error(), "the operator manager has ended") {
				t.Errorf("a call returned %v", err)
			}
		}
	})
	for name, call := range calls {
		if err := call.do(t.Context()); err == nil || !strings.Contains(err.Error(), "the operator manager has ended") {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
}
