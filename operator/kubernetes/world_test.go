package kubernetes

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// What all tests against a cluster have in common.

const (
	testModel      = "5d0f8b6e-42c7-4a19-8e3d-9b7a1c6f2e04"
	otherModel     = "0b9c7f3a-1e5d-4c2b-8a6f-7d4e2c1b0a93"
	testController = "a1e5c3f2-7d4b-4c68-9f10-3b2d6e8a7c51"
	testAgentPath  = "/var/lib/juju"
)

// TestMain has many tests run at the same time: they wait for a cluster most of the
// time. What was asked for on the command line counts.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", "16"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// world is a namespace of a cluster, as an administrator sees it, and what makes
// managers that work in it.
type world struct {
	*kubetest.Cluster
	namespace string
	// endpoints are the administrator's.
	endpoints [kindCount]endpoint
}

// newWorld needs a cluster, and makes a namespace that goes when the test ends.
func newWorld(t testing.TB, changes ...func(*corev1.Namespace)) *world {
	t.Helper()
	return worldOn(t, kubetest.Need(t), changes...)
}

// worldOn is newWorld on a given cluster.
func worldOn(t testing.TB, c *kubetest.Cluster, changes ...func(*corev1.Namespace)) *world {
	t.Helper()
	namespace := c.Namespace(t, changes...)
	return &world{Cluster: c, namespace: namespace, endpoints: endpoints(c.Client, namespace)}
}

// managed is a manager whose requests are recorded.
type managed struct {
	*Manager
	wire *kubetest.Recorder
}

// manager returns a manager of the test's model in the world's namespace, with the
// administrator's rights unless a change says otherwise. It ends with the test.
func (w *world) manager(t testing.TB, changes ...func(*Config)) *managed {
	t.Helper()
	return w.managerAs(t, w.Config, changes...)
}

// managerAs is manager with somebody's rights.
func (w *world) managerAs(t testing.TB, who *rest.Config, changes ...func(*Config)) *managed {
	t.Helper()
	wire := kubetest.NewRecorder()
	who = wire.Wrap(who)
	who.DisableCompression = true // many managers on one machine
	client, err := kubernetes.NewForConfig(who)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Client: client, Namespace: w.namespace,
		ModelUUID: testModel, ModelName: "default", ControllerUUID: testController,
		Clock: clock.WallClock, Logger: logTo(t),
	}
	for _, change := range changes {
		change(&config)
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := worker.Stop(m); err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	return &managed{m, wire}
}

// listed is manager, after its first listings: what it asks from then on is for a
// reason.
func (w *world) listed(t testing.TB, changes ...func(*Config)) *managed {
	t.Helper()
	m := w.manager(t, changes...)
	m.list(t)
	return m
}

// list waits for the first listings and forgets their requests.
func (m *managed) list(t testing.TB) {
	t.Helper()
	if _, err := m.Operators(t.Context()); err != nil {
		t.Fatalf("listing operators: %v", err)
	}
	m.wire.Reset()
}

// stop ends the manager before the test does, as a crash of the agent.
func (m *managed) stop(t testing.TB) {
	t.Helper()
	if err := worker.Stop(m.Manager); err != nil {
		t.Errorf("the manager ended with %v", err)
	}
}

// ensure ensures the operator.
func (m *managed) ensure(t testing.TB, app string, cfg *operator.Config) {
	t.Helper()
	if err := m.EnsureOperator(t.Context(), app, testAgentPath, cfg); err != nil {
		t.Fatalf("EnsureOperator(%q): %v", app, err)
	}
}

// made is ensure from whatever generation is stored. It returns the one that is
// stored then.
func (m *managed) made(t testing.TB, app string, cfg *operator.Config) string {
	t.Helper()
	cfg = cfg.Clone()
	if op, err := m.Operator(t.Context(), app); err == nil {
		cfg.Generation = op.Config.Generation
	} else if !errors.Is(err, errors.NotFound) {
		t.Fatalf("Operator(%q): %v", app, err)
	}
	m.ensure(t, app, cfg)
	return m.shows(t, app, cfg)
}

// remade is made, over and over until it works: what is there may have to go first.
func (m *managed) remade(t testing.TB, app string, cfg *operator.Config) {
	t.Helper()
	kubetest.Eventually(t, "the operator made anew", func() error {
		next := cfg.Clone()
		op, err := m.Operator(t.Context(), app)
		if err == nil {
			next.Generation = op.Config.Generation
		}
		return m.EnsureOperator(t.Context(), app, testAgentPath, next)
	})
	m.shows(t, app, cfg)
}

// shows wants the operator shown with the files of cfg, and returns its generation.
func (m *managed) shows(t testing.TB, app string, cfg *operator.Config) string {
	t.Helper()
	op, err := m.Operator(t.Context(), app)
	if err != nil {
		t.Fatalf("Operator(%q): %v", app, err)
	}
	if !op.Config.AgentConf.Equal(cfg.AgentConf) || !op.Config.OperatorInfo.Equal(cfg.OperatorInfo) {
		t.Errorf("Operator(%q) shows other files than were stored", app)
	}
	return op.Config.Generation
}

// keep keeps the operator as cfg says, with the files that are stored under its
// generation.
func (m *managed) keep(t testing.TB, app string, cfg *operator.Config) {
	t.Helper()
	cfg = cfg.Clone()
	cfg.AgentConf, cfg.OperatorInfo = none(), none()
	if err := m.KeepOperator(t.Context(), app, testAgentPath, cfg); err != nil {
		t.Fatalf("KeepOperator(%q): %v", app, err)
	}
}

// none is no secret.
func none() facade.Secret { return facade.Secret{} }

// request is a request that was recorded.
type request = kubetest.Request

// resume does what a provisioner does that was restarted: it takes the files that
// are stored, and only where there are none those of fresh, stages them, and has the
// operator be as fresh says otherwise, until it is.
func resume(t testing.TB, m *managed, app string, fresh *operator.Config) {
	t.Helper()
	kubetest.Eventually(t, "the operator of "+app+" resumed", func() error {
		cfg := fresh.Clone()
		op, err := m.Operator(t.Context(), app)
		switch {
		case errors.Is(err, errors.NotFound):
		case err != nil:
			return err
		default:
			cfg.Generation = op.Config.Generation
			if !op.Config.AgentConf.IsZero() {
				cfg.AgentConf, cfg.OperatorInfo = op.Config.AgentConf, op.Config.OperatorInfo
			}
		}
		if cfg.Generation, err = m.StageOperator(t.Context(), app, testAgentPath, cfg); err != nil {
			return err
		}
		return m.EnsureOperator(t.Context(), app, testAgentPath, cfg)
	})
}

// removed deletes the operator until nothing is there.
func (m *managed) removed(t testing.TB, app string) {
	t.Helper()
	kubetest.Eventually(t, "the operator gone", func() error {
		if err := m.DeleteOperator(t.Context(), app); err != nil {
			return err
		}
		if state, err := m.OperatorExists(t.Context(), app); err != nil || state != (operator.State{}) {
			return fmt.Errorf("it is %+v, %v", state, err)
		}
		if _, err := m.Operator(t.Context(), app); !errors.Is(err, errors.NotFound) {
			return fmt.Errorf("Operator returns %v", err)
		}
		return nil
	})
}

// writes returns the writes since the last reset, in words, and forgets all
// requests.
func (m *managed) writes() []string {
	out := []string{}
	for _, q := range m.wire.Writes() {
		out = append(out, q.String())
	}
	m.wire.Reset()
	return out
}

// asked is writes with the reads that are answered by the API server; watches are
// none.
func (m *managed) asked() []string {
	var out []string
	for _, q := range m.wire.Requests() {
		if q.Verb != "watch" {
			out = append(out, q.String())
		}
	}
	m.wire.Reset()
	return out
}

// silent fails the test unless f asks the API server for nothing.
func (m *managed) silent(t testing.TB, f func()) {
	t.Helper()
	m.wire.Reset()
	f()
	if asked := m.asked(); len(asked) > 0 {
		t.Errorf("requests, where none is needed: %q", asked)
	}
}

// operatorConfig returns a configuration for the application, with files as a
// provisioner renders them. Those of different n differ in password, certificate
// and key; changes are to its agent.conf.
func operatorConfig(t testing.TB, app string, n int, changes ...func(*agentconf.Config)) *operator.Config {
	t.Helper()
	conf := &agentconf.Config{
		Tag: agentconf.TagForApplication(app), DataDir: testAgentPath, LogDir: "/var/log/juju",
		UpgradedToVersion: "2.9.49", CACert: "-----BEGIN CERTIFICATE-----\nY2E=\n-----END CERTIFICATE-----\n",
		ControllerUUID: testController, ModelUUID: testModel,
		APIAddresses: []string{"10.0.0.1:17070", "10.0.0.2:17070", "[fd00::1]:17070"},
		OldPassword:  facade.NewSecret(fmt.Sprintf("canary-password-%s-%d", app, n)),
	}
	for _, change := range changes {
		change(conf)
	}
	file, err := conf.Render()
	if err != nil {
		t.Fatal(err)
	}
	info, err := operator.Info{
		CACert:     "-----BEGIN CERTIFICATE-----\nY2E=\n-----END CERTIFICATE-----\n",
		Cert:       fmt.Sprintf("certificate of %s, %d", app, n),
		PrivateKey: facade.NewSecret(fmt.Sprintf("canary-key-%s-%d", app, n)),
	}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return &operator.Config{
		ImageDetails:     facade.ImageDetails{RegistryPath: "registry.example.com/operator:2.9.49"},
		BaseImageDetails: facade.ImageDetails{RegistryPath: "registry.example.com/charm-base:ubuntu-20.04"},
		Version:          "2.9.49",
		ResourceTags:     map[string]string{"purpose": "testing", "juju-controller-uuid": testController, "juju-model-uuid": testModel},
		AgentConf:        facade.NewSecret(string(file)),
		OperatorInfo:     info,
	}
}

// private gives both images credentials of a registry.
func private(cfg *operator.Config, password string) *operator.Config {
	cfg = cfg.Clone()
	for _, image := range []*facade.ImageDetails{&cfg.ImageDetails, &cfg.BaseImageDetails} {
		image.Username, image.Password = "puller", facade.NewSecret(password)
	}
	return cfg
}

// stored gives the configuration charm storage of that many MiB, of a class if one
// is named.
func stored(cfg *operator.Config, size uint64, class string) *operator.Config {
	cfg = cfg.Clone()
	cfg.CharmStorage = &facade.CharmStorage{StorageName: "charm", Provider: "kubernetes", Size: size}
	if class != "" {
		cfg.CharmStorage.Attributes = map[string]string{attributeClass: class}
	}
	return cfg
}

// object returns an object as the API server has it, or nil.
func (w *world) object(t testing.TB, k kind, name string) object {
	t.Helper()
	obj, err := w.endpoints[k].get(t.Context(), name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("reading %s %s: %v", k.singular(), name, err)
	}
	return obj
}

// get returns an object of a kind as the API server has it, which must be there.
func get[O object](t testing.TB, w *world, k kind, name string) O {
	t.Helper()
	obj := w.object(t, k, name)
	if obj == nil {
		t.Fatalf("%s %s is not there", k.singular(), name)
	}
	return obj.(O)
}

// edit changes an object by hand, as somebody with kubectl does. It returns it as it
// is then.
func edit[O object](t testing.TB, w *world, k kind, name string, change func(O)) O {
	t.Helper()
	var out O
	kubetest.Eventually(t, "an edit of "+k.singular()+" "+name, func() error {
		obj := get[O](t, w, k, name)
		change(obj)
		result, err := w.rest(k).Put().Namespace(w.namespace).Resource(k.resource()).Name(name).
			VersionedParams(&metav1.UpdateOptions{FieldManager: "by-hand"}, metav1.ParameterCodec).
			Body(obj).Do(t.Context()).Get()
		if apierrors.IsConflict(err) {
			return err
		}
		if err != nil {
			t.Fatalf("editing %s %s: %v", k.singular(), name, err)
		}
		out = result.(O)
		return nil
	})
	return out
}

// add makes an object by hand.
func (w *world) add(t testing.TB, k kind, obj object) object {
	t.Helper()
	return w.addAs(t, "by-hand", k, obj)
}

// addAs is add by a program of that name.
func (w *world) addAs(t testing.TB, who string, k kind, obj object) object {
	t.Helper()
	made, err := w.endpoints[k].create(t.Context(), obj, metav1.CreateOptions{FieldManager: who})
	if err != nil {
		t.Fatalf("making %s %s: %v", k.singular(), obj.GetName(), err)
	}
	return made
}

// remove deletes an object by hand and waits until it has gone, or is another one.
func (w *world) remove(t testing.TB, k kind, name string, how metav1.DeletionPropagation) {
	t.Helper()
	obj := w.object(t, k, name)
	if obj == nil {
		t.Fatalf("%s %s is not there", k.singular(), name)
	}
	err := w.endpoints[k].delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &how})
	if err != nil {
		t.Fatalf("deleting %s %s: %v", k.singular(), name, err)
	}
	kubetest.Eventually(t, k.singular()+" "+name+" gone", func() error {
		if now := w.object(t, k, name); now != nil && now.GetUID() == obj.GetUID() {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

func (w *world) rest(k kind) rest.Interface {
	switch k {
	case roles, roleBindings:
		return w.Client.RbacV1().RESTClient()
	case statefulSets:
		return w.Client.AppsV1().RESTClient()
	}
	return w.Client.CoreV1().RESTClient()
}

// everything returns all objects in the namespace that are not part of every
// namespace, by "Kind name", whatever their labels.
func (w *world) everything(t testing.TB) map[string]object {
	t.Helper()
	return w.selected(t, "")
}

// everythingOf returns all objects that are labelled as the application's.
func (w *world) everythingOf(t testing.TB, app string) map[string]object {
	t.Helper()
	return w.selected(t, labelName+"="+namesOf(app).short)
}

func (w *world) selected(t testing.TB, selector string) map[string]object {
	t.Helper()
	out := make(map[string]object)
	for k := range kindCount {
		list, err := w.endpoints[k].list(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			t.Fatalf("listing %s: %v", k.resource(), err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(object)
			switch name := obj.GetName(); {
			case k == serviceAccounts && name == "default":
			case k == configMaps && (name == "kube-root-ca.crt" || name == "testbed.sutler.dev"):
			default:
				out[k.singular()+" "+name] = obj
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// names returns what everything has, sorted, without objects that are going away.
func (w *world) names(t testing.TB) []string {
	t.Helper()
	return staying(w.everything(t))
}

// staying returns the sorted names of those that are not going away.
func staying(all map[string]object) []string {
	maps.DeleteFunc(all, func(_ string, obj object) bool { return obj.GetDeletionTimestamp() != nil })
	return slices.Sorted(maps.Keys(all))
}

// versions returns the resource versions of what everything has, but for what
// controllers change about pods and sets.
func (w *world) versions(t testing.TB) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for name, obj := range w.everything(t) {
		out[name] = string(obj.GetUID()) + " " + obj.GetResourceVersion()
		switch obj.(type) {
		case *corev1.Pod, *appsv1.StatefulSet:
			out[name] = fmt.Sprint(obj.GetUID(), " ", obj.GetGeneration())
		}
	}
	return out
}

// partsOf returns the names of everything that there has to be of an operator whose
// pod runs, with more if there is more.
func partsOf(app string, more ...string) []string {
	n := namesOf(app)
	out := append([]string{
		"ServiceAccount " + n.operator(), "Role " + n.operator(), "RoleBinding " + n.operator(),
		"Secret " + n.config(), "Service " + n.operator(), "StatefulSet " + n.operator(), "Pod " + n.operator() + "-0",
	}, more...)
	slices.Sort(out)
	return out
}

// complete waits until there are exactly the parts of the operators.
func (w *world) complete(t testing.TB, parts ...[]string) {
	t.Helper()
	want := slices.Sorted(slices.Values(slices.Concat(parts...)))
	kubetest.Eventually(t, "all parts there and nothing else", func() error {
		if have := w.names(t); !slices.Equal(have, want) {
			return fmt.Errorf("there are %q, want %q", have, want)
		}
		return nil
	})
}

// completeOf is complete for one of several operators: there are its parts, and
// nothing else that is labelled as its own.
func (w *world) completeOf(t testing.TB, app string, more ...string) {
	t.Helper()
	want := partsOf(app, more...)
	kubetest.Eventually(t, "all parts of "+app+" there and nothing else", func() error {
		if have := staying(w.everythingOf(t, app)); !slices.Equal(have, want) {
			return fmt.Errorf("there are %q, want %q", have, want)
		}
		return nil
	})
}

// empty waits until there is nothing in the namespace.
func (w *world) empty(t testing.TB) {
	t.Helper()
	kubetest.Eventually(t, "nothing left", func() error {
		if all := w.everything(t); len(all) > 0 {
			return fmt.Errorf("there are %q", slices.Sorted(maps.Keys(all)))
		}
		return nil
	})
}

// set returns the operator's set.
func (w *world) set(t testing.TB, app string) *appsv1.StatefulSet {
	t.Helper()
	return get[*appsv1.StatefulSet](t, w, statefulSets, namesOf(app).operator())
}

// rolledOut returns the operator's pod once it is ready and what the set wants, and
// no roll-out is under way.
func (w *world) rolledOut(t testing.TB, app string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	kubetest.Eventually(t, "the operator of "+app+" rolled out", func() error {
		var err error
		pod, err = w.current(t.Context(), app)
		if err == nil && !ready(pod) {
			err = fmt.Errorf("the pod is not ready: %+v", pod.Status)
		}
		return err
	})
	return pod
}

// current returns the operator's pod, or an error while a roll-out is under way.
func (w *world) current(ctx context.Context, app string) (*corev1.Pod, error) {
	name := namesOf(app).operator()
	pod, err := w.Client.CoreV1().Pods(w.namespace).Get(ctx, name+"-0", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	// The set is read second: what it wants by then, the pod has to be.
	set, err := w.Client.AppsV1().StatefulSets(w.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case set.DeletionTimestamp != nil || set.Status.ObservedGeneration != set.Generation:
		return nil, fmt.Errorf("the set has not been looked at")
	case pod.DeletionTimestamp != nil:
		return nil, fmt.Errorf("the pod is terminating")
	case !metav1.IsControlledBy(pod, set):
		return nil, fmt.Errorf("the pod is another set's")
	case pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision:
		return nil, fmt.Errorf("the pod is of revision %s, and the set of %s", pod.Labels[appsv1.StatefulSetRevisionLabel], set.Status.UpdateRevision)
	}
	return pod, nil
}

// pods returns how many pods there have been of the operator, from the present one
// on, whenever it is asked.
func (w *world) pods(t testing.TB, app string) func() int {
	t.Helper()
	pods := w.Client.CoreV1().Pods(w.namespace)
	opts := metav1.ListOptions{LabelSelector: labelName + "=" + namesOf(app).short}
	list, err := pods.List(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.ResourceVersion = list.ResourceVersion
	events, err := pods.Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := make(map[types.UID]bool)
	for _, pod := range list.Items {
		seen[pod.UID] = true
	}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range events.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				mu.Lock()
				seen[pod.UID] = true
				mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { events.Stop(); running.Wait() })
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// caughtUp waits until the manager's caches have what the API server has now: what
// was done by hand before is then known to it.
func (w *world) caughtUp(t testing.TB, m *managed) {
	t.Helper()
	for k := range kindCount {
		w.caughtUpWith(t, m, k)
	}
}

// caughtUpWith is caughtUp for one kind.
func (w *world) caughtUpWith(t testing.TB, m *managed, k kind) {
	t.Helper()
	kubetest.Eventually(t, "the manager's cache of "+k.resource()+" up to date", func() error {
		list, err := w.endpoints[k].list(t.Context(), metav1.ListOptions{LabelSelector: watched})
		if err != nil {
			return err
		}
		want := make(map[types.UID]string)
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(object)
			want[obj.GetUID()] = obj.GetResourceVersion()
			return nil
		})
		if err != nil {
			return err
		}
		have := make(map[types.UID]string)
		for _, item := range m.caches[k].informer.GetStore().List() {
			obj := item.(object)
			have[obj.GetUID()] = obj.GetResourceVersion()
		}
		if !maps.Equal(have, want) {
			return fmt.Errorf("%d are known and %d are there, or some are older", len(have), len(want))
		}
		return nil
	})
}

// watching is a watcher whose events are gathered.
type watching struct {
	mu   sync.Mutex
	told map[string]int
}

// watch gathers what the manager tells, from after the baseline.
func (m *managed) watch(t testing.TB) *watching {
	t.Helper()
	watcher, err := m.WatchOperators(t.Context())
	if err != nil {
		t.Fatalf("WatchOperators: %v", err)
	}
	select {
	case <-watcher.Changes():
	case <-time.After(kubetest.Patience):
		t.Fatalf("no baseline")
	}
	g := &watching{told: make(map[string]int)}
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case apps := <-watcher.Changes():
				g.mu.Lock()
				for _, app := range apps {
					g.told[app]++
				}
				g.mu.Unlock()
			case <-end:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(end)
		running.Wait()
		if err := worker.Stop(watcher); err != nil {
			t.Errorf("the watcher ended with %v", err)
		}
	})
	return g
}

// forget drops what was told so far, of these applications or of all.
func (g *watching) forget(apps ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(apps) == 0 {
		clear(g.told)
	}
	for _, app := range apps {
		delete(g.told, app)
	}
}

// wait waits until the application is told.
func (g *watching) wait(t testing.TB, app string) {
	t.Helper()
	kubetest.Eventually(t, "the watcher telling "+app, func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.told[app] == 0 {
			return fmt.Errorf("told were %v", g.told)
		}
		return nil
	})
}

// logTo returns a logger at the lowest level whose lines show when the test fails.
func logTo(t testing.TB) *slog.Logger {
	var lines lockedBuffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the manager's log:\n%s", lines.String())
		}
	})
	return slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lockedBuffer is for several writers.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// wantKind fails the test unless err is of the kind and says all of the words.
func wantKind(t testing.TB, err error, kind errors.ConstError, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want of kind %q", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// wantEqual fails the test unless both are equal.
func wantEqual[T any](t testing.TB, what string, have, want T) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}
