package kubernetes

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationUpdated is put on cached objects, and on no others, of which the
// manager owns fields the way that create and update do.
const annotationUpdated = "sutler.dev/cache-updated"

// trim cuts an object, which is the caller's, down to what the manager looks at:
// the contents of Secrets and ConfigMaps, what a pod is made of but for its claims, and
// who owns which field are not kept. It returns the object.
func (m *Manager) trim(obj object) object {
	entries := obj.GetManagedFields()
	obj.SetManagedFields(nil)
	mine := slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == m.config.FieldManager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
	})
	switch obj := obj.(type) {
	case *corev1.Secret:
		sealSecret(obj)
		obj.StringData = nil
	case *corev1.ConfigMap:
		obj.Data, obj.BinaryData = nil, nil
	case *corev1.Pod:
		trimPod(obj)
		return obj
	case *corev1.PersistentVolumeClaim:
		return obj
	}
	if mine {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = make(map[string]string, 1)
		}
		annotations[annotationUpdated] = "true"
		obj.SetAnnotations(annotations)
	}
	return obj
}

func trimPod(pod *corev1.Pod) {
	var mounted []corev1.Volume
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			mounted = append(mounted, v)
		}
	}
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Volumes: mounted}
	pod.Annotations = keepOnly(pod.Annotations, annotationApplication, annotationEffective)
	pod.Finalizers, pod.OwnerReferences = nil, nil
	pod.Status = corev1.PodStatus{
		Phase:                 pod.Status.Phase,
		Reason:                pod.Status.Reason,
		Message:               pod.Status.Message,
		StartTime:             pod.Status.StartTime,
		Conditions:            troubles(pod.Status.Conditions),
		InitContainerStatuses: trimStatuses(pod.Status.InitContainerStatuses),
		ContainerStatuses:     trimStatuses(pod.Status.ContainerStatuses),
	}
}

// troubles are the conditions that are not met.
func troubles(in []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range in {
		if c.Status == corev1.ConditionFalse {
			out = append(out, c)
		}
	}
	return out
}

func trimStatuses(in []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(in))
	for i, s := range in {
		out[i] = corev1.ContainerStatus{
			Name: s.Name, State: s.State, LastTerminationState: s.LastTerminationState, Ready: s.Ready, RestartCount: s.RestartCount,
		}
	}
	return out
}

func keepOnly(in map[string]string, keys ...string) map[string]string {
	out := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, ok := in[key]; ok {
			out[key] = value
		}
	}
	return out
}

// copyOf returns a copy that its owner may change.
func copyOf(obj object) object { return obj.DeepCopyObject().(object) }

// seen is what there is of one operator, as far as it is known.
type seen struct {
	names
	serviceAccount *corev1.ServiceAccount
	role           *rbacv1.Role
	roleBinding    *rbacv1.RoleBinding
	config, pull   *corev1.Secret
	service        *corev1.Service
	set            *appsv1.StatefulSet
	configMap      *corev1.ConfigMap
	pod            *corev1.Pod
	claim          *corev1.PersistentVolumeClaim
}

// parts are the objects with names of their own that are there, in the order in
// which they are made.
func (s *seen) parts() []part {
	var out []part
	add := func(k kind, obj object, there bool) {
		if there {
			out = append(out, part{k, obj})
		}
	}
	add(serviceAccounts, s.serviceAccount, s.serviceAccount != nil)
	add(roles, s.role, s.role != nil)
	add(roleBindings, s.roleBinding, s.roleBinding != nil)
	add(services, s.service, s.service != nil)
	add(secrets, s.pull, s.pull != nil)
	add(configMaps, s.configMap, s.configMap != nil)
	add(secrets, s.config, s.config != nil)
	add(statefulSets, s.set, s.set != nil)
	return out
}

type part struct {
	kind kind
	obj  object
}
