package kubernetes

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// object is any object of the API.
type object interface {
	metav1.Object
	runtime.Object
}

// kind is one of the kinds of objects that the manager reads or writes.
type kind int

const (
	serviceAccounts kind = iota
	roles
	roleBindings
	secrets
	services
	statefulSets
	pods
	claims
	configMaps
	kindCount
)

// singular and plural are what people call them.
func (k kind) singular() string {
	return [kindCount]string{
		"ServiceAccount", "Role", "RoleBinding", "Secret", "Service", "StatefulSet", "Pod", "PersistentVolumeClaim", "ConfigMap",
	}[k]
}

// resource is what the API, and RBAC with it, calls them.
func (k kind) resource() string {
	return [kindCount]string{
		"serviceaccounts", "roles", "rolebindings", "secrets", "services", "statefulsets", "pods", "persistentvolumeclaims", "configmaps",
	}[k]
}

// endpoint is the part of the API that has the objects of one kind.
type endpoint interface {
	empty() object
	list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	get(ctx context.Context, name string) (object, error)
	create(ctx context.Context, obj object, opts metav1.CreateOptions) (object, error)
	patch(ctx context.Context, name string, form types.PatchType, data []byte, opts metav1.PatchOptions) (object, error)
	delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// client is what client-go has for objects O, in lists L.
type client[O object, L runtime.Object] interface {
	Create(ctx context.Context, obj O, opts metav1.CreateOptions) (O, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (O, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// typed is an endpoint by way of a client.
type typed[O object, L runtime.Object] struct {
	client client[O, L]
	make   func() O
}

func (t typed[O, L]) empty() object { return t.make() }

func (t typed[O, L]) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return t.client.List(ctx, opts)
}

func (t typed[O, L]) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return t.client.Watch(ctx, opts)
}

func (t typed[O, L]) get(ctx context.Context, name string) (object, error) {
	return t.client.Get(ctx, name, metav1.GetOptions{})
}

func (t typed[O, L]) create(ctx context.Context, obj object, opts metav1.CreateOptions) (object, error) {
	return t.client.Create(ctx, obj.(O), opts)
}

func (t typed[O, L]) patch(
	ctx context.Context, name string, form types.PatchType, data []byte, opts metav1.PatchOptions,
) (object, error) {
	return t.client.Patch(ctx, name, form, data, opts)
}

func (t typed[O, L]) delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return t.client.Delete(ctx, name, opts)
}

// endpoints returns those of a namespace.
func endpoints(c kubernetes.Interface, namespace string) [kindCount]endpoint {
	core := c.CoreV1()
	return [kindCount]endpoint{
		serviceAccounts: typed[*corev1.ServiceAccount, *corev1.ServiceAccountList]{
			core.ServiceAccounts(namespace), func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} },
		},
		roles: typed[*rbacv1.Role, *rbacv1.RoleList]{
			c.RbacV1().Roles(namespace), func() *rbacv1.Role { return &rbacv1.Role{} },
		},
		roleBindings: typed[*rbacv1.RoleBinding, *rbacv1.RoleBindingList]{
			c.RbacV1().RoleBindings(namespace), func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} },
		},
		secrets: typed[*corev1.Secret, *corev1.SecretList]{
			core.Secrets(namespace), func() *corev1.Secret { return &corev1.Secret{} },
		},
		services: typed[*corev1.Service, *corev1.ServiceList]{
			core.Services(namespace), func() *corev1.Service { return &corev1.Service{} },
		},
		statefulSets: typed[*appsv1.StatefulSet, *appsv1.StatefulSetList]{
			c.AppsV1().StatefulSets(namespace), func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} },
		},
		pods: typed[*corev1.Pod, *corev1.PodList]{
			core.Pods(namespace), func() *corev1.Pod { return &corev1.Pod{} },
		},
		claims: typed[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList]{
			core.PersistentVolumeClaims(namespace), func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
		},
		configMaps: typed[*corev1.ConfigMap, *corev1.ConfigMapList]{
			core.ConfigMaps(namespace), func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		},
	}
}
