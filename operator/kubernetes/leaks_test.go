package kubernetes

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// said gathers all that a manager says, but for what it is asked for.
type said struct {
	mu    sync.Mutex
	texts []string
}

func (s *said) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, fmt.Sprintf(format, args...))
}

// canaries is a configuration that is full of secrets that are easy to find.
func canaries(t testing.TB, app string, n int) *operator.Config {
	t.Helper()
	cfg := operatorConfig(t, app, n, func(c *agentconf.Config) {
		c.APIPassword = facade.NewSecret(fmt.Sprintf("canary-own-password-%d", n))
		c.Values = map[string]string{"k": fmt.Sprintf("canary-value-%d", n)}
	})
	for i, image := range []*facade.ImageDetails{&cfg.ImageDetails, &cfg.BaseImageDetails} {
		image.Username = "puller"
		for kind, secret := range map[string]*facade.Secret{
			"password": &image.Password, "auth": &image.Auth, "identity": &image.IdentityToken, "registry": &image.RegistryToken,
		} {
			*secret = facade.NewSecret(fmt.Sprintf("canary-%s-%d-%d", kind, i, n))
		}
	}
	return cfg
}

// TestSecretsAreInTheTwoSecretsAlone plays a whole story with secrets that are easy to
// find, and looks for them in all that was said, sent and stored.
func TestSecretsAreInTheTwoSecretsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log lockedBuffer
	var out said
	m := w.listed(t, func(c *Config) { c.Logger = logInto(&log) })
	try := func(what string, err error) {
		if err != nil {
			out.add("%s: %v\n%+v\n%s", what, err, err, errors.ErrorStack(err))
		}
	}
	look := func(app string) {
		op, err := m.Operator(t.Context(), app)
		try("Operator", err)
		if err == nil {
			out.add("%v %+v %#v", op, op, op)
			out.add("%v %+v %#v", op.Config, *op.Config, *op.Config)
			data, err := json.Marshal(op)
			try("marshalling", err)
			out.add("%s", data)
		}
		op, err = m.GlanceOperator(t.Context(), app)
		try("GlanceOperator", err)
		out.add("%+v", op)
		data, err := json.Marshal(m.Report())
		try("marshalling", err)
		out.add("%s", data)
	}
	ensure := func(app string, n int) error {
		cfg := canaries(t, app, n)
		if op, err := m.GlanceOperator(t.Context(), app); err == nil {
			cfg.Generation = op.Config.Generation
		}
		return m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
	}

	// What goes well.
	m.staged(t, "mysql", canaries(t, "mysql", 1))
	look("mysql")
	for n := 1; n <= 2; n++ {
		if err := ensure("mysql", n); err != nil {
			t.Fatal(err)
		}
		w.rolledOut(t, "mysql")
		look("mysql")
		w.storesNoSecrets(t)
	}
	kept := canaries(t, "mysql", 3)
	kept.AgentConf, kept.OperatorInfo = facade.Secret{}, facade.Secret{}
	kept.Generation = m.shows(t, "mysql", canaries(t, "mysql", 2))
	if err := m.KeepOperator(t.Context(), "mysql", testAgentPath, kept); err != nil {
		t.Fatal(err)
	}
	look("mysql")

	// What does not.
	stale := canaries(t, "mysql", 4)
	stale.Generation = "1"
	try("conflict", m.EnsureOperator(t.Context(), "mysql", testAgentPath, stale))
	_, err := m.StageOperator(t.Context(), "mysql", testAgentPath, stale)
	try("conflict", err)
	for _, change := range []func(*operator.Config){
		func(c *operator.Config) { c.AgentConf = facade.NewSecret(strings.Repeat("canary-", maxFiles/7+1)) },
		func(c *operator.Config) { c.OperatorInfo = facade.Secret{} },
		func(c *operator.Config) { c.ImageDetails.RegistryPath = "" },
		func(c *operator.Config) { c.ResourceTags = map[string]string{"a b": "x"} },
		func(c *operator.Config) { c.CharmStorage = &facade.CharmStorage{Provider: "kubernetes"} },
	} {
		cfg := canaries(t, "mysql", 5)
		change(cfg)
		err := m.EnsureOperator(t.Context(), "mysql", testAgentPath, cfg)
		if err == nil {
			t.Error("bad input is taken")
		}
		try("bad input", err)
	}
	// A Secret that the API server itself refuses, whose answer may quote it.
	large := canaries(t, "mysql", 6)
	large.AgentConf = facade.NewSecret(strings.Repeat("canary ", maxFiles/7-100))
	large.ResourceTags = map[string]string{"a": strings.Repeat("x", 128<<10-1)}
	large.Generation = m.storedGeneration(t, "mysql")
	try("too large", m.EnsureOperator(t.Context(), "mysql", testAgentPath, large))
	// Requests that fail in each way.
	for i, fault := range []kubetest.Fault{
		{Status: 500, Message: "internal"}, {Status: 403, Message: "no"}, {Status: 409, Message: "other"},
		{Status: 422, Message: "invalid"}, {Status: 429, Message: "slow"}, {Refuse: true}, {Lose: true},
	} {
		m.wire.Inject(kubetest.Writes, fault)
		try("fault", ensure("mysql", 10+i))
		try("fault", ensure("redis", 10+i))
		try("fault", m.DeleteOperator(t.Context(), "mysql"))
		m.wire.Heal()
		look("mysql")
	}
	// Somebody else's objects, and those that others have changed.
	w.add(t, secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: namesOf("valkey").config()}})
	try("foreign", ensure("valkey", 1))
	m.removed(t, "mysql")
	kubetest.Eventually(t, "mysql again", func() error { return ensure("mysql", 20) })
	m.removed(t, "mysql")
	look("mysql")

	out.add("%s", log.String())
	if !strings.Contains(log.String(), "kind=Secret") {
		t.Error("the log is not at its lowest level")
	}
	if len(out.texts) < 40 || !strings.Contains(strings.Join(out.texts, "\n"), facade.Redacted) {
		t.Errorf("only %d texts were gathered, or no configuration was among them", len(out.texts))
	}
	for _, text := range out.texts {
		if at := strings.Index(text, "canary"); at >= 0 {
			t.Errorf("a secret in %.400q", text[max(0, at-200):])
		}
	}
	// Over the wire they go in the bodies of Secrets alone.
	for _, q := range m.wire.Requests() {
		if strings.Contains(q.Path, "canary") || q.Resource != "secrets" && (strings.Contains(q.Body, "canary") || strings.Contains(q.Body, base64Canary)) {
			t.Errorf("a secret in the request %v", q)
		}
	}
}

// base64Canary is how "canary" begins in base64.
const base64Canary = "Y2FuYXJ5"

// storedGeneration returns the generation that is stored.
func (m *managed) storedGeneration(t testing.TB, app string) string {
	t.Helper()
	op, err := m.GlanceOperator(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	return op.Config.Generation
}

// storesNoSecrets looks through every object in the namespace but the contents of
// Secrets, and what the fake node notes of the files that it has read.
func (w *world) storesNoSecrets(t testing.TB) {
	t.Helper()
	found := false
	for name, obj := range w.everything(t) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		u := unstructured.Unstructured{Object: content}
		if strings.HasPrefix(name, "Secret ") {
			data, err := json.Marshal(u.Object["data"])
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(data), `"mysql-agent.conf":`)
			delete(u.Object, "data")
		}
		annotations := u.GetAnnotations()
		delete(annotations, "testbed.sutler.dev/files")
		u.SetAnnotations(annotations)
		text, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "canary") || strings.Contains(string(text), base64Canary) {
			t.Errorf("a secret in %s: %s", name, text)
		}
	}
	if !found {
		t.Error("there is no Secret with the files")
	}
}
