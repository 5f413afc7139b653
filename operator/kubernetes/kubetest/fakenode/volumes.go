package fakenode

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

// Annotations by which the volume controllers of Kubernetes know a provisioner's
// part in a claim.
const (
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
)

// volumes makes, grows and removes the volumes of our storage classes.
type volumes struct {
	Config
	*loop
	claims  listers.PersistentVolumeClaimLister
	volumes listers.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	factory informers.SharedInformerFactory
}

func newVolumes(config Config) (*volumes, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(config.Client, 0, informers.WithTransform(trim))
	core := factory.Core().V1()
	v := &volumes{
		Config:  config,
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
		factory: factory,
	}
	v.loop = newLoop(config.Logger, v.sync)
	// A claim's key has a slash in it, a volume's has none.
	for _, informer := range []cache.SharedIndexInformer{core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()} {
		if err := onChange(informer, v.queue.Add); err != nil {
			return nil, errors.Trace(err)
		}
	}
	// A claim may be older than its class.
	err := onChange(factory.Storage().V1().StorageClasses().Informer(), func(string) {
		all, err := v.claims.List(labels.Everything())
		if err != nil {
			return
		}
		for _, claim := range all {
			v.queue.Add(cache.MetaObjectToName(claim).String())
		}
	})
	return v, errors.Trace(err)
}

func (v *volumes) run(ctx context.Context) {
	v.factory.Start(ctx.Done())
	v.factory.WaitForCacheSync(ctx.Done())
	v.loop.run(ctx, 4)
	v.factory.Shutdown()
}

func (v *volumes) sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return 0, v.syncVolume(ctx, key)
	}
	claim, err := v.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return 0, ignoreNotFound(err)
	}
	if claim.Spec.StorageClassName == nil || claim.DeletionTimestamp != nil {
		return 0, nil
	}
	class, err := v.classes.Get(*claim.Spec.StorageClassName)
	if err != nil || class.Provisioner != Provisioner {
		return 0, ignoreNotFound(err)
	}
	if claim.Spec.VolumeName == "" {
		return 0, v.provision(ctx, claim, class)
	}
	if claim.Status.Phase == corev1.ClaimBound {
		return 0, v.grow(ctx, claim)
	}
	return 0, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Trace(err)
}

// provision makes the claim's volume. To bind the two is the controller manager's.
func (v *volumes) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if waits && claim.Annotations[annotationSelectedNode] == "" {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	if _, err := v.volumes.Get(name); err == nil {
		return nil
	}
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	_, err := v.Client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationProvisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: reclaim,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			// Nobody ever looks there.
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent/" + name}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return errors.Annotate(err, "making the volume")
}

// grow makes the volume, and what the claim says of it, as large as is asked for.
// That the class allows it, the API server has seen to.
func (v *volumes) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	want, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(has) <= 0 {
		return nil
	}
	capacity := map[string]any{"capacity": corev1.ResourceList{corev1.ResourceStorage: want}}
	patch, err := json.Marshal(map[string]any{"spec": capacity})
	if err != nil {
		return errors.Trace(err)
	}
	_, err = v.Client.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return errors.Annotate(err, "growing the volume")
	}
	// Conditions such as Resizing have come to an end.
	capacity["conditions"] = nil
	patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"uid": claim.UID}, "status": capacity})
	if err != nil {
		return errors.Trace(err)
	}
	_, err = v.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if gone(err) {
		return nil
	}
	return errors.Annotate(err, "saying the claim's capacity")
}

// syncVolume removes a volume of ours whose claim has gone.
func (v *volumes) syncVolume(ctx context.Context, name string) error {
	volume, err := v.volumes.Get(name)
	if err != nil {
		return ignoreNotFound(err)
	}
	if volume.Annotations[annotationProvisionedBy] != Provisioner || volume.DeletionTimestamp != nil ||
		volume.Status.Phase != corev1.VolumeReleased || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err = v.Client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &volume.UID}})
	if gone(err) {
		return nil
	}
	return errors.Annotate(err, "removing the volume")
}
