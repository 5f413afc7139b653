package kubernetes

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// validConfig is one with a client that nobody calls.
func validConfig() Config {
	return Config{
		Client:    fake.NewClientset(),
		Namespace: "model",
		ModelUUID: "5d0f8b6e-42c7-4a19-8e3d-9b7a1c6f2e04",
		Clock:     clock.WallClock,
	}
}

func TestConfigThatCannotBeUsedIsNotValidAndSaysWhatIsWrong(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string // each word of it
	}{
		{"no client at all", func(c *Config) { c.Client = nil }, "nil Client|nil REST"},
		{"two clients", func(c *Config) { c.REST = &rest.Config{} }, "Client and REST"},
		{"a pace beside a client", func(c *Config) { c.QPS = 1 }, "QPS|Client"},
		{"a burst beside a client", func(c *Config) { c.Burst = 1 }, "Burst|Client"},
		{"negative pace", func(c *Config) { c.Client, c.REST, c.QPS = nil, &rest.Config{}, -1 }, "negative QPS"},
		{"negative burst", func(c *Config) { c.Client, c.REST, c.Burst = nil, &rest.Config{}, -1 }, "negative Burst"},
		{"no namespace", func(c *Config) { c.Namespace = "" }, "empty Namespace"},
		{"a namespace with a dot", func(c *Config) { c.Namespace = "a.b" }, `Namespace "a.b"|dots`},
		{"a namespace that is too long", func(c *Config) { c.Namespace = long }, "Namespace|63"},
		{"no model", func(c *Config) { c.ModelUUID = "" }, "empty ModelUUID"},
		{"a model that is no label", func(c *Config) { c.ModelUUID = "a b" }, `ModelUUID "a b"|label`},
		{"a model that is too long", func(c *Config) { c.ModelUUID = long }, "ModelUUID|63"},
		{"a model's name that is no label", func(c *Config) { c.ModelName = "-" }, `ModelName "-"|label`},
		{"a controller that is no label", func(c *Config) { c.ControllerUUID = "/" }, `ControllerUUID "/"|label`},
		{"managed by what is no label", func(c *Config) { c.ManagedBy = "ä" }, `ManagedBy "ä"|label`},
		{"a field manager that is too long", func(c *Config) { c.FieldManager = long + long + "x" }, "FieldManager|128"},
		{"no clock", func(c *Config) { c.Clock = nil }, "nil Clock"},
		{"another Pod Security level", func(c *Config) { c.PodSecurity = "baseline" }, `PodSecurity "baseline"|restricted|none`},
		{"a pull secret without a name", func(c *Config) { c.PullSecrets = []string{"a", ""} }, "PullSecrets[1]"},
		{"a pull secret with a path", func(c *Config) { c.PullSecrets = []string{"../a"} }, `PullSecrets[0] "../a"`},
		{"root's group", func(c *Config) { c.Pod.UserID = -1 }, "Pod|negative UserID"},
		{"an empty program to install with", func(c *Config) { c.Pod.Install = []string{""} }, "Pod|Install[0]"},
		{"an empty program to run", func(c *Config) { c.Pod.Command = []string{"", "x"} }, "Pod|Command[0]"},
		{"a variable without a name", func(c *Config) { c.Pod.Env = []corev1.EnvVar{{Name: "A"}, {}} }, "Pod|Env[1]"},
		{"a variable of the manager's", func(c *Config) { c.Pod.Env = []corev1.EnvVar{{Name: "JUJU_X"}} }, `Pod|Env[0]|"JUJU_X"`},
		{"another pull policy", func(c *Config) { c.Pod.PullPolicy = "Sometimes" }, `Pod|PullPolicy "Sometimes"|Always`},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := validConfig()
			test.change(&config)
			err := config.Validate()
			if !errors.Is(err, errors.NotValid) {
				t.Fatalf("Validate() = %v, want errors.NotValid", err)
			}
			for word := range strings.SplitSeq(test.want, "|") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %q: %v", word, err)
				}
			}
			if m, err := New(config); m != nil || !errors.Is(err, errors.NotValid) {
				t.Errorf("New = %v, %v", m, err)
			}
		})
	}
}

func TestFirstOfSeveralThingsThatAreWrongIsNamed(t *testing.T) {
	config := validConfig()
	config.ModelUUID, config.ModelName, config.ControllerUUID, config.ManagedBy = "a b", "a b", "a b", "a b"
	for range 20 {
		if err := config.Validate(); err == nil || !strings.HasPrefix(err.Error(), "ModelUUID ") {
			t.Fatalf("Validate() = %v", err)
		}
	}
}

func TestConfigThatCanBeUsedIsValid(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"the least": func(*Config) {},
		"REST":      func(c *Config) { c.Client, c.REST = nil, &rest.Config{} },
		"REST with a pace": func(c *Config) {
			c.Client, c.REST, c.QPS, c.Burst = nil, &rest.Config{}, 1, 1
		},
		"everything": func(c *Config) {
			c.ModelName, c.ControllerUUID, c.ManagedBy, c.FieldManager = "admin", "c", "me", strings.Repeat("m", 128)
			c.PodSecurity, c.PullSecrets = PodSecurityNone, []string{"a", "b.c"}
			c.Pod = PodConfig{
				Install: []string{"/install"}, Command: []string{"/run", ""}, UserID: 1000, PullPolicy: corev1.PullNever,
				Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, NoProbes: true, Resources: &corev1.ResourceRequirements{},
			}
		},
	} {
		config := validConfig()
		change(&config)
		if err := config.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	config := validConfig()
	config = config.withDefaults()
	if config.QPS != DefaultQPS || config.Burst != DefaultBurst || config.ManagedBy != DefaultManagedBy ||
		config.FieldManager != DefaultFieldManager || config.PodSecurity != PodSecurityRestricted || config.Pod.UserID != DefaultUserID {
		t.Errorf("%+v", config)
	}
	pod := config.Pod
	if strings.Join(pod.Install, " ") != "/bin/cp /opt/jujud /opt/juju/jujud" ||
		strings.Join(pod.Command, " ") != "/opt/juju/jujud caasoperator --application-name={application} --data-dir={agentPath}" {
		t.Errorf("commands are %q, %q", pod.Install, pod.Command)
	}
	for name, probe := range map[string]*corev1.Probe{"startup": pod.Startup, "readiness": pod.Readiness, "liveness": pod.Liveness} {
		if probe == nil || probe.TCPSocket == nil || probe.TCPSocket.Port.IntValue() != OperatorPort {
			t.Errorf("the %s probe is %+v", name, probe)
		}
	}
	requests := pod.Resources.Requests
	if requests.Cpu().Cmp(resource.MustParse("100m")) != 0 || requests.Memory().Cmp(resource.MustParse("128Mi")) != 0 {
		t.Errorf("requests are %v", requests)
	}
}

func TestNoProbesKeepsThoseThatAreGiven(t *testing.T) {
	config := validConfig()
	config.Pod.NoProbes, config.Pod.Readiness = true, &corev1.Probe{PeriodSeconds: 77}
	pod := config.withDefaults().Pod
	if pod.Startup != nil || pod.Liveness != nil || pod.Readiness == nil || pod.Readiness.PeriodSeconds != 77 {
		t.Errorf("%+v", pod)
	}
}

// TestConfigIsNotSharedWithWhoeverMadeIt has its owner change everything that can
// be changed after the manager was made.
func TestConfigIsNotSharedWithWhoeverMadeIt(t *testing.T) {
	config := validConfig()
	config.PullSecrets = []string{"mine"}
	config.Pod = PodConfig{
		Install: []string{"/install"}, Command: []string{"/run"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
		Startup: &corev1.Probe{PeriodSeconds: 1}, Readiness: &corev1.Probe{PeriodSeconds: 1}, Liveness: &corev1.Probe{PeriodSeconds: 1},
		NoProbes:  true,
		Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
	kept := config.withDefaults()
	config.PullSecrets[0] = "theirs"
	config.Pod.Install[0], config.Pod.Command[0], config.Pod.Env[0].Value = "/theirs", "/theirs", "theirs"
	for _, probe := range []*corev1.Probe{config.Pod.Startup, config.Pod.Readiness, config.Pod.Liveness} {
		probe.PeriodSeconds = 99
	}
	config.Pod.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("99")

	cpu := kept.Pod.Resources.Limits[corev1.ResourceCPU]
	for what, same := range map[string]bool{
		"PullSecrets": kept.PullSecrets[0] == "mine",
		"Install":     kept.Pod.Install[0] == "/install",
		"Command":     kept.Pod.Command[0] == "/run",
		"Env":         kept.Pod.Env[0].Value == "b",
		"Startup":     kept.Pod.Startup.PeriodSeconds == 1,
		"Readiness":   kept.Pod.Readiness.PeriodSeconds == 1,
		"Liveness":    kept.Pod.Liveness.PeriodSeconds == 1,
		"Resources":   cpu.Value() == 1,
	} {
		if !same {
			t.Errorf("%s is shared", what)
		}
	}
}

// TestOwnClientHasTheConfiguredPace has the server count: with a burst of two and
// next to no rate, the third request has to wait beyond its deadline.
func TestOwnClientHasTheConfiguredPace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Secret","apiVersion":"v1"}`))
	}))
	defer server.Close()
	config := validConfig()
	config.Client, config.REST, config.QPS, config.Burst = nil, &rest.Config{Host: server.URL, QPS: -1}, 0.0001, 2
	client, err := config.withDefaults().newClient()
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := client.CoreV1().Secrets("model").Get(ctx, "any", metav1.GetOptions{})
		return err
	}
	for i := range 3 {
		if err := ask(); (err != nil) != (i == 2) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if config.REST.QPS != -1 {
		t.Error("the host's own REST configuration was changed")
	}
}

func TestGivenClientIsUsedAsItIs(t *testing.T) {
	config := validConfig()
	var want kubernetes.Interface = fake.NewClientset()
	config.Client = want
	if got, err := config.withDefaults().newClient(); got != want || err != nil {
		t.Errorf("newClient() = %v, %v", got, err)
	}
}

func TestNilLoggerDiscards(t *testing.T) {
	config := validConfig()
	if logger := config.withDefaults().Logger; logger == nil || logger.Enabled(t.Context(), slog.LevelError) {
		t.Error("the default logger is nil, or says something")
	}
}

// TestTemplateHookChangesItsOwnTemplateAlone has a hook change all that it is given,
// for many applications at once.
func TestTemplateHookChangesItsOwnTemplateAlone(t *testing.T) {
	config := validConfig()
	config.Pod.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
	}}}
	config.PullSecrets = []string{"mine"}
	config.Pod.Template = func(app string, template *corev1.PodTemplateSpec) {
		c := &template.Spec.Containers[0]
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			probe.PeriodSeconds *= 2
			probe.TCPSocket.Host += app
		}
		for _, c := range []*corev1.Container{c, &template.Spec.InitContainers[0]} {
			c.Command[0] += app
			c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("7")
		}
		c.Env[len(c.Env)-1].ValueFrom.FieldRef.FieldPath += app
		template.Spec.ImagePullSecrets[0].Name += app
		template.Spec.SecurityContext.RunAsUser = nil
		template.Labels["mine"] = app
	}
	m := &Manager{config: config.withDefaults()}
	cfg := operatorConfig(t, "mysql", 1)
	templates := make([]corev1.PodTemplateSpec, 4)
	var done sync.WaitGroup
	for i := range templates {
		done.Go(func() {
			templates[i] = m.template(wanted{names: namesOf("mysql"), agentPath: "/var/lib/juju", cfg: cfg})
		})
	}
	done.Wait()
	for _, template := range templates[1:] {
		if !reflect.DeepEqual(template, templates[0]) {
			t.Errorf("got %+v\nand %+v", template, templates[0])
		}
	}
	if got := templates[0].Spec.Containers[0].StartupProbe.PeriodSeconds; got != 10 {
		t.Errorf("the startup probe's period is %d", got)
	}
}
