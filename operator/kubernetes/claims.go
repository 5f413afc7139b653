package kubernetes

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/juju/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/facade"
)

// checkStorage refuses somebody else's claim, which the set's controller would take
// for its own, and a class that is not there before anything waits for it. Where
// the right to look for the class is missing, the pod's status will tell.
func (m *Manager) checkStorage(ctx context.Context, s *seen, storage *facade.CharmStorage) error {
	if s.claim == nil && (s.set == nil || templateOf(s.set) == nil) {
		obj, err := m.read(ctx, s.names, claims, s.claimName())
		switch {
		case err == nil: // the informer is behind
			s.claim = obj.(*corev1.PersistentVolumeClaim)
		case !errors.Is(err, errStale):
			return err
		}
	}
	class := storage.Attributes[attributeClass]
	if class == "" || s.claim != nil {
		return nil
	}
	_, err := m.client.StorageV1().StorageClasses().Get(ctx, class, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errors.NotFoundf("storage class %q of the charm storage %q", class, storage.StorageName)
	}
	if err != nil && !denied(err) {
		return errors.Annotatef(apiError(ctx, err), "reading storage class %q", class)
	}
	return nil
}

// ensureClaims makes the claim fit what is wanted, as far as claims can be changed,
// and says whether the set has to be made anew: a set's claim template cannot be
// changed. What would lose data is refused. Otherwise the set keeps the template that
// it has, whose labels and tags are those of its first day.
func (m *Manager) ensureClaims(ctx context.Context, s *seen, w wanted, set *appsv1.StatefulSet) (rebuild bool, err error) {
	storage := w.cfg.CharmStorage
	if storage != nil && s.claim != nil {
		if err := m.fitClaim(ctx, s, s.claim, storage); err != nil {
			return false, err
		}
	}
	if s.set == nil {
		return false, nil
	}
	have := templateOf(s.set)
	switch {
	case storage == nil && have == nil:
		return false, nil
	case storage == nil:
		m.log(ctx, slog.LevelWarn, "charm storage is not used any more, and kept until the operator is deleted", s.app,
			"claim", s.claimName())
		return true, nil
	case have == nil:
		return true, nil
	case fits(have.Spec, storage) && sizeIn(have.Spec) == int64(storage.Size)<<20:
		set.Spec.VolumeClaimTemplates = slices.Clone(s.set.Spec.VolumeClaimTemplates)
		return false, nil
	}
	return true, nil
}

// fitClaim grows the claim if need be. It returns errors.NotSupported for what
// cannot be done to a claim that is there.
func (m *Manager) fitClaim(ctx context.Context, s *seen, claim *corev1.PersistentVolumeClaim, storage *facade.CharmStorage) error {
	if !fits(claim.Spec, storage) {
		return errors.NotSupportedf(
			"change of the charm storage from class %q, mode %s to class %q, mode %s (save the data, remove the application or the claim %q, and deploy it again)",
			classIn(claim.Spec), modesIn(claim.Spec), storage.Attributes[attributeClass], modeOf(storage), claim.Name)
	}
	have, want := sizeIn(claim.Spec), sizeOf(storage)
	if have == want.Value() {
		return nil
	}
	if template := m.templateSize(s); have > want.Value() {
		if template <= want.Value() {
			return nil // somebody has grown it by hand
		}
		return errors.NotSupportedf("charm storage that shrinks from %d to %d MiB (claim %q holds data)", have>>20, storage.Size, claim.Name)
	}
	if claim.Status.Phase != corev1.ClaimBound {
		// The server lets nobody change it before.
		return errors.NotYetAvailablef("claim %q, which has to grow and is not bound yet,", claim.Name)
	}
	m.log(ctx, slog.LevelInfo, "growing charm storage", s.app, "claim", claim.Name, "from", have, "to", want.Value())
	err := m.patchClaim(ctx, claim, map[string]any{
		"metadata": map[string]any{"uid": string(claim.UID)},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": want.String()}}},
	})
	if errors.Is(err, errors.Forbidden) || errors.Is(err, errors.NotValid) {
		// The server's answer for a class that does not allow it.
		return errors.NewNotSupported(err, "charm storage that grows from this size: grow or replace it by hand")
	}
	return err
}

// templateSize is what the set that is there asks for.
func (m *Manager) templateSize(s *seen) int64 {
	if s.set == nil {
		return 0
	}
	if t := templateOf(s.set); t != nil {
		return sizeIn(t.Spec)
	}
	return 0
}

func templateOf(set *appsv1.StatefulSet) *corev1.PersistentVolumeClaim {
	for i := range set.Spec.VolumeClaimTemplates {
		if t := &set.Spec.VolumeClaimTemplates[i]; t.Name == claimTemplate {
			return t
		}
	}
	return nil
}

// fits reports whether class and mode are those wanted. Where none is named, the
// cluster's choice is right.
func fits(spec corev1.PersistentVolumeClaimSpec, storage *facade.CharmStorage) bool {
	class := storage.Attributes[attributeClass]
	return (class == "" || class == classIn(spec)) && slices.Contains(spec.AccessModes, modeOf(storage))
}

func classIn(spec corev1.PersistentVolumeClaimSpec) string {
	if spec.StorageClassName == nil {
		return ""
	}
	return *spec.StorageClassName
}

func modesIn(spec corev1.PersistentVolumeClaimSpec) corev1.PersistentVolumeAccessMode {
	if len(spec.AccessModes) == 0 {
		return ""
	}
	return spec.AccessModes[0]
}

func sizeIn(spec corev1.PersistentVolumeClaimSpec) int64 {
	size, ok := spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return 0
	}
	return size.Value()
}

// unfit reports whether the pod does not mount the claim although it should. The
// set's controller can neither change such a pod nor does it replace it.
func (s *seen) unfit(storage *facade.CharmStorage) bool {
	if storage == nil || s.pod == nil || s.pod.DeletionTimestamp != nil {
		return false
	}
	return !slices.ContainsFunc(s.pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == s.claimName()
	})
}

// goneEvery is how often a set is looked for that is to go and leave its pod.
const goneEvery = 50 * time.Millisecond

// takeSetApart deletes the set and leaves its pod, which the next one of that name
// adopts. It waits: nothing else can be done meanwhile, and it is soon done.
func (m *Manager) takeSetApart(ctx context.Context, s *seen) error {
	m.log(ctx, slog.LevelInfo, "making the operator's set anew around its pod", s.app, "name", s.set.Name)
	if err := m.deleteObject(ctx, s.names, statefulSets, s.set, metav1.DeletePropagationOrphan); err != nil {
		return err
	}
	for {
		obj, err := m.endpoints[statefulSets].get(ctx, s.set.Name)
		if apierrors.IsNotFound(err) || err == nil && obj.GetUID() != s.set.UID {
			break
		}
		if err != nil {
			return errors.Annotatef(apiError(ctx, err), "waiting for StatefulSet %q to go", s.set.Name)
		}
		select {
		case <-m.config.Clock.After(goneEvery):
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "waiting for StatefulSet %q to go", s.set.Name)
		}
	}
	m.caches[statefulSets].forget(s.set.Name)
	s.set = nil
	return nil
}
