package kubernetes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// templateFor returns the pod template that a manager of the configuration makes.
func templateFor(t *testing.T, app string, change func(*Config), changes ...func(*wanted)) corev1.PodTemplateSpec {
	t.Helper()
	config := validConfig()
	if change != nil {
		change(&config)
	}
	m := &Manager{config: config.withDefaults()}
	w := wanted{
		names: namesOf(app), agentPath: "/var/lib/agent", cfg: operatorConfig(t, app, 1), effective: "digest", serviceIP: "10.96.0.7",
	}
	for _, change := range changes {
		change(&w)
	}
	return m.template(w)
}

// wantedTemplate is what comes of the defaults.
func wantedTemplate() corev1.PodTemplateSpec {
	probe := func(period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(30666)}},
			PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures,
		}
	}
	resources := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi"),
	}}
	security := func() *corev1.SecurityContext {
		return &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	fromField := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	program := corev1.VolumeMount{Name: "juju", MountPath: "/opt/juju"}
	own := "/var/lib/agent/agents/application-web"
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{
				"operator.juju.is/name": "web", "operator.juju.is/target": "application",
				"app.kubernetes.io/managed-by": "juju", "model.juju.is/id": testModel,
			},
			Annotations: map[string]string{"juju.is/version": "2.9.49", "sutler.dev/effective": "digest"},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:           "web-operator",
			AutomountServiceAccountToken: new(false),
			InitContainers: []corev1.Container{{
				Name: "install", Image: "registry.example.com/operator:2.9.49",
				Command:      []string{"/bin/cp", "/opt/jujud", "/opt/juju/jujud"},
				VolumeMounts: []corev1.VolumeMount{program},
				Resources:    resources, SecurityContext: security(),
			}},
			Containers: []corev1.Container{{
				Name: "operator", Image: "registry.example.com/charm-base:ubuntu-20.04",
				Command: []string{"/opt/juju/jujud", "caasoperator", "--application-name=web", "--data-dir=/var/lib/agent"},
				Env: []corev1.EnvVar{
					{Name: "JUJU_APPLICATION", Value: "web"},
					{Name: "JUJU_OPERATOR_SERVICE_IP", Value: "10.96.0.7"},
					{Name: "JUJU_OPERATOR_POD_IP", ValueFrom: fromField("status.podIP")},
					{Name: "JUJU_OPERATOR_NAMESPACE", ValueFrom: fromField("metadata.namespace")},
				},
				Ports: []corev1.ContainerPort{{Name: "operator", ContainerPort: 30666, Protocol: "TCP"}},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "agent", MountPath: "/var/lib/agent/agents"},
					{Name: "agent", MountPath: own, SubPath: "application-web"},
					{Name: "config", MountPath: own + "/template-agent.conf", SubPath: "template-agent.conf", ReadOnly: true},
					{Name: "config", MountPath: own + "/operator.yaml", SubPath: "operator.yaml", ReadOnly: true},
					program,
				},
				Resources: resources, SecurityContext: security(),
				StartupProbe: probe(5, 60), ReadinessProbe: probe(10, 3), LivenessProbe: probe(15, 4),
			}},
			Volumes: []corev1.Volume{
				{Name: "juju", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					SecretName: "web-operator-config", DefaultMode: new(int32(0o440)),
					Items: []corev1.KeyToPath{
						{Key: "web-agent.conf", Path: "template-agent.conf"}, {Key: "operator.yaml", Path: "operator.yaml"},
					},
				}}},
				{Name: "agent", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(170)), RunAsGroup: new(int64(170)), FSGroup: new(int64(170)),
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: "RuntimeDefault"},
			},
		},
	}
}

// Every difference from the defaults is one that was asked for, and no other.
func TestTemplateIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	main := func(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.Containers[0] }
	install := func(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.InitContainers[0] }
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	small := corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("0")}}
	for name, test := range map[string]struct {
		config func(*Config)
		wanted func(*wanted)
		differ func(*corev1.PodTemplateSpec)
	}{
		"defaults": {},
		"command": {
			config: func(c *Config) { c.Pod.Command = []string{"/run", "{application}/{agentPath}", "{other}"} },
			differ: func(p *corev1.PodTemplateSpec) { main(p).Command = []string{"/run", "web//var/lib/agent", "{other}"} },
		},
		"install": {
			config: func(c *Config) { c.Pod.Install = []string{"/install", "--for={application}"} },
			differ: func(p *corev1.PodTemplateSpec) { install(p).Command = []string{"/install", "--for=web"} },
		},
		"environment": {
			config: func(c *Config) { c.Pod.Env = []corev1.EnvVar{{Name: "PROXY", Value: "{application}"}} },
			differ: func(p *corev1.PodTemplateSpec) {
				main(p).Env = append(main(p).Env, corev1.EnvVar{Name: "PROXY", Value: "{application}"})
			},
		},
		"one probe": {
			config: func(c *Config) { c.Pod.Readiness = probe },
			differ: func(p *corev1.PodTemplateSpec) { main(p).ReadinessProbe = probe },
		},
		"no probes": {
			config: func(c *Config) { c.Pod.NoProbes = true },
			differ: func(p *corev1.PodTemplateSpec) {
				main(p).StartupProbe, main(p).ReadinessProbe, main(p).LivenessProbe = nil, nil, nil
			},
		},
		"resources": {
			config: func(c *Config) { c.Pod.Resources = &small },
			differ: func(p *corev1.PodTemplateSpec) { main(p).Resources, install(p).Resources = small, small },
		},
		"no resources": {
			config: func(c *Config) { c.Pod.Resources = &corev1.ResourceRequirements{} },
			differ: func(p *corev1.PodTemplateSpec) {
				main(p).Resources, install(p).Resources = corev1.ResourceRequirements{}, corev1.ResourceRequirements{}
			},
		},
		"user": {
			config: func(c *Config) { c.Pod.UserID = 1000 },
			differ: func(p *corev1.PodTemplateSpec) {
				c := p.Spec.SecurityContext
				c.RunAsUser, c.RunAsGroup, c.FSGroup = new(int64(1000)), new(int64(1000)), new(int64(1000))
			},
		},
		"no security": {
			config: func(c *Config) { c.PodSecurity = PodSecurityNone },
			differ: func(p *corev1.PodTemplateSpec) {
				p.Spec.SecurityContext, main(p).SecurityContext, install(p).SecurityContext = nil, nil, nil
			},
		},
		"pull policy": {
			config: func(c *Config) { c.Pod.PullPolicy = corev1.PullNever },
			differ: func(p *corev1.PodTemplateSpec) {
				main(p).ImagePullPolicy, install(p).ImagePullPolicy = corev1.PullNever, corev1.PullNever
			},
		},
		"token": {
			config: func(c *Config) { c.Pod.ServiceAccountToken = true },
			differ: func(p *corev1.PodTemplateSpec) { p.Spec.AutomountServiceAccountToken = new(true) },
		},
		"managed by": {
			config: func(c *Config) { c.ManagedBy = "host" },
			differ: func(p *corev1.PodTemplateSpec) { p.Labels["app.kubernetes.io/managed-by"] = "host" },
		},
		"names for people": {config: func(c *Config) { c.ModelName, c.ControllerUUID = "m", testController }},
		"pull secrets of the host": {
			config: func(c *Config) { c.PullSecrets = []string{"b", "a"} },
			wanted: func(w *wanted) { w.cfg = private(w.cfg, "s3cret") },
			differ: func(p *corev1.PodTemplateSpec) {
				p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "b"}, {Name: "a"}}
			},
		},
		"private images": {
			wanted: func(w *wanted) { w.cfg = private(w.cfg, "s3cret") },
			differ: func(p *corev1.PodTemplateSpec) {
				p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "web-operator-pull"}}
			},
		},
		"no base image": {
			wanted: func(w *wanted) { w.cfg.BaseImageDetails.RegistryPath = "" },
			differ: func(p *corev1.PodTemplateSpec) { main(p).Image = install(p).Image },
		},
		"no version": {
			wanted: func(w *wanted) { w.cfg.Version = "" },
			differ: func(p *corev1.PodTemplateSpec) { delete(p.Annotations, "juju.is/version") },
		},
		"tags": {wanted: func(w *wanted) { w.cfg.ResourceTags = map[string]string{"a": "b"} }},
		"storage": {
			wanted: func(w *wanted) { w.cfg = stored(w.cfg, 100, "fast") },
			differ: func(p *corev1.PodTemplateSpec) {
				main(p).VolumeMounts[0].Name, main(p).VolumeMounts[1].Name = "charm", "charm"
				p.Spec.Volumes = p.Spec.Volumes[:2] // the set adds the claim's
			},
		},
		"hook": {
			config: func(c *Config) {
				c.Pod.Template = func(app string, p *corev1.PodTemplateSpec) {
					p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{app}}}
					p.Spec.Containers[0].Image += "-debug" // all else is there already
				}
			},
			differ: func(p *corev1.PodTemplateSpec) {
				p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"web"}}}
				main(p).Image += "-debug"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := wantedTemplate()
			if test.differ != nil {
				test.differ(&want)
			}
			var changes []func(*wanted)
			if test.wanted != nil {
				changes = append(changes, test.wanted)
			}
			for range 2 { // the same each time
				if diff := cmp.Diff(want, templateFor(t, "web", test.config, changes...)); diff != "" {
					t.Errorf("-want +have:\n%s", diff)
				}
			}
		})
	}
}

// An application has its whole name where it looks for itself, whatever its objects
// are called.
func TestTemplateOfALongName(t *testing.T) {
	t.Parallel()
	app := strings.Repeat("long", 20)
	n := namesOf(app)
	have := templateFor(t, app, nil)
	c := have.Spec.Containers[0]
	wantEqual(t, "label", have.Labels["operator.juju.is/name"], n.short)
	wantEqual(t, "annotation", have.Annotations["sutler.dev/application"], app)
	wantEqual(t, "JUJU_APPLICATION", c.Env[0].Value, app)
	wantEqual(t, "argument", c.Command[2], "--application-name="+app)
	wantEqual(t, "file", c.VolumeMounts[3].MountPath, "/var/lib/agent/agents/application-"+app+"/operator.yaml")
	wantEqual(t, "Secret", have.Spec.Volumes[1].Secret.SecretName, n.config())
	if len(n.config()) > 63 {
		t.Errorf("the name %q is too long", n.config())
	}
}
