package kubernetes

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/managertest"
)

const (
	benchOperators = 1000
	benchAtOnce    = 16
	benchModel     = "0b1e0c5e-4d5e-4f57-8a3c-111111111111"
)

// bench is a manager on a namespace of the cluster, and a client that does without.
type bench struct {
	cluster   *kubetest.Cluster
	recorder  *kubetest.Recorder
	namespace string
	manager   *Manager
	bare      kubernetes.Interface
}

func newBench(b *testing.B) *bench {
	b.Helper()
	cluster := kubetest.Need(b)
	x := &bench{cluster: cluster, recorder: kubetest.NewRecorder(), namespace: bigNamespace(b, cluster.Client), bare: cluster.Client}
	client, err := kubernetes.NewForConfig(x.recorder.Wrap(cluster.Config))
	if err != nil {
		b.Fatal(err)
	}
	x.manager, err = New(Config{Client: client, Namespace: x.namespace, ModelUUID: benchModel, ModelName: "bench", Clock: clock.WallClock})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := worker.Stop(x.manager); err != nil {
			b.Error(err)
		}
	})
	if _, err := x.manager.Operators(b.Context()); err != nil { // waits for the first listing
		b.Fatal(err)
	}
	return x
}

// bigNamespace returns a namespace whose deletion, which takes minutes, is begun at
// the end and not waited for.
func bigNamespace(b *testing.B, client kubernetes.Interface) string {
	b.Helper()
	made, err := client.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-", Labels: map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		if err := client.CoreV1().Namespaces().Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	return made.Name
}

// each runs f for the numbers from first, so many at once as the worker does.
func each(b *testing.B, first, n int, f func(app string) error) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(benchAtOnce)
	for i := range n {
		group.Go(func() error { return f(fmt.Sprintf("app-x%d", first+i)) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// settle waits until the cluster has started all pods, and so is quiet again.
func (x *bench) settle(b *testing.B, n int) {
	b.Helper()
	kubetest.Eventually(b, fmt.Sprintf("%d pods running", n), func() error {
		list, err := x.bare.CoreV1().Pods(x.namespace).List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running < n {
			time.Sleep(200 * time.Millisecond)
			return fmt.Errorf("%d", running)
		}
		return nil
	})
}

// create makes the objects of an operator the shortest way: one request for each.
func (x *bench) create(b *testing.B, app string) error {
	cfg := managertest.Config(app, 1)
	m, w := x.manager, wanted{names: namesOf(app), agentPath: managertest.DefaultAgentPath, cfg: cfg, effective: effective(cfg)}
	ctx, opts := b.Context(), metav1.CreateOptions{}
	if _, err := x.bare.CoreV1().ServiceAccounts(x.namespace).Create(ctx, inNamespace(m.serviceAccount(w), x.namespace), opts); err != nil {
		return err
	}
	if _, err := x.bare.RbacV1().Roles(x.namespace).Create(ctx, inNamespace(m.role(w), x.namespace), opts); err != nil {
		return err
	}
	if _, err := x.bare.RbacV1().RoleBindings(x.namespace).Create(ctx, inNamespace(m.roleBinding(w), x.namespace), opts); err != nil {
		return err
	}
	if _, err := x.bare.CoreV1().Secrets(x.namespace).Create(ctx, inNamespace(m.configSecret(w), x.namespace), opts); err != nil {
		return err
	}
	service, err := x.bare.CoreV1().Services(x.namespace).Create(ctx, inNamespace(m.service(w), x.namespace), opts)
	if err != nil {
		return err
	}
	w.serviceIP = service.Spec.ClusterIP
	_, err = x.bare.AppsV1().StatefulSets(x.namespace).Create(ctx, inNamespace(m.statefulSet(w), x.namespace), opts)
	return err
}

func inNamespace[O object](obj O, namespace string) O {
	obj.SetNamespace(namespace)
	return obj
}

// BenchmarkNewOperators makes 1,000 operators, and the same objects by a bare
// client, in turns of 100, each when the cluster has finished with the turn before.
// rate-ratio is how many objects a second the manager makes of what the bare client
// does; writes/operator and reads/operator are what it asks of the API server.
func BenchmarkNewOperators(b *testing.B) {
	for range b.N {
		x, y := newBench(b), newBench(b)
		const turn = 100
		var bare, ours time.Duration
		x.recorder.Reset()
		for first := 0; first < benchOperators; first += turn {
			begin := time.Now()
			each(b, first, turn, func(app string) error { return y.create(b, app) })
			bare += time.Since(begin)
			y.settle(b, first+turn)

			begin = time.Now()
			each(b, first, turn, func(app string) error {
				return x.manager.EnsureOperator(b.Context(), app, managertest.DefaultAgentPath, managertest.Config(app, 1))
			})
			ours += time.Since(begin)
			x.settle(b, first+turn)
		}
		b.ReportMetric(bare.Seconds()/ours.Seconds(), "rate-ratio")
		b.ReportMetric(float64(benchOperators)/ours.Seconds(), "operators/s")
		b.ReportMetric(float64(len(x.recorder.Writes()))/benchOperators, "writes/operator")
		reads := x.recorder.Count(func(q kubetest.Request) bool { return q.Verb == "get" || q.Verb == "list" })
		b.ReportMetric(float64(reads)/benchOperators, "reads/operator")
	}
}

// BenchmarkSettledPass is what a settled pass asks of the manager, over 1,000
// operators. It fails when that takes a request.
func BenchmarkSettledPass(b *testing.B) {
	x := newBench(b)
	each(b, 0, benchOperators, func(app string) error {
		return x.manager.EnsureOperator(b.Context(), app, managertest.DefaultAgentPath, managertest.Config(app, 1))
	})
	x.settle(b, benchOperators)
	apps := make([]string, benchOperators)
	kept := make([]*operator.Config, benchOperators)
	pass := func(i int) {
		if state, err := x.manager.OperatorExists(b.Context(), apps[i]); err != nil || !state.Exists {
			b.Fatal(state, err)
		}
		op, err := x.manager.GlanceOperator(b.Context(), apps[i])
		if err != nil {
			b.Fatal(err)
		}
		kept[i].Generation = op.Config.Generation
		if err := x.manager.KeepOperator(b.Context(), apps[i], managertest.DefaultAgentPath, kept[i]); err != nil {
			b.Fatal(err)
		}
	}
	for i := range apps {
		apps[i] = fmt.Sprintf("app-x%d", i)
		kept[i] = managertest.Config(apps[i], 1)
		kept[i].AgentConf, kept[i].OperatorInfo = operator.Config{}.AgentConf, operator.Config{}.OperatorInfo
		pass(i)
	}
	x.recorder.Reset()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		pass(i % benchOperators)
		i++
	}
	b.StopTimer()
	requests := x.recorder.Count(func(q kubetest.Request) bool { return q.Verb != "watch" })
	b.ReportMetric(float64(requests)/float64(i), "requests/op")
	if requests != 0 {
		b.Errorf("%d requests: %v", requests, x.recorder.Requests())
	}
}

// BenchmarkMemory is what a manager keeps in memory for each of 1,000 operators.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		x := newBench(b)
		each(b, 0, benchOperators, func(app string) error { return x.create(b, app) })
		x.settle(b, benchOperators)
		before := heap()
		second, err := New(Config{
			Client: x.bare, Namespace: x.namespace, ModelUUID: benchModel, ModelName: "bench", Clock: clock.WallClock,
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := second.Operators(b.Context()); err != nil {
			b.Fatal(err)
		}
		each(b, 0, benchOperators, func(app string) error {
			return second.EnsureOperator(b.Context(), app, managertest.DefaultAgentPath, managertest.Config(app, 1))
		})
		heap()                                              // time for the informer to be told of it all
		each(b, 0, benchOperators, func(app string) error { // drops what was remembered meanwhile
			_, err := second.GlanceOperator(b.Context(), app)
			return err
		})
		after := heap()
		b.ReportMetric(float64(after-before)/benchOperators, "B/operator")
		if err := worker.Stop(second); err != nil {
			b.Fatal(err)
		}
	}
}

func heap() uint64 {
	for range 3 {
		runtime.GC()
		time.Sleep(100 * time.Millisecond) // informers' buffers run empty
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
