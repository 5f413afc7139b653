package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sutler-dev/sutler/operator"
)

// StageOperator is part of operator.Stager. It writes the Secret and nothing else;
// a pod keeps the files with which it started.
func (m *Manager) StageOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) (string, error) {
	unlock, err := m.begin(ctx, app, agentPath, cfg, false)
	if err != nil {
		return "", err
	}
	defer unlock()
	for look := 1; ; look++ {
		s := m.see(app)
		if err := m.mayBuild(ctx, s); err != nil {
			return "", errors.Annotatef(err, "operator of %q", app)
		}
		w := wanted{names: s.names, agentPath: agentPath, cfg: cfg, effective: effective(cfg)}
		generation, err := m.storeConfig(ctx, s, w)
		if errors.Is(err, errStale) {
			if look < maxLooks {
				continue
			}
			err = errors.WithType(err, errors.NotYetAvailable)
		}
		return generation, errors.Annotatef(err, "operator of %q", app)
	}
}

// storeConfig makes the Secret say what is wanted, and returns its generation. It
// refuses by the rule of operator.Config.Generation, against what the API server has:
// a Secret is made only where there is none, and changed only from the version that
// was looked at.
func (m *Manager) storeConfig(ctx context.Context, s *seen, w wanted) (string, error) {
	live := s.config
	if live == nil && s.configMap != nil {
		return m.moveConfig(ctx, s, w)
	}
	if live == nil {
		if w.cfg.Generation != "" {
			// Nothing is stored, as far as is known; the API server knows better.
			obj, err := m.read(ctx, s.names, secrets, s.names.config())
			switch {
			case errors.Is(err, errStale):
				return "", errors.Annotate(operator.ErrConflict, "what was read is not stored any more")
			case err != nil:
				return "", err
			}
			live = obj.(*corev1.Secret)
		}
	}
	if live == nil {
		made, err := m.ensureObject(ctx, s.names, secrets, nil, m.configSecret(w), true)
		if err == nil {
			return made.GetResourceVersion(), nil
		}
		if !errors.Is(err, errors.AlreadyExists) {
			return "", err
		}
		obj, err := m.read(ctx, s.names, secrets, s.names.config())
		if err != nil {
			return "", err
		}
		live = obj.(*corev1.Secret)
	}
	for look := 1; ; look++ {
		if w.cfg.Generation != live.ResourceVersion && !sameStored(w.names, live, w.cfg) {
			if look == 1 {
				// The informer may be behind: what the caller was shown may
				// well be what is there.
				obj, err := m.read(ctx, s.names, secrets, live.Name)
				if err != nil {
					return "", err
				}
				live = obj.(*corev1.Secret)
				continue
			}
			if err := m.showAgain(ctx, w.names, live); err != nil {
				return "", err
			}
			return "", errors.Annotate(operator.ErrConflict, "another configuration is stored than the one that was read")
		}
		stored, err := m.ensureObject(ctx, s.names, secrets, live, m.configSecret(w), true)
		if err == nil {
			return stored.GetResourceVersion(), nil
		}
		if !errors.Is(err, errStale) || look > maxLooks {
			return "", err
		}
		obj, err := m.read(ctx, s.names, secrets, live.Name)
		if err != nil {
			return "", err
		}
		live = obj.(*corev1.Secret)
	}
}

// showAgain gives a Secret its labels back that somebody took away: who is told of a
// conflict could not read it otherwise, and would not get any further.
func (m *Manager) showAgain(ctx context.Context, n names, live *corev1.Secret) error {
	if live.Labels[labelTarget] != "" {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": live.UID, "labels": m.labels(n)}})
	if err != nil {
		return errors.Trace(err)
	}
	changed, err := m.endpoints[secrets].patch(ctx, live.Name, types.MergePatchType, data, metav1.PatchOptions{
		FieldManager: m.config.FieldManager,
	})
	if err != nil {
		return m.refused(ctx, n, secrets, live.Name, err)
	}
	m.written.changed.Add(1)
	m.took(secrets, changed)
	return nil
}

// sameStored reports whether both files of the Secret, which is sealed, are those
// of the configuration.
func sameStored(n names, live *corev1.Secret, cfg *operator.Config) bool {
	files := sealed(map[string][]byte{
		n.agentConfKey(): []byte(cfg.AgentConf.Reveal()),
		infoKey:          []byte(cfg.OperatorInfo.Reveal()),
	})
	for key, value := range files {
		if !bytes.Equal(live.Data[key], value) {
			return false
		}
	}
	return true
}

// keepConfig sees to everything about the Secret but its two files, without
// knowing them, and returns its generation.
func (m *Manager) keepConfig(ctx context.Context, s *seen, w wanted) (string, error) {
	wanted := m.configSecret(w)
	stamp, err := stamp(wanted)
	if err != nil {
		return "", err
	}
	// Compared as if the files were the wanted ones.
	have := copyOf(s.config).(*corev1.Secret)
	if have.Data == nil {
		have.Data = make(map[string][]byte, 2)
	}
	files := sealed(wanted.Data)
	have.Data[w.agentConfKey()], have.Data[infoKey] = files[w.agentConfKey()], files[infoKey]
	if at, err := m.differs(have, wanted, stamp); err != nil || at == "" {
		return w.cfg.Generation, err
	}
	// Something else than the files is to be written, and they have to go along.
	full, err := m.endpoints[secrets].get(ctx, s.config.Name)
	switch {
	case apierrors.IsNotFound(err):
		m.caches[secrets].forget(s.config.Name)
		return "", errors.Annotate(operator.ErrConflict, "what was read is not stored any more")
	case err != nil:
		return "", errors.Annotatef(apiError(ctx, err), "reading Secret %q", s.config.Name)
	case full.GetResourceVersion() != w.cfg.Generation:
		m.took(secrets, full)
		return "", errors.Annotate(operator.ErrConflict, "what is stored is not what was read")
	}
	stored := configOf(s.names, full.(*corev1.Secret).Data)
	cfg := w.cfg.Clone()
	cfg.AgentConf, cfg.OperatorInfo = stored.AgentConf, stored.OperatorInfo
	w.cfg = cfg
	written, err := m.ensureObject(ctx, s.names, secrets, m.trim(full), m.configSecret(w), true)
	if errors.Is(err, errStale) {
		return "", errors.Annotate(operator.ErrConflict, "what is stored is not what was read")
	}
	if err != nil {
		return "", err
	}
	return written.GetResourceVersion(), nil
}

// movedPrefix begins the generation of a configuration that the older tool's
// ConfigMap still has.
const movedPrefix = "configmap-"

// moveConfig stores the configuration where it belongs, and removes the ConfigMap
// that had it. Crashes leave both: then the Secret counts.
func (m *Manager) moveConfig(ctx context.Context, s *seen, w wanted) (string, error) {
	if want := movedPrefix + s.configMap.ResourceVersion; w.cfg.Generation != want {
		stored, _, err := m.readConfigMap(ctx, s)
		if err != nil {
			return "", err
		}
		if !stored.AgentConf.Equal(w.cfg.AgentConf) || !stored.OperatorInfo.Equal(w.cfg.OperatorInfo) {
			return "", errors.Annotate(operator.ErrConflict, "another configuration is stored than the one that was read")
		}
	}
	made, err := m.ensureObject(ctx, s.names, secrets, nil, m.configSecret(w), true)
	if errors.Is(err, errors.AlreadyExists) {
		if _, err := m.read(ctx, s.names, secrets, s.names.config()); err != nil {
			return "", err
		}
		return "", errors.Annotatef(errStale, "Secret %q is there", s.names.config())
	}
	if err != nil {
		return "", err
	}
	return made.GetResourceVersion(), m.dropConfigMap(ctx, s)
}

// dropConfigMap removes what the Secret has taken over.
func (m *Manager) dropConfigMap(ctx context.Context, s *seen) error {
	if s.configMap == nil {
		return nil
	}
	return m.deleteObject(ctx, s.names, configMaps, s.configMap, metav1.DeletePropagationBackground)
}

// readConfigMap reads what the older tool stored.
func (m *Manager) readConfigMap(ctx context.Context, s *seen) (*operator.Config, string, error) {
	obj, err := m.endpoints[configMaps].get(ctx, s.names.config())
	if err != nil {
		return nil, "", errors.Annotatef(apiError(ctx, err), "reading ConfigMap %q", s.names.config())
	}
	cm := obj.(*corev1.ConfigMap)
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for key, value := range cm.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, cm.BinaryData)
	return configOf(s.names, data), movedPrefix + cm.ResourceVersion, nil
}
