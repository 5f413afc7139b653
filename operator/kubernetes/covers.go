package kubernetes

import (
	"encoding/json"
	"reflect"

	"github.com/juju/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// contentOf returns what the object says, as maps and lists: without its status and
// without what says nothing.
func contentOf(obj runtime.Object) (map[string]any, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, errors.Trace(err)
	}
	delete(out, "status")
	return prune(out).(map[string]any), nil
}

// prune takes out nil values, which the API server would read as removals.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
				continue
			}
			v[key] = prune(value)
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}

// keyed reports whether the API server merges the elements of the lists of that name
// by a key: another owner may add some, and order says nothing. All other lists are
// their owner's as a whole.
func keyed(name string) bool {
	switch name {
	case "containers", "initContainers", "volumes", "env", "volumeMounts", "ports", "imagePullSecrets":
		return true
	}
	return false
}

// whole reports whether maps of that name are their owner's as a whole.
func whole(name string) bool {
	switch name {
	case "selector", "matchLabels", "nodeSelector", "roleRef":
		return true
	}
	return false
}

// difference returns where live does not have what wanted says, as in
// "spec.template.spec.containers", or "" when it has it all, in the same places. What
// the API server fills in, and what other owners add, is no difference.
func difference(live, wanted any) string { return differsAt("", "", live, wanted) }

func differsAt(place, name string, live, wanted any) string {
	switch wanted := wanted.(type) {
	case map[string]any:
		return differsInMap(place, name, live, wanted)
	case []any:
		return differsInList(place, name, live, wanted)
	}
	if reflect.DeepEqual(live, wanted) {
		return ""
	}
	return place
}

func differsInMap(place, name string, live any, wanted map[string]any) string {
	have, ok := live.(map[string]any)
	switch {
	case !ok && (len(wanted) > 0 || live != nil):
		return place
	case whole(name) && len(have) != len(wanted):
		return place
	}
	for _, key := range sortedKeys(wanted) {
		if at := differsAt(join(place, key), key, have[key], wanted[key]); at != "" {
			return at
		}
	}
	return ""
}

func differsInList(place, name string, live any, wanted []any) string {
	have, ok := live.([]any)
	switch {
	case !ok && (len(wanted) > 0 || live != nil):
		return place
	case keyed(name):
		return differsInKeyed(place, have, wanted)
	case len(have) != len(wanted):
		return place
	}
	for i := range wanted {
		if at := differsAt(place, "", have[i], wanted[i]); at != "" {
			return at
		}
	}
	return ""
}

// differsInKeyed looks for each wanted element anywhere in live. There is no need to
// know the key: no two elements agree in all that one of them says.
func differsInKeyed(place string, live, wanted []any) string {
	for _, element := range wanted {
		found := false
		for i := 0; i < len(live) && !found; i++ {
			found = differsAt("-", "", live[i], element) == ""
		}
		if !found {
			return place
		}
	}
	return ""
}

func join(place, key string) string {
	if place == "" {
		return key
	}
	return place + "." + key
}

// digestOf is a digest of an object as it is written. Map keys are in order in
// JSON, so equal objects have equal digests.
func digestOf(content map[string]any) (string, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return "", errors.Trace(err)
	}
	return digest(string(data)), nil
}
