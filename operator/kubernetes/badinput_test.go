package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
)

// says waits until the operator's status is of that phase and says all of the words.
func (m *managed) says(t testing.TB, app string, phase operator.Phase, words ...string) operator.Status {
	t.Helper()
	var status operator.Status
	kubetest.Eventually(t, "the status of "+app, func() error {
		op, err := m.Operator(t.Context(), app)
		if err != nil {
			return err
		}
		status = op.Status
		if status.Phase != phase {
			return fmt.Errorf("it is %+v", status)
		}
		for _, word := range words {
			if !strings.Contains(status.Message, word) {
				return fmt.Errorf("it is %+v, and does not say %q", status, word)
			}
		}
		return nil
	})
	if status.Since.IsZero() || strings.ContainsAny(status.Message, "\n\t") {
		t.Errorf("the status is %+v", status)
	}
	return status
}

// TestBadInputIsNotValidAndNothingIsMade has what no repetition makes right. The error
// says which input is wrong, and another application goes on.
func TestBadInputIsNotValidAndNothingIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	with := func(change func(*operator.Config)) *operator.Config {
		cfg := stored(operatorConfig(t, "mysql", 1), 100, "")
		change(cfg)
		return cfg
	}
	tag := func(key, value string) *operator.Config {
		return with(func(c *operator.Config) { c.ResourceTags = map[string]string{key: value} })
	}
	attribute := func(key, value string) *operator.Config {
		return with(func(c *operator.Config) { c.CharmStorage.Attributes = map[string]string{key: value} })
	}
	image := func(base bool, path string) *operator.Config {
		return with(func(c *operator.Config) {
			if base {
				c.BaseImageDetails.RegistryPath = path
			} else {
				c.ImageDetails.RegistryPath = path
			}
		})
	}
	big := facade.NewSecret(strings.Repeat("x", maxFiles))
	long := strings.Repeat("x", 300)
	const okay = testAgentPath
	for _, test := range []struct {
		name, path string
		cfg        *operator.Config
		words      []string
	}{
		{"no config", okay, nil, []string{"nil operator config"}},
		{"no agent.conf", okay, with(func(c *operator.Config) { c.AgentConf = facade.Secret{} }), []string{"AgentConf"}},
		{"no operator.yaml", okay, with(func(c *operator.Config) { c.OperatorInfo = facade.Secret{} }), []string{"OperatorInfo"}},
		{"files that are too large", okay, with(func(c *operator.Config) { c.AgentConf = big }), []string{"AgentConf", "OperatorInfo", "1000 KiB"}},
		{"no agent path", "", with(func(*operator.Config) {}), []string{"agent path"}},
		{"a relative agent path", "var/lib", with(func(*operator.Config) {}), []string{"agent path", `"var/lib"`}},
		{"an agent path that goes up", "/var/../lib", with(func(*operator.Config) {}), []string{"agent path", `"/var/../lib"`}},
		{"an agent path that ends in a slash", "/var/lib/", with(func(*operator.Config) {}), []string{"agent path"}},
		{"the root as agent path", "/", with(func(*operator.Config) {}), []string{"agent path", "root"}},
		{"no image", okay, image(false, ""), []string{"ImageDetails.RegistryPath"}},
		{"an image with white space", okay, image(false, "a b"), []string{"white space", "RegistryPath"}},
		{"a base image with white space", okay, image(true, "a\n"), []string{"white space", "RegistryPath"}},
		{"a version that is too long", okay, with(func(c *operator.Config) { c.Version = long }), []string{"Version", "256"}},
		{"a tag without a key", okay, tag("", "x"), []string{"ResourceTags", `""`}},
		{"a tag with a space", okay, tag("a b", "x"), []string{"ResourceTags", `"a b"`}},
		{"a tag with two slashes", okay, tag("a/b/c", "x"), []string{"ResourceTags", `"a/b/c"`}},
		{"a tag whose key is too long", okay, tag(long, "x"), []string{"ResourceTags", "..."}},
		{"a tag of the manager's", okay, tag("sutler.dev/applied", "x"), []string{"ResourceTags", "sutler.dev/applied"}},
		{"tags that are too large", okay, tag("a", strings.Repeat("x", 128<<10)), []string{"ResourceTags", "128 KiB"}},
		{"storage without a provider", okay, with(func(c *operator.Config) { c.CharmStorage.Provider = "" }), []string{"CharmStorage", "Provider"}},
		{"storage without a size", okay, with(func(c *operator.Config) { c.CharmStorage.Size = 0 }), []string{"CharmStorage", "Size"}},
		{"storage that is too large", okay, with(func(c *operator.Config) { c.CharmStorage.Size = 1 << 63 }), []string{"CharmStorage", "Size"}},
		{"a storage class that is no name", okay, attribute(attributeClass, "No Class"), []string{"CharmStorage", attributeClass, `"No Class"`}},
		{"a storage mode that is none", okay, attribute(attributeMode, "readwriteonce"), []string{"CharmStorage", attributeMode, "ReadWriteOnce"}},
		{"a storage tag with a space", okay, with(func(c *operator.Config) {
			c.CharmStorage.ResourceTags = map[string]string{"a b": "x"}
		}), []string{"CharmStorage", "ResourceTags", `"a b"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m.silent(t, func() {
				wantKind(t, m.EnsureOperator(t.Context(), "mysql", test.path, test.cfg), errors.NotValid, test.words...)
				_, err := m.StageOperator(t.Context(), "mysql", test.path, test.cfg)
				wantKind(t, err, errors.NotValid, test.words...)
				if test.cfg == nil || test.cfg.AgentConf.IsZero() || test.cfg.OperatorInfo.IsZero() || test.cfg.AgentConf.Equal(big) {
					return
				}
				keep := test.cfg.Clone()
				keep.AgentConf, keep.OperatorInfo, keep.Generation = facade.Secret{}, facade.Secret{}, "1"
				wantKind(t, m.KeepOperator(t.Context(), "mysql", test.path, keep), errors.NotValid, test.words...)
			})
		})
	}
	m.silent(t, func() {
		for _, name := range []string{"", "Upper", "../a", strings.Repeat("a", 201)} {
			err := m.EnsureOperator(t.Context(), name, okay, operatorConfig(t, "mysql", 1))
			wantKind(t, err, errors.NotValid, "application name")
		}
	})
	w.empty(t)
	m.made(t, "redis", operatorConfig(t, "redis", 1))
	w.rolledOut(t, "redis")
}

// TestLargestInputIsStored holds that what is let through is what the API server takes.
func TestLargestInputIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, "mysql", 1)
	cfg.AgentConf = facade.NewSecret(strings.Repeat("x", maxFiles-1))
	cfg.OperatorInfo = facade.NewSecret("y")
	cfg.Version = strings.Repeat("9", 256)
	// What only the API server adds up is refused in its words.
	larger := cfg.Clone()
	larger.ResourceTags = map[string]string{"a": strings.Repeat("x", 128<<10-1)}
	_, err := m.StageOperator(t.Context(), "mysql", testAgentPath, larger)
	wantKind(t, err, errors.NotValid, `Secret "mysql-operator-config"`, "may not be more than 1048576 bytes")
	if _, err := m.StageOperator(t.Context(), "mysql", testAgentPath, cfg); err != nil {
		t.Fatal(err)
	}
	m.shows(t, "mysql", cfg)

	cfg = operatorConfig(t, "redis", 1)
	cfg.ResourceTags = map[string]string{"a": strings.Repeat("x", 128<<10-1), strings.Repeat("a", 63): "", "Example.COM/Tag_1": "any \n thing"}
	cfg.ResourceTags["a"] = cfg.ResourceTags["a"][200:]
	m.made(t, "redis", cfg)
	w.rolledOut(t, "redis")
	m.silent(t, func() { m.again(t, "redis", cfg) })
}

func TestMissingNamespaceIsNotFoundAndNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t, func(c *Config) { c.Namespace = "no-such-namespace" })
	cfg := operatorConfig(t, "mysql", 1)
	for range 2 {
		wantKind(t, m.EnsureOperator(t.Context(), "mysql", testAgentPath, cfg), errors.NotFound, `"no-such-namespace"`, "mysql")
		_, err := m.StageOperator(t.Context(), "mysql", testAgentPath, cfg)
		wantKind(t, err, errors.NotFound, `"no-such-namespace"`, "mysql")
		m.delete(t, "mysql")
		if state := m.state(t, "mysql"); state != (operator.State{}) {
			t.Errorf("the operator is %+v", state)
		}
	}
}

// TestNamespaceThatGoesIsWaitedFor has something in it that holds it up.
func TestNamespaceThatGoesIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	const finalizer = "test.sutler.dev/held"
	w.add(t, configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{finalizer}}})
	t.Cleanup(func() {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := w.Client.CoreV1().ConfigMaps(w.namespace).Patch(context.Background(), "held", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	if err := w.Client.CoreV1().Namespaces().Delete(t.Context(), w.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := m.EnsureOperator(t.Context(), "mysql", testAgentPath, operatorConfig(t, "mysql", 1))
	wantKind(t, err, errors.NotYetAvailable, w.namespace, "is being terminated", `operator of "mysql"`)
	m.removed(t, "mysql")
}

// TestQuotaForItsOwnObjectsIsToldInTheServersWords has no room for a Service.
func TestQuotaForItsOwnObjectsIsToldInTheServersWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "redis", operatorConfig(t, "redis", 1))
	w.quota(t, corev1.ResourceServices, "1")
	cfg := operatorConfig(t, "mysql", 1)
	for range 2 {
		err := m.EnsureOperator(t.Context(), "mysql", testAgentPath, cfg)
		wantKind(t, err, errors.QuotaLimitExceeded, `operator of "mysql"`, `creating Service "mysql-operator"`, "exceeded quota: test", "requested: services=1")
		m.made(t, "redis", operatorConfig(t, "redis", 2)) // goes on
		// It is half made, and says so.
		if state := m.state(t, "mysql"); state != (operator.State{}) {
			t.Errorf("the operator is %+v", state)
		}
		cfg.Generation = m.shows(t, "mysql", cfg)
	}
	w.quota(t, corev1.ResourceServices, "2")
	m.ensure(t, "mysql", cfg)
	w.rolledOut(t, "mysql")
}

// TestWhyThereIsNoPodIsTold has the set's controller refused, which says why in events
// alone.
func TestWhyThereIsNoPodIsTold(t *testing.T) {
	t.Parallel()
	t.Run("quota", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		m := w.listed(t)
		m.made(t, "redis", operatorConfig(t, "redis", 1))
		w.rolledOut(t, "redis")
		w.quota(t, corev1.ResourcePods, "1")
		m.made(t, "mysql", operatorConfig(t, "mysql", 1))
		m.says(t, "mysql", operator.Waiting, "there is no pod: FailedCreate: ", "exceeded quota: test")
		m.says(t, "redis", operator.Running)
		w.quota(t, corev1.ResourcePods, "2")
		m.says(t, "mysql", operator.Running)
	})
	t.Run("pod security", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		var log lockedBuffer
		m := w.listed(t, func(c *Config) {
			c.PodSecurity, c.Client, c.REST, c.Logger = PodSecurityNone, nil, w.Config, logInto(&log)
		})
		m.made(t, "mysql", operatorConfig(t, "mysql", 1))
		m.says(t, "mysql", operator.Waiting, "there is no pod: FailedCreate: ", `violates PodSecurity "restricted`)
		// The cluster has warned of it.
		if !strings.Contains(log.String(), "would violate PodSecurity") {
			t.Errorf("no warning in the log:\n%s", log.String())
		}
		// With the level that the namespace has it goes on.
		again := w.listed(t)
		again.again(t, "mysql", operatorConfig(t, "mysql", 1))
		again.says(t, "mysql", operator.Running)
	})
}

// TestTroubleOfOnePodIsItsStatus has each kind of it, on pods side by side.
func TestTroubleOfOnePodIsItsStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t, func(c *Config) {
		c.Pod.Template = func(app string, template *corev1.PodTemplateSpec) {
			switch app {
			case "homeless":
				template.Spec.NodeSelector = map[string]string{"no-such": "node"}
			case "huge":
				template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("2000Ti")
			}
		}
	})
	const canary = "canary-of-the-log"
	for app, how := range map[string]fakenode.Behaviour{
		"unpullable":  {Container: installContainer, PullError: "no such image"},
		"baseless":    {PullError: "unauthorized: who are you"},
		"crashing":    {Crash: canary},
		"uninstalled": {Container: installContainer, Crash: canary},
		"ended":       {Exit: canary},
		"unready":     {NeverReady: true},
	} {
		w.Behave(t, w.namespace, app+"-operator-0", how)
	}
	type want struct {
		phase operator.Phase
		words []string
	}
	wants := map[string]want{
		"unpullable":  {operator.Waiting, []string{"ErrImagePull: no such image"}},
		"baseless":    {operator.Waiting, []string{"ErrImagePull: unauthorized: who are you"}},
		"crashing":    {operator.Waiting, []string{"CrashLoopBackOff: back-off", "last ended with exit code 1: Error"}},
		"uninstalled": {operator.Waiting, []string{"CrashLoopBackOff: back-off", "last ended with exit code 1: Error"}},
		"ended":       {operator.Terminated, []string{"last ended with exit code 1: Error"}},
		"unready":     {operator.Running, []string{"not ready"}},
		"homeless":    {operator.Waiting, []string{"unschedulable: ", "didn't match Pod's node affinity/selector"}},
		"huge":        {operator.Waiting, []string{"unschedulable: ", "Insufficient memory"}},
		"healthy":     {operator.Running, nil},
	}
	for app := range wants {
		m.made(t, app, operatorConfig(t, app, 1))
	}
	for app, want := range wants {
		status := m.says(t, app, want.phase, want.words...)
		// What a program says when it ends may be anything.
		if strings.Contains(status.Message, canary) {
			t.Errorf("%s: %+v", app, status)
		}
		// It is there all the same, and can be changed and removed.
		if state := m.state(t, app); state != (operator.State{Exists: true}) {
			t.Errorf("%s is %+v", app, state)
		}
		glance, err := m.GlanceOperator(t.Context(), app)
		if err != nil || glance.Status.Phase != want.phase {
			t.Errorf("%s: GlanceOperator = %+v, %v", app, glance, err)
		}
	}
	for app, behaviour := range map[string]fakenode.Behaviour{"unpullable": {}, "baseless": {}, "crashing": {}, "uninstalled": {}, "ended": {}, "unready": {}} {
		w.Behave(t, w.namespace, app+"-operator-0", behaviour)
		if status := m.says(t, app, operator.Running); status.Message != "" {
			m.says(t, app, operator.Running, "")
		}
	}
	for app := range wants {
		m.removed(t, app)
	}
	w.empty(t)
}

// TestObjectThatTheServerRefusesIsNotValidInItsWords has a host's hook make an impossible
// pod of one application.
func TestObjectThatTheServerRefusesIsNotValidInItsWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t, func(c *Config) {
		c.Pod.Template = func(app string, template *corev1.PodTemplateSpec) {
			if app == "bad" {
				template.Spec.Containers[0].Ports[0].Name = "Much Too Long For A Port"
			}
		}
	})
	for range 2 {
		op, err := m.Operator(t.Context(), "bad")
		cfg := operatorConfig(t, "bad", 1)
		if err == nil {
			cfg.Generation = op.Config.Generation
		}
		err = m.EnsureOperator(t.Context(), "bad", testAgentPath, cfg)
		wantKind(t, err, errors.NotValid, `operator of "bad"`, `creating StatefulSet "bad-operator"`, "spec.template.spec.containers[0].ports[0].name", "must be no more than 15 characters")
	}
	m.made(t, "good", operatorConfig(t, "good", 1))
	w.rolledOut(t, "good")
	m.removed(t, "bad")
	m.removed(t, "good")
	w.empty(t)
}
