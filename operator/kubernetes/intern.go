package kubernetes

import (
	"reflect"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// What the objects of a thousand operators say is the same but for a few names, and
// each comes with its own copy of it from the wire. Interned, a text is in memory
// once, for as long as somebody has it.

// intern has the object, which is the caller's, share the texts of its labels,
// annotations and specification.
func intern(obj object) {
	obj.SetNamespace(one(obj.GetNamespace()))
	obj.SetLabels(internMap(obj.GetLabels()))
	obj.SetAnnotations(internMap(obj.GetAnnotations()))
	switch obj := obj.(type) {
	case *appsv1.StatefulSet:
		internIn(reflect.ValueOf(&obj.Spec))
	case *corev1.Service:
		internIn(reflect.ValueOf(&obj.Spec))
	case *rbacv1.Role:
		internIn(reflect.ValueOf(&obj.Rules))
	case *rbacv1.RoleBinding:
		internIn(reflect.ValueOf(&obj.RoleRef))
		internIn(reflect.ValueOf(&obj.Subjects))
	case *corev1.Pod:
		internIn(reflect.ValueOf(&obj.Status))
	}
}

func one(s string) string { return unique.Make(s).Value() }

func internMap(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for key, value := range in {
		out[one(key)] = one(value)
	}
	return out
}

// internIn interns every text that can be reached from v, which is a pointer, and
// set: what is inside a time or a quantity cannot.
func internIn(v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if !v.IsNil() {
			internIn(v.Elem())
		}
		return
	}
	if !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(one(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			internIn(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			internIn(v.Index(i))
		}
	case reflect.Map:
		if texts, ok := reflect.TypeAssert[map[string]string](v); ok {
			v.Set(reflect.ValueOf(internMap(texts)))
		}
	}
}
