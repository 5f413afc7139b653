package leader_test

import (
	"fmt"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

// An agent's engine runs a provisioner only while the agent leads.
func Example() {
	var client kubernetes.Interface = fake.NewClientset() // kubernetes.NewForConfig, in an agent

	started := make(chan string, 1)
	// In place of provisioner.Manifold(...).
	provisioner := dependency.Manifold{
		Inputs: []string{"operator-manager"},
		Start: func(context dependency.Context) (worker.Worker, error) {
			var manager string
			if err := context.Get("operator-manager", &manager); err != nil {
				return nil, errors.Trace(err)
			}
			started <- "provisioner with " + manager
			return enginevalue.Manifold(manager).Start(nil)
		},
	}
	manifolds := dependency.Manifolds{
		"operator-manager": enginevalue.Manifold("a manager"),
		"leader-election": leader.ElectionManifold(leader.ManifoldConfig{Config: leader.Config{
			Client:    client,
			Namespace: "model-prod",
			Name:      "operator-provisioner",
			Identity:  "controller-0",
		}}),
		"leader":               leader.Manifold("leader-election"),
		"operator-provisioner": leader.Wrap(provisioner, "leader"),
	}

	engine, err := dependency.NewEngine(dependency.EngineConfig{
		IsFatal:    func(error) bool { return false },
		WorstError: func(err, _ error) error { return err },
		Clock:      clock.WallClock,
		Metrics:    dependency.DefaultMetrics(),
		Logger:     enginelog.New(nil),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := dependency.Install(engine, manifolds); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-started)
	engine.Kill()
	fmt.Println(engine.Wait())
	// Output:
	// provisioner with a manager
	// <nil>
}

// Without an engine, whoever owns the worker looks at its term.
func ExampleNew() {
	w, err := leader.New(leader.Config{
		Client:    fake.NewClientset(),
		Namespace: "model-prod",
		Name:      "operator-provisioner",
		Identity:  "controller-0",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-w.Term().Elected()
	fmt.Println("leading:", w.Report()["holder"])
	select {
	case <-w.Term().Over():
		fmt.Println("stop what only the leader does")
	default:
		fmt.Println("do what only the leader does")
	}
	w.Kill()
	fmt.Println(w.Wait())
	// Output:
	// leading: controller-0
	// do what only the leader does
	// <nil>
}

func ExampleRules() {
	for _, rule := range leader.Rules("operator-provisioner") {
		fmt.Println(rule.Verbs, rule.Resources, rule.ResourceNames)
	}
	// Output:
	// [get update] [leases] [operator-provisioner]
	// [create] [leases] []
}
