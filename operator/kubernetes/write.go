package kubernetes

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/juju/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ensureObject makes an object be there and say what wanted does. live is what is
// known of it, or nil. exact has the write refused, with a conflict, when live is
// not the object's last version. It returns the object as it is afterwards.
func (m *Manager) ensureObject(ctx context.Context, n names, k kind, live, wanted object, exact bool) (object, error) {
	stamp, err := stamp(wanted)
	if err != nil {
		return nil, err
	}
	if live == nil {
		made, err := m.create(ctx, n, k, wanted)
		if !errors.Is(err, errors.AlreadyExists) || exact {
			return made, err
		}
		// Not known to the informer, but of ours all the same?
		if live, err = m.read(ctx, n, k, wanted.GetName()); err != nil {
			return nil, err
		}
	}
	if live.GetDeletionTimestamp() != nil {
		return nil, errors.NotYetAvailablef("%s %q, which is being deleted,", k.singular(), live.GetName())
	}
	at, err := m.differs(live, wanted, stamp)
	if err != nil || at == "" {
		return live, err
	}
	m.log(ctx, slog.LevelDebug, "changing", n.app, "kind", k.singular(), "name", live.GetName(), "field", at)
	return m.apply(ctx, n, k, live, wanted, exact)
}

// stamp puts the digest of what is wanted on it. A Secret's contents are left out:
// the annotation is for everybody to read. So are claim templates, which cannot be
// changed, and which the API server has filled in where they are taken from the set.
func stamp(wanted object) (string, error) {
	delete(wanted.GetAnnotations(), annotationApplied) // of an attempt before
	content, err := contentOf(wanted)
	if err != nil {
		return "", err
	}
	delete(content, "data")
	if spec, ok := content["spec"].(map[string]any); ok {
		delete(spec, "volumeClaimTemplates")
	}
	stamp, err := digestOf(content)
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = make(map[string]string, 1)
	}
	annotations[annotationApplied] = stamp
	wanted.SetAnnotations(annotations)
	return stamp, err
}

// differs returns where live, which is trimmed, does not say what is wanted, or
// may say something that the manager wrote and does not want any more; "" when it is
// right.
func (m *Manager) differs(live, wanted object, stamp string) (string, error) {
	trimmed := m.trim(copyOf(wanted))
	have, err := contentOf(live)
	if err != nil {
		return "", err
	}
	want, err := contentOf(trimmed)
	if err != nil {
		return "", err
	}
	delete(want, "apiVersion") // what comes from an informer has no type
	delete(want, "kind")
	if at := difference(have, want); at != "" {
		return at, nil
	}
	if live.GetAnnotations()[annotationApplied] != stamp {
		return "metadata.annotations." + annotationApplied, nil
	}
	return "", nil
}

// create makes an object that must not be there: else errors.AlreadyExists.
func (m *Manager) create(ctx context.Context, n names, k kind, wanted object) (object, error) {
	made, err := m.endpoints[k].create(ctx, copyOf(wanted), metav1.CreateOptions{FieldManager: m.config.FieldManager})
	if err != nil {
		return nil, errors.Annotatef(apiError(ctx, err), "creating %s %q", k.singular(), wanted.GetName())
	}
	m.written.created.Add(1)
	m.log(ctx, slog.LevelDebug, "created", n.app, "kind", k.singular(), "name", wanted.GetName())
	return m.took(k, made), nil
}

// took takes note of what a write returned.
func (m *Manager) took(k kind, obj object) object {
	m.caches[k].wrote(m.trim(obj))
	return obj
}

// errStale is the kind of error of a write that was worked out from an object of
// yesterday. Look again, and work it out again.
const errStale = errors.ConstError("object is out of date")

// read asks the API server for an object that is there, as far as is known, and
// must be this operator's. It returns errStale when it is not there after all.
func (m *Manager) read(ctx context.Context, n names, k kind, name string) (object, error) {
	obj, err := m.endpoints[k].get(ctx, name)
	if apierrors.IsNotFound(err) {
		m.caches[k].forget(name)
		return nil, errors.Annotatef(errStale, "%s %q has just been deleted", k.singular(), name)
	}
	if err != nil {
		return nil, errors.Annotatef(apiError(ctx, err), "reading %s %q", k.singular(), name)
	}
	if err := m.belongs(n, k.singular(), obj); err != nil {
		return nil, err
	}
	return m.took(k, obj), nil
}

// apply changes an object that is there to what is wanted, and leaves to others
// what is theirs.
func (m *Manager) apply(ctx context.Context, n names, k kind, live, wanted object, exact bool) (object, error) {
	if live.GetAnnotations()[annotationUpdated] != "" || isOlder(live) {
		taken, err := m.takeOver(ctx, n, k, live, exact, makersOf)
		if err != nil {
			return nil, err
		}
		live = taken
	}
	changed, err := m.patchTo(ctx, k, live, wanted, exact)
	if apierrors.IsInvalid(err) {
		// What is others' may not go together with what is the manager's, as
		// two ports of one name do not. Then it makes way.
		taken, failed := m.takeOver(ctx, n, k, live, exact, updatersOf)
		switch {
		case failed != nil:
			return nil, failed
		case taken != live:
			m.log(ctx, slog.LevelWarn, "what others have written makes way", n.app, "kind", k.singular(), "name", live.GetName())
			changed, err = m.patchTo(ctx, k, taken, wanted, exact)
		}
	}
	if err != nil {
		return nil, m.refused(ctx, n, k, live.GetName(), err)
	}
	m.written.changed.Add(1)
	m.log(ctx, slog.LevelDebug, "changed", n.app, "kind", k.singular(), "name", live.GetName())
	return m.took(k, changed), nil
}

// patchTo is the server-side apply of what is wanted to live, and to no other object
// that took the name meanwhile.
func (m *Manager) patchTo(ctx context.Context, k kind, live, wanted object, exact bool) (object, error) {
	content, err := contentOf(wanted)
	if err != nil {
		return nil, err
	}
	meta := content["metadata"].(map[string]any)
	meta["uid"] = string(live.GetUID())
	if exact {
		meta["resourceVersion"] = live.GetResourceVersion()
	}
	data, err := json.Marshal(content)
	if err != nil {
		return nil, errors.Trace(err)
	}
	force := true
	return m.endpoints[k].patch(ctx, live.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: m.config.FieldManager, Force: &force,
	})
}

// takeOver turns what some own of an object since they created or updated it into
// what this manager has applied. Without it, nothing of that could be taken away by
// leaving it out. It returns live itself when there is nothing to take over.
func (m *Manager) takeOver(
	ctx context.Context, n names, k kind, live object, exact bool, owners func(object) sets.Set[string],
) (object, error) {
	full, err := m.endpoints[k].get(ctx, live.GetName())
	if err != nil {
		return nil, m.refused(ctx, n, k, live.GetName(), err)
	}
	if full.GetUID() != live.GetUID() || exact && full.GetResourceVersion() != live.GetResourceVersion() {
		m.took(k, full)
		return nil, errors.Annotatef(errStale, "%s %q was changed", k.singular(), live.GetName())
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(full, owners(full).Insert(m.config.FieldManager), m.config.FieldManager)
	if err != nil {
		return nil, errors.Annotatef(err, "taking over the fields of %s %q", k.singular(), live.GetName())
	}
	if patch == nil {
		return live, nil
	}
	taken, err := m.endpoints[k].patch(ctx, live.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{
		FieldManager: m.config.FieldManager,
	})
	if err != nil {
		return nil, m.refused(ctx, n, k, live.GetName(), err)
	}
	m.written.changed.Add(1)
	return m.took(k, taken), nil
}

// isOlder reports whether the object was made by the older tool, and not touched
// since.
func isOlder(obj object) bool {
	_, labelled := obj.GetLabels()[modelID]
	_, stamped := obj.GetAnnotations()[annotationApplied]
	return !labelled && !stamped
}

// makersOf returns who wrote the label by which the object is an operator's: this
// manager or the older tool, under whatever name.
func makersOf(obj object) sets.Set[string] {
	mark := fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "labels", labelTarget))
	out := sets.New[string]()
	for _, e := range csaupgrade.FindFieldsOwners(obj.GetManagedFields(), metav1.ManagedFieldsOperationUpdate, mark) {
		out.Insert(e.Manager)
	}
	return out
}

// updatersOf returns everybody who created or updated the object.
func updatersOf(obj object) sets.Set[string] {
	out := sets.New[string]()
	for _, e := range obj.GetManagedFields() {
		if e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" {
			out.Insert(e.Manager)
		}
	}
	return out
}

// refused returns what a refused change means: errStale when the object is another
// one by now, or gone.
func (m *Manager) refused(ctx context.Context, n names, k kind, name string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		if _, err := m.read(ctx, n, k, name); err != nil {
			return err
		}
		return errors.Annotatef(errStale, "%s %q was changed", k.singular(), name)
	}
	return errors.Annotatef(apiError(ctx, err), "changing %s %q", k.singular(), name)
}

// deleteObject deletes what live is, and nothing that took its name meanwhile.
func (m *Manager) deleteObject(ctx context.Context, n names, k kind, live object, how metav1.DeletionPropagation) error {
	if live.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := live.GetUID()
	err := m.endpoints[k].delete(ctx, live.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &how,
	})
	switch {
	case err == nil:
		m.written.deleted.Add(1)
		m.log(ctx, slog.LevelDebug, "deleted", n.app, "kind", k.singular(), "name", live.GetName())
	case apierrors.IsNotFound(err):
	case apierrors.IsConflict(err):
		// Another one has the name now. Its time comes when it is seen.
		m.caches[k].forget(live.GetName())
		return nil
	default:
		return errors.Annotatef(apiError(ctx, err), "deleting %s %q", k.singular(), live.GetName())
	}
	takesTime := err == nil && (how != metav1.DeletePropagationBackground || k == pods || k == claims || len(live.GetFinalizers()) > 0)
	m.caches[k].removed(live, takesTime)
	return nil
}
