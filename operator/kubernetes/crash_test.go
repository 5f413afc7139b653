package kubernetes

import (
	"context"
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/juju/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

// What is left when a manager dies at any of its writes, or one of them fails, and
// what comes of it.

// failures are what may happen at the n-th write.
func failures() []failure {
	return []failure{
		// It was carried out, and no other: what there is, is what there would be
		// if the next one had never been sent.
		{"death after", true, func(_ *scene, m *managed, n int) { m.wire.CrashAfterWrite(n) }},
		// Not carried out, or it was and nobody says so, or nobody waits for it any
		// more, in turn.
		{"trouble with", false, func(c *scene, m *managed, n int) {
			fault := kubetest.Fault{First: n, Last: n}
			switch n % 4 {
			case 0:
				fault.Refuse = true
			case 1:
				fault.Before = func(request) { c.cancel() }
			case 2:
				fault.Lose = true
			case 3:
				fault.After = func(request) { c.cancel() }
			}
			m.wire.Inject(kubetest.Writes, fault)
		}},
	}
}

type failure struct {
	name string
	// dead has another manager go on.
	dead bool
	at   func(c *scene, m *managed, n int)
}

// scene is an application of which a manager is to do something, and fails.
type scene struct {
	*world
	maker *managed // makes what there is to begin with
	app   string
	class string // of storage
	// ctx is that of what may fail.
	ctx    context.Context
	cancel context.CancelFunc
	// pod is what ran before.
	pod *corev1.Pod
}

// story is what is done and looked at around a failure.
type story struct {
	// before makes what there is to begin with.
	before func(*testing.T, *scene)
	// do is what fails. It returns an error when it does.
	do func(*testing.T, *scene, *managed) error
	// after has the next manager, or the same, go on, and looks at what comes of it.
	after func(*testing.T, *scene, *managed)
}

// failing plays the story without a failure, and then for each at each of the writes
// that there were. An application of its own is for each.
func failing(t *testing.T, s story) {
	t.Parallel()
	w := newWorld(t)
	class := w.StorageClass(t)
	maker := w.listed(t)
	play := func(t *testing.T, app string, f failure, n int) (writes int, err error) {
		c := &scene{world: w, maker: maker, class: class, app: app}
		c.ctx, c.cancel = context.WithCancel(t.Context())
		defer c.cancel()
		if s.before != nil {
			s.before(t, c)
		}
		m := w.listed(t)
		if n > 0 {
			f.at(c, m, n)
		}
		err = s.do(t, c, m)
		writes = len(m.wire.Writes())
		if f.dead {
			m.stop(t)
			m = w.listed(t)
		}
		s.after(t, c, m)
		return writes, err
	}
	writes, err := play(t, "web", failure{}, 0)
	if err != nil || writes == 0 {
		t.Fatalf("without a failure it ends after %d writes with %v", writes, err)
	}
	for _, f := range failures() {
		for n := 1; n <= writes; n++ {
			t.Run(fmt.Sprintf("%s write %d", f.name, n), func(t *testing.T) {
				t.Parallel()
				written, err := play(t, fmt.Sprintf("web-%s-x%d", f.name[:1], n), f, n)
				// The end of a context may come too late.
				if written >= n && err == nil && (f.dead || n%4 != 3) {
					t.Errorf("nobody is told that something failed")
				}
			})
		}
	}
}

// full is a configuration with everything in it.
func (c *scene) full(t *testing.T, n int) *operator.Config {
	return stored(private(operatorConfig(t, c.app, n), "s3cret"), 100, c.class)
}

// made makes the operator and waits for its pod.
func (c *scene) made(t *testing.T, cfg *operator.Config) {
	t.Helper()
	c.maker.ensure(t, c.app, cfg)
	c.pod = c.rolledOut(t, c.app)
}

// parts wants an operator that is complete, nothing doubled or left over, whose pod
// works with the files of cfg and whose set has had that many revisions.
func (c *scene) parts(t *testing.T, m *managed, cfg *operator.Config, revisions int) {
	t.Helper()
	n := namesOf(c.app)
	more := []string{"PersistentVolumeClaim " + n.claimName()}
	if cfg.ImageDetails.IsPrivate() {
		more = append(more, "Secret "+n.pull())
	}
	if cfg.CharmStorage == nil {
		more = more[1:]
	}
	c.works(t, c.app, cfg) // first: what it waits for takes fewest requests
	c.completeOf(t, c.app, more...)
	if had := len(c.revisions(t, c.app)); had != revisions {
		t.Errorf("the set has had %d revisions, want %d", had, revisions)
	}
	cfg = cfg.Clone()
	cfg.Generation = m.shows(t, c.app, cfg)
	m.silent(t, func() { m.ensure(t, c.app, cfg); m.keep(t, c.app, cfg) })
}

// works wants the pod rolled out to have the images and files of cfg. It returns it.
func (w *world) works(t testing.TB, app string, cfg *operator.Config) *corev1.Pod {
	t.Helper()
	pod := w.rolledOut(t, app)
	wantEqual(t, "the pod's operator image", pod.Spec.InitContainers[0].Image, cfg.ImageDetails.RegistryPath)
	wantEqual(t, "the pod's base image", pod.Spec.Containers[0].Image, cfg.BaseImageDetails.RegistryPath)
	if !w.FakeNode() {
		return pod
	}
	files := kubetest.Files(t, pod)
	dir := path.Join(testAgentPath, "agents", "application-"+app)
	for name, want := range map[string]string{templateConf: cfg.AgentConf.Reveal(), infoKey: cfg.OperatorInfo.Reveal()} {
		if files[path.Join(dir, name)] != want {
			t.Errorf("the pod has started with another %s", name)
		}
	}
	return pod
}

// A password that is stored may be known to the controller already: it stays. Where
// none is, there is a new one.
func TestFailureInTheMakingIsMadeGood(t *testing.T) {
	failing(t, story{
		do: func(t *testing.T, c *scene, m *managed) error {
			cfg := c.full(t, 1)
			generation, err := m.StageOperator(c.ctx, c.app, testAgentPath, cfg)
			if err != nil {
				return err
			}
			cfg.Generation = generation
			return m.EnsureOperator(c.ctx, c.app, testAgentPath, cfg)
		},
		after: func(t *testing.T, c *scene, next *managed) {
			want := c.full(t, 2)
			if c.object(t, secrets, namesOf(c.app).config()) != nil {
				want = c.full(t, 1)
			}
			resume(t, next, c.app, c.full(t, 2))
			c.parts(t, next, want, 1)
		},
	})
}

// updated is everything else.
func (c *scene) updated(t *testing.T) *operator.Config {
	cfg := private(c.full(t, 2), "an0ther")
	cfg.Version = "2.9.50"
	cfg.ImageDetails.RegistryPath = "registry.example.com/operator:2.9.50"
	cfg.BaseImageDetails.RegistryPath = "registry.example.com/charm-base:ubuntu-22.04"
	cfg.ResourceTags = map[string]string{"purpose": "more testing", "owner": "somebody"}
	return cfg
}

// The pod is started again once, however often that is begun.
func TestFailureInAnUpdateIsMadeGood(t *testing.T) {
	failing(t, story{
		before: func(t *testing.T, c *scene) { c.made(t, c.full(t, 1)) },
		do: func(t *testing.T, c *scene, m *managed) error {
			op, err := m.Operator(c.ctx, c.app)
			if err != nil {
				return err
			}
			cfg := c.updated(t)
			cfg.Generation = op.Config.Generation
			return m.EnsureOperator(c.ctx, c.app, testAgentPath, cfg)
		},
		after: func(t *testing.T, c *scene, next *managed) {
			op, err := next.Operator(t.Context(), c.app)
			if err != nil {
				t.Fatal(err)
			}
			want := c.updated(t)
			want.AgentConf, want.OperatorInfo = op.Config.AgentConf, op.Config.OperatorInfo
			if old := c.full(t, 1); !sameFiles(want, c.updated(t)) && !sameFiles(want, old) {
				t.Errorf("the stored files are neither the older nor the newer ones")
			}
			resume(t, next, c.app, want)
			c.parts(t, next, want, 2)
		},
	})
}

func sameFiles(a, b *operator.Config) bool {
	return a.AgentConf.Equal(b.AgentConf) && a.OperatorInfo.Equal(b.OperatorInfo)
}

func TestFailureInTheMoveOfAnOlderConfigIsMadeGood(t *testing.T) {
	failing(t, story{
		before: func(t *testing.T, c *scene) {
			c.older(t, c.app, operatorConfig(t, c.app, 1))
			c.pod = c.rolledOut(t, c.app)
		},
		do: func(t *testing.T, c *scene, m *managed) error {
			op, err := m.Operator(c.ctx, c.app)
			if err != nil {
				return err
			}
			cfg := operatorConfig(t, c.app, 1)
			cfg.Generation = op.Config.Generation
			return m.EnsureOperator(c.ctx, c.app, testAgentPath, cfg)
		},
		after: func(t *testing.T, c *scene, next *managed) {
			resume(t, next, c.app, operatorConfig(t, c.app, 2))
			c.parts(t, next, operatorConfig(t, c.app, 1), 2)
		},
	})
}

// A deletion that was broken off is found by what is left, and nothing stays.
func TestFailureInADeletionIsMadeGood(t *testing.T) {
	failing(t, story{
		before: func(t *testing.T, c *scene) { c.made(t, c.full(t, 1)) },
		do: func(t *testing.T, c *scene, m *managed) (err error) {
			kubetest.Eventually(t, "the operator gone, or a failure", func() error {
				if err = m.DeleteOperator(c.ctx, c.app); err != nil {
					return nil
				}
				if _, err := m.GlanceOperator(c.ctx, c.app); !errors.Is(err, errors.NotFound) {
					return fmt.Errorf("it is there, %v", err)
				}
				return nil
			})
			return err
		},
		after: func(t *testing.T, c *scene, next *managed) {
			if len(c.everythingOf(t, c.app)) > 0 {
				apps, err := next.Operators(t.Context())
				if err != nil || !slices.Contains(apps, c.app) {
					t.Errorf("there is something left, and the applications listed are %q, %v", apps, err)
				}
			}
			next.removed(t, c.app)
			if left := c.everythingOf(t, c.app); len(left) > 0 {
				t.Errorf("left over are %q", sortedKeys(left))
			}
		},
	})
}

// The set is made anew around its pod, which does not notice.
func TestFailureInTheGrowthOfStorageIsMadeGood(t *testing.T) {
	grown := func(t *testing.T, c *scene, n int) *operator.Config {
		return stored(private(operatorConfig(t, c.app, n), "s3cret"), 200, c.class)
	}
	failing(t, story{
		before: func(t *testing.T, c *scene) { c.made(t, c.full(t, 1)) },
		do: func(t *testing.T, c *scene, m *managed) error {
			return m.EnsureOperator(c.ctx, c.app, testAgentPath, grown(t, c, 1))
		},
		after: func(t *testing.T, c *scene, next *managed) {
			resume(t, next, c.app, grown(t, c, 2))
			c.parts(t, next, grown(t, c, 1), 1)
			claim := get[*corev1.PersistentVolumeClaim](t, c.world, claims, namesOf(c.app).claimName())
			if size := claim.Spec.Resources.Requests.Storage().String(); size != "200Mi" {
				t.Errorf("the claim asks for %s", size)
			}
			if size := templateOf(c.set(t, c.app)).Spec.Resources.Requests.Storage().String(); size != "200Mi" {
				t.Errorf("the set's template asks for %s", size)
			}
			if c.rolledOut(t, c.app).UID != c.pod.UID {
				t.Errorf("the pod was replaced")
			}
		},
	})
}

func TestFailureInTheAdditionOfStorageIsMadeGood(t *testing.T) {
	without := func(t *testing.T, c *scene) *operator.Config { return operatorConfig(t, c.app, 1) }
	failing(t, story{
		before: func(t *testing.T, c *scene) { c.made(t, without(t, c)) },
		do: func(t *testing.T, c *scene, m *managed) error {
			return m.EnsureOperator(c.ctx, c.app, testAgentPath, stored(without(t, c), 100, c.class))
		},
		after: func(t *testing.T, c *scene, next *managed) {
			want := stored(without(t, c), 100, c.class)
			resume(t, next, c.app, want)
			c.completeOf(t, c.app, "PersistentVolumeClaim "+namesOf(c.app).claimName())
			kubetest.Eventually(t, "a pod with the volume", func() error {
				pod := c.rolledOut(t, c.app)
				for _, v := range pod.Spec.Volumes {
					if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == namesOf(c.app).claimName() {
						return nil
					}
				}
				next.ensure(t, c.app, want)
				return fmt.Errorf("its volumes are %v", pod.Spec.Volumes)
			})
		},
	})
}

// revisions returns what the set's template has been.
func (w *world) revisions(t testing.TB, app string) []appsv1.ControllerRevision {
	t.Helper()
	list, err := w.Client.AppsV1().ControllerRevisions(w.namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: labelName + "=" + namesOf(app).short,
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}
