package kubernetes

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

// The rights that are documented are enough, and no more than are needed.

// TestDocumentedRoleIsThatOfRules compares docs/kubernetes/role.yaml with what the
// code says; -update writes it.
func TestDocumentedRoleIsThatOfRules(t *testing.T) {
	t.Parallel()
	want := documentedRole(t)
	path := filepath.Join("..", "..", "docs", "kubernetes", "role.yaml")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what Rules, ClusterRules and leader.Rules say; go test -run DocumentedRole -update writes it", path)
	}
}

var update = flag.Bool("update", false, "write generated documents")

func documentedRole(t *testing.T) []byte {
	t.Helper()
	const agent, namespace, lease = "sutler-agent", "model-default", "operator-provisioner"
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: agent, Namespace: namespace}}
	objects := []any{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Name: agent, Namespace: namespace},
		},
		&rbacv1.Role{
			TypeMeta: meta("Role"), ObjectMeta: metav1.ObjectMeta{Name: agent, Namespace: namespace},
			Rules: slices.Concat(Rules(), leader.Rules(lease)),
		},
		&rbacv1.RoleBinding{
			TypeMeta: meta("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: agent, Namespace: namespace},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: agent},
			Subjects: subject,
		},
		&rbacv1.ClusterRole{TypeMeta: meta("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: agent}, Rules: ClusterRules()},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: meta("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: agent},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: agent},
			Subjects: subject,
		},
	}
	var out bytes.Buffer
	out.WriteString("# What an agent that keeps operators needs: edit names and namespace. Generated from the code's own list.\n" +
		"# The ClusterRole is optional, and so are \"events\" and, without a standby agent, \"leases\".\n")
	for _, obj := range objects {
		data, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s", data)
	}
	return out.Bytes()
}

// TestRulesAreEnough has a manager with these rights alone do all that one does.
func TestRulesAreEnough(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agent := w.ServiceAccount(t, w.namespace, "agent", Rules()...)
	m := w.managerAs(t, agent)
	if err := everything(t, w, m, w.StorageClass(t)); err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(w.names(t), func(name string) bool { return strings.HasSuffix(name, " agent") })
	if len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestEveryRuleIsNeeded takes one right after the other away. A server of today lists
// by watching, so the right to list is taken away with that to watch.
func TestEveryRuleIsNeeded(t *testing.T) {
	t.Parallel()
	class := newWorld(t).StorageClass(t)
	tried := make(map[string]bool)
	for _, rule := range Rules() {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				name := verb + " " + resource
				if tried[name] {
					continue
				}
				tried[name] = true
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					m := w.managerAs(t, w.ServiceAccount(t, w.namespace, "agent", without(resource, verb)...))
					err := everything(t, w, m, class)
					switch {
					case resource == "events": // documented as optional
						if err != nil {
							t.Errorf("without the optional right: %v", err)
						}
					case err == nil && name == "delete controllerrevisions":
						// There were none to delete: the garbage collector came first.
					case err == nil:
						t.Errorf("all works without this right")
					case !errors.Is(err, errors.Forbidden):
						t.Errorf("error %v, want errors.Forbidden", err)
					case !strings.Contains(err.Error(), resource):
						t.Errorf("error %v does not name %s", err, resource)
					}
				})
			}
		}
	}
}

// without returns the rules but for that right.
func without(resource, verb string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range Rules() {
		for _, r := range rule.Resources {
			one := *rule.DeepCopy()
			one.Resources = []string{r}
			if r == resource {
				one.Verbs = slices.DeleteFunc(one.Verbs, func(v string) bool {
					return v == verb || verb == "list" && v == "watch"
				})
			}
			if len(one.Verbs) > 0 {
				out = append(out, one)
			}
		}
	}
	return out
}

// everything does what takes rights, each once, and returns the first error that is
// about rights or does not go away.
func everything(t *testing.T, w *world, m *managed, class string) error {
	t.Helper()
	const app = "mysql"
	steps := []func() error{
		func() error { return moveOver(t, w, m, app) },
		func() error { return m.try(t, app, private(operatorConfig(t, app, 1), "hunter2")) },
		func() error { return m.try(t, app, newer(stored(operatorConfig(t, app, 2), 64, class))) },
		func() error {
			return m.tryUntilRolledOut(t, w, app, newer(stored(operatorConfig(t, app, 2), 64, class)))
		},
		func() error { return m.try(t, app, newer(stored(operatorConfig(t, app, 2), 128, class))) },
		func() error {
			// A binding for another role is made anew.
			w.remove(t, roleBindings, namesOf(app).operator(), metav1.DeletePropagationBackground)
			w.add(t, roleBindings, otherBinding(w, m, app))
			w.caughtUp(t, m)
			return m.try(t, app, newer(stored(operatorConfig(t, app, 2), 128, class)))
		},
		func() error { return m.gone(t, app) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// moveOver begins with what the older tool left.
func moveOver(t *testing.T, w *world, m *managed, app string) error {
	t.Helper()
	n := namesOf(app)
	cfg := operatorConfig(t, app, 1)
	w.add(t, configMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: n.config(), Labels: n.selector()},
		Data:       map[string]string{n.agentConfKey(): cfg.AgentConf.Reveal(), infoKey: cfg.OperatorInfo.Reveal()},
	})
	return m.try(t, app, cfg)
}

func otherBinding(w *world, m *managed, app string) *rbacv1.RoleBinding {
	binding := m.roleBinding(wanted{names: namesOf(app), cfg: &operator.Config{}})
	binding.Namespace = w.namespace
	binding.RoleRef.Name = "another"
	return binding
}

// newer changes something about every object.
func newer(cfg *operator.Config) *operator.Config {
	cfg.Version = "2.9.50"
	return cfg
}

// try is made, as a provisioner goes about it: what is not yet available is tried
// again. It returns any other error.
func (m *managed) try(t *testing.T, app string, cfg *operator.Config) error {
	t.Helper()
	return patiently(t, func() error {
		next := cfg.Clone()
		switch op, err := m.Operator(t.Context(), app); {
		case err == nil:
			next.Generation = op.Config.Generation
		case !errors.Is(err, errors.NotFound):
			return err
		}
		return m.EnsureOperator(t.Context(), app, testAgentPath, next)
	})
}

// tryUntilRolledOut is try, again and again, as a provisioner does that is told of
// pods, until the pod is what it should be.
func (m *managed) tryUntilRolledOut(t *testing.T, w *world, app string, cfg *operator.Config) error {
	t.Helper()
	var final error
	kubetest.Eventually(t, "the operator of "+app+" rolled out", func() error {
		if final = m.try(t, app, cfg); final != nil {
			return nil
		}
		_, err := w.current(t.Context(), app)
		return err
	})
	return final
}

// gone is removed, which returns an error about rights.
func (m *managed) gone(t *testing.T, app string) error {
	t.Helper()
	return patiently(t, func() error {
		if err := m.DeleteOperator(t.Context(), app); err != nil {
			return err
		}
		if _, err := m.Operator(t.Context(), app); !errors.Is(err, errors.NotFound) {
			return errors.WithType(errors.Errorf("it is there: %v", err), errors.NotYetAvailable)
		}
		return nil
	})
}

// patiently repeats f while it is not yet available or in conflict.
func patiently(t *testing.T, f func() error) error {
	t.Helper()
	var final error
	kubetest.Eventually(t, "what is not available yet", func() error {
		final = f()
		if errors.Is(final, errors.NotYetAvailable) || errors.Is(final, operator.ErrConflict) {
			return final
		}
		return nil
	})
	return final
}
