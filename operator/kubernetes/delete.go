package kubernetes

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// DeleteOperator is part of operator.Manager. One call takes away what can go now:
// first the set, with its pod; when both have gone, the claims and all that the
// operator needed while it ran, the configuration last, by which a deletion that
// was broken off is found.
func (m *Manager) DeleteOperator(ctx context.Context, app string) error {
	if err := validName(app); err != nil {
		return err
	}
	if err := m.ready(ctx); err != nil {
		return errors.Annotatef(err, "operator of %q", app)
	}
	unlock, err := m.locks.lock(ctx, app)
	if err != nil {
		return err
	}
	defer unlock()
	m.forgetVerified(app)
	s := m.see(app)
	if !m.anything(s) {
		return nil
	}
	err = m.deleteOnce(ctx, s)
	if errors.Is(err, errStale) {
		return nil // the next call sees what there is
	}
	return errors.Annotatef(err, "operator of %q", app)
}

// deleteOnce goes as far as it gets without waiting.
func (m *Manager) deleteOnce(ctx context.Context, s *seen) error {
	if s.set != nil || s.pod != nil {
		if err := m.markClaim(ctx, s.claim); err != nil {
			return err
		}
	}
	if s.set != nil {
		return m.deleteSet(ctx, s)
	}
	if s.pod != nil {
		// Of a set that is gone: nobody else takes it away.
		return m.deleteObject(ctx, s.names, pods, s.pod, metav1.DeletePropagationBackground)
	}
	// The informer may not know yet of a set that another agent has just made.
	switch _, err := m.read(ctx, s.names, statefulSets, s.operator()); {
	case err == nil:
		return errors.Annotatef(errStale, "StatefulSet %q is there", s.operator())
	case errors.Is(err, errStale): // gone
	case errors.Is(err, errors.AlreadyExists): // somebody else's
	default:
		return err
	}
	if err := m.deleteRevisions(ctx, s.names); err != nil {
		return err
	}
	if s.claim != nil && (!m.config.KeepClaims || s.claim.Annotations[annotationRemoving] != "") {
		if err := m.deleteObject(ctx, s.names, claims, s.claim, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	for _, p := range slices.Backward(s.parts()) {
		if p.kind == secrets && p.obj.GetName() == s.names.config() {
			continue // the last
		}
		if err := m.deleteObject(ctx, s.names, p.kind, p.obj, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	if s.config != nil {
		return m.deleteObject(ctx, s.names, secrets, s.config, metav1.DeletePropagationBackground)
	}
	return nil
}

// deleteRevisions deletes what is left of a set that went and left its pod: its
// controller's notes go with it otherwise.
func (m *Manager) deleteRevisions(ctx context.Context, n names) error {
	revisions := m.client.AppsV1().ControllerRevisions(m.config.Namespace)
	list, err := revisions.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(n.selector()).String()})
	if err != nil {
		return errors.Annotate(apiError(ctx, err), "listing ControllerRevisions")
	}
	for _, revision := range list.Items {
		if len(revision.OwnerReferences) > 0 || !strings.HasPrefix(revision.Name, n.operator()+"-") {
			continue
		}
		err := revisions.Delete(ctx, revision.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &revision.UID}})
		switch {
		case err == nil:
			m.written.deleted.Add(1)
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return errors.Annotatef(apiError(ctx, err), "deleting ControllerRevision %q", revision.Name)
		}
	}
	return nil
}

// deleteSet has the set go when its pod has gone.
func (m *Manager) deleteSet(ctx context.Context, s *seen) error {
	if s.set.DeletionTimestamp != nil {
		return nil
	}
	m.log(ctx, slog.LevelInfo, "deleting the operator's set", s.app, "name", s.set.Name)
	return m.deleteObject(ctx, s.names, statefulSets, s.set, metav1.DeletePropagationForeground)
}

// markClaim notes on the claim, before anything goes, that its operator is being
// deleted. A crash before it
// is gone would else leave its data to the next operator of that name.
func (m *Manager) markClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if m.config.KeepClaims || claim == nil || claim.Annotations[annotationRemoving] != "" || claim.DeletionTimestamp != nil {
		return nil
	}
	return m.patchClaim(ctx, claim, map[string]any{"metadata": map[string]any{
		"uid":         string(claim.UID),
		"annotations": map[string]any{annotationRemoving: "true"},
	}})
}

// patchClaim changes that much about a claim.
func (m *Manager) patchClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, change map[string]any) error {
	data, err := json.Marshal(change)
	if err != nil {
		return errors.Trace(err)
	}
	changed, err := m.endpoints[claims].patch(ctx, claim.Name, types.MergePatchType, data, metav1.PatchOptions{
		FieldManager: m.config.FieldManager,
	})
	switch {
	case err == nil:
		m.written.changed.Add(1)
		m.took(claims, changed)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return errors.Annotatef(errStale, "PersistentVolumeClaim %q was changed", claim.Name)
	}
	return errors.Annotatef(apiError(ctx, err), "changing PersistentVolumeClaim %q", claim.Name)
}
