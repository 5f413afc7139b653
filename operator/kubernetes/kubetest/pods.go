package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
)

// Behave has a pod of the namespace, which need not be there yet, misbehave on the
// fake node from now on, or with the zero Behaviour no longer. An empty name stands
// for all of the namespace's pods that have no behaviour of their own. The test is
// skipped on a cluster without the fake node.
func (c *Cluster) Behave(t testing.TB, namespace, pod string, behaviour fakenode.Behaviour) {
	t.Helper()
	c.NeedFakeNode(t)
	if pod == "" {
		pod = fakenode.EveryPod
	}
	ctx := t.Context()
	configs := c.Client.CoreV1().ConfigMaps(namespace)
	data := map[string]string{pod: behaviour.String()}
	_, err := configs.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fakenode.BehaviourConfigMap}, Data: data,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"data": data}); err == nil {
			_, err = configs.Patch(ctx, fakenode.BehaviourConfigMap, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		t.Fatalf("saying how %s is to behave: %v", pod, err)
	}
}

// ReadyPod returns the pod when it is ready, and not being deleted.
func (c *Cluster) ReadyPod(t testing.TB, namespace, name string) *corev1.Pod {
	t.Helper()
	return c.Pod(t, namespace, name, "is ready", func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && isReady(pod)
	})
}

// Pod returns the pod when it is as the function wants it; what says what that is.
func (c *Cluster) Pod(t testing.TB, namespace, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	Eventually(t, fmt.Sprintf("pod %s/%s that %s", namespace, name, what), func() error {
		pod, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !is(pod) {
			status, err := json.Marshal(pod.Status)
			if err != nil {
				return err
			}
			return fmt.Errorf("its status is %s", status)
		}
		found = pod
		return nil
	})
	return found
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Files returns, by path, what the pod's containers found of mounted Secrets and
// ConfigMaps when they last started on the fake node. It is empty before that.
func Files(t testing.TB, pod *corev1.Pod) map[string]string {
	t.Helper()
	files := make(map[string]string)
	if text := pod.Annotations[fakenode.FilesAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &files); err != nil {
			t.Fatalf("annotation %s of pod %s: %v", fakenode.FilesAnnotation, pod.Name, err)
		}
	}
	return files
}

// StorageClass returns the name of a new storage class that the fake node serves:
// claims are bound at once, may grow, and their volumes are deleted with them, unless
// changes say otherwise. It goes when the test ends. The test is skipped on a cluster
// without the fake node.
func (c *Cluster) StorageClass(t testing.TB, changes ...func(*storagev1.StorageClass)) string {
	t.Helper()
	c.NeedFakeNode(t)
	class := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{GenerateName: hint(t.Name())},
		Provisioner:          fakenode.Provisioner,
		AllowVolumeExpansion: new(true),
	}
	for _, change := range changes {
		change(class)
	}
	classes := c.Client.StorageV1().StorageClasses()
	class, err := classes.Create(t.Context(), class, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a storage class: %v", err)
	}
	t.Cleanup(func() {
		if err := classes.Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting storage class %s: %v", class.Name, err)
		}
	})
	return class.Name
}

// annotate sets a pod's annotation, or with nil removes it.
func annotate(ctx context.Context, client kubernetes.Interface, namespace, pod, key string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
