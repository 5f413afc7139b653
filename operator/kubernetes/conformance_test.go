package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
	"github.com/sutler-dev/sutler/operator/managertest"
)

// TestConformance is the suite that every manager passes, against the API server.
// Each check has a namespace and a manager of its own, so that they run at the same
// time.
func TestConformance(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Need(t)
	managertest.Run(t, func(t *testing.T) managertest.Harness {
		t.Parallel()
		s := &suite{world: worldOn(t, cluster), t: t}
		harness := managertest.Harness{
			Manager:     s.start(),
			AgentPath:   testAgentPath,
			Budget:      kubetest.Patience,
			Restart:     func() (operator.Manager, error) { return s.start(), nil },
			Vanish:      s.vanish,
			Writes:      s.writes,
			Incarnation: s.incarnation,
		}
		if cluster.FakeNode() {
			harness.OperatorInfo = s.operatorInfo
		}
		return harness
	})
}

// suite has the hooks of one check.
type suite struct {
	*world
	t *testing.T

	mu       sync.Mutex
	managers []*managed
	vanished int
}

func (s *suite) start() *Manager {
	m := s.manager(s.t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.managers = append(s.managers, m)
	return m.Manager
}

// writes counts what went over the wire that was not refused, of the managers of
// before, too.
func (s *suite) writes(app string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.managers {
		for _, q := range m.wire.Writes() {
			if q.Code < 300 && about(q, app) {
				n++
			}
		}
	}
	return n
}

// about reports whether a write is to one of the application's objects. What is
// made has its name only in what is sent, in whatever encoding.
func about(q kubetest.Request, app string) bool {
	n := namesOf(app)
	if q.Name == "" {
		return strings.Contains(q.Body, n.operator())
	}
	return slices.Contains([]string{n.operator(), n.config(), n.pull(), n.claimName(), n.operator() + "-0"}, q.Name)
}

// vanish takes away the set alone, or more with it, in turn.
func (s *suite) vanish(app string) error {
	n := namesOf(app)
	gone := []struct {
		kind kind
		name string
	}{
		{statefulSets, n.operator()}, {services, n.operator()}, {roleBindings, n.operator()},
		{serviceAccounts, n.operator()}, {secrets, n.config()},
	}
	s.mu.Lock()
	few := s.vanished%2 == 0
	s.vanished++
	s.mu.Unlock()
	if few {
		gone = gone[:1]
	}
	background := metav1.DeletePropagationBackground
	for _, g := range gone {
		err := s.endpoints[g.kind].delete(context.Background(), g.name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// incarnation names the pod that the set wants, and nothing during a roll-out.
func (s *suite) incarnation(app string) string {
	pod, err := s.current(context.Background(), app)
	if err != nil {
		return ""
	}
	return string(pod.UID)
}

// operatorInfo is what the pod read when it started, which the fake node tells.
func (s *suite) operatorInfo(app string) (facade.Secret, error) {
	pod, err := s.current(context.Background(), app)
	if err != nil {
		return facade.Secret{}, err
	}
	files := make(map[string]string)
	if err := json.Unmarshal([]byte(pod.Annotations[fakenode.FilesAnnotation]), &files); err != nil {
		return facade.Secret{}, fmt.Errorf("the pod has not started: %w", err)
	}
	file, ok := files[path.Join(testAgentPath, "agents", "application-"+app, infoKey)]
	if !ok {
		return facade.Secret{}, errors.NotFoundf("operator.yaml among the pod's files")
	}
	return facade.NewSecret(file), nil
}
