package kubernetes

import (
	"strings"

	"github.com/juju/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Labels and annotations. Those of juju.is are known to agents and tools in the
// field.
const (
	labelName      = "operator.juju.is/name"
	labelTarget    = "operator.juju.is/target"
	labelManagedBy = "app.kubernetes.io/managed-by"
	modelID        = "model.juju.is/id" // label and annotation
	modelName      = "model.juju.is/name"
	controllerID   = "controller.juju.is/id"

	annotationVersion = "juju.is/version"

	// annotationApplication is the application's name where it is too long
	// for a label.
	annotationApplication = "sutler.dev/application"
	// annotationApplied is a digest of what was last written of an object.
	// What is missing in the object although it is the same was taken away by
	// somebody else; what is there although it is another one may be ours
	// from before.
	annotationApplied = "sutler.dev/applied"
	// annotationEffective, on the Secret and on the pod template, is a digest
	// of what a running operator would have to read again.
	annotationEffective = "sutler.dev/effective"
	// annotationRemoving is on claims whose operator is being deleted: an
	// operator of the same name must not find their data.
	annotationRemoving = "sutler.dev/removing"

	target = "application"
)

// Keys of resource tags that are written as other annotations.
const (
	tagController = "juju-controller-uuid"
	tagModel      = "juju-model-uuid"
)

// watched selects what the informers are told of: the older tool's objects, which
// lack the label of the model, among them.
const watched = labelTarget + "=" + target

// selector are the labels by which the set, its claims and the Service find what
// belongs to the application.
func (n names) selector() map[string]string {
	return map[string]string{labelName: n.short, labelTarget: target}
}

// labels are those of every object.
func (m *Manager) labels(n names) map[string]string {
	out := n.selector()
	out[labelManagedBy] = m.config.ManagedBy
	out[modelID] = m.config.ModelUUID
	if m.config.ModelName != "" {
		out[modelName] = m.config.ModelName
	}
	return out
}

// annotations are those of every object.
func (m *Manager) annotations(n names, tags map[string]string, version string) map[string]string {
	out := make(map[string]string, len(tags)+4)
	for key, value := range tags {
		out[annotationOfTag(key)] = value
	}
	out[modelID] = m.config.ModelUUID
	if m.config.ControllerUUID != "" {
		out[controllerID] = m.config.ControllerUUID
	}
	if version != "" {
		out[annotationVersion] = version
	}
	if n.hashed() {
		out[annotationApplication] = n.app
	}
	return out
}

func annotationOfTag(key string) string {
	switch key {
	case tagController:
		return controllerID
	case tagModel:
		return modelID
	}
	return key
}

// validateTags names the first resource tag that cannot be an annotation.
func validateTags(tags map[string]string) error {
	size := 0
	for key, value := range tags {
		size += len(key) + len(value)
		if bad := validation.IsQualifiedName(strings.ToLower(key)); len(bad) > 0 {
			return errors.NotValidf("ResourceTags: key %q (%s)", cut(key), bad[0])
		}
		if strings.HasPrefix(key, "sutler.dev/") {
			return errors.NotValidf("ResourceTags: key %q, which is the manager's,", cut(key))
		}
	}
	if size > 128<<10 {
		return errors.NotValidf("ResourceTags of more than 128 KiB")
	}
	return nil
}

// cut shortens what is quoted in an error.
func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// ours reports whether the object is of this manager's model. The older tool says
// so with an annotation, or not at all: then managed-by has to be right.
func (m *Manager) ours(obj metav1.Object) bool {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	if labels[labelTarget] != target || labels[labelName] == "" {
		return false
	}
	if id, ok := labels[modelID]; ok {
		return id == m.config.ModelUUID
	}
	if id, ok := annotations[modelID]; ok {
		return id == m.config.ModelUUID
	}
	// Made by controllers for us, such as pods of an older set and claims.
	by, ok := labels[labelManagedBy]
	return !ok || by == m.config.ManagedBy
}

// application returns the name of the application that an object of ours is for,
// or "" when its labels fit none.
func application(obj metav1.Object) string {
	app := obj.GetAnnotations()[annotationApplication]
	if app == "" {
		app = obj.GetLabels()[labelName]
	}
	if validName(app) != nil || namesOf(app).short != obj.GetLabels()[labelName] {
		return ""
	}
	return app
}

// belongs returns errors.AlreadyExists when the object, which has a name that the
// application's operator needs, is somebody else's.
func (m *Manager) belongs(n names, what string, obj metav1.Object) error {
	if m.ours(obj) && application(obj) == n.app {
		return nil
	}
	// Somebody took the labels away, which nobody else's object has a reason
	// to have lost.
	notes := obj.GetAnnotations()
	if obj.GetLabels()[labelName] == "" && notes[annotationApplied] != "" && notes[modelID] == m.config.ModelUUID {
		return nil
	}
	return errors.AlreadyExistsf("%s %q, not of this model's operator of %q (rename or remove it),",
		what, obj.GetName(), n.app)
}
