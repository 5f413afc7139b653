package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
)

// stuck has the operator's pod not go when it is deleted.
func (w *world) stuck(t testing.TB, app string, is bool) {
	t.Helper()
	w.Behave(t, w.namespace, namesOf(app).operator()+"-0", fakenode.Behaviour{Stuck: is})
}

// bare waits until nothing of any kind that the API server has is left in the
// namespace, but for what is in every namespace.
func (w *world) bare(t testing.TB) {
	t.Helper()
	w.empty(t) // costs less, and takes longer
	config := rest.CopyConfig(w.Config)
	config.WarningHandler = rest.NoWarnings{} // some kinds are old
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kinds := w.kinds(t)
	kubetest.Eventually(t, "nothing left of any kind", func() error {
		for resource, kind := range kinds {
			list, err := client.Resource(resource).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("listing %s: %v", resource, err)
			}
			for _, obj := range list.Items {
				switch what := kind + " " + obj.GetName(); what {
				case "ServiceAccount default", "ConfigMap kube-root-ca.crt", "ConfigMap " + fakenode.BehaviourConfigMap:
				default:
					return fmt.Errorf("there is %s", what)
				}
			}
		}
		return nil
	})
}

// kinds returns those that can be in a namespace, but for events.
func (w *world) kinds(t testing.TB) map[schema.GroupVersionResource]string {
	t.Helper()
	lists, err := discovery.ServerPreferredNamespacedResources(w.Client.Discovery())
	if err != nil {
		t.Fatalf("asking what kinds there are: %v", err)
	}
	out := make(map[schema.GroupVersionResource]string)
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && r.Kind != "Event" {
				out[group.WithResource(r.Name)] = r.Kind
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("there are only %d kinds", len(out))
	}
	return out
}

func (m *managed) state(t testing.TB, app string) operator.State {
	t.Helper()
	state, err := m.OperatorExists(t.Context(), app)
	if err != nil {
		t.Fatalf("OperatorExists(%q): %v", app, err)
	}
	return state
}

func (m *managed) delete(t testing.TB, app string) {
	t.Helper()
	if err := m.DeleteOperator(t.Context(), app); err != nil {
		t.Fatalf("DeleteOperator(%q): %v", app, err)
	}
}

// TestPodGoesBeforeWhatItNeeds has a pod that takes its time to end: it has its rights
// and its configuration until it is gone, and others are not held up.
func TestPodGoesBeforeWhatItNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", private(operatorConfig(t, "mysql", 1), "pa55"))
	w.rolledOut(t, "mysql")
	w.stuck(t, "mysql", true)
	m.wire.Reset()
	for range 5 {
		m.delete(t, "mysql")
		if state := m.state(t, "mysql"); state != (operator.State{Exists: true, Terminating: true}) {
			t.Errorf("the operator is %+v", state)
		}
	}
	set := w.set(t, "mysql")
	wantEqual(t, "writes of five calls", m.writes(), []string{"delete statefulsets " + w.namespace + "/mysql-operator"})
	if !slices.Contains(set.Finalizers, metav1.FinalizerDeleteDependents) {
		t.Errorf("the set goes before its pod: finalizers %q", set.Finalizers)
	}
	w.Pod(t, w.namespace, "mysql-operator-0", "is terminating", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	w.knows(t, m, "mysql")
	for range 5 {
		m.delete(t, "mysql")
	}
	if writes := m.writes(); len(writes) > 0 {
		t.Errorf("written while the pod is terminating: %q", writes)
	}
	op, err := m.Operator(t.Context(), "mysql")
	if err != nil || !op.Dying || op.Status.Phase != operator.Terminated || op.Status.Since.IsZero() {
		t.Errorf("Operator = %+v, %v", op, err)
	}
	all := w.everything(t)
	for _, part := range partsOf("mysql", "Secret mysql-operator-pull") {
		obj, ok := all[part]
		if going := ok && obj.GetDeletionTimestamp() != nil; !ok || going != (strings.HasPrefix(part, "StatefulSet") || strings.HasPrefix(part, "Pod")) {
			t.Errorf("%s: there %v, going %v", part, ok, going)
		}
	}
	wantKind(t, m.EnsureOperator(t.Context(), "mysql", testAgentPath, operatorConfig(t, "mysql", 2)), errors.NotYetAvailable, "terminating", "mysql")

	// Others go on.
	m.made(t, "redis", operatorConfig(t, "redis", 1))
	w.rolledOut(t, "redis")
	m.removed(t, "redis")

	w.stuck(t, "mysql", false)
	m.wire.Reset()
	m.removed(t, "mysql")
	var order []string
	for _, q := range m.wire.Requests() {
		if q.Verb == "delete" {
			order = append(order, q.Resource+" "+q.Name)
		}
	}
	if last := len(order) - 1; last < 0 || order[last] != "secrets mysql-operator-config" {
		t.Errorf("the configuration is not the last to go: %q", order)
	}
	for _, part := range []string{"serviceaccounts", "roles", "rolebindings", "services"} {
		if !slices.Contains(order, part+" mysql-operator") {
			t.Errorf("%s was not deleted: %q", part, order)
		}
	}
	w.bare(t)
}

func TestDeletionIsResumedAfterACrashAtAnyPoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("crash", func(t *testing.T) {
		// The set and six other objects; the pod is taken along.
		for n := 1; n <= 7; n++ {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				app := fmt.Sprintf("a%da", n)
				first := w.listed(t)
				first.made(t, app, private(operatorConfig(t, app, 1), "pa55"))
				w.rolledOut(t, app)
				w.knows(t, first, app)
				first.wire.CrashAfterWrite(n)
				kubetest.Eventually(t, "the crash", func() error {
					err := first.DeleteOperator(t.Context(), app)
					if first.wire.Crashed() {
						return nil
					}
					return fmt.Errorf("it has not come, and the deletion goes on: %v", err)
				})
				first.stop(t)
				second := w.listed(t)
				if n < 7 {
					// It is found by somebody who does not know of it.
					apps, err := second.Operators(t.Context())
					if err != nil || !slices.Contains(apps, app) {
						t.Errorf("Operators = %q, %v", apps, err)
					}
				}
				second.removed(t, app)
			})
		}
	})
	w.bare(t)
}

func TestDeletionOfNothingAsksForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.silent(t, func() { m.delete(t, "mysql") })
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	m.removed(t, "mysql")
	m.silent(t, func() {
		for range 3 {
			m.delete(t, "mysql")
		}
	})
}

// TestHalfMadeOperatorIsDeleted has only a part there, of each kind.
func TestHalfMadeOperatorIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	if _, err := m.StageOperator(t.Context(), "mysql", testAgentPath, operatorConfig(t, "mysql", 1)); err != nil {
		t.Fatal(err)
	}
	m.removed(t, "mysql")
	w.bare(t)
	for n := 1; n <= 6; n++ {
		first := w.listed(t)
		first.wire.CrashAfterWrite(n)
		if err := first.EnsureOperator(t.Context(), "mysql", testAgentPath, operatorConfig(t, "mysql", 1)); err == nil {
			t.Fatalf("there is no write %d", n)
		}
		first.stop(t)
		w.listed(t).removed(t, "mysql")
		w.bare(t)
	}
}

func TestSeveralThatDeleteAtOnceAreNotInEachOthersWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managers := []*managed{w.listed(t), w.listed(t), w.listed(t)}
	const rounds = 4
	for round := range rounds {
		managers[round%3].made(t, "mysql", operatorConfig(t, "mysql", round))
		var done sync.WaitGroup
		for _, m := range managers {
			w.caughtUp(t, m)
			for range 2 {
				done.Go(func() { m.removed(t, "mysql") })
			}
		}
		done.Wait()
		w.bare(t)
	}
}

// TestDeletionSparesAnOperatorMadeMeanwhile has a manager that knows nothing of what
// another one has done since.
func TestDeletionSparesAnOperatorMadeMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, begin := range map[string]func(*testing.T, *managed, string){
		"nothing deleted yet": func(*testing.T, *managed, string) {},
		"pod gone already": func(t *testing.T, m *managed, app string) {
			m.delete(t, app)
			kubetest.Eventually(t, "set and pod gone", func() error {
				if w.object(t, statefulSets, namesOf(app).operator()) != nil || w.object(t, pods, namesOf(app).operator()+"-0") != nil {
					return fmt.Errorf("they are there")
				}
				return nil
			})
			w.knows(t, m, app)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := "a" + strings.ReplaceAll(name, " ", "")
			var slow stall
			behind, ahead := w.managerAs(t, slow.wrap(w.Config)), w.listed(t)
			behind.list(t)
			behind.made(t, app, operatorConfig(t, app, 1))
			w.rolledOut(t, app)
			w.knows(t, behind, app)
			begin(t, behind, app)

			slow.hold()
			ahead.removed(t, app)
			ahead.made(t, app, operatorConfig(t, app, 2))
			pod := w.rolledOut(t, app)
			// One call: it finds out, and whoever asks again means the new one.
			behind.delete(t, app)
			w.completeOf(t, app)
			if got := w.rolledOut(t, app); got.UID != pod.UID {
				t.Error("the pod is another one")
			}
			ahead.shows(t, app, operatorConfig(t, app, 2))

			// Once it knows, what it is told counts again.
			slow.release()
			w.knows(t, behind, app)
			behind.removed(t, app)
		})
	}
}

// TestPodWithoutItsSetIsTakenAway has somebody delete the set and leave the pod, which
// nobody else would take away.
func TestPodWithoutItsSetIsTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	w.rolledOut(t, "mysql")
	w.stuck(t, "mysql", true)
	w.remove(t, statefulSets, "mysql-operator", metav1.DeletePropagationOrphan)
	w.knows(t, m, "mysql")
	if state := m.state(t, "mysql"); state != (operator.State{}) {
		t.Errorf("the operator is %+v", state)
	}
	m.delete(t, "mysql")
	if state := m.state(t, "mysql"); state != (operator.State{Terminating: true}) {
		t.Errorf("the operator is %+v", state)
	}
	w.stuck(t, "mysql", false)
	m.removed(t, "mysql")
	w.bare(t)
}

// TestSetDeletedByHandWithItsPodIsFinished has somebody begin what the manager is asked
// to do then.
func TestSetDeletedByHandWithItsPodIsFinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	for i, how := range []metav1.DeletionPropagation{
		metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan,
	} {
		app := fmt.Sprintf("a%da", i)
		m.made(t, app, operatorConfig(t, app, 1))
		w.rolledOut(t, app)
		if err := w.endpoints[statefulSets].delete(t.Context(), namesOf(app).operator(), metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
			t.Fatal(err)
		}
		m.removed(t, app)
	}
	w.bare(t)
}

// TestDeletionDuringCreation has both go on at once: whoever comes last has its way.
func TestDeletionDuringCreation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	const apps, calls = 20, 5
	var done sync.WaitGroup
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		cfg := operatorConfig(t, app, 1)
		done.Go(func() {
			for range calls {
				err := m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
				// What is on its way out is waited for.
				if err != nil && !errors.Is(err, errors.NotYetAvailable) {
					t.Errorf("EnsureOperator: %v", err)
				}
			}
		})
		done.Go(func() {
			for range calls {
				if err := m.DeleteOperator(t.Context(), app); err != nil {
					t.Errorf("DeleteOperator: %v", err)
				}
			}
		})
	}
	done.Wait()
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		done.Go(func() {
			if i%2 == 0 {
				m.remade(t, app, operatorConfig(t, app, 1))
				w.rolledOut(t, app)
			}
			m.removed(t, app)
		})
	}
	done.Wait()
	w.bare(t)
}

// TestSameNameDeployedAgainAtOnce makes the next operator as soon as the one before is
// asked to go.
func TestSameNameDeployedAgainAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", operatorConfig(t, "mysql", 0))
	for n := 1; n <= 3; n++ {
		before := w.rolledOut(t, "mysql")
		m.delete(t, "mysql")
		cfg := operatorConfig(t, "mysql", n)
		m.remade(t, "mysql", cfg)
		after := w.rolledOut(t, "mysql")
		if after.UID == before.UID {
			t.Error("the pod is the old one")
		}
		w.complete(t, partsOf("mysql"))
		if files := kubetest.Files(t, after); w.FakeNode() && files[testAgentPath+"/agents/application-mysql/template-agent.conf"] != cfg.AgentConf.Reveal() {
			t.Error("the pod has the files of the one before")
		}
	}
}

// TestTwoHundredTimesDeployedAndRemoved leaves nothing behind.
func TestTwoHundredTimesDeployedAndRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	const apps, rounds = 20, 10
	var deployed atomic.Int32
	var done sync.WaitGroup
	for i := range apps {
		app := fmt.Sprintf("a%da", i)
		if i == 0 {
			app = strings.Repeat("long", 20)
		}
		cfgs := []*operator.Config{operatorConfig(t, app, 0), private(operatorConfig(t, app, 1), "pa55")}
		done.Go(func() {
			for round := range rounds {
				m.remade(t, app, cfgs[round%2])
				m.removed(t, app)
				deployed.Add(1)
			}
		})
	}
	done.Wait()
	if deployed.Load() != apps*rounds {
		t.Errorf("%d were deployed and removed", deployed.Load())
	}
	w.bare(t)
	if apps, err := m.Operators(t.Context()); err != nil || len(apps) > 0 {
		t.Errorf("Operators = %q, %v", apps, err)
	}
	if n := len(m.verified); n > 0 {
		t.Errorf("%d applications are still remembered", n)
	}
}

// TestDeletionThatFailsIsGoneOnWith has each request of it fail once.
func TestDeletionThatFailsIsGoneOnWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	w.rolledOut(t, "mysql")
	for _, resource := range []string{"statefulsets", "services", "rolebindings", "roles", "serviceaccounts", "secrets"} {
		m.wire.Inject(kubetest.On("delete", resource), kubetest.Fault{Last: 1, Status: 500, Message: "no " + resource + " today"})
	}
	said := make(map[string]bool)
	kubetest.Eventually(t, "the end", func() error {
		err := m.DeleteOperator(t.Context(), "mysql")
		if err != nil {
			said[err.Error()] = true
			return err
		}
		if _, err := m.Operator(t.Context(), "mysql"); !errors.Is(err, errors.NotFound) {
			return fmt.Errorf("Operator returns %v", err)
		}
		return nil
	})
	if len(said) != 6 {
		t.Errorf("errors were %q", slices.Sorted(maps.Keys(said)))
	}
	for err := range said {
		if !strings.Contains(err, "today") || !strings.Contains(err, `operator of "mysql"`) {
			t.Errorf("error %q", err)
		}
	}
	w.bare(t)
}

// TestDeletionHeedsItsContext holds that a call does not outlive it.
func TestDeletionHeedsItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	ctx, cancel := context.WithCancel(t.Context())
	m.wire.Inject(kubetest.On("delete", ""), kubetest.Fault{Delay: kubetest.Patience, Before: func(kubetest.Request) { cancel() }})
	if err := m.DeleteOperator(ctx, "mysql"); !errors.Is(err, context.Canceled) {
		t.Errorf("DeleteOperator = %v", err)
	}
	m.wire.Heal()
	m.removed(t, "mysql")
	if _, err := w.Client.AppsV1().StatefulSets(w.namespace).Get(t.Context(), "mysql-operator", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the set: %v", err)
	}
}
