package kubernetes

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sutler-dev/sutler/operator"
)

// Names within a pod.
const (
	programDir    = "/opt/juju"
	programVolume = "juju"
	agentVolume   = "agent"
	configVolume  = "config"

	installContainer  = "install"
	operatorContainer = "operator"
)

// Default commands, for the images in the field.
func defaultInstall() []string {
	return []string{"/bin/cp", "/opt/jujud", programDir + "/jujud"}
}

func defaultCommand() []string {
	return []string{programDir + "/jujud", "caasoperator", "--application-name={application}", "--data-dir={agentPath}"}
}

func (p PodConfig) withDefaults() PodConfig {
	p.Install, p.Command = slices.Clone(p.Install), slices.Clone(p.Command)
	if len(p.Install) == 0 {
		p.Install = defaultInstall()
	}
	if len(p.Command) == 0 {
		p.Command = defaultCommand()
	}
	env := make([]corev1.EnvVar, len(p.Env))
	for i := range p.Env {
		env[i] = *p.Env[i].DeepCopy()
	}
	p.Env = env
	p.Startup, p.Readiness, p.Liveness = p.Startup.DeepCopy(), p.Readiness.DeepCopy(), p.Liveness.DeepCopy()
	if !p.NoProbes {
		// Five minutes to start; afterwards a minute of silence has the
		// container started again.
		p.Startup = probeOr(p.Startup, 5, 60)
		p.Readiness = probeOr(p.Readiness, 10, 3)
		p.Liveness = probeOr(p.Liveness, 15, 4)
	}
	if p.Resources = p.Resources.DeepCopy(); p.Resources == nil {
		p.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(128<<20, resource.BinarySI),
		}}
	}
	return p
}

func probeOr(probe *corev1.Probe, period, failures int32) *corev1.Probe {
	if probe != nil {
		return probe
	}
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(OperatorPort)}},
		PeriodSeconds:    period,
		TimeoutSeconds:   5,
		FailureThreshold: failures,
	}
}

// wanted is what an operator's objects are worked out from.
type wanted struct {
	names
	agentPath string
	cfg       *operator.Config
	// effective is the digest of what a running operator would have to read
	// again.
	effective string
	// generation is that of the stored configuration.
	generation string
	// serviceIP is the Service's address.
	serviceIP string
}

// template is the pod template of the operator's set.
func (m *Manager) template(w wanted) corev1.PodTemplateSpec {
	pod := m.config.Pod
	annotations := map[string]string{annotationEffective: w.effective}
	if w.cfg.Version != "" {
		annotations[annotationVersion] = w.cfg.Version
	}
	if w.hashed() {
		annotations[annotationApplication] = w.app
	}
	base := w.cfg.BaseImageDetails.RegistryPath
	if base == "" {
		base = w.cfg.ImageDetails.RegistryPath
	}
	program := corev1.VolumeMount{Name: programVolume, MountPath: programDir}
	replace := strings.NewReplacer("{application}", w.app, "{agentPath}", w.agentPath)

	labels := w.selector()
	labels[labelManagedBy] = m.config.ManagedBy
	labels[modelID] = m.config.ModelUUID
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			ServiceAccountName:           w.operator(),
			AutomountServiceAccountToken: &pod.ServiceAccountToken,
			ImagePullSecrets:             m.pullSecretNames(w),
			InitContainers: []corev1.Container{{
				Name:            installContainer,
				Image:           w.cfg.ImageDetails.RegistryPath,
				ImagePullPolicy: pod.PullPolicy,
				Command:         expand(replace, pod.Install),
				VolumeMounts:    []corev1.VolumeMount{program},
				Resources:       *pod.Resources.DeepCopy(),
			}},
			Containers: []corev1.Container{{
				Name:            operatorContainer,
				Image:           base,
				ImagePullPolicy: pod.PullPolicy,
				Command:         expand(replace, pod.Command),
				Env:             m.environment(w),
				Ports:           []corev1.ContainerPort{{Name: "operator", ContainerPort: OperatorPort, Protocol: corev1.ProtocolTCP}},
				VolumeMounts:    append(w.mounts(), program),
				Resources:       *pod.Resources.DeepCopy(),
				StartupProbe:    pod.Startup.DeepCopy(),
				ReadinessProbe:  pod.Readiness.DeepCopy(),
				LivenessProbe:   pod.Liveness.DeepCopy(),
			}},
			Volumes: w.volumes(),
		},
	}
	if m.config.PodSecurity == PodSecurityRestricted {
		restrict(&template.Spec, pod.UserID)
	}
	if pod.Template != nil {
		pod.Template(w.app, &template)
	}
	return template
}

func expand(replace *strings.Replacer, command []string) []string {
	out := make([]string, len(command))
	for i, arg := range command {
		out[i] = replace.Replace(arg)
	}
	return out
}

// environment is that of the operator's container.
func (m *Manager) environment(w wanted) []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
		}}
	}
	env := []corev1.EnvVar{
		{Name: "JUJU_APPLICATION", Value: w.app},
		{Name: "JUJU_OPERATOR_SERVICE_IP", Value: w.serviceIP},
		field("JUJU_OPERATOR_POD_IP", "status.podIP"),
		field("JUJU_OPERATOR_NAMESPACE", "metadata.namespace"),
	}
	for _, v := range m.config.Pod.Env {
		env = append(env, *v.DeepCopy())
	}
	return env
}

// volumes are the pod's, but for the one of a claim, which the set adds.
func (w wanted) volumes() []corev1.Volume {
	empty := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	}
	// Read by the pod's group alone, which the volume is given.
	mode := int32(0o440)
	volumes := []corev1.Volume{empty(programVolume), {
		Name: configVolume,
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  w.config(),
			DefaultMode: &mode,
			Items: []corev1.KeyToPath{
				{Key: w.agentConfKey(), Path: templateConf},
				{Key: infoKey, Path: infoKey},
			},
		}},
	}}
	if w.cfg.CharmStorage == nil {
		volumes = append(volumes, empty(agentVolume))
	}
	return volumes
}

// templateConf is what the stored agent.conf is called where the operator finds
// it: its own is beside it, and is its own.
const templateConf = "template-agent.conf"

// mounts are those of the operator's files. The directory that they are in is
// mounted once more by itself: else it would be made for the files, by root, and
// the operator could not write beside them. Files that are mounted one by one stay
// as they were when the pod started.
func (w wanted) mounts() []corev1.VolumeMount {
	data := agentVolume
	if w.cfg.CharmStorage != nil {
		data = claimTemplate
	}
	agents := path.Join(w.agentPath, "agents")
	name := "application-" + w.app
	own := path.Join(agents, name)
	file := func(name string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: configVolume, MountPath: path.Join(own, name), SubPath: name, ReadOnly: true}
	}
	return []corev1.VolumeMount{
		{Name: data, MountPath: agents},
		{Name: data, MountPath: own, SubPath: name},
		file(templateConf),
		file(infoKey),
	}
}

// restrict makes the pod pass the Pod Security level of that name.
func restrict(pod *corev1.PodSpec, user int64) {
	yes, no := true, false
	always := corev1.FSGroupChangeOnRootMismatch
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot:        &yes,
		RunAsUser:           &user,
		RunAsGroup:          &user,
		FSGroup:             &user,
		FSGroupChangePolicy: &always,
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			containers[i].SecurityContext = &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no,
				RunAsNonRoot:             &yes,
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}
		}
	}
}
