package kubernetes

import (
	"context"
	"hash/maphash"
	"log/slog"
	"maps"
	"sync"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sutler-dev/sutler/operator"
)

// Manager keeps operators as StatefulSets. It is a worker that owns the informers
// that its reads come from: Kill ends those, and leaves operators as they are. All
// of its methods may be called from many goroutines.
type Manager struct {
	catacomb  catacomb.Catacomb
	config    Config
	client    kubernetes.Interface
	endpoints [kindCount]endpoint
	caches    [kindCount]*cached
	hub       hub
	locks     keyedLocks

	seed maphash.Seed
	mu   sync.Mutex
	// verified has, for each application, what was compared last and found to be
	// right: comparing is what costs in a settled pass.
	verified map[string]verification
	written  counters
}

var (
	_ worker.Worker    = (*Manager)(nil)
	_ operator.Manager = (*Manager)(nil)
	_ operator.Watcher = (*Manager)(nil)
	_ operator.Lister  = (*Manager)(nil)
	_ operator.Stager  = (*Manager)(nil)
	_ operator.Glancer = (*Manager)(nil)
)

// New returns a manager that works. It does not wait for the cluster: the first
// calls do. The manager belongs to the caller, who kills it and waits for it.
//
// It returns errors.NotValid, naming the field, for a configuration that cannot be
// used.
func New(config Config) (*Manager, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	config = config.withDefaults()
	client, err := config.newClient()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		config:    config,
		client:    client,
		endpoints: endpoints(client, config.Namespace),
		seed:      maphash.MakeSeed(),
		verified:  make(map[string]verification),
	}
	for k := range kindCount {
		m.caches[k], err = newCached(k, m.endpoints[k], client, config, m.trim)
		if err == nil {
			err = m.listen(m.caches[k])
		}
		if err != nil {
			return nil, errors.Annotatef(err, "preparing to watch %s", k.resource())
		}
	}
	err = catacomb.Invoke(catacomb.Plan{Site: &m.catacomb, Work: m.loop})
	return m, errors.Trace(err)
}

// loop runs the informers until the manager is killed.
func (m *Manager) loop() error {
	ctx, cancel := context.WithCancel(quiet(m.catacomb.Context(context.Background()), m.config.Logger))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, c := range m.caches {
		running.Go(func() { c.informer.RunWithContext(ctx) })
	}
	<-m.catacomb.Dying()
	return m.catacomb.ErrDying()
}

// Kill is part of worker.Worker.
func (m *Manager) Kill() { m.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (m *Manager) Wait() error { return m.catacomb.Wait() }

// listen has the watchers told of what the informer is told.
func (m *Manager) listen(c *cached) error {
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { m.told(c.kind, nil, obj) },
		UpdateFunc: func(old, obj any) { m.told(c.kind, old, obj) },
		DeleteFunc: func(obj any) { m.told(c.kind, obj, nil) },
	})
	return errors.Trace(err)
}

// told tells the watchers that something about an operator changed.
func (m *Manager) told(k kind, old, obj any) {
	before, after := asObject(old), asObject(obj)
	if before != nil && after != nil && !differs(k, before, after) {
		return
	}
	for _, o := range []object{before, after} {
		if o == nil || !m.ours(o) {
			continue
		}
		if app := application(o); app != "" {
			m.hub.tell(app)
		}
	}
}

func asObject(v any) object {
	if last, ok := v.(cache.DeletedFinalStateUnknown); ok {
		v = last.Obj
	}
	obj, _ := v.(object)
	return obj
}

// differs leaves out what a controller says of how things are, and the informer's
// repetitions.
func differs(k kind, before, after object) bool {
	switch {
	case before.GetResourceVersion() == after.GetResourceVersion():
		return false
	case (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil), before.GetUID() != after.GetUID():
		return true
	case k == pods:
		return false
	case k == statefulSets:
		b, a := before.(*appsv1.StatefulSet), after.(*appsv1.StatefulSet)
		return b.Generation != a.Generation || !sameMeta(b, a)
	}
	return true
}

func sameMeta(a, b object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// ready waits for the caches. It returns why they are not what there is, at once
// when waiting does not mend it.
func (m *Manager) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return errors.Trace(err)
	}
	select {
	case <-m.catacomb.Dying():
		return errEnded()
	default:
	}
	for _, c := range m.caches {
		if err := c.ready(ctx, m.catacomb.Dying()); err != nil {
			return err
		}
	}
	return nil
}

// errEnded is what is said of a manager that was killed.
func errEnded() error { return errors.Errorf("the operator manager has ended") }

// see returns what there is of the application's operator. Objects of the right
// name that are somebody else's are not part of it.
func (m *Manager) see(app string) *seen {
	s := &seen{names: namesOf(app)}
	s.serviceAccount = mine[*corev1.ServiceAccount](m, s.names, serviceAccounts, s.operator())
	s.role = mine[*rbacv1.Role](m, s.names, roles, s.operator())
	s.roleBinding = mine[*rbacv1.RoleBinding](m, s.names, roleBindings, s.operator())
	s.config = mine[*corev1.Secret](m, s.names, secrets, s.names.config())
	s.pull = mine[*corev1.Secret](m, s.names, secrets, s.names.pull())
	s.service = mine[*corev1.Service](m, s.names, services, s.operator())
	s.set = mine[*appsv1.StatefulSet](m, s.names, statefulSets, s.operator())
	s.configMap = mine[*corev1.ConfigMap](m, s.names, configMaps, s.names.config())
	s.pod = mine[*corev1.Pod](m, s.names, pods, s.podName())
	s.claim = mine[*corev1.PersistentVolumeClaim](m, s.names, claims, s.claimName())
	return s
}

// mine returns the object of that kind and name, or nil when it is not there or not
// this operator's.
func mine[O object](m *Manager, n names, k kind, name string) O {
	var none O
	obj := m.caches[k].get(name)
	if obj == nil || m.belongs(n, k.singular(), obj) != nil {
		return none
	}
	return obj.(O)
}

// log says what was done about an application.
func (m *Manager) log(ctx context.Context, level slog.Level, message, app string, args ...any) {
	m.config.Logger.Log(ctx, level, message, append([]any{"application", app}, args...)...)
}
