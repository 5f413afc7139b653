package kubernetes

import (
	"context"
	"slices"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/operator"
)

// OperatorExists is part of operator.Manager. An operator exists when its
// StatefulSet does, whether a pod runs or not. It comes from the caches.
func (m *Manager) OperatorExists(ctx context.Context, app string) (operator.State, error) {
	s, err := m.look(ctx, app)
	if err != nil {
		return operator.State{}, err
	}
	return stateOf(s), nil
}

// look returns what there is, as far as the caches know.
func (m *Manager) look(ctx context.Context, app string) (*seen, error) {
	if err := validName(app); err != nil {
		return nil, err
	}
	if err := m.ready(ctx); err != nil {
		return nil, errors.Annotatef(err, "operator of %q", app)
	}
	return m.see(app), nil
}

// stateOf takes a set of which only the pods are to be left for one that is there:
// it is made anew, not taken away. A pod that goes while its set stays is replaced.
func stateOf(s *seen) operator.State {
	if s.set != nil {
		going := s.set.DeletionTimestamp != nil && !slices.Contains(s.set.Finalizers, metav1.FinalizerOrphanDependents)
		return operator.State{Exists: true, Terminating: going}
	}
	return operator.State{Terminating: s.pod != nil && s.pod.DeletionTimestamp != nil}
}

// anything reports whether there is a part of an operator. Claims that are to be
// kept are none.
func (m *Manager) anything(s *seen) bool {
	return len(s.parts()) > 0 || s.pod != nil || s.claim != nil && !m.config.KeepClaims
}

// Operator is part of operator.Manager. The stored configuration is read from the
// API server, since contents of Secrets are not kept; the rest comes from the caches.
// So are the reasons why there is no pod, when there is none.
func (m *Manager) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	s, err := m.look(ctx, app)
	if err != nil {
		return nil, err
	}
	op, err := m.describe(s)
	if err != nil {
		return nil, err
	}
	op.Config, err = m.readConfig(ctx, s)
	if err != nil {
		return nil, errors.Annotatef(err, "operator of %q", app)
	}
	if s.pod == nil && s.set != nil {
		m.explain(ctx, s, &op.Status)
	}
	return op, nil
}

// GlanceOperator is part of operator.Glancer. It comes from the caches alone, which
// have no credentials of registries either.
func (m *Manager) GlanceOperator(ctx context.Context, app string) (*operator.Operator, error) {
	s, err := m.look(ctx, app)
	if err != nil {
		return nil, err
	}
	return m.describe(s)
}

// KeepOperator is part of operator.Glancer: EnsureOperator with the files that are
// stored, which are not read unless something else about the Secret is to be changed.
func (m *Manager) KeepOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	return m.ensure(ctx, app, agentPath, cfg, true)
}

// describe is Operator without what is stored.
func (m *Manager) describe(s *seen) (*operator.Operator, error) {
	if !m.anything(s) {
		return nil, errors.NotFoundf("operator of %q", s.app)
	}
	cfg := &operator.Config{}
	if s.config != nil {
		cfg = publicOf(s.config.Data)
	}
	cfg.Generation = generationOf(s)
	return &operator.Operator{
		ID:     m.config.Namespace + "/" + s.operator(),
		Dying:  stateOf(s).Terminating,
		Status: statusOf(s),
		Config: cfg,
	}, nil
}

func generationOf(s *seen) string {
	switch {
	case s.config != nil:
		return s.config.ResourceVersion
	case s.configMap != nil:
		return movedPrefix + s.configMap.ResourceVersion
	}
	return ""
}

// readConfig reads what is stored. The Secret goes before what the older tool left.
func (m *Manager) readConfig(ctx context.Context, s *seen) (*operator.Config, error) {
	switch {
	case s.config != nil:
		obj, err := m.endpoints[secrets].get(ctx, s.names.config())
		if errors.Is(apiError(ctx, err), errors.NotFound) {
			m.caches[secrets].forget(s.names.config())
			return &operator.Config{}, nil
		}
		if err != nil {
			return nil, errors.Annotatef(apiError(ctx, err), "reading Secret %q", s.names.config())
		}
		if err := m.belongs(s.names, "Secret", obj); err != nil {
			return nil, err
		}
		cfg := configOf(s.names, obj.(*corev1.Secret).Data)
		cfg.Generation = obj.GetResourceVersion()
		return cfg, nil
	case s.configMap != nil:
		cfg, generation, err := m.readConfigMap(ctx, s)
		if errors.Is(err, errors.NotFound) {
			return &operator.Config{}, nil
		}
		if err != nil {
			return nil, err
		}
		cfg.Generation = generation
		return cfg, nil
	}
	return &operator.Config{}, nil
}

// Operators is part of operator.Lister. It comes from the caches.
func (m *Manager) Operators(ctx context.Context) ([]string, error) {
	if err := m.ready(ctx); err != nil {
		return nil, errors.Annotate(err, "listing operators")
	}
	found := make(map[string]bool)
	for _, c := range m.caches {
		if c.kind == claims && m.config.KeepClaims {
			continue
		}
		for _, obj := range c.all() {
			if !m.ours(obj) {
				continue
			}
			if app := application(obj); app != "" && isPart(c.kind, namesOf(app), obj) {
				found[app] = true
			}
		}
	}
	return sortedKeys(found), nil
}

// isPart reports whether the object has the name that an operator's part of that
// kind has: the older tool labels others the same way.
func isPart(k kind, n names, obj object) bool {
	switch k {
	case secrets:
		return obj.GetName() == n.config() || obj.GetName() == n.pull()
	case configMaps:
		return obj.GetName() == n.config()
	case claims:
		return obj.GetName() == n.claimName()
	case pods:
		return obj.GetName() == n.podName()
	}
	return obj.GetName() == n.operator()
}
