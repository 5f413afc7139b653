package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// newStorageWorld is a world with a storage class whose claims are bound.
func newStorageWorld(t *testing.T, changes ...func(*storagev1.StorageClass)) (w *world, class string) {
	t.Helper()
	t.Parallel()
	w = newWorld(t)
	return w, w.StorageClass(t, changes...)
}

func notGrowing(class *storagev1.StorageClass) { class.AllowVolumeExpansion = new(bool) }

// claim returns the operator's claim once it is bound and has its size.
func (w *world) claim(t testing.TB, app string) *corev1.PersistentVolumeClaim {
	t.Helper()
	var claim *corev1.PersistentVolumeClaim
	kubetest.Eventually(t, "the claim of "+app, func() error {
		obj := w.object(t, claims, namesOf(app).claimName())
		if obj == nil {
			return fmt.Errorf("it is not there")
		}
		claim = obj.(*corev1.PersistentVolumeClaim)
		capacity, size := claim.Status.Capacity.Storage(), claim.Spec.Resources.Requests.Storage()
		if claim.Status.Phase != corev1.ClaimBound || capacity.Cmp(*size) != 0 {
			return fmt.Errorf("it is %s, of %s, %s wanted", claim.Status.Phase, capacity, size)
		}
		return nil
	})
	return claim
}

// mounts returns the names of the claims that the pod mounts.
func mountedClaims(pod *corev1.Pod) []string {
	var out []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return out
}

// wantSize fails the test unless claim and claim template are of that many MiB.
func (w *world) wantSize(t testing.TB, app string, size uint64) {
	t.Helper()
	want := resource.NewQuantity(int64(size)<<20, resource.BinarySI)
	if got := w.claim(t, app).Spec.Resources.Requests.Storage(); got.Cmp(*want) != 0 {
		t.Errorf("the claim asks for %s, want %s", got, want)
	}
	template := templateOf(w.set(t, app))
	if template == nil {
		t.Fatal("the set has no claim template")
	}
	if got := template.Spec.Resources.Requests.Storage(); got.Cmp(*want) != 0 {
		t.Errorf("the claim template asks for %s, want %s", got, want)
	}
}

func TestClaimHasItsNameLabelsAndTags(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	long := strings.Repeat("long", 20)
	for _, app := range []string{"mysql", long} {
		cfg := stored(operatorConfig(t, app, 1), 300, class)
		cfg.CharmStorage.ResourceTags = map[string]string{"storage-tag": "x", tagModel: testModel}
		m.made(t, app, cfg)
		claim := w.claim(t, app)
		want := map[string]string{labelName: namesOf(app).short, labelTarget: target, labelManagedBy: "juju", modelID: testModel}
		if !maps.Equal(claim.Labels, want) {
			t.Errorf("labels are %v, want %v", claim.Labels, want)
		}
		if claim.Annotations["storage-tag"] != "x" || claim.Annotations[modelID] != testModel {
			t.Errorf("annotations are %v", claim.Annotations)
		}
		if got := claim.Annotations[annotationApplication]; (app == long) != (got == long) {
			t.Errorf("the annotation with the name is %q", got)
		}
		if *claim.Spec.StorageClassName != class || !slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
			t.Errorf("the claim is for %+v", claim.Spec)
		}
		w.wantSize(t, app, 300)
		pod := w.rolledOut(t, app)
		if got := mountedClaims(pod); !slices.Equal(got, []string{claim.Name}) {
			t.Errorf("the pod mounts %q", got)
		}
		// The operator's own files are on it.
		at := ""
		for _, mount := range pod.Spec.Containers[0].VolumeMounts {
			if mount.Name == claimTemplate && mount.SubPath == "" {
				at = mount.MountPath
			}
		}
		if at != testAgentPath+"/agents" {
			t.Errorf("the claim is mounted at %q", at)
		}
	}
	if name := w.claim(t, "mysql").Name; name != "charm-mysql-operator-0" {
		t.Errorf("the claim is called %s", name)
	}
}

// TestOperatorWithStorageIsSettledForTheNextManagerToo has a manager that compares
// with what the API server has filled in, and has not seen it made.
func TestOperatorWithStorageIsSettledForTheNextManagerToo(t *testing.T) {
	w, class := newStorageWorld(t)
	first := w.listed(t)
	cfg := stored(operatorConfig(t, "mysql", 1), 100, class)
	first.made(t, "mysql", cfg)
	w.claim(t, "mysql")
	w.rolledOut(t, "mysql")
	for range 3 {
		next := w.listed(t)
		next.silent(t, func() { next.again(t, "mysql", cfg) })
	}
	// Tags of a claim template are those of its first day.
	next := w.listed(t)
	cfg.CharmStorage.ResourceTags = map[string]string{"new": "tag"}
	next.again(t, "mysql", cfg)
	for _, write := range next.writes() {
		if !strings.Contains(write, " secrets ") {
			t.Errorf("written: %s", write)
		}
	}
}

func TestStorageModeIsThatOfTheAttribute(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	cfg := stored(operatorConfig(t, "mysql", 1), 100, class)
	cfg.CharmStorage.Attributes[attributeMode] = "ReadWriteMany"
	m.made(t, "mysql", cfg)
	if got := w.claim(t, "mysql").Spec.AccessModes; !slices.Equal(got, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}) {
		t.Errorf("modes are %v", got)
	}
}

// TestAddedStorageIsMountedByTheNextPod has an operator that ran without any.
func TestAddedStorageIsMountedByTheNextPod(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	before := w.rolledOut(t, "mysql")
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	claim := w.claim(t, "mysql")
	after := w.rolledOut(t, "mysql")
	if after.UID == before.UID || !slices.Equal(mountedClaims(after), []string{claim.Name}) {
		t.Errorf("pod %s mounts %q, after pod %s", after.UID, mountedClaims(after), before.UID)
	}
	w.complete(t, partsOf("mysql", "PersistentVolumeClaim "+claim.Name))
}

func TestRemovedStorageIsKeptUntilTheOperatorIsDeleted(t *testing.T) {
	w, class := newStorageWorld(t)
	var log lockedBuffer
	m := w.listed(t, func(c *Config) { c.Logger = logInto(&log) })
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	claim := w.claim(t, "mysql")
	w.rolledOut(t, "mysql")

	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	if pod := w.rolledOut(t, "mysql"); len(mountedClaims(pod)) > 0 {
		t.Errorf("the pod still mounts %q", mountedClaims(pod))
	}
	if got := w.claim(t, "mysql"); got.UID != claim.UID {
		t.Error("the claim is another one")
	}
	if !strings.Contains(log.String(), "charm storage is not used any more") || !strings.Contains(log.String(), claim.Name) {
		t.Errorf("nobody is warned:\n%s", log.String())
	}
	// Used again, it has what it had.
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	if pod := w.rolledOut(t, "mysql"); !slices.Equal(mountedClaims(pod), []string{claim.Name}) {
		t.Errorf("the pod mounts %q", mountedClaims(pod))
	}
	if got := w.claim(t, "mysql"); got.UID != claim.UID {
		t.Error("the claim is another one")
	}
	m.made(t, "mysql", operatorConfig(t, "mysql", 1))
	m.removed(t, "mysql")
	w.empty(t)
}

// TestStorageGrowsAroundTheRunningPod holds that nothing is lost, nor started again,
// when a volume grows.
func TestStorageGrowsAroundTheRunningPod(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	claim, pod, set := w.claim(t, "mysql"), w.rolledOut(t, "mysql"), w.set(t, "mysql")

	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 250, class))
	w.wantSize(t, "mysql", 250)
	if got := w.claim(t, "mysql"); got.UID != claim.UID || got.Spec.VolumeName != claim.Spec.VolumeName {
		t.Error("the claim, or its volume, is another one")
	}
	if got := w.set(t, "mysql"); got.UID == set.UID {
		t.Error("the set is the same one")
	}
	if got := w.rolledOut(t, "mysql"); got.UID != pod.UID {
		t.Error("the pod is another one")
	}
	m.silent(t, func() { m.again(t, "mysql", stored(operatorConfig(t, "mysql", 1), 250, class)) })

	// And still does what a set does.
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 2), 250, class))
	if got := w.rolledOut(t, "mysql"); got.UID == pod.UID {
		t.Error("a change does not start the pod again")
	}
	if got := w.claim(t, "mysql"); got.UID != claim.UID {
		t.Error("the claim is another one")
	}
}

// again ensures what is there already, from the generation that is stored.
func (m *managed) again(t testing.TB, app string, cfg *operator.Config) {
	t.Helper()
	op, err := m.GlanceOperator(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.Clone()
	cfg.Generation = op.Config.Generation
	m.ensure(t, app, cfg)
}

// TestStorageThatCannotBeAsWantedIsNotSupported has the changes that would lose data,
// or that the cluster refuses, each of which leaves what is there alone.
func TestStorageThatCannotBeAsWantedIsNotSupported(t *testing.T) {
	w, class := newStorageWorld(t, notGrowing)
	other := w.StorageClass(t)
	m := w.listed(t)
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	claim, pod, set := w.claim(t, "mysql"), w.rolledOut(t, "mysql"), w.set(t, "mysql")
	mode := stored(operatorConfig(t, "mysql", 1), 100, class)
	mode.CharmStorage.Attributes[attributeMode] = "ReadWriteMany"
	for _, test := range []struct {
		name  string
		cfg   *operator.Config
		words []string
	}{
		{
			"larger, where the class forbids it", stored(operatorConfig(t, "mysql", 1), 200, class),
			// The API server's own words, and what can be done.
			[]string{"must support resize", "by hand"},
		},
		{
			"smaller", stored(operatorConfig(t, "mysql", 1), 50, class),
			[]string{"shrinks from 100 to 50 MiB", claim.Name, "holds data"},
		},
		{
			"another class", stored(operatorConfig(t, "mysql", 1), 100, other),
			[]string{class, other, claim.Name, "save the data"},
		},
		{"another mode", mode, []string{"ReadWriteOnce", "ReadWriteMany", claim.Name, "save the data"}},
	} {
		for range 2 { // the second one has nothing else to write any more
			op, err := m.Operator(t.Context(), "mysql")
			if err != nil {
				t.Fatal(err)
			}
			test.cfg.Generation = op.Config.Generation
			err = m.EnsureOperator(t.Context(), "mysql", testAgentPath, test.cfg)
			t.Logf("%s: %v", test.name, err)
			wantKind(t, err, errors.NotSupported, append(test.words, "mysql")...)
		}
	}
	if got := w.set(t, "mysql"); got.UID != set.UID || got.Generation != set.Generation {
		t.Error("the set was changed")
	}
	if got := w.claim(t, "mysql"); got.UID != claim.UID || got.Spec.Resources.Requests.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) != 0 {
		t.Error("the claim was changed")
	}
	if got := w.rolledOut(t, "mysql"); got.UID != pod.UID {
		t.Error("the pod was started again")
	}
	// Others go on, and so does this one once it is asked for what can be.
	m.made(t, "redis", stored(operatorConfig(t, "redis", 1), 100, other))
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 2), 100, class))
	if got := w.rolledOut(t, "mysql"); got.UID == pod.UID {
		t.Error("the pod was not started again")
	}
}

// TestStorageIsAnotherOneWhileThereIsNoClaim has a quota keep the claim from being
// made: nothing can be lost yet.
func TestStorageIsAnotherOneWhileThereIsNoClaim(t *testing.T) {
	w, class := newStorageWorld(t)
	other := w.StorageClass(t)
	w.quota(t, corev1.ResourcePersistentVolumeClaims, "0")
	m := w.listed(t)
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	cfg := stored(operatorConfig(t, "mysql", 1), 50, other)
	cfg.CharmStorage.Attributes[attributeMode] = "ReadWriteMany"
	m.made(t, "mysql", cfg)
	w.quota(t, corev1.ResourcePersistentVolumeClaims, "1")
	claim := w.claim(t, "mysql")
	if *claim.Spec.StorageClassName != other || claim.Spec.AccessModes[0] != corev1.ReadWriteMany {
		t.Errorf("the claim is for %+v", claim.Spec)
	}
	w.wantSize(t, "mysql", 50)
}

// quota bounds what there may be in the namespace, until it is called again, and
// waits until that holds.
func (w *world) quota(t testing.TB, what corev1.ResourceName, most string) {
	t.Helper()
	quotas := w.Client.CoreV1().ResourceQuotas(w.namespace)
	hard := corev1.ResourceList{what: resource.MustParse(most)}
	kubetest.Eventually(t, "a quota", func() error {
		got, err := quotas.Get(t.Context(), "test", metav1.GetOptions{})
		switch {
		case err != nil:
			_, err = quotas.Create(t.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "test"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
			}, metav1.CreateOptions{})
			if err == nil {
				err = fmt.Errorf("just made")
			}
			return err
		case got.Spec.Hard.Name(what, resource.DecimalSI).Cmp(hard[what]) != 0:
			got.Spec.Hard = hard
			if _, err = quotas.Update(t.Context(), got, metav1.UpdateOptions{}); err == nil {
				err = fmt.Errorf("just changed")
			}
			return err
		case got.Status.Hard.Name(what, resource.DecimalSI).Cmp(hard[what]) != 0 || len(got.Status.Used) == 0:
			return fmt.Errorf("nobody has looked at it")
		}
		return nil
	})
}

func TestClaimThatSomebodyHasGrownIsLetAlone(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	w.claim(t, "mysql")
	pod, set := w.rolledOut(t, "mysql"), w.set(t, "mysql")
	edit(t, w, claims, namesOf("mysql").claimName(), func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("400Mi")
	})
	w.caughtUp(t, m)
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 2), 100, class))
	if got := w.rolledOut(t, "mysql"); got.UID == pod.UID {
		t.Error("the pod was not started again")
	}
	if got := w.claim(t, "mysql").Spec.Resources.Requests.Storage().Value(); got != 400<<20 {
		t.Errorf("the claim is of %d MiB", got>>20)
	}
	if got := w.set(t, "mysql"); got.UID != set.UID {
		t.Error("the set was made anew")
	}
	// Wanting less than there is by now, and more than there was, is no change of
	// the claim either.
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 2), 300, class))
	if got := w.claim(t, "mysql").Spec.Resources.Requests.Storage().Value(); got != 400<<20 {
		t.Errorf("the claim is of %d MiB", got>>20)
	}
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 2), 500, class))
	w.wantSize(t, "mysql", 500)
}

func TestUnknownStorageClassIsNotFoundAndOthersGoOn(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	cfg := stored(operatorConfig(t, "mysql", 1), 100, "no-such-class")
	for range 2 {
		err := m.EnsureOperator(t.Context(), "mysql", testAgentPath, cfg)
		wantKind(t, err, errors.NotFound, `"no-such-class"`, "mysql")
	}
	if left := w.names(t); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
	m.made(t, "redis", stored(operatorConfig(t, "redis", 1), 100, class))
	w.claim(t, "redis")
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	w.claim(t, "mysql")
}

// TestClaimOfSomebodyElseIsNotUsed has one of the name that the set's controller
// would take.
func TestClaimOfSomebodyElseIsNotUsed(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	w.add(t, claims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: namesOf("mysql").claimName()},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	cfg := stored(operatorConfig(t, "mysql", 1), 100, class)
	wantKind(t, m.EnsureOperator(t.Context(), "mysql", testAgentPath, cfg), errors.AlreadyExists,
		`PersistentVolumeClaim "charm-mysql-operator-0"`, "rename or remove it")
	wantEqual(t, "what is there", w.names(t), []string{"PersistentVolumeClaim charm-mysql-operator-0"})
	m.made(t, "redis", stored(operatorConfig(t, "redis", 1), 100, class))
	w.remove(t, claims, namesOf("mysql").claimName(), metav1.DeletePropagationBackground)
	m.made(t, "mysql", cfg)
	w.rolledOut(t, "mysql")
}

func TestDeletionTakesTheClaim(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 1), 100, class))
	claim := w.claim(t, "mysql")
	w.rolledOut(t, "mysql")
	m.removed(t, "mysql")
	w.empty(t)
	kubetest.Eventually(t, "the volume gone", func() error {
		if _, err := w.Client.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{}); err == nil {
			return fmt.Errorf("volume %s is there", claim.Spec.VolumeName)
		}
		return nil
	})
}

func TestKeptClaimIsFoundByTheNextOperatorAndIsNoneItself(t *testing.T) {
	w, class := newStorageWorld(t)
	keep := func(c *Config) { c.KeepClaims = true }
	m := w.listed(t, keep)
	cfg := stored(operatorConfig(t, "mysql", 1), 100, class)
	m.made(t, "mysql", cfg)
	claim := w.claim(t, "mysql")
	w.rolledOut(t, "mysql")
	m.removed(t, "mysql") // Exists and Operator say that nothing is there
	if apps, err := m.Operators(t.Context()); err != nil || len(apps) > 0 {
		t.Errorf("Operators = %q, %v", apps, err)
	}
	wantEqual(t, "what is there", w.names(t), []string{"PersistentVolumeClaim " + claim.Name})
	m.silent(t, func() {
		if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
			t.Error(err)
		}
	})
	again := w.listed(t, keep)
	again.made(t, "mysql", cfg)
	w.rolledOut(t, "mysql")
	if got := w.claim(t, "mysql"); got.UID != claim.UID {
		t.Error("the claim is another one")
	}
}

// TestClaimWhoseRemovalHasBegunIsRemoved has the host change its mind in between: what
// was begun is what its user was told.
func TestClaimWhoseRemovalHasBegunIsRemoved(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	cfg := stored(operatorConfig(t, "mysql", 1), 100, class)
	m.made(t, "mysql", cfg)
	old := w.claim(t, "mysql")
	w.rolledOut(t, "mysql")
	m.wire.CrashAfterWrite(1)
	if err := m.DeleteOperator(t.Context(), "mysql"); err == nil {
		t.Fatal("the crash did not happen")
	}
	m.stop(t)
	next := w.listed(t, func(c *Config) { c.KeepClaims = true })
	next.remade(t, "mysql", cfg)
	if got := w.claim(t, "mysql"); got.UID == old.UID {
		t.Error("the claim is the old one")
	}
}

// TestNextOperatorNeverFindsTheDataOfTheOneBefore has the agent die after each of the
// writes of a deletion, and the application deployed again at once.
func TestNextOperatorNeverFindsTheDataOfTheOneBefore(t *testing.T) {
	w, class := newStorageWorld(t)
	for name, before := range map[string]func(*testing.T, string){
		"whole": func(*testing.T, string) {},
		"without-its-set": func(t *testing.T, app string) {
			w.remove(t, statefulSets, namesOf(app).operator(), metav1.DeletePropagationOrphan)
		},
	} {
		// Mark, set or pod, claim, and five other objects.
		for n := 1; n <= 8; n++ {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				app := fmt.Sprintf("a%d-%s", n, name)
				cfg := stored(operatorConfig(t, app, 1), 100, class)
				first := w.listed(t)
				first.made(t, app, cfg)
				old := w.claim(t, app)
				w.rolledOut(t, app)
				before(t, app)
				w.knows(t, first, app)
				first.wire.CrashAfterWrite(n)
				kubetest.Eventually(t, "the crash", func() error {
					err := first.DeleteOperator(t.Context(), app)
					if first.wire.Crashed() {
						return nil
					}
					return fmt.Errorf("it has not come, and the deletion goes on: %v", err)
				})
				first.stop(t)

				second := w.listed(t)
				second.remade(t, app, cfg)
				if got := w.claim(t, app); got.UID == old.UID || got.DeletionTimestamp != nil || got.Annotations[annotationRemoving] != "" {
					t.Errorf("the claim is %s, and was %s", got.UID, old.UID)
				}
			})
		}
	}
}

// TestClaimThatSomebodyDeletesTakesNothingElseAlong has the cluster keep it for as long
// as the pod uses it: what is on it can still be saved.
func TestClaimThatSomebodyDeletesTakesNothingElseAlong(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	cfg := stored(operatorConfig(t, "mysql", 1), 100, class)
	m.made(t, "mysql", cfg)
	claim := w.claim(t, "mysql")
	pod, set := w.rolledOut(t, "mysql"), w.set(t, "mysql")
	if err := w.endpoints[claims].delete(t.Context(), claim.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.knows(t, m, "mysql")
	m.again(t, "mysql", cfg)
	next := w.listed(t)
	next.silent(t, func() { next.again(t, "mysql", cfg) })
	if state := next.state(t, "mysql"); state != (operator.State{Exists: true}) {
		t.Errorf("the operator is %+v", state)
	}
	if got := w.rolledOut(t, "mysql"); got.UID != pod.UID || w.set(t, "mysql").UID != set.UID {
		t.Error("the pod, or the set, is another one")
	}
	// It is gone with its pod, and the next one has another.
	m.made(t, "mysql", stored(operatorConfig(t, "mysql", 2), 100, class))
	kubetest.Eventually(t, "another claim", func() error {
		if got := w.object(t, claims, claim.Name); got == nil || got.GetUID() == claim.UID {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
	w.rolledOut(t, "mysql")
}

func TestDeployedAgainAtOnceWaitsForTheOldClaimToGo(t *testing.T) {
	w, class := newStorageWorld(t)
	m := w.listed(t)
	cfg := stored(operatorConfig(t, "mysql", 1), 100, class)
	m.made(t, "mysql", cfg)
	old := w.claim(t, "mysql")
	w.rolledOut(t, "mysql")
	if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
		t.Fatal(err)
	}
	op, err := m.Operator(t.Context(), "mysql")
	if err != nil {
		t.Fatal(err)
	}
	next := cfg.Clone()
	next.Generation = op.Config.Generation
	wantKind(t, m.EnsureOperator(t.Context(), "mysql", testAgentPath, next), errors.NotYetAvailable, "previous operator", "mysql")
	m.remade(t, "mysql", cfg)
	w.rolledOut(t, "mysql")
	if got := w.claim(t, "mysql"); got.UID == old.UID {
		t.Error("the claim is the old one")
	}
}

// TestSetIsMadeAnewAcrossCrashes has the agent die after each of the writes that
// growing storage takes.
func TestSetIsMadeAnewAcrossCrashes(t *testing.T) {
	w, class := newStorageWorld(t)
	// The record in the Secret, the claim, the old set, the new set; the Secret is
	// taken over first.
	for n := 1; n <= 6; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			app := fmt.Sprintf("a%da", n)
			m := w.listed(t)
			m.made(t, app, stored(operatorConfig(t, app, 1), 100, class))
			claim, pod := w.claim(t, app), w.rolledOut(t, app)
			w.knows(t, m, app)
			larger := stored(operatorConfig(t, app, 1), 200, class)
			larger.Generation = m.shows(t, app, larger)
			m.wire.CrashAfterWrite(n)
			err := m.EnsureOperator(t.Context(), app, testAgentPath, larger)
			if last := n == 6; m.wire.Crashed() == last || (err == nil) != last {
				t.Errorf("there are other than 5 writes: %q; EnsureOperator = %v", m.writes(), err)
			}
			m.stop(t)

			next := w.listed(t)
			next.remade(t, app, larger)
			w.wantSize(t, app, 200)
			now := w.rolledOut(t, app)
			if now.UID != pod.UID {
				t.Error("the pod is another one")
			}
			if got := w.claim(t, app); got.UID != claim.UID {
				t.Error("the claim is another one")
			}
			if owner := metav1.GetControllerOf(now); owner == nil || owner.UID != w.set(t, app).UID {
				t.Errorf("the pod is of %v", owner)
			}
		})
	}
}

// knows waits until the manager's caches have the application's pod and claim, and
// its set or none, as the API server has them.
func (w *world) knows(t testing.TB, m *managed, app string) {
	t.Helper()
	n := namesOf(app)
	kubetest.Eventually(t, "the manager knowing "+app, func() error {
		for k, name := range map[kind]string{statefulSets: n.operator(), pods: n.operator() + "-0", claims: n.claimName()} {
			item, _, err := m.caches[k].informer.GetStore().GetByKey(w.namespace + "/" + name)
			if err != nil {
				return err
			}
			have, _ := item.(object)
			want := w.object(t, k, name)
			if (have == nil) != (want == nil) || want != nil && have.GetResourceVersion() != want.GetResourceVersion() {
				return fmt.Errorf("%s %s is not known as it is", k.singular(), name)
			}
		}
		return nil
	})
}

// TestClaimThatIsNotBoundYetGrowsLater: the API server lets nobody change one before,
// and it is no reason to give up.
func TestClaimThatIsNotBoundYetGrowsLater(t *testing.T) {
	t.Parallel()
	const app = "mysql"
	w := newWorld(t)
	w.NeedFakeNode(t)
	class := w.StorageClass(t, func(class *storagev1.StorageClass) { class.Provisioner = "testbed.sutler.dev/nobody" })
	m := w.listed(t)
	m.made(t, app, stored(operatorConfig(t, app, 1), 64, class))
	kubetest.Eventually(t, "a claim", func() error {
		_, err := w.endpoints[claims].get(t.Context(), namesOf(app).claimName())
		return err
	})
	w.caughtUp(t, m)
	cfg := stored(operatorConfig(t, app, 1), 128, class)
	cfg.Generation = m.shows(t, app, operatorConfig(t, app, 1))
	wantKind(t, m.EnsureOperator(t.Context(), app, testAgentPath, cfg), errors.NotYetAvailable, namesOf(app).claimName(), "not bound")
}
