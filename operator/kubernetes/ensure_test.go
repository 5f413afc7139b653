package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// forWeb is what an operator of "web" is made of, in the order in which it is
// written. Names are looked for in what is sent, so none may be part of an earlier
// one of its kind.
func forWeb(withPull bool) []string {
	out := []string{"serviceaccounts web-operator", "roles web-operator", "rolebindings web-operator"}
	if withPull {
		out = append(out, "secrets web-operator-pull") // before the pod that needs it
	}
	return append(out, "secrets web-operator-config", "services web-operator", "statefulsets web-operator")
}

// The rights come first and the set, which is what makes an operator exist, last.
// Nothing is written twice, and nothing is read.
func TestNewOperatorTakesOneRequestPerObject(t *testing.T) {
	t.Parallel()
	for name, withPull := range map[string]bool{"public images": false, "private images": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.listed(t)
			cfg := operatorConfig(t, "web", 1)
			parts := partsOf("web")
			if withPull {
				cfg, parts = private(cfg, "s3cret"), partsOf("web", "Secret web-operator-pull")
			}
			m.ensure(t, "web", cfg)

			requests := slices.DeleteFunc(m.wire.Requests(), func(q request) bool { return q.Verb == "watch" })
			want := forWeb(withPull)
			if len(requests) != len(want) {
				t.Fatalf("there are %d requests, %v, want %d", len(requests), requests, len(want))
			}
			for i, q := range requests {
				resource, name, _ := strings.Cut(want[i], " ")
				if q.Verb != "create" || q.Resource != resource || !strings.Contains(q.Body, name) {
					t.Errorf("request %d is to %s, want one that creates %s", i+1, q, want[i])
				}
			}
			w.complete(t, parts)
		})
	}
}

func TestSecondEnsureAsksForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := private(operatorConfig(t, "web", 1), "s3cret")
	first := w.listed(t)
	cfg.Generation = first.made(t, "web", cfg)
	pod := w.rolledOut(t, "web")

	again := func(m *managed) {
		m.silent(t, func() {
			for range 3 {
				m.ensure(t, "web", cfg)
			}
			// Also without what was shown, with tags in another map, and
			// by way of the stored files.
			blind := cfg.Clone()
			blind.Generation, blind.ResourceTags = "", make(map[string]string)
			for _, key := range slices.Backward(sortedKeys(cfg.ResourceTags)) {
				blind.ResourceTags[key] = cfg.ResourceTags[key]
			}
			m.ensure(t, "web", blind)
			m.keep(t, "web", cfg)
		})
	}
	again(first)
	w.caughtUp(t, first)
	again(first)
	first.stop(t)
	again(w.listed(t))
	if now := w.rolledOut(t, "web"); now.UID != pod.UID {
		t.Errorf("the pod was replaced")
	}
}

// What is stored is what was given, byte by byte, so it is written; and nothing
// else is.
func TestPermutedAddressesWriteTheSecretAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "web", operatorConfig(t, "web", 1))
	w.caughtUp(t, m)
	m.wire.Reset()
	permuted := operatorConfig(t, "web", 1, func(c *agentconf.Config) { slices.Reverse(c.APIAddresses) })
	m.made(t, "web", permuted)
	for _, q := range m.wire.Writes() {
		if q.Resource != "secrets" || q.Name != "web-operator-config" {
			t.Errorf("there is a write: %s", q)
		}
	}
	next := w.listed(t)
	next.silent(t, func() { next.ensure(t, "web", permuted) })
}

// A pass over settled operators costs the API server nothing, whatever they are made
// of: not for the manager that made them, nor for the next one.
func TestSettledPassAsksForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.listed(t)
	cfgs := make(map[string]*operator.Config)
	for i := range 50 {
		app := fmt.Sprintf("app%d", i)
		cfg := operatorConfig(t, app, 1)
		switch i % 5 {
		case 1:
			cfg = private(cfg, "s3cret")
		case 2:
			cfg.BaseImageDetails.RegistryPath = ""
		case 3:
			cfg.ResourceTags, cfg.Version = nil, ""
		case 4:
			cfg = stored(cfg, 100, "")
		}
		first.ensure(t, app, cfg)
		cfgs[app] = cfg
	}
	for app, cfg := range cfgs {
		op, err := first.GlanceOperator(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Generation = op.Config.Generation
	}
	pass := func(m *managed) {
		apps, err := m.Operators(t.Context())
		if err != nil || len(apps) != len(cfgs) {
			t.Fatalf("Operators: %q, %v", apps, err)
		}
		for app, cfg := range cfgs {
			if state, err := m.OperatorExists(t.Context(), app); err != nil || state != (operator.State{Exists: true}) {
				t.Errorf("%s is %+v, %v", app, state, err)
			}
			op, err := m.GlanceOperator(t.Context(), app)
			switch {
			case err != nil:
				t.Errorf("GlanceOperator(%q): %v", app, err)
			case op.Config.Generation != cfg.Generation:
				t.Errorf("GlanceOperator(%q) shows another generation", app)
			case !op.Config.AgentConf.IsZero() || !op.Config.OperatorInfo.IsZero():
				t.Errorf("GlanceOperator(%q) shows files", app)
			}
			m.keep(t, app, cfg)
		}
	}
	first.silent(t, func() { pass(first) })
	// What came of its own writes is no reason either.
	w.caughtUpWith(t, first, statefulSets)
	first.silent(t, func() { pass(first) })
	second := w.listed(t)
	second.silent(t, func() { pass(second); pass(second) })
}

// The files are there already, so that nobody has to fetch them to complete what was
// staged.
func TestKeepCompletesWhatWasStaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := private(operatorConfig(t, "web", 1), "s3cret")
	generation, err := w.listed(t).StageOperator(t.Context(), "web", testAgentPath, cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "what is there after staging", w.names(t), []string{"Secret web-operator-config"})

	m := w.listed(t)
	cfg.Generation = generation
	m.keep(t, "web", cfg)
	if asked := m.asked(); len(asked) != len(forWeb(true))-1 {
		t.Errorf("requests %q, want one for each object that was missing", asked)
	}
	w.complete(t, partsOf("web", "Secret web-operator-pull"))
	if now := m.shows(t, "web", cfg); now != generation {
		t.Errorf("the generation became %q, from %q", now, generation)
	}
}

// All but the files may be changed without them, but not over files that are not
// the ones that the caller knows.
func TestKeepChangesAllButTheFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, "web", 1)
	cfg.Generation = m.made(t, "web", cfg)
	w.rolledOut(t, "web")

	changed := cfg.Clone()
	changed.Version, changed.ImageDetails.RegistryPath = "2.9.50", "registry.example.com/operator:2.9.50"
	changed.ResourceTags = map[string]string{"purpose": "another"}
	m.keep(t, "web", changed)
	generation := m.shows(t, "web", cfg)
	op, err := m.Operator(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "version", op.Config.Version, changed.Version)
	wantEqual(t, "image", op.Config.ImageDetails, changed.ImageDetails)
	wantEqual(t, "tags", op.Config.ResourceTags, changed.ResourceTags)
	if image := w.rolledOut(t, "web").Spec.InitContainers[0].Image; image != changed.ImageDetails.RegistryPath {
		t.Errorf("the pod has image %q", image)
	}
	if key := "juju.is/version"; w.set(t, "web").Annotations[key] != "2.9.50" {
		t.Errorf("the set has the annotations %q", w.set(t, "web").Annotations)
	}

	// cfg.Generation is yesterday's by now.
	before := w.versions(t)
	stale := changed.Clone()
	stale.Generation, stale.Version = cfg.Generation, "2.9.51"
	if generation != cfg.Generation {
		stale.AgentConf, stale.OperatorInfo = none(), none()
		err = m.KeepOperator(t.Context(), "web", testAgentPath, stale)
		if !errors.Is(err, operator.ErrConflict) {
			t.Errorf("KeepOperator with an old generation: %v", err)
		}
		wantEqual(t, "versions of what is there", w.versions(t), before)
	}
}

func TestKeepOfWhatIsNotThereIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, "web", 1)
	cfg.AgentConf, cfg.OperatorInfo, cfg.Generation = none(), none(), "17"
	if err := m.KeepOperator(t.Context(), "web", testAgentPath, cfg); !errors.Is(err, operator.ErrConflict) {
		t.Errorf("KeepOperator: %v", err)
	}
	w.empty(t)
}

// The objects are as people and tools in the field look for them.
func TestObjectsAreLabelledAndAnnotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	m.made(t, "web", private(stored(operatorConfig(t, "web", 1), 100, w.StorageClass(t)), "s3cret"))
	w.complete(t, partsOf("web", "Secret web-operator-pull", "PersistentVolumeClaim charm-web-operator-0"))
	for name, obj := range w.everything(t) {
		labels := map[string]string{
			"operator.juju.is/name": "web", "operator.juju.is/target": "application",
			"app.kubernetes.io/managed-by": "juju", "model.juju.is/id": testModel,
		}
		notes := map[string]string{
			"purpose": "testing", "controller.juju.is/id": testController, "model.juju.is/id": testModel, "juju.is/version": "2.9.49",
		}
		switch obj.(type) {
		case *corev1.Pod:
			notes = map[string]string{"juju.is/version": "2.9.49"}
		case *corev1.PersistentVolumeClaim:
			notes = nil // those of the storage, which has none
		default:
			labels["model.juju.is/name"] = "default"
		}
		if !covers(obj.GetLabels(), labels) {
			t.Errorf("%s has the labels %q, want %q", name, obj.GetLabels(), labels)
		}
		if !covers(obj.GetAnnotations(), notes) {
			t.Errorf("%s has the annotations %q, want %q", name, obj.GetAnnotations(), notes)
		}
	}
	set := w.set(t, "web")
	wantEqual(t, "replicas", *set.Spec.Replicas, 1)
	wantEqual(t, "pod management", set.Spec.PodManagementPolicy, appsv1.ParallelPodManagement)
	service := get[*corev1.Service](t, w, services, "web-operator")
	wantEqual(t, "service type", service.Spec.Type, corev1.ServiceTypeClusterIP)
	wantEqual(t, "service port", service.Spec.Ports[0].Port, 30666)
	wantEqual(t, "service target port", service.Spec.Ports[0].TargetPort.IntVal, 30666)
	secret := get[*corev1.Secret](t, w, secrets, "web-operator-config")
	wantEqual(t, "keys of the Secret", slices.Sorted(maps.Keys(secret.Data)), []string{"operator.yaml", "sutler.json", "web-agent.conf"})
	if wanted := metav1.IsControlledBy(w.rolledOut(t, "web"), set); !wanted {
		t.Errorf("the pod is not the set's")
	}
}

func covers(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}
