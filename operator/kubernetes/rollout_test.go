package kubernetes

import (
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// What starts a pod again, and what does not.

// TestOnlyEffectiveChangesStartThePodAgain has one operator go through changes, one
// after the other: a controller that is upgraded (juju/juju#9361, #14974) sends all
// sorts of them to operators that stay as they are.
func TestOnlyEffectiveChangesStartThePodAgain(t *testing.T) {
	t.Parallel()
	const app = "web"
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, app, 1)
	m.made(t, app, cfg)
	pod, revision := w.rolledOut(t, app), w.set(t, app).Status.UpdateRevision

	for _, step := range []struct {
		name   string
		change func(*operator.Config)
		rolls  bool
	}{
		{"nothing", func(*operator.Config) {}, false},
		{"addresses in another order", func(cfg *operator.Config) {
			cfg.AgentConf = operatorConfig(t, app, 1, func(c *agentconf.Config) { slices.Reverse(c.APIAddresses) }).AgentConf
		}, false},
		{"an address twice", func(cfg *operator.Config) {
			cfg.AgentConf = operatorConfig(t, app, 1, func(c *agentconf.Config) {
				c.APIAddresses = append(c.APIAddresses, c.APIAddresses[0])
			}).AgentConf
		}, false},
		{"tags", func(cfg *operator.Config) { cfg.ResourceTags["owner"] = "somebody" }, false},
		{"credentials of a registry", func(cfg *operator.Config) {
			cfg.ImageDetails.Username, cfg.ImageDetails.Password = "puller", cfg.OperatorInfo
		}, true}, // the pod names a pull secret from then on
		{"other credentials", func(cfg *operator.Config) { cfg.ImageDetails.Username = "another" }, false},
		{"an address", func(cfg *operator.Config) {
			cfg.AgentConf = operatorConfig(t, app, 1, func(c *agentconf.Config) { c.APIAddresses[0] = "10.9.9.9:17070" }).AgentConf
		}, true},
		{"certificate and key", func(cfg *operator.Config) { cfg.OperatorInfo = operatorConfig(t, app, 2).OperatorInfo }, true},
		{"image", func(cfg *operator.Config) { cfg.ImageDetails.RegistryPath += "1" }, true},
		{"base image", func(cfg *operator.Config) { cfg.BaseImageDetails.RegistryPath += "1" }, true},
		{"version", func(cfg *operator.Config) { cfg.Version = "2.9.50" }, true},
	} {
		step.change(cfg)
		m.made(t, app, cfg)
		next := w.rolledOut(t, app)
		now := w.set(t, app).Status.UpdateRevision
		if rolled := next.UID != pod.UID; rolled != step.rolls || (now != revision) != step.rolls {
			t.Errorf("%s: started again %v (revision changed %v), want %v", step.name, rolled, now != revision, step.rolls)
		}
		// Once: what is settled afterwards stays.
		m.made(t, app, cfg)
		if last := w.rolledOut(t, app); last.UID != next.UID {
			t.Errorf("%s: started again twice", step.name)
		}
		pod, revision = next, now
	}
}

// TestStagingStartsNoPodAgain: what is staged is used when it is ensured.
func TestStagingStartsNoPodAgain(t *testing.T) {
	t.Parallel()
	const app = "web"
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, app, 2)
	cfg.Generation = m.made(t, app, operatorConfig(t, app, 1))
	pod := w.rolledOut(t, app)
	staged, err := m.StageOperator(t.Context(), app, testAgentPath, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if now := w.rolledOut(t, app); now.UID != pod.UID {
		t.Error("staging started the pod again")
	}
	cfg.Generation = staged
	m.ensure(t, app, cfg)
	if now := w.rolledOut(t, app); now.UID == pod.UID {
		t.Error("what was staged did not reach the pod")
	}
}

// TestBehindCacheDoesNotStartThePodAgain: a manager that is shown an older Secret than
// the set it sees must not write the older one's digest back.
func TestBehindCacheDoesNotStartThePodAgain(t *testing.T) {
	t.Parallel()
	const app = "web"
	w := newWorld(t)
	m, other := w.listed(t), w.listed(t)
	first, second := operatorConfig(t, app, 1), operatorConfig(t, app, 2)
	m.made(t, app, first)
	w.caughtUp(t, m)
	old := m.caches[secrets].get(namesOf(app).config())
	second.Generation = old.GetResourceVersion()
	other.ensure(t, app, second)
	pod := w.rolledOut(t, app)
	w.caughtUp(t, m)

	// As if the informer for Secrets had not been told yet.
	for _, keep := range []bool{true, false} {
		m.caches[secrets].remember(old.GetName(), own{obj: old, uid: old.GetUID(), version: "999999999999"})
		cfg := first.Clone()
		cfg.Generation = old.GetResourceVersion()
		var err error
		if keep {
			cfg.AgentConf, cfg.OperatorInfo = none(), none()
			err = m.KeepOperator(t.Context(), app, testAgentPath, cfg)
		} else {
			err = m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
		}
		if !errors.Is(err, operator.ErrConflict) {
			t.Errorf("keep %v: error %v, want operator.ErrConflict", keep, err)
		}
		m.caches[secrets].forget(old.GetName())
	}
	if now := w.rolledOut(t, app); now.UID != pod.UID {
		t.Error("the pod was started again")
	}
	other.shows(t, app, second)
}

// TestPodIsAsItsConfigSays looks at each option of PodConfig in the pod that comes of
// it, in a namespace that lets restricted pods in alone unless said otherwise.
func TestPodIsAsItsConfigSays(t *testing.T) {
	t.Parallel()
	const app = "web"
	anything := func(ns *corev1.Namespace) {
		ns.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
	}
	main := func(pod *corev1.Pod) *corev1.Container { return &pod.Spec.Containers[0] }
	for _, test := range []struct {
		name   string
		change func(*Config)
		free   bool // any pod is let in
		check  func(*corev1.Pod) string
	}{
		{"defaults", func(*Config) {}, false, func(pod *corev1.Pod) string {
			c := main(pod)
			switch {
			case c.StartupProbe == nil || c.ReadinessProbe == nil || c.LivenessProbe == nil:
				return "probes are missing"
			case c.Resources.Requests.Cpu().MilliValue() != 100 || c.Resources.Requests.Memory().Value() != 128<<20:
				return "other requests"
			case *pod.Spec.SecurityContext.RunAsUser != DefaultUserID || !*pod.Spec.SecurityContext.RunAsNonRoot:
				return "another user"
			case *pod.Spec.AutomountServiceAccountToken:
				return "it has a token"
			case c.Image == pod.Spec.InitContainers[0].Image:
				return "the base image is not the operator's"
			case strings.Join(pod.Spec.InitContainers[0].Command, " ") != "/bin/cp /opt/jujud /opt/juju/jujud":
				return "another init command"
			case strings.Join(c.Command, " ") != "/opt/juju/jujud caasoperator --application-name=web --data-dir=/var/lib/juju":
				return "another command"
			}
			return ""
		}},
		{"no security", func(c *Config) { c.PodSecurity = PodSecurityNone }, true, func(pod *corev1.Pod) string {
			if pod.Spec.SecurityContext.RunAsUser != nil || main(pod).SecurityContext != nil {
				return "it has a security context"
			}
			return ""
		}},
		{"user", func(c *Config) { c.Pod.UserID = 1234 }, false, func(pod *corev1.Pod) string {
			if *pod.Spec.SecurityContext.RunAsUser != 1234 || *pod.Spec.SecurityContext.FSGroup != 1234 {
				return "another user"
			}
			return ""
		}},
		{"no probes but one", func(c *Config) {
			c.Pod.NoProbes = true
			c.Pod.Liveness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/alive"}}}}
		}, false, func(pod *corev1.Pod) string {
			c := main(pod)
			if c.StartupProbe != nil || c.ReadinessProbe != nil || c.LivenessProbe == nil || c.LivenessProbe.Exec == nil {
				return "other probes"
			}
			return ""
		}},
		{"commands, environment, requests, policy, token", func(c *Config) {
			c.Pod.Install = []string{"/install", "{agentPath}"}
			c.Pod.Command = []string{"/run", "--app", "{application}"}
			c.Pod.Env = []corev1.EnvVar{{Name: "COLOUR", Value: "red"}}
			c.Pod.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
			c.Pod.PullPolicy = corev1.PullAlways
			c.Pod.ServiceAccountToken = true
		}, false, func(pod *corev1.Pod) string {
			c, install := main(pod), pod.Spec.InitContainers[0]
			red := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "COLOUR" && e.Value == "red" })
			switch {
			case !slices.Equal(install.Command, []string{"/install", testAgentPath}):
				return "another init command"
			case !slices.Equal(c.Command, []string{"/run", "--app", app}):
				return "another command"
			case !red:
				return "the variable is missing"
			case c.Resources.Limits.Memory().Value() != 1<<30:
				return "other limits"
			case c.ImagePullPolicy != corev1.PullAlways || install.ImagePullPolicy != corev1.PullAlways:
				return "another pull policy"
			case !*pod.Spec.AutomountServiceAccountToken:
				return "it has no token"
			}
			return ""
		}},
		{"template", func(c *Config) {
			c.Pod.Template = func(app string, template *corev1.PodTemplateSpec) {
				template.Annotations["seen"] = app
				template.Spec.PriorityClassName = ""
				template.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
			}
		}, false, func(pod *corev1.Pod) string {
			tolerates := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "dedicated" })
			if pod.Annotations["seen"] != app || !tolerates {
				return "the template was not changed"
			}
			return ""
		}},
		{"host's pull secrets", func(c *Config) { c.PullSecrets = []string{"ours"} }, false, func(pod *corev1.Pod) string {
			if !slices.Equal(pod.Spec.ImagePullSecrets, []corev1.LocalObjectReference{{Name: "ours"}}) {
				return "other pull secrets"
			}
			return ""
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var changes []func(*corev1.Namespace)
			if test.free {
				changes = append(changes, anything)
			}
			w := worldOn(t, kubetest.Need(t), changes...)
			m := w.listed(t, test.change)
			cfg := operatorConfig(t, app, 1)
			m.made(t, app, cfg)
			if why := test.check(w.rolledOut(t, app)); why != "" {
				t.Error(why)
			}
			// And it stays so without a further request.
			w.caughtUp(t, m)
			cfg.Generation = m.shows(t, app, cfg)
			m.silent(t, func() { m.ensure(t, app, cfg) })
			next := w.listed(t, test.change)
			next.silent(t, func() { next.ensure(t, app, cfg) })
		})
	}
}

// TestOperatorWithoutBaseImageRunsItsOwn is for images that are both.
func TestOperatorWithoutBaseImageRunsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, "web", 1)
	cfg.BaseImageDetails.RegistryPath = ""
	m.made(t, "web", cfg)
	pod := w.rolledOut(t, "web")
	if pod.Spec.Containers[0].Image != cfg.ImageDetails.RegistryPath {
		t.Errorf("it runs %s", pod.Spec.Containers[0].Image)
	}
}

// TestPodStartsOnceForEachEffectiveChange counts every pod that there was, also one
// that nobody waited for, and what reaches it: addresses (juju/juju#12941) and the
// certificate (rook#10719).
func TestPodStartsOnceForEachEffectiveChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	class := w.StorageClass(t)
	m := w.listed(t)
	for name, test := range map[string]struct {
		storage bool // from the beginning
		change  func(app string, cfg *operator.Config) *operator.Config
		starts  int
	}{
		"address-added": {false, func(app string, cfg *operator.Config) *operator.Config {
			cfg.AgentConf = operatorConfig(t, app, 1, func(c *agentconf.Config) {
				c.APIAddresses = append(c.APIAddresses, "10.0.0.9:17070")
			}).AgentConf
			return cfg
		}, 1},
		"address-moved": {false, func(app string, cfg *operator.Config) *operator.Config {
			cfg.AgentConf = operatorConfig(t, app, 1, func(c *agentconf.Config) { c.APIAddresses[1] = "10.7.7.7:17070" }).AgentConf
			return cfg
		}, 1},
		"addresses-permuted": {false, func(app string, cfg *operator.Config) *operator.Config {
			cfg.AgentConf = operatorConfig(t, app, 1, func(c *agentconf.Config) { slices.Reverse(c.APIAddresses) }).AgentConf
			return cfg
		}, 0},
		"certificate": {false, func(app string, cfg *operator.Config) *operator.Config {
			cfg.OperatorInfo = operatorConfig(t, app, 2).OperatorInfo
			return cfg
		}, 1},
		"password": {false, func(app string, cfg *operator.Config) *operator.Config {
			cfg.AgentConf = operatorConfig(t, app, 2).AgentConf
			return cfg
		}, 1},
		"everything": {true, func(app string, cfg *operator.Config) *operator.Config {
			next := stored(private(operatorConfig(t, app, 2), "s3cret"), 200, class)
			next.Version, next.ImageDetails.RegistryPath, next.BaseImageDetails.RegistryPath = "3.0", "operator:3", "base:3"
			return next
		}, 1},
		"storage-grown": {true, func(_ string, cfg *operator.Config) *operator.Config { return stored(cfg, 200, class) }, 0},
		"storage-tagged": {true, func(_ string, cfg *operator.Config) *operator.Config {
			cfg.CharmStorage.ResourceTags = map[string]string{"cost": "low"}
			return cfg
		}, 0},
		"storage-added": {false, func(_ string, cfg *operator.Config) *operator.Config { return stored(cfg, 100, class) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := operatorConfig(t, name, 1)
			if test.storage {
				cfg = stored(cfg, 100, class)
			}
			m.ensure(t, name, cfg)
			w.works(t, name, cfg)
			seen := w.pods(t, name)
			revisions := len(w.revisions(t, name))

			cfg = test.change(name, cfg.Clone())
			m.made(t, name, cfg)
			if test.starts > 0 {
				kubetest.Eventually(t, "another pod", func() error {
					if n := seen(); n < 2 {
						return errors.Errorf("there was %d", n)
					}
					return nil
				})
				w.works(t, name, cfg)
			}
			for range 3 {
				m.made(t, name, cfg)
			}
			w.rolledOut(t, name)
			if n := seen() - 1; n != test.starts {
				t.Errorf("the pod was started again %d times, want %d", n, test.starts)
			}
			if n := len(w.revisions(t, name)) - revisions; n != test.starts {
				t.Errorf("the set has %d more revisions, want %d", n, test.starts)
			}
		})
	}
}

// TestNothingStartsBeforeItsModelMoves: a controller that is upgraded has all its
// agents started anew, and one of its models moves on (juju/juju#9361, #14974).
func TestNothingStartsBeforeItsModelMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	model := func(id, name string) func(*Config) {
		return func(c *Config) { c.ModelUUID, c.ModelName = id, name }
	}
	moves, stays := operatorConfig(t, "moves", 1), operatorConfig(t, "stays", 1)
	w.listed(t, model(testModel, "first")).ensure(t, "moves", moves)
	w.listed(t, model(otherModel, "second")).ensure(t, "stays", stays)
	before := w.works(t, "stays", stays)
	w.works(t, "moves", moves)
	seen, all := w.pods(t, "moves"), w.pods(t, "stays")

	moves.Version, moves.ImageDetails.RegistryPath = "3.1", "registry.example.com/operator:3.1"
	w.listed(t, model(testModel, "first")).made(t, "moves", moves)
	// The other one is called something else by now, which people read.
	w.listed(t, model(otherModel, "renamed")).made(t, "stays", stays)
	w.works(t, "moves", moves)
	if now := w.works(t, "stays", stays); now.UID != before.UID || all() != 1 {
		t.Error("a pod of the model that stays was started again")
	}
	if n := seen(); n != 2 {
		t.Errorf("of the model that moves there were %d pods, want 2", n)
	}
}
