package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// What others do to an operator's objects.

// hand is an edit by hand of one object.
type hand struct {
	name   string
	kind   kind
	nameOf func(names) string
	edit   func(object)
	// collides says that what is written back does not go together with what the
	// edit has left, so that this has to be taken over first.
	collides bool
}

// colliding marks those of the edits.
func colliding(edits []hand) []hand {
	for i := range edits {
		edits[i].collides = true
	}
	return edits
}

// by returns edits of the objects of one kind, which have the operator's name.
func by[O object](k kind, edits map[string]func(O)) []hand {
	return byNamed(k, names.operator, edits)
}

func byNamed[O object](k kind, nameOf func(names) string, edits map[string]func(O)) []hand {
	var out []hand
	for _, name := range sortedKeys(edits) {
		out = append(out, hand{
			name: strings.ToLower(k.singular()) + " " + name, kind: k, nameOf: nameOf,
			edit: func(obj object) { edits[name](obj.(O)) },
		})
	}
	return out
}

// allKinds are where each of an operator's own objects is.
func allKinds() []hand {
	return []hand{
		{name: "service account", kind: serviceAccounts, nameOf: names.operator},
		{name: "role", kind: roles, nameOf: names.operator},
		{name: "role binding", kind: roleBindings, nameOf: names.operator},
		{name: "pull secret", kind: secrets, nameOf: names.pull},
		{name: "secret", kind: secrets, nameOf: names.config},
		{name: "service", kind: services, nameOf: names.operator},
		{name: "set", kind: statefulSets, nameOf: names.operator},
	}
}

// toEach makes edits of metadata of each object, an edit a group.
func toEach(edits map[string]func(object)) [][]hand {
	var out [][]hand
	for _, name := range sortedKeys(edits) {
		var group []hand
		for _, what := range allKinds() {
			group = append(group, hand{name: what.name + " " + name, kind: what.kind, nameOf: what.nameOf, edit: edits[name]})
		}
		out = append(out, group)
	}
	return out
}

// inGroups has that many edits share an operator, one after the other.
func inGroups(size int, edits []hand) [][]hand { return slices.Collect(slices.Chunk(edits, size)) }

func label(obj metav1.Object, key, value string) { put(obj.GetLabels, obj.SetLabels, key, value) }
func note(obj metav1.Object, key, value string) {
	put(obj.GetAnnotations, obj.SetAnnotations, key, value)
}

func put(get func() map[string]string, set func(map[string]string), key, value string) {
	m := get()
	if m == nil {
		m = make(map[string]string)
	}
	m[key] = value
	set(m)
}

// take removes labels and annotations.
func take(obj metav1.Object, keys ...string) {
	labels, notes := obj.GetLabels(), obj.GetAnnotations()
	for _, key := range keys {
		delete(labels, key)
		delete(notes, key)
	}
	obj.SetLabels(labels)
	obj.SetAnnotations(notes)
}

// operatorIn and installIn are the containers in a set's template.
func operatorIn(s *appsv1.StatefulSet) *corev1.Container { return &s.Spec.Template.Spec.Containers[0] }
func installIn(s *appsv1.StatefulSet) *corev1.Container {
	return &s.Spec.Template.Spec.InitContainers[0]
}

// ownedEdits are edits of fields that are the manager's.
func ownedEdits() [][]hand {
	return slices.Concat(toEach(map[string]func(object){
		"label changed":      func(o object) { label(o, "app.kubernetes.io/managed-by", "Helm") },
		"label taken":        func(o object) { take(o, "model.juju.is/name") },
		"tag changed":        func(o object) { note(o, "purpose", "mischief") },
		"tag taken":          func(o object) { take(o, "purpose") },
		"controller taken":   func(o object) { take(o, "controller.juju.is/id") },
		"version changed":    func(o object) { note(o, "juju.is/version", "1.0") },
		"stamp changed":      func(o object) { note(o, "sutler.dev/applied", "0") },
		"stamp taken":        func(o object) { take(o, "sutler.dev/applied") },
		"annotations taken":  func(o object) { o.SetAnnotations(nil) },
		"model's mark taken": func(o object) { take(o, "model.juju.is/id") },
		"labels taken":       func(o object) { o.SetLabels(nil) },
	}),
		inGroups(4, slices.Concat(by(serviceAccounts, map[string]func(*corev1.ServiceAccount){
			"token wanted":     func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = new(true) },
			"token left open":  func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = nil },
			"token and labels": func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = nil; a.Labels = nil },
		}),
			by(roles, map[string]func(*rbacv1.Role){
				"rule changed": func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"get"} },
				"rule added": func(r *rbacv1.Role) {
					r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
				},
				"rule taken":  func(r *rbacv1.Role) { r.Rules = r.Rules[:1] },
				"rules taken": func(r *rbacv1.Role) { r.Rules = nil },
			}),
			by(roleBindings, map[string]func(*rbacv1.RoleBinding){
				"subject changed": func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "default" },
				"subject added": func(b *rbacv1.RoleBinding) {
					b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "mallory"})
				},
				"subjects taken": func(b *rbacv1.RoleBinding) { b.Subjects = nil },
			}),
			byNamed(secrets, names.config, map[string]func(*corev1.Secret){
				"record changed": func(s *corev1.Secret) { s.Data["sutler.json"] = []byte("{}") },
				"record taken":   func(s *corev1.Secret) { delete(s.Data, "sutler.json") },
				"mark changed":   func(s *corev1.Secret) { note(s, "sutler.dev/effective", "another") },
			}),
			byNamed(secrets, names.pull, map[string]func(*corev1.Secret){
				"credentials changed": func(s *corev1.Secret) { s.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{}}`) },
			}),
			by(services, map[string]func(*corev1.Service){
				"target port changed": func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(80) },
				"port renamed":        func(s *corev1.Service) { s.Spec.Ports[0].Name = "web" },
				"selector changed":    func(s *corev1.Service) { s.Spec.Selector[labelName] = "another" },
				"selector narrowed":   func(s *corev1.Service) { s.Spec.Selector["color"] = "blue" },
				"selector taken":      func(s *corev1.Service) { s.Spec.Selector = nil },
				"type changed":        func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
			}), colliding(by(services, map[string]func(*corev1.Service){
				"port changed":     func(s *corev1.Service) { s.Spec.Ports[0].Port = 80 },
				"protocol changed": func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
			})))),
	)
}

// ownedSetEdits are those of a set. Most have its pod made anew, twice.
func ownedSetEdits() [][]hand {
	return inGroups(4, append(by(statefulSets, map[string]func(*appsv1.StatefulSet){
		"replicas none":            func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(0)) },
		"replicas many":            func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(3)) },
		"update on delete":         func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType },
		"history changed":          func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = new(int32(7)) },
		"claims not kept":          func(s *appsv1.StatefulSet) { s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted = "Delete" },
		"image changed":            func(s *appsv1.StatefulSet) { operatorIn(s).Image = "mallory" },
		"init image changed":       func(s *appsv1.StatefulSet) { installIn(s).Image = "mallory" },
		"command changed":          func(s *appsv1.StatefulSet) { operatorIn(s).Command = []string{"sleep", "1"} },
		"init command lengthened":  func(s *appsv1.StatefulSet) { installIn(s).Command = append(installIn(s).Command, "-v") },
		"env changed":              func(s *appsv1.StatefulSet) { operatorIn(s).Env[0].Value = "another" },
		"env from elsewhere":       func(s *appsv1.StatefulSet) { operatorIn(s).Env[2].ValueFrom.FieldRef.FieldPath = "metadata.name" },
		"env taken":                func(s *appsv1.StatefulSet) { operatorIn(s).Env = operatorIn(s).Env[1:] },
		"all env taken":            func(s *appsv1.StatefulSet) { operatorIn(s).Env = nil },
		"probe changed":            func(s *appsv1.StatefulSet) { operatorIn(s).LivenessProbe.PeriodSeconds = 1 },
		"probe taken":              func(s *appsv1.StatefulSet) { operatorIn(s).StartupProbe = nil },
		"mount taken":              func(s *appsv1.StatefulSet) { operatorIn(s).VolumeMounts = operatorIn(s).VolumeMounts[:2] },
		"mount writable":           func(s *appsv1.StatefulSet) { operatorIn(s).VolumeMounts[2].ReadOnly = false },
		"volume of another secret": func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Volumes[1].Secret.SecretName = "another" },
		"volume's mode changed":    func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Volumes[1].Secret.DefaultMode = new(int32(0o444)) },
		"user changed":             func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext.RunAsUser = new(int64(1000)) },
		"capability dropped": func(s *appsv1.StatefulSet) {
			operatorIn(s).SecurityContext.Capabilities.Drop = []corev1.Capability{"ALL", "NET_RAW"}
		},
		"request changed": func(s *appsv1.StatefulSet) { operatorIn(s).Resources.Requests["cpu"] = resource.MustParse("1") },
		"request taken":   func(s *appsv1.StatefulSet) { operatorIn(s).Resources.Requests = nil },
		"token wanted":    func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.AutomountServiceAccountToken = new(true) },
		"account changed": func(s *appsv1.StatefulSet) {
			s.Spec.Template.Spec.ServiceAccountName, s.Spec.Template.Spec.DeprecatedServiceAccount = "default", "default"
		},
		"pull secret taken":       func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.ImagePullSecrets = nil },
		"template's label taken":  func(s *appsv1.StatefulSet) { take(&s.Spec.Template, "model.juju.is/id") },
		"template's mark changed": func(s *appsv1.StatefulSet) { note(&s.Spec.Template, "sutler.dev/effective", "another") },
		"init container taken":    func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.InitContainers = nil },
	}), colliding(by(statefulSets, map[string]func(*appsv1.StatefulSet){
		"probe of another kind": func(s *appsv1.StatefulSet) {
			operatorIn(s).ReadinessProbe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
		},
		"port changed": func(s *appsv1.StatefulSet) { operatorIn(s).Ports[0].ContainerPort = 80 },
	}))...))
}

// foreignEdits are edits of fields that are nobody's, or somebody else's.
func foreignEdits() [][]hand {
	return slices.Concat(toEach(map[string]func(object){
		"foreign label and annotation": func(o object) {
			label(o, "team", "payments")
			note(o, "example.com/ticket", "4711")
		},
	}),
		inGroups(1, slices.Concat(by(serviceAccounts, map[string]func(*corev1.ServiceAccount){
			"pull secret": func(a *corev1.ServiceAccount) {
				a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "company"}}
			},
		}),
			byNamed(secrets, names.config, map[string]func(*corev1.Secret){
				"key": func(s *corev1.Secret) { s.Data["notes"] = []byte("of an administrator") },
			}),
			by(services, map[string]func(*corev1.Service){
				"external address": func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.7"} },
				"affinity":         func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
				"port": func(s *corev1.Service) {
					s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9090})
				},
			}),
			by(statefulSets, map[string]func(*appsv1.StatefulSet){
				"sidecar": func(s *appsv1.StatefulSet) {
					sidecar := *operatorIn(s).DeepCopy()
					s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{
						Name: "mesh", Image: "mesh", SecurityContext: sidecar.SecurityContext,
					})
				},
				"sidecar in front": func(s *appsv1.StatefulSet) {
					s.Spec.Template.Spec.Containers = append([]corev1.Container{{
						Name: "mesh", Image: "mesh", SecurityContext: operatorIn(s).SecurityContext.DeepCopy(),
					}}, s.Spec.Template.Spec.Containers...)
				},
				"init container": func(s *appsv1.StatefulSet) {
					s.Spec.Template.Spec.InitContainers = append(s.Spec.Template.Spec.InitContainers, corev1.Container{
						Name: "mesh-init", Image: "mesh", SecurityContext: operatorIn(s).SecurityContext.DeepCopy(),
					})
				},
				"environment": func(s *appsv1.StatefulSet) {
					operatorIn(s).Env = append([]corev1.EnvVar{{Name: "HTTP_PROXY", Value: "proxy:3128"}}, operatorIn(s).Env...)
				},
				"volume": func(s *appsv1.StatefulSet) {
					s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, corev1.Volume{
						Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
					})
					operatorIn(s).VolumeMounts = append(operatorIn(s).VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: "/scratch"})
				},
				"toleration": func(s *appsv1.StatefulSet) {
					s.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
				},
				"priority, node and grace": func(s *appsv1.StatefulSet) {
					s.Spec.Template.Spec.PriorityClassName = "system-node-critical"
					s.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
					s.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(5))
				},
				"limit": func(s *appsv1.StatefulSet) {
					operatorIn(s).Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
				},
				"request": func(s *appsv1.StatefulSet) {
					operatorIn(s).Resources.Requests["ephemeral-storage"] = resource.MustParse("1Gi")
				},
				"restarted by kubectl": func(s *appsv1.StatefulSet) {
					note(&s.Spec.Template, "kubectl.kubernetes.io/restartedAt", "2026-11-30T12:00:00Z")
				},
				"partition": func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 3 },
			}))),
	)
}

// drifting is an operator of which an object is edited by hand.
type drifting struct {
	*world
	*managed
	told *watching
	app  string
	cfg  *operator.Config
}

// handled makes the edit and waits until the manager's watcher tells of it.
func (d drifting) handled(t *testing.T, h hand) (before, after object) {
	t.Helper()
	name := h.nameOf(namesOf(d.app))
	d.told.forget(d.app)
	before = d.object(t, h.kind, name)
	after = edit(t, d.world, h.kind, name, h.edit)
	d.told.wait(t, d.app)
	kubetest.Eventually(t, "the manager knowing of the edit", func() error {
		known := d.caches[h.kind].get(name)
		if after.GetLabels()[labelTarget] == "" && known == nil {
			return nil // that is how it looks
		}
		if known == nil || older(known.GetResourceVersion(), after.GetResourceVersion()) {
			return fmt.Errorf("it knows %v", known)
		}
		return nil
	})
	return before, after
}

// ensured ensures the operator, and returns what was written for it, but for what
// was refused: the manager may have been overtaken by a controller.
func (d drifting) ensured(t *testing.T) []request {
	t.Helper()
	before := len(d.wire.Requests())
	d.ensure(t, d.app, d.cfg)
	return slices.DeleteFunc(d.wire.Requests()[before:], func(q request) bool { return !q.Write() || q.Code >= 300 || !about(q, d.app) })
}

// same returns a difference of what two versions of an object say.
func same(t *testing.T, a, b object) string {
	t.Helper()
	contents := make([]map[string]any, 2)
	for i, obj := range []object{a, b} {
		obj = copyOf(obj)
		obj.SetManagedFields(nil)
		obj.SetResourceVersion("")
		obj.SetGeneration(0)
		var err error
		if contents[i], err = contentOf(obj); err != nil {
			t.Fatal(err)
		}
	}
	return cmp.Diff(contents[0], contents[1])
}

// drift runs do for each edit, with an operator for each group, all in one namespace.
func drift(t *testing.T, groups [][]hand, do func(*testing.T, drifting, hand)) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	told := m.watch(t)
	for i, group := range groups {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := drifting{world: w, managed: m, told: told, app: fmt.Sprintf("web-x%d", i)}
			d.cfg = private(operatorConfig(t, d.app, 1), "s3cret")
			d.ensure(t, d.app, d.cfg)
			for _, h := range group {
				if !t.Run(h.name, func(t *testing.T) { do(t, d, h) }) {
					return // the next would find the mess
				}
			}
		})
	}
}

// putBack wants the edit told, and undone by the next Ensure, by one write to that
// object. There is another one the first time, which makes what the manager owns by
// having created it what it has applied.
func putBack(t *testing.T, d drifting, h hand) {
	times := 2
	if h.kind == statefulSets {
		times = 1 // each has the pod made anew, twice
	}
	for range times {
		before, after := d.handled(t, h)
		want := []string{"apply"}
		if created(after) {
			want = slices.Insert(want, 0, "patch")
		}
		if h.collides {
			want = slices.Insert(want, 0, "patch")
		}
		var have []string
		for _, q := range d.ensured(t) {
			verb, _, _ := strings.Cut(q.String(), " ")
			if have = append(have, verb); q.Resource != h.kind.resource() || q.Name != before.GetName() {
				t.Errorf("there is a write to another object: %s", q)
			}
		}
		wantEqual(t, "writes", have, want)
		if diff := same(t, before, d.object(t, h.kind, before.GetName())); diff != "" {
			t.Errorf("the object is not what it was (-was +is):\n%s", diff)
		}
		if more := d.ensured(t); len(more) > 0 {
			t.Errorf("a second Ensure writes %v", more)
		}
	}
}

// created reports whether the manager owns fields by having created them.
func created(obj object) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == DefaultFieldManager && e.Operation == metav1.ManagedFieldsOperationUpdate
	})
}

func TestOwnedFieldsArePutBack(t *testing.T)         { drift(t, ownedEdits(), putBack) }
func TestOwnedFieldsOfTheSetArePutBack(t *testing.T) { drift(t, ownedSetEdits(), putBack) }

func TestForeignFieldsAreLeftAlone(t *testing.T) {
	drift(t, foreignEdits(), func(t *testing.T, d drifting, h hand) {
		_, after := d.handled(t, h)
		if writes := d.ensured(t); len(writes) > 0 {
			t.Errorf("an Ensure writes %v", writes)
		}
		if diff := same(t, after, d.object(t, h.kind, after.GetName())); diff != "" {
			t.Errorf("the object is not what it was (-was +is):\n%s", diff)
		}
		// It stays also when the manager has something to write itself, the
		// first time and later.
		for _, version := range []string{"2.9.50", "2.9.51"} {
			d.cfg.Version = version
			d.ensured(t)
			now := d.object(t, h.kind, after.GetName())
			note(after, annotationVersion, version)
			note(after, annotationApplied, now.GetAnnotations()[annotationApplied])
			if set, ok := after.(*appsv1.StatefulSet); ok {
				note(&set.Spec.Template, annotationVersion, version)
			}
			if secret, ok := after.(*corev1.Secret); ok && secret.Data[recordKey] != nil {
				secret.Data[recordKey] = now.(*corev1.Secret).Data[recordKey]
			}
			if diff := same(t, after, now); diff != "" {
				t.Errorf("after an update, the object is not what it was (-was +is):\n%s", diff)
			}
		}
	})
}

// vanishing are the ways in which an object goes by hand.
func vanishing() []hand {
	out := allKinds()
	orphan := out[len(out)-1]
	orphan.name = "set, and leaves its pod"
	return append(out, orphan, hand{name: "pod", kind: pods, nameOf: func(n names) string { return n.operator() + "-0" }})
}

// Whatever is deleted by hand is told and comes back, with its claim and, where it
// can, with its address and around its pod.
func TestDeletedObjectsComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	told := m.watch(t)
	class := w.StorageClass(t)
	for i, h := range vanishing() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			d := drifting{world: w, managed: m, told: told, app: fmt.Sprintf("web-x%d", i)}
			d.cfg = stored(private(operatorConfig(t, d.app, 1), "s3cret"), 100, class)
			d.ensure(t, d.app, d.cfg)
			pod := w.rolledOut(t, d.app)
			n := namesOf(d.app)
			service := get[*corev1.Service](t, w, services, n.operator())
			claim := get[object](t, w, claims, n.claimName())

			told.forget(d.app)
			how := metav1.DeletePropagationBackground
			if strings.Contains(h.name, "leaves") {
				how = metav1.DeletePropagationOrphan
			}
			w.remove(t, h.kind, h.nameOf(n), how)
			told.wait(t, d.app)
			if strings.HasPrefix(h.name, "set") {
				kubetest.Eventually(t, "the operator told not to exist", func() error {
					if state, err := m.OperatorExists(t.Context(), d.app); err != nil || state.Exists {
						return fmt.Errorf("it is %+v, %v", state, err)
					}
					return nil
				})
			}
			m.remade(t, d.app, d.cfg)

			w.completeOf(t, d.app, "Secret "+n.pull(), "PersistentVolumeClaim "+n.claimName())
			now := w.rolledOut(t, d.app)
			if gone := h.kind == pods || h.kind == statefulSets && how == metav1.DeletePropagationBackground; !gone && now.UID != pod.UID {
				t.Errorf("the pod was replaced")
			}
			if ip := get[*corev1.Service](t, w, services, n.operator()).Spec.ClusterIP; ip != service.Spec.ClusterIP {
				t.Errorf("the Service has the address %s, had %s", ip, service.Spec.ClusterIP)
			}
			if uid := get[object](t, w, claims, n.claimName()).GetUID(); uid != claim.GetUID() {
				t.Errorf("the claim was replaced")
			}
			if writes := d.ensured(t); len(writes) > 0 {
				t.Errorf("a second Ensure writes %v", writes)
			}
		})
	}
}

// Whoever looks after it all has another view than the manager that wrote it.
func TestMadeAgainIsRightForTheNextManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, "web", 1)
	m.ensure(t, "web", cfg)
	w.rolledOut(t, "web")
	for _, h := range vanishing() {
		if h.kind == secrets {
			continue
		}
		w.remove(t, h.kind, h.nameOf(namesOf("web")), metav1.DeletePropagationBackground)
		// Until the manager's cache has heard of it, all looks well to it. With a
		// watcher, somebody would ensure it again then; here the test does.
		kubetest.Eventually(t, "the operator made anew and rolled out", func() error {
			next := cfg.Clone()
			if op, err := m.Operator(t.Context(), "web"); err == nil {
				next.Generation = op.Config.Generation
			}
			if err := m.EnsureOperator(t.Context(), "web", testAgentPath, next); err != nil {
				return err
			}
			pod, err := w.current(t.Context(), "web")
			if err == nil && !ready(pod) {
				err = fmt.Errorf("the pod is not ready: %+v", pod.Status)
			}
			return err
		})
		m.shows(t, "web", cfg)
	}
	next := w.listed(t)
	next.silent(t, func() { next.ensure(t, "web", cfg) })
}

// What the manager wrote once and does not want any more goes away, also the first
// time after everything was created.
func TestWhatIsNotWantedAnyMoreIsTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	setting := func(names ...string) func(*Config) {
		return func(c *Config) {
			for _, name := range names {
				c.Pod.Env = append(c.Pod.Env, corev1.EnvVar{Name: name, Value: "1"})
			}
		}
	}
	m := w.listed(t, setting("FIRST", "SECOND", "THIRD"))
	cfg := private(operatorConfig(t, "web", 1), "s3cret")
	cfg.ResourceTags = map[string]string{"first": "1", "second": "2", "third": "3"}
	m.made(t, "web", cfg)

	for _, left := range []int{2, 1, 0} {
		m.stop(t)
		m = w.listed(t, setting([]string{"FIRST", "SECOND"}[:min(left, 2)]...))
		tags := map[string]string{}
		for _, key := range []string{"first", "second"}[:left] {
			tags[key] = "1"
		}
		cfg.ResourceTags = tags
		m.made(t, "web", cfg)
		for name, obj := range w.everything(t) {
			if obj, ok := obj.(*corev1.Pod); ok {
				t.Logf("pod %s is made anew", obj.Name)
				continue
			}
			have := make(map[string]string)
			for _, key := range []string{"first", "second", "third"} {
				if value, ok := obj.GetAnnotations()[key]; ok {
					have[key] = value
				}
			}
			if diff := cmp.Diff(tags, have); diff != "" {
				t.Errorf("%s has other tags than wanted (-want +have):\n%s", name, diff)
			}
		}
		env := []string{}
		for _, v := range operatorIn(w.set(t, "web")).Env {
			if !strings.HasPrefix(v.Name, "JUJU_") {
				env = append(env, v.Name)
			}
		}
		wantEqual(t, "environment", env, []string{"FIRST", "SECOND"}[:min(left, 2)])
		m.silent(t, func() { m.ensure(t, "web", cfg) })
	}

	// So do objects: these images need no credentials.
	m.made(t, "web", operatorConfig(t, "web", 1))
	w.complete(t, partsOf("web"))
	if refs := w.set(t, "web").Spec.Template.Spec.ImagePullSecrets; len(refs) > 0 {
		t.Errorf("the pod names the pull secrets %v", refs)
	}
}

// A role that the binding is for cannot be changed: only then is it made anew. A
// binding that is right is never touched, let alone deleted.
func TestRoleBindingIsMadeAnewForAnotherRoleOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, "web", 1)
	m.ensure(t, "web", cfg)
	right := get[*rbacv1.RoleBinding](t, w, roleBindings, "web-operator")
	for range 3 {
		m.ensure(t, "web", cfg)
	}
	if now := get[*rbacv1.RoleBinding](t, w, roleBindings, "web-operator"); now.ResourceVersion != right.ResourceVersion {
		t.Errorf("the RoleBinding was written")
	}

	wrong := right.DeepCopy()
	wrong.ObjectMeta = metav1.ObjectMeta{Name: right.Name, Labels: right.Labels, Annotations: right.Annotations}
	wrong.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	w.remove(t, roleBindings, right.Name, metav1.DeletePropagationBackground)
	w.add(t, roleBindings, wrong)
	w.caughtUpWith(t, m, roleBindings)
	m.wire.Reset()
	m.ensure(t, "web", cfg)
	var have []string
	for _, q := range m.wire.Writes() {
		have = append(have, q.Verb+" "+q.Resource)
	}
	wantEqual(t, "writes", have, []string{"delete rolebindings", "create rolebindings"})
	if diff := cmp.Diff(right.RoleRef, get[*rbacv1.RoleBinding](t, w, roleBindings, right.Name).RoleRef); diff != "" {
		t.Errorf("the role is another one (-want +have):\n%s", diff)
	}
	m.silent(t, func() { m.ensure(t, "web", cfg) })
}

// A Secret that lost its labels is not seen by the manager, but its password is the
// one that the controller knows.
func TestSecretWithoutLabelsKeepsItsPassword(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{"and all else as it was": false, "and so has all else": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.listed(t)
			cfg := operatorConfig(t, "web", 1)
			m.made(t, "web", cfg)
			w.rolledOut(t, "web")
			edit(t, w, secrets, "web-operator-config", func(s *corev1.Secret) { s.Labels = nil })
			if others {
				for _, h := range allKinds() {
					if h.kind != secrets {
						edit(t, w, h.kind, "web-operator", func(o object) { o.SetLabels(nil) })
					}
				}
			}
			w.caughtUp(t, m)
			resume(t, m, "web", operatorConfig(t, "web", 2))
			m.shows(t, "web", cfg)
			w.complete(t, partsOf("web"))
			if labels := get[*corev1.Secret](t, w, secrets, "web-operator-config").Labels; labels[labelName] != "web" {
				t.Errorf("the Secret has the labels %q", labels)
			}
		})
	}
}

// The files are not put back: whatever is stored is what the controller may have been
// told. Who knows another generation is told of the conflict, and the pod gets what
// is stored.
func TestFilesEditedByHandAreWhatIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	told := m.watch(t)
	cfg := operatorConfig(t, "web", 1)
	cfg.Generation = m.made(t, "web", cfg)
	w.works(t, "web", cfg)

	edited := operatorConfig(t, "web", 2)
	told.forget("web")
	edit(t, w, secrets, "web-operator-config", func(s *corev1.Secret) {
		s.Data["web-agent.conf"] = []byte(edited.AgentConf.Reveal())
		s.Data["operator.yaml"] = []byte(edited.OperatorInfo.Reveal())
	})
	told.wait(t, "web")
	w.caughtUpWith(t, m, secrets)
	err := m.EnsureOperator(t.Context(), "web", testAgentPath, cfg)
	wantKind(t, err, operator.ErrConflict)
	files := cfg.Clone()
	files.AgentConf, files.OperatorInfo = none(), none()
	wantKind(t, m.KeepOperator(t.Context(), "web", testAgentPath, files), operator.ErrConflict)

	edited.Generation = m.shows(t, "web", edited)
	m.ensure(t, "web", edited)
	w.works(t, "web", edited)

	// A file that is gone is none, and there is place for another one.
	edit(t, w, secrets, "web-operator-config", func(s *corev1.Secret) { delete(s.Data, "web-agent.conf") })
	w.caughtUpWith(t, m, secrets)
	op, err := m.Operator(t.Context(), "web")
	if err != nil || !op.Config.AgentConf.IsZero() || !op.Config.OperatorInfo.Equal(edited.OperatorInfo) {
		t.Errorf("Operator shows other files than are stored, error %v", err)
	}
	third := operatorConfig(t, "web", 3)
	m.made(t, "web", third)
	w.works(t, "web", third)
}

// TestEditDuringAnEnsureIsPutBack: what is edited when it has just been compared must
// not pass for compared.
func TestEditDuringAnEnsureIsPutBack(t *testing.T) {
	t.Parallel()
	const app = "web"
	w := newWorld(t)
	m := w.listed(t)
	cfg := operatorConfig(t, app, 1)
	m.made(t, app, cfg)
	w.caughtUp(t, m)

	role := namesOf(app).operator()
	var once sync.Once
	m.wire.Inject(kubetest.On("patch", "statefulsets"), kubetest.Fault{Before: func(request) {
		once.Do(func() {
			edit(t, w, roles, role, func(r *rbacv1.Role) { r.Rules = nil })
			w.caughtUpWith(t, m, roles)
		})
	}})
	cfg.Version = "2.9.50"
	m.made(t, app, cfg)
	m.wire.Heal()
	if rules := get[*rbacv1.Role](t, w, roles, role).Rules; len(rules) > 0 {
		t.Fatal("the edit came too late for the test to show anything")
	}
	m.made(t, app, cfg)
	if rules := get[*rbacv1.Role](t, w, roles, role).Rules; len(rules) == 0 {
		t.Error("what was edited in mid-ensure passes for compared")
	}
}
