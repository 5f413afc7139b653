package kubernetes

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"path"
	"strconv"
	"strings"

	"github.com/juju/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// maxLooks is how often a call works out what to write when somebody else writes,
// too, before it leaves that to the next call.
const maxLooks = 5

// EnsureOperator is part of operator.Manager. It writes what differs, in an order
// in which a crash between any two writes leaves what the next call completes, and
// nothing when nothing does.
//
// Beside what operator.Manager says it returns errors.NotYetAvailable while the
// application's previous operator is being deleted, errors.AlreadyExists when
// somebody else has an object of a name that is needed, and the API server's own
// errors by their kinds; see the package documentation.
func (m *Manager) EnsureOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	return m.ensure(ctx, app, agentPath, cfg, false)
}

func (m *Manager) ensure(ctx context.Context, app, agentPath string, cfg *operator.Config, keep bool) error {
	unlock, err := m.begin(ctx, app, agentPath, cfg, keep)
	if err != nil {
		return err
	}
	defer unlock()
	inputs := m.digestInputs(agentPath, cfg)
	for look := 1; ; look++ {
		err := m.ensureOnce(ctx, app, agentPath, cfg, inputs, keep)
		if !errors.Is(err, errStale) {
			return errors.Annotatef(err, "operator of %q", app)
		}
		if look == maxLooks {
			return errors.Annotatef(errors.WithType(err, errors.NotYetAvailable), "operator of %q", app)
		}
	}
}

// begin is what every call that writes does first.
func (m *Manager) begin(ctx context.Context, app, agentPath string, cfg *operator.Config, keep bool) (unlock func(), err error) {
	if err := m.validate(app, agentPath, cfg, keep); err != nil {
		return nil, err
	}
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	return m.locks.lock(ctx, app)
}

func (m *Manager) ensureOnce(ctx context.Context, app, agentPath string, cfg *operator.Config, inputs uint64, keep bool) error {
	s := m.see(app)
	versions := m.versionsOf(s)
	if m.isVerified(s, cfg, versions, inputs, keep) {
		return nil
	}
	if err := m.mayBuild(ctx, s); err != nil {
		return err
	}
	w := wanted{names: s.names, agentPath: agentPath, cfg: cfg}
	if keep {
		if s.config == nil || s.config.ResourceVersion != cfg.Generation {
			return errors.Annotate(operator.ErrConflict, "what is stored is not what was read")
		}
		if w.effective = s.config.Annotations[annotationEffective]; w.effective == "" {
			return errors.Annotate(operator.ErrConflict, "what is stored has lost its digest")
		}
	} else {
		w.effective = effective(cfg)
	}
	if w.cfg.CharmStorage != nil {
		if err := m.checkStorage(ctx, s, w.cfg.CharmStorage); err != nil {
			return err
		}
	}
	if err := m.ensureRights(ctx, s, w); err != nil {
		return err
	}
	if err := m.ensurePullSecret(ctx, s, w); err != nil {
		return err
	}
	var err error
	if keep {
		w.generation, err = m.keepConfig(ctx, s, w)
	} else {
		w.generation, err = m.storeConfig(ctx, s, w)
	}
	if err != nil {
		return err
	}
	if err := m.dropConfigMap(ctx, s); err != nil {
		return err
	}
	service, err := m.ensureService(ctx, s, w)
	if err != nil {
		return err
	}
	w.serviceIP = service.Spec.ClusterIP
	if err := m.ensureSet(ctx, s, w); err != nil {
		return err
	}
	m.setVerified(app, versions, inputs, keep)
	return nil
}

// mayBuild refuses while a deletion is under way, and carries on with one whose
// data a new operator must not find.
func (m *Manager) mayBuild(ctx context.Context, s *seen) error {
	if stateOf(s).Terminating {
		return errors.NotYetAvailablef("previous operator, which is still terminating,")
	}
	switch {
	case s.claim == nil:
		return nil
	case s.claim.Annotations[annotationRemoving] != "":
		if err := m.deleteOnce(ctx, s); err != nil {
			return err
		}
	case s.claim.DeletionTimestamp == nil, s.set != nil, s.pod != nil:
		// One that somebody deletes is there for as long as its pod.
		return nil
	}
	return errors.NotYetAvailablef("previous operator, whose data is still being deleted,")
}

// ensureRights sees to what a pod may do. A RoleBinding is made anew only when it
// is for another role, which cannot be changed.
func (m *Manager) ensureRights(ctx context.Context, s *seen, w wanted) error {
	if _, err := m.ensureObject(ctx, s.names, serviceAccounts, orNil(s.serviceAccount), m.serviceAccount(w), false); err != nil {
		return err
	}
	if _, err := m.ensureObject(ctx, s.names, roles, orNil(s.role), m.role(w), false); err != nil {
		return err
	}
	binding := m.roleBinding(w)
	if s.roleBinding != nil && s.roleBinding.RoleRef != binding.RoleRef {
		if err := m.deleteObject(ctx, s.names, roleBindings, s.roleBinding, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		s.roleBinding = nil
	}
	_, err := m.ensureObject(ctx, s.names, roleBindings, orNil(s.roleBinding), binding, false)
	return err
}

// orNil returns an object that is nil when obj is: a pointer that is nil does not
// make an interface that is.
func orNil[O interface {
	comparable
	object
}](obj O) object {
	var none O
	if obj == none {
		return nil
	}
	return obj
}

// ensurePullSecret goes before the pod, which would be refused its image without.
func (m *Manager) ensurePullSecret(ctx context.Context, s *seen, w wanted) error {
	if wanted := m.pullSecret(w); wanted != nil {
		_, err := m.ensureObject(ctx, s.names, secrets, orNil(s.pull), wanted, false)
		return err
	}
	if s.pull == nil {
		return nil
	}
	return m.deleteObject(ctx, s.names, secrets, s.pull, metav1.DeletePropagationBackground)
}

// ensureService asks for the address that the operator was told, should somebody
// have deleted the Service: another one would have the pod started again.
func (m *Manager) ensureService(ctx context.Context, s *seen, w wanted) (*corev1.Service, error) {
	service := m.service(w)
	if s.service == nil && s.set != nil {
		made, err := m.serviceAgain(ctx, s, service)
		if made != nil || err != nil {
			return made, err
		}
	}
	obj, err := m.ensureObject(ctx, s.names, services, orNil(s.service), service, false)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Service), nil
}

// serviceAgain makes the Service with the address that it had, and returns nil when
// that cannot be had.
func (m *Manager) serviceAgain(ctx context.Context, s *seen, service *corev1.Service) (*corev1.Service, error) {
	ip := serviceIPOf(s.set)
	if ip == "" {
		return nil, nil
	}
	// The address is asked for once, and not part of what is wanted.
	if _, err := stamp(service); err != nil {
		return nil, err
	}
	again := service.DeepCopy()
	again.Spec.ClusterIP = ip
	made, err := m.create(ctx, s.names, services, again)
	switch {
	case err == nil:
		return made.(*corev1.Service), nil
	case errors.Is(err, errors.NotValid), errors.Is(err, errors.AlreadyExists):
		// Somebody else has the address by now, or made the Service.
		return nil, nil
	}
	return nil, err
}

// serviceIPOf returns the address of the Service that the set's pods are told.
func serviceIPOf(set *appsv1.StatefulSet) string {
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, env := range c.Env {
			if c.Name == operatorContainer && env.Name == "JUJU_OPERATOR_SERVICE_IP" {
				return env.Value
			}
		}
	}
	return ""
}

// ensureSet goes last: the set is what makes the operator exist.
func (m *Manager) ensureSet(ctx context.Context, s *seen, w wanted) error {
	set := m.statefulSet(w)
	rebuild, err := m.ensureClaims(ctx, s, w, set)
	if err != nil {
		return err
	}
	if rebuild || s.set != nil && cannotBecome(s.set, set) {
		if err := m.takeSetApart(ctx, s); err != nil {
			return err
		}
	}
	if err := m.confirmConfig(ctx, s, w); err != nil {
		return err
	}
	_, err = m.ensureObject(ctx, s.names, statefulSets, orNil(s.set), set, false)
	if err != nil {
		return err
	}
	if s.set == nil {
		m.log(ctx, slog.LevelInfo, "operator's set created", s.app, "name", set.Name)
	}
	if s.unfit(w.cfg.CharmStorage) {
		return m.deleteObject(ctx, s.names, pods, s.pod, metav1.DeletePropagationBackground)
	}
	return nil
}

// cannotBecome reports whether the sets differ in what cannot be changed, beside
// their claims. Those of the older tool do.
func cannotBecome(have, want *appsv1.StatefulSet) bool {
	return have.Spec.ServiceName != want.Spec.ServiceName || have.Spec.PodManagementPolicy != want.Spec.PodManagementPolicy
}

// confirmConfig looks whether what is stored is still what the pod is to be started
// again for. With a cache that is behind, a pod that another agent has just started
// with its files would be started again for those of before.
func (m *Manager) confirmConfig(ctx context.Context, s *seen, w wanted) error {
	if s.set == nil || s.set.Spec.Template.Annotations[annotationEffective] == w.effective {
		return nil
	}
	obj, err := m.read(ctx, s.names, secrets, s.names.config())
	if err == nil && obj.GetResourceVersion() != w.generation {
		err = errors.Annotatef(errStale, "Secret %q was changed", s.names.config())
	}
	return err
}

// verification is what was found to be right.
type verification struct {
	inputs   uint64
	versions uint64
}

// isVerified reports whether all was found to be as the inputs say, and is still
// what it was then.
func (m *Manager) isVerified(s *seen, cfg *operator.Config, versions, inputs uint64, keep bool) bool {
	if s.set == nil || s.config == nil || keep && s.config.ResourceVersion != cfg.Generation || s.unfit(cfg.CharmStorage) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.verified[s.app] == verification{keyOf(inputs, keep), versions}
}

// setVerified takes note of versions that were compared and found right. What was
// written since, by this manager or by somebody else, has not been compared: then
// the next call compares.
func (m *Manager) setVerified(app string, versions, inputs uint64, keep bool) {
	if m.versionsOf(m.see(app)) != versions {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verified[app] = verification{keyOf(inputs, keep), versions}
}

// keyOf tells inputs with files from those without.
func keyOf(inputs uint64, keep bool) uint64 {
	if keep {
		return inputs ^ 1
	}
	return inputs &^ 1
}

func (m *Manager) forgetVerified(app string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.verified, app)
}

// versionsOf is a digest of which objects are there, but for the pod, in which versions.
// That of the set changes with its status, too: what changes with all else is its
// generation and what is written on it.
func (m *Manager) versionsOf(s *seen) uint64 {
	b := make([]byte, 0, 512)
	for _, p := range s.parts() {
		b = append(b, p.obj.GetUID()...)
		b = append(b, '/')
		if p.kind == statefulSets {
			b = strconv.AppendInt(b, p.obj.GetGeneration(), 10)
			b = append(b, '/')
			b = strconv.AppendUint(b, m.sum(p.obj.GetLabels())+m.sum(p.obj.GetAnnotations()), 36)
		} else {
			b = append(b, p.obj.GetResourceVersion()...)
		}
		if p.obj.GetDeletionTimestamp() != nil {
			b = append(b, '-')
		}
		b = append(b, ' ')
	}
	if s.claim != nil {
		b = append(b, s.claim.UID...)
		b = append(b, s.claim.Annotations[annotationRemoving]...)
	}
	return maphash.Bytes(m.seed, b)
}

// sum is a digest of a map, in whatever order.
func (m *Manager) sum(texts map[string]string) uint64 {
	var out uint64
	for key, value := range texts {
		out += maphash.String(m.seed, key)*31 ^ maphash.String(m.seed, value)
	}
	return out
}

// digestInputs is a digest of all that an operator's objects are worked out from.
func (m *Manager) digestInputs(agentPath string, cfg *operator.Config) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	text := func(texts ...string) {
		for _, s := range texts {
			_, _ = h.WriteString(s)
			_ = h.WriteByte(0)
		}
	}
	image := func(d facade.ImageDetails) {
		text(d.RegistryPath, d.Username, d.ServerAddress, d.Repository, d.Region,
			d.Password.Reveal(), d.Auth.Reveal(), d.IdentityToken.Reveal(), d.RegistryToken.Reveal())
	}
	tags := func(tags map[string]string) {
		for _, key := range sortedKeys(tags) {
			text(key, tags[key])
		}
		text("")
	}
	text(agentPath, cfg.Version, cfg.AgentConf.Reveal(), cfg.OperatorInfo.Reveal())
	image(cfg.ImageDetails)
	image(cfg.BaseImageDetails)
	tags(cfg.ResourceTags)
	if s := cfg.CharmStorage; s != nil {
		text(s.StorageName, s.Provider, fmt.Sprint(s.Size))
		tags(s.Attributes)
		tags(s.ResourceTags)
	}
	return h.Sum64()
}

// validate names what no repetition makes right.
func (m *Manager) validate(app, agentPath string, cfg *operator.Config, keep bool) error {
	if err := validName(app); err != nil {
		return err
	}
	if err := validateFiles(cfg, keep); err != nil {
		return err
	}
	switch {
	case !path.IsAbs(agentPath), path.Clean(agentPath) != agentPath, agentPath == "/":
		return errors.NotValidf("agent path %q (want an absolute one, clean and not the root)", cut(agentPath))
	case cfg.ImageDetails.RegistryPath == "":
		return errors.NotValidf("operator config with empty ImageDetails.RegistryPath")
	case strings.ContainsFunc(cfg.ImageDetails.RegistryPath+cfg.BaseImageDetails.RegistryPath, func(r rune) bool { return r <= ' ' }):
		return errors.NotValidf("operator config with white space in the RegistryPath of an image")
	case len(cfg.Version) > 256:
		return errors.NotValidf("operator config with a Version of more than 256 bytes")
	}
	if err := validateTags(cfg.ResourceTags); err != nil {
		return errors.Annotate(err, "operator config")
	}
	return errors.Annotate(validateStorage(cfg.CharmStorage), "operator config: CharmStorage")
}

func validateFiles(cfg *operator.Config, keep bool) error {
	if !keep {
		if err := cfg.Validate(); err != nil {
			return err
		}
		if len(cfg.AgentConf.Reveal())+len(cfg.OperatorInfo.Reveal()) > maxFiles {
			return errors.NotValidf("operator config whose AgentConf and OperatorInfo have more than %d KiB together", maxFiles>>10)
		}
		return nil
	}
	return cfg.ValidateKeep()
}

// maxSize is what fits into an API quantity, in MiB.
const maxSize = 1 << 40

func validateStorage(s *facade.CharmStorage) error {
	if s == nil {
		return nil
	}
	switch {
	case s.Size == 0 || s.Size > maxSize:
		return errors.NotValidf("Size of %d MiB (want 1 to %d)", s.Size, int64(maxSize))
	}
	if class := s.Attributes[attributeClass]; class != "" {
		if bad := validation.IsDNS1123Subdomain(class); len(bad) > 0 {
			return errors.NotValidf("attribute %s %q (%s)", attributeClass, cut(class), bad[0])
		}
	}
	switch modeOf(s) {
	case corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadWriteOncePod, corev1.ReadOnlyMany:
	default:
		return errors.NotValidf("attribute %s %q (want ReadWriteOnce, ReadWriteOncePod, ReadWriteMany or ReadOnlyMany)",
			attributeMode, cut(string(modeOf(s))))
	}
	return validateTags(s.ResourceTags)
}
