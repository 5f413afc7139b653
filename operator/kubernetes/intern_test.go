package kubernetes

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func TestInternedObjectsSayTheSameAndShareIt(t *testing.T) {
	t.Parallel()
	m := &Manager{config: Config{Namespace: "model", ModelUUID: testModel, ModelName: "default"}.withDefaults()}
	of := func(app string) []object {
		cfg := stored(operatorConfig(t, app, 1), 64, "fast")
		w := wanted{names: namesOf(app), agentPath: testAgentPath, cfg: cfg, effective: effective(cfg), serviceIP: "10.0.0.1"}
		return []object{m.serviceAccount(w), m.role(w), m.roleBinding(w), m.configSecret(w), m.service(w), m.statefulSet(w)}
	}
	first, second := of("db"), of("web")
	for i, obj := range first {
		// Texts of their own, as they come from the wire.
		for _, o := range []object{obj, second[i]} {
			labels := make(map[string]string)
			for key, value := range o.GetLabels() {
				labels[key] = strings.Clone(value)
			}
			o.SetLabels(labels)
		}
		before := copyOf(obj)
		intern(obj)
		intern(second[i])
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("%T says something else: %s", obj, diff)
		}
		for _, key := range []string{modelID, labelTarget} {
			if unsafe.StringData(obj.GetLabels()[key]) != unsafe.StringData(second[i].GetLabels()[key]) {
				t.Errorf("%T has a %s of its own", obj, key)
			}
		}
	}
}
