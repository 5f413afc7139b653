package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// foreignObject returns an object of that kind that is somebody else's.
func foreignObject(k kind, name string) object {
	meta := metav1.ObjectMeta{Name: name}
	labels := map[string]string{"app": "theirs"}
	switch k {
	case serviceAccounts:
		return &corev1.ServiceAccount{ObjectMeta: meta}
	case roles:
		return &rbacv1.Role{ObjectMeta: meta}
	case roleBindings:
		return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "theirs"}}
	case secrets:
		return &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"theirs": []byte("secret")}}
	case services:
		return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}
	case statefulSets:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs"}}},
			},
		}}
	}
	return nil
}

// owners are whose an object of a name that is needed may be.
func owners() map[string]func(object, names) {
	ours := func(obj object, n names) {
		obj.SetLabels(map[string]string{
			labelName: n.short, labelTarget: target, labelManagedBy: DefaultManagedBy, modelID: otherModel,
		})
	}
	return map[string]func(object, names){
		"somebody's": func(object, names) {},
		"somebody's with labels of his": func(obj object, _ names) {
			obj.SetLabels(map[string]string{"app": "theirs", labelManagedBy: DefaultManagedBy})
		},
		"another model's": ours,
		"another model's of the older tool": func(obj object, n names) {
			ours(obj, n)
			take(obj, modelID)
			note(obj, modelID, otherModel)
		},
		"another tool's": func(obj object, n names) {
			ours(obj, n)
			take(obj, modelID)
			label(obj, labelManagedBy, "Helm")
		},
		"another application's of this model": func(obj object, n names) {
			ours(obj, n)
			label(obj, modelID, testModel)
			label(obj, labelName, "other")
		},
	}
}

// An object of a name that is needed is never taken for one's own because of its
// name: whoever made it is told about, and keeps it.
func TestForeignObjectOfTheNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	for i, owner := range sortedKeys(owners()) {
		for j, h := range allKinds() {
			t.Run(owner+", "+h.name, func(t *testing.T) {
				t.Parallel()
				app := fmt.Sprintf("web-x%d%d", i, j)
				n := namesOf(app)
				obj := foreignObject(h.kind, h.nameOf(n))
				owners()[owner](obj, n)
				before := w.add(t, h.kind, obj)

				cfg := private(operatorConfig(t, app, 1), "s3cret")
				for range 2 {
					err := m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
					wantKind(t, err, errors.AlreadyExists, app, h.kind.singular(), before.GetName(), "not of this model's operator")
				}
				if err := m.DeleteOperator(t.Context(), app); err != nil {
					t.Errorf("DeleteOperator: %v", err)
				}
				kubetest.Eventually(t, "what was made meanwhile gone", func() error {
					if err := m.DeleteOperator(t.Context(), app); err != nil {
						return err
					}
					_, err := m.GlanceOperator(t.Context(), app)
					if !errors.Is(err, errors.NotFound) {
						return fmt.Errorf("GlanceOperator: %v", err)
					}
					return nil
				})
				after := get[object](t, w, h.kind, before.GetName())
				if before.GetUID() != after.GetUID() || same(t, before, after) != "" {
					t.Errorf("the object was changed (-was +is):\n%s", cmp.Diff(before, after))
				}

				// It goes, and so does what it stood in the way of.
				w.remove(t, h.kind, before.GetName(), metav1.DeletePropagationBackground)
				m.remade(t, app, cfg)
				w.completeOf(t, app, "Secret "+n.pull())
			})
		}
	}
}

// Nor do they matter to what is read.
func TestForeignObjectsAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, h := range allKinds() {
		obj := foreignObject(h.kind, h.nameOf(namesOf("web")))
		owners()["another model's"](obj, namesOf("web"))
		w.add(t, h.kind, obj)
	}
	m := w.listed(t)
	m.silent(t, func() {
		if apps, err := m.Operators(t.Context()); err != nil || len(apps) > 0 {
			t.Errorf("Operators: %q, %v", apps, err)
		}
		if state, err := m.OperatorExists(t.Context(), "web"); err != nil || state != (operator.State{}) {
			t.Errorf("OperatorExists: %+v, %v", state, err)
		}
		if _, err := m.Operator(t.Context(), "web"); !errors.Is(err, errors.NotFound) {
			t.Errorf("Operator: %v", err)
		}
		if err := m.DeleteOperator(t.Context(), "web"); err != nil {
			t.Errorf("DeleteOperator: %v", err)
		}
	})
}

func TestModelsInOneNamespaceDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(model string) func(*Config) { return func(c *Config) { c.ModelUUID = model } }
	first, second := w.listed(t, of(testModel)), w.listed(t, of(otherModel))
	told := second.watch(t)
	first.made(t, "web", operatorConfig(t, "web", 1))
	second.made(t, "db", operatorConfig(t, "db", 1))
	w.complete(t, partsOf("web"), partsOf("db"))
	w.rolledOut(t, "web")

	for m, want := range map[*managed]string{first: "web", second: "db"} {
		apps, err := m.Operators(t.Context())
		if err != nil || !slices.Equal(apps, []string{want}) {
			t.Errorf("the manager of %q lists %q, %v", want, apps, err)
		}
	}
	if _, err := second.Operator(t.Context(), "web"); !errors.Is(err, errors.NotFound) {
		t.Errorf("Operator of another model: %v", err)
	}
	err := second.EnsureOperator(t.Context(), "web", testAgentPath, operatorConfig(t, "web", 2))
	wantKind(t, err, errors.AlreadyExists, "web-operator")
	_, err = second.StageOperator(t.Context(), "web", testAgentPath, operatorConfig(t, "web", 2))
	wantKind(t, err, errors.AlreadyExists, "web-operator-config")
	before := w.versions(t)
	for range 3 {
		if err := second.DeleteOperator(t.Context(), "web"); err != nil {
			t.Errorf("DeleteOperator: %v", err)
		}
	}
	if diff := cmp.Diff(before, w.versions(t)); diff != "" {
		t.Errorf("what is there was changed (-was +is):\n%s", diff)
	}
	// An event of its own comes after all that was before.
	second.removed(t, "db")
	told.wait(t, "db")
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.told["web"] > 0 {
		t.Errorf("the watcher tells of another model's application")
	}
	first.shows(t, "web", operatorConfig(t, "web", 1))
}

// The model moves over from the older tool: everything that it made is taken over, the
// files come into the Secret, and each operator starts again once, since its pod is
// another one.
func TestOlderToolsOperatorIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := operatorConfig(t, "web", 1)
	w.older(t, "web", cfg)
	before := w.rolledOut(t, "web")
	ip := get[*corev1.Service](t, w, services, "web-operator").Spec.ClusterIP
	// An administrator's own, since.
	for _, h := range allKinds() {
		if h.kind != secrets {
			edit(t, w, h.kind, "web-operator", func(o object) { label(o, "team", "payments") })
		}
	}

	m := w.listed(t)
	if apps, err := m.Operators(t.Context()); err != nil || !slices.Equal(apps, []string{"web"}) {
		t.Errorf("Operators: %q, %v", apps, err)
	}
	if state, err := m.OperatorExists(t.Context(), "web"); err != nil || state != (operator.State{Exists: true}) {
		t.Errorf("OperatorExists: %+v, %v", state, err)
	}
	cfg.Generation = m.shows(t, "web", cfg)
	if cfg.Generation == "" {
		t.Errorf("there is no generation")
	}
	m.ensure(t, "web", cfg)

	w.complete(t, partsOf("web")) // the ConfigMap has gone
	pod := w.works(t, "web", cfg)
	if pod.UID == before.UID {
		t.Errorf("the pod is the older tool's")
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		if len(containers) != 1 || containers[0].WorkingDir != "" || len(containers[0].Args) > 0 {
			t.Errorf("there is something of the older tool's in the pod: %+v", containers)
		}
	}
	if got := len(w.revisions(t, "web")); got != 2 {
		t.Errorf("the set has had %d revisions, want 2", got)
	}
	service := get[*corev1.Service](t, w, services, "web-operator")
	if service.Spec.ClusterIP != ip || len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Name != "operator" {
		t.Errorf("the Service is %+v, and had the address %s", service.Spec, ip)
	}
	for name, obj := range w.everything(t) {
		switch obj.(type) {
		case *corev1.Pod, *corev1.Secret:
			continue
		case *appsv1.StatefulSet: // made anew
		default:
			if obj.GetLabels()["team"] != "payments" {
				t.Errorf("%s has lost the label of somebody else", name)
			}
		}
		if obj.GetLabels()[modelID] != testModel || obj.GetAnnotations()[annotationVersion] != cfg.Version {
			t.Errorf("%s has the labels %q and annotations %q", name, obj.GetLabels(), obj.GetAnnotations())
		}
	}
	cfg.Generation = m.shows(t, "web", cfg)
	next := w.listed(t)
	next.silent(t, func() { next.ensure(t, "web", cfg); next.keep(t, "web", cfg) })
	m.removed(t, "web")
	w.empty(t)
}

// What was read of the ConfigMap is no reason to write over what came later, there or
// in the Secret.
func TestOlderConfigHasGenerations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	w.older(t, "web", operatorConfig(t, "web", 1))
	w.caughtUp(t, m)
	generation := m.shows(t, "web", operatorConfig(t, "web", 1))

	blind := operatorConfig(t, "web", 2)
	_, err := m.StageOperator(t.Context(), "web", testAgentPath, blind)
	wantKind(t, err, operator.ErrConflict)
	edit(t, w, configMaps, "web-operator-config", func(c *corev1.ConfigMap) {
		c.Data["web-agent.conf"] = operatorConfig(t, "web", 3).AgentConf.Reveal()
	})
	w.caughtUp(t, m)
	late := operatorConfig(t, "web", 2)
	late.Generation = generation
	_, err = m.StageOperator(t.Context(), "web", testAgentPath, late)
	wantKind(t, err, operator.ErrConflict)

	op, err := m.Operator(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	next := operatorConfig(t, "web", 4)
	next.Generation = op.Config.Generation
	staged, err := m.StageOperator(t.Context(), "web", testAgentPath, next)
	if err != nil {
		t.Fatal(err)
	}
	if shown := m.shows(t, "web", next); shown != staged {
		t.Errorf("generation %q was staged, and %q is shown", staged, shown)
	}
	// The ConfigMap's generation is of the past for good.
	err = m.EnsureOperator(t.Context(), "web", testAgentPath, late)
	wantKind(t, err, operator.ErrConflict)
	next.Generation = staged
	m.ensure(t, "web", next)
	w.complete(t, partsOf("web"))
}

// An older tool's operator that is deleted leaves nothing of the older tool's.
func TestOlderToolsOperatorIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	w.older(t, "web", operatorConfig(t, "web", 1))
	w.rolledOut(t, "web")
	w.caughtUp(t, m)
	m.removed(t, "web")
	w.empty(t)
}

// The order of addresses is of no matter to what the pod has read already.
func TestOlderConfigInAnotherOrderIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.listed(t)
	w.older(t, "web", operatorConfig(t, "web", 1))
	w.caughtUp(t, m)
	m.made(t, "web", operatorConfig(t, "web", 1, func(c *agentconf.Config) { slices.Reverse(c.APIAddresses) }))
	w.complete(t, partsOf("web"))
}

// older makes an operator's objects as the older tool did: the files in a ConfigMap,
// other names in the pod, and the model in an annotation alone.
func (w *world) older(t testing.TB, app string, cfg *operator.Config) {
	t.Helper()
	n := namesOf(app)
	selector := map[string]string{"operator.juju.is/name": app, "operator.juju.is/target": "application"}
	meta := func(name string) metav1.ObjectMeta {
		labels := maps.Clone(selector)
		labels["app.kubernetes.io/managed-by"] = "juju"
		return metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{
			"juju.is/version": "2.9.42", "controller.juju.is/id": testController, "model.juju.is/id": testModel,
		}}
	}
	w.addAs(t, "jujud", serviceAccounts, &corev1.ServiceAccount{ObjectMeta: meta(n.operator()), AutomountServiceAccountToken: new(true)})
	w.addAs(t, "jujud", roles, &rbacv1.Role{ObjectMeta: meta(n.operator()), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
	}})
	w.addAs(t, "jujud", roleBindings, &rbacv1.RoleBinding{
		ObjectMeta: meta(n.operator()),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: n.operator()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: n.operator(), Namespace: w.namespace}},
	})
	w.addAs(t, "jujud", configMaps, &corev1.ConfigMap{ObjectMeta: meta(n.config()), Data: map[string]string{
		app + "-agent.conf": cfg.AgentConf.Reveal(), "operator.yaml": cfg.OperatorInfo.Reveal(),
	}})
	service := w.addAs(t, "jujud", services, &corev1.Service{ObjectMeta: meta(n.operator()), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: selector,
		Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 30666, TargetPort: intstr.FromInt32(30666)}},
	}}).(*corev1.Service)

	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	file := func(name string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: n.config(), MountPath: testAgentPath + "/agents/application-" + app + "/" + name, SubPath: name}
	}
	labels := maps.Clone(selector)
	w.addAs(t, "jujud", statefulSets, &appsv1.StatefulSet{ObjectMeta: meta(n.operator()), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector}, PodManagementPolicy: appsv1.ParallelPodManagement,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"juju.is/version": "2.9.42"}},
			Spec: corev1.PodSpec{
				ServiceAccountName: n.operator(),
				InitContainers: []corev1.Container{{
					Name: "juju-init", Image: cfg.ImageDetails.RegistryPath, SecurityContext: security,
					Command: []string{"/bin/sh"}, Args: []string{"-c", "cp jujud /opt/juju"},
					VolumeMounts: []corev1.VolumeMount{{Name: "juju-bins", MountPath: "/opt/juju"}},
				}},
				Containers: []corev1.Container{{
					Name: "juju-operator", Image: cfg.BaseImageDetails.RegistryPath, SecurityContext: security,
					WorkingDir: testAgentPath, Command: []string{"/bin/sh"}, Args: []string{"-c", "jujud caasoperator"},
					Env: []corev1.EnvVar{
						{Name: "JUJU_APPLICATION", Value: app}, {Name: "JUJU_OPERATOR_SERVICE_IP", Value: service.Spec.ClusterIP},
					},
					VolumeMounts: []corev1.VolumeMount{
						file("template-agent.conf"), file("operator.yaml"), {Name: "juju-bins", MountPath: "/opt/juju"},
					},
				}},
				Volumes: []corev1.Volume{
					{Name: "juju-bins", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{Name: n.config(), VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: n.config()},
						Items: []corev1.KeyToPath{
							{Key: app + "-agent.conf", Path: "template-agent.conf"}, {Key: "operator.yaml", Path: "operator.yaml"},
						},
					}}},
				},
			},
		},
	}})
}
