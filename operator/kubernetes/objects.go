package kubernetes

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sutler-dev/sutler/facade"
)

// What an operator is made of. Each function returns one object as it should be:
// what it says is the manager's, what it leaves open is the cluster's.

func (m *Manager) meta(w wanted, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Namespace:   m.config.Namespace,
		Labels:      m.labels(w.names),
		Annotations: m.annotations(w.names, w.cfg.ResourceTags, w.cfg.Version),
	}
}

func (m *Manager) serviceAccount(w wanted) *corev1.ServiceAccount {
	no := false // the pod says for itself whether it wants a token
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   m.meta(w, w.operator()),
		AutomountServiceAccountToken: &no,
	}
}

func (m *Manager) role(w wanted) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: m.meta(w, w.operator()),
		Rules:      operatorRules(),
	}
}

func (m *Manager) roleBinding(w wanted) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: m.meta(w, w.operator()),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: w.operator()},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: w.operator(), Namespace: m.config.Namespace,
		}},
	}
}

func (m *Manager) service(w wanted) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: m.meta(w, w.operator()),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: w.selector(),
			Ports: []corev1.ServicePort{{
				Name: "operator", Protocol: corev1.ProtocolTCP, Port: OperatorPort, TargetPort: intstr.FromInt32(OperatorPort),
			}},
		},
	}
}

// statefulSet needs the Service's address.
func (m *Manager) statefulSet(w wanted) *appsv1.StatefulSet {
	replicas, history := int32(1), int32(2)
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: m.meta(w, w.operator()),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             &replicas,
			RevisionHistoryLimit: &history,
			ServiceName:          w.operator(),
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			Selector:             &metav1.LabelSelector{MatchLabels: w.selector()},
			Template:             m.template(w),
			// Claims are this manager's to delete: a set that somebody
			// deletes by hand must not take the data along.
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
	if w.cfg.CharmStorage != nil {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{m.claim(w, w.cfg.CharmStorage)}
	}
	return set
}

// Keys of charm storage attributes.
const (
	attributeClass = "storage-class"
	attributeMode  = "storage-mode"
)

// claim is the claim template. Its class and mode were validated.
func (m *Manager) claim(w wanted, storage *facade.CharmStorage) corev1.PersistentVolumeClaim {
	labels := w.selector()
	labels[labelManagedBy] = m.config.ManagedBy
	labels[modelID] = m.config.ModelUUID
	annotations := make(map[string]string, len(storage.ResourceTags)+1)
	for key, value := range storage.ResourceTags {
		annotations[annotationOfTag(key)] = value
	}
	if w.hashed() {
		annotations[annotationApplication] = w.app
	}
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimTemplate, Labels: labels, Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{modeOf(storage)},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: sizeOf(storage),
			}},
		},
	}
	if class := storage.Attributes[attributeClass]; class != "" {
		claim.Spec.StorageClassName = &class
	}
	return claim
}

func sizeOf(storage *facade.CharmStorage) resource.Quantity {
	return *resource.NewQuantity(int64(storage.Size)<<20, resource.BinarySI)
}

func modeOf(storage *facade.CharmStorage) corev1.PersistentVolumeAccessMode {
	if mode := storage.Attributes[attributeMode]; mode != "" {
		return corev1.PersistentVolumeAccessMode(mode)
	}
	return corev1.ReadWriteOnce
}

// configSecret holds the operator's files.
func (m *Manager) configSecret(w wanted) *corev1.Secret {
	meta := m.meta(w, w.config())
	meta.Annotations[annotationEffective] = w.effective
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			w.agentConfKey(): []byte(w.cfg.AgentConf.Reveal()),
			infoKey:          []byte(w.cfg.OperatorInfo.Reveal()),
			recordKey:        recordOf(w.cfg),
		},
	}
}

// pullSecret is nil when the images need none, or the host looks after them.
func (m *Manager) pullSecret(w wanted) *corev1.Secret {
	if !m.needsPullSecret(w) {
		return nil
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: m.meta(w, w.pull()),
		Type:       corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			corev1.DockerConfigJsonKey: pullConfig(w.cfg.ImageDetails, w.cfg.BaseImageDetails),
		},
	}
}

func (m *Manager) needsPullSecret(w wanted) bool {
	return len(m.config.PullSecrets) == 0 && (w.cfg.ImageDetails.IsPrivate() || w.cfg.BaseImageDetails.IsPrivate())
}

// pullSecretNames are the ones that the pod names.
func (m *Manager) pullSecretNames(w wanted) []corev1.LocalObjectReference {
	var out []corev1.LocalObjectReference
	for _, name := range m.config.PullSecrets {
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	if m.needsPullSecret(w) {
		out = append(out, corev1.LocalObjectReference{Name: w.pull()})
	}
	return out
}

// operatorRules are what an operator may do in its namespace, should its pod have
// a token.
func operatorRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "services"}, Verbs: []string{"get", "list", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
	}
}

// sortedKeys is for what has to be the same each time.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
