package leader_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

// standAt starts a worker against a real API server.
func standAt(t *testing.T, rest *rest.Config, namespace, identity string, prepare ...func(*leader.Config)) *agent {
	t.Helper()
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{name: identity, log: new(journal)}
	cfg := config(client, identity)
	cfg.Namespace = namespace
	cfg.Logger = slog.New(slog.NewTextHandler(a.log, nil))
	for _, f := range prepare {
		f(&cfg)
	}
	if a.Worker, err = leader.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Kill()
		_ = a.Wait()
		if t.Failed() {
			t.Logf("%s logged:\n%s", identity, a.log)
		}
	})
	return a
}

// await waits until the channel is closed.
func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(kubetest.Patience):
		t.Fatalf("waiting for %s: not after %v", what, kubetest.Patience)
	}
}

func leaseOf(t *testing.T, cluster *kubetest.Cluster, namespace string) *coordinationv1.Lease {
	t.Helper()
	lease, err := cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func holderOf(t *testing.T, cluster *kubetest.Cluster, namespace string) string {
	t.Helper()
	if holder := leaseOf(t, cluster, namespace).Spec.HolderIdentity; holder != nil {
		return *holder
	}
	return ""
}

// released wants the Lease to be no longer the agent's, or the agent to have told
// that a second was too short for that on this machine.
func released(t *testing.T, cluster *kubetest.Cluster, namespace, identity string, log *journal) {
	t.Helper()
	if holderOf(t, cluster, namespace) == identity && log.count("left to expire", "deadline exceeded") == 0 {
		t.Errorf("%s was stopped and holds the lease", identity)
	}
}

// reports waits until the agent's report has what is wanted, as text.
func (a *agent) reports(t *testing.T, key, want string) {
	t.Helper()
	kubetest.Eventually(t, fmt.Sprintf("%s of %s to have %q", key, a.name, want), func() error {
		if got := fmt.Sprint(a.Report()[key]); !strings.Contains(got, want) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

func TestRealLeasePassesFromOneToTheNext(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Need(t)
	namespace := cluster.Namespace(t)
	labels := func(c *leader.Config) { c.Labels = map[string]string{"app.kubernetes.io/managed-by": "juju"} }
	a := standAt(t, cluster.Config, namespace, "a", labels)
	await(t, "a to lead", a.Term().Elected())
	if got := leaseOf(t, cluster, namespace).Labels["app.kubernetes.io/managed-by"]; got != "juju" {
		t.Errorf("the lease's label is %q", got)
	}
	b := standAt(t, cluster.Config, namespace, "b")
	b.reports(t, "holder", "a")

	a.stop(t)
	released(t, cluster, namespace, "a", a.log)
	await(t, "b to lead", b.Term().Elected())
	if got := b.Report()["transitions"]; got != 1 {
		t.Errorf("transitions = %v, want 1", got)
	}
	b.stop(t)
}

func TestServiceAccountWithTheRulesCanLead(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Need(t)
	namespace := cluster.Namespace(t)
	account := cluster.ServiceAccount(t, namespace, "agent", leader.Rules(leaseName)...)
	recorder := kubetest.NewRecorder()
	quickly := func(c *leader.Config) { *c = quick(*c) }
	a := standAt(t, recorder.Wrap(account), namespace, "a", quickly)
	await(t, "a to lead", a.Term().Elected())
	kubetest.Eventually(t, "three renewals", func() error {
		updates := 0
		for _, request := range recorder.Requests() {
			if request.Verb == "update" {
				updates++
			}
		}
		if updates < 3 {
			return fmt.Errorf("there were %d", updates)
		}
		return nil
	})
	a.stop(t)
	released(t, cluster, namespace, "a", a.log)

	// What it asks for is what the rules grant, so they are not too wide.
	var used []string
	for _, request := range recorder.Requests() {
		if request.Resource != "leases" || request.Code >= 400 && request.Code != 404 {
			t.Errorf("%v was answered %d", request, request.Code)
		}
		used = append(used, request.Verb)
	}
	var granted []string
	for _, rule := range leader.Rules(leaseName) {
		granted = append(granted, rule.Verbs...)
	}
	slices.Sort(used)
	slices.Sort(granted)
	if used = slices.Compact(used); !slices.Equal(used, granted) {
		t.Errorf("it used %v, the rules grant %v", used, granted)
	}

	// The Lease of another election is not its.
	other := standAt(t, account, namespace, "a", func(c *leader.Config) { c.Name = "another" })
	other.reports(t, "error", "forbidden")
	other.stop(t)
}

func TestRightsThatAreTakenAwayEndTheTerm(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Need(t)
	namespace := cluster.Namespace(t)
	account := cluster.ServiceAccount(t, namespace, "agent", leader.Rules(leaseName)...)
	quickly := func(c *leader.Config) { *c = quick(*c) }
	a := standAt(t, account, namespace, "a", quickly)
	await(t, "a to lead", a.Term().Elected())

	roles := cluster.Client.RbacV1().Roles(namespace)
	role, err := roles.Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules := role.Rules
	role.Rules = nil
	if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the term's end", a.Term().Over())
	if err := a.Wait(); !errors.Is(err, leader.ErrLost) || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("Wait() = %v, want an ErrLost that says what is forbidden", err)
	}

	// The next one tells, goes on, and leads when it may.
	again := standAt(t, account, namespace, "a", quickly)
	again.reports(t, "error", "forbidden")
	role.Rules = rules
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "a to lead again", again.Term().Elected())
	again.reports(t, "error", "<nil>")
	again.stop(t)
}

func TestNamespaceThatIsNotThereIsInTheReport(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Need(t)
	a := standAt(t, cluster.Config, "sutler-no-such-namespace", "a")
	a.reports(t, "error", `"sutler-no-such-namespace" not found`)
	a.stop(t)
}

func TestAnotherTakesOverWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Need(t)
	all := agents{cluster, cluster.Namespace(t), cluster.Kubeconfig(t)}
	leading := all.start(t, "agent-0")
	leading.leads(t)
	for i := 1; i <= 3; i++ {
		next := all.start(t, fmt.Sprintf("agent-%d", i))
		next.standsBy(t)
		if leading.works() && next.works() {
			t.Errorf("%s and %s both work", leading.identity, next.identity)
		}
		leading.kill()
		next.leads(t)
		leading = next
	}
	if holder := holderOf(t, cluster, all.namespace); holder != "agent-3" {
		t.Errorf("%q holds the lease", holder)
	}
	leading.terminate(t)
	if leading.works() {
		t.Error("the job runs after SIGTERM")
	}
	released(t, cluster, all.namespace, "agent-3", &leading.log)
}

// A process that was suspended believes that it leads until it looks.
func TestSuspendedLeaderStopsWhenItWakes(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Need(t)
	all := agents{cluster, cluster.Namespace(t), cluster.Kubeconfig(t)}
	first := all.start(t, "first")
	first.leads(t)
	first.signal(t, syscall.SIGSTOP)
	second := all.start(t, "second")
	second.leads(t)
	first.signal(t, syscall.SIGCONT)
	kubetest.Eventually(t, "the job of the first to stop", func() error {
		if first.works() {
			return errors.New("it runs")
		}
		return nil
	})
	second.terminate(t)
	first.leads(t)
	first.terminate(t)
}

func TestApiServerThatHangsEndsTheTerm(t *testing.T) {
	t.Parallel()
	kubetest.Need(t)
	control := kubetest.Private(t)
	namespace := control.Namespace(t)
	quickly := func(c *leader.Config) { *c = quick(*c) }
	a := standAt(t, control.Config, namespace, "a", quickly)
	await(t, "a to lead", a.Term().Elected())
	b := standAt(t, control.Config, namespace, "b", quickly)
	b.reports(t, "holder", "a")

	control.Freeze(t)
	await(t, "a's term to end", a.Term().Over())
	if err := a.Wait(); !errors.Is(err, leader.ErrLost) {
		t.Errorf("Wait() = %v, want ErrLost", err)
	}
	b.reports(t, "error", "ing lease: ")
	if b.Term().Leading() {
		t.Error("b leads without an API server")
	}
	control.Thaw(t)
	await(t, "b to lead", b.Term().Elected())

	// One that is gone is no different.
	control.Stop(t)
	await(t, "b's term to end", b.Term().Over())
	control.Start(t)
	again := standAt(t, control.Config, namespace, "b", quickly)
	await(t, "b to lead again", again.Term().Elected())
	again.stop(t)
}
