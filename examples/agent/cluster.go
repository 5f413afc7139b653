package main

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/kubernetes"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

// The agent's directories in an operator's pod.
const (
	podDataDir = "/var/lib/juju"
	podLogDir  = "/var/log/juju"
)

// clusterOptions say where operators are that are pods.
type clusterOptions struct {
	kubeconfig, namespace string
	lease                 string // of the leader; empty without --join
}

// cluster is where operators are that are pods.
type cluster struct {
	clusterOptions
	client client.Interface
	config kubernetes.Config
}

// openCluster finds out how to reach the cluster, and whether it can be used.
func openCluster(ctx context.Context, opts clusterOptions, m model.Settings, controllerUUID string, logger *slog.Logger) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = opts.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.NewBadRequest(err, "how to reach the cluster")
	}
	c := &cluster{clusterOptions: opts, config: kubernetes.Config{
		REST:           config,
		Namespace:      opts.namespace,
		ModelUUID:      m.UUID,
		ModelName:      m.Name,
		ControllerUUID: controllerUUID,
		Pod:            operatorPod(),
		Clock:          clock.WallClock,
		Logger:         logger.With("worker", managerName),
	}}
	if err := c.config.Validate(); err != nil {
		return nil, errors.NewBadRequest(err, "operators as pods")
	}
	if c.client, err = client.NewForConfig(config); err != nil {
		return nil, errors.NewBadRequest(err, "how to reach the cluster")
	}
	return c, c.check(ctx, logger)
}

// operatorPod has this program in it, which needs nothing else of the image.
func operatorPod() kubernetes.PodConfig {
	const program = "/opt/juju/agent"
	return kubernetes.PodConfig{
		Install: []string{"/agent", "install", program},
		Command: []string{
			program, "operator", "--dir", "{agentPath}/agents/application-{application}", "--application", "{application}",
			"--listen", "0.0.0.0:" + strconv.Itoa(kubernetes.OperatorPort),
		},
	}
}

// check tells what no waiting will mend: a namespace that is not there, and rights
// that this agent has not. A cluster that does not answer may do so later.
func (c *cluster) check(ctx context.Context, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// Who has rights in the namespace alone may not ask for it.
	_, err := c.client.CoreV1().Namespaces().Get(ctx, c.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errors.NotFoundf("namespace %q in the cluster", c.namespace)
	}
	_, err = c.client.AppsV1().StatefulSets(c.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return errors.Annotate(err, "operators as pods")
	case err != nil:
		logger.Warn("the cluster does not answer", "err", err)
	}
	return nil
}

// operators has operators that are pods of the cluster.
func (c *cluster) operators() operators {
	return operators{
		storage: "kubernetes",
		dataDir: podDataDir,
		logDir:  podLogDir,
		manager: dependency.Manifold{
			Inputs: []string{clockName},
			Start: func(context dependency.Context) (worker.Worker, error) {
				config := c.config
				if err := context.Get(clockName, &config.Clock); err != nil {
					return nil, errors.Trace(err)
				}
				w, err := kubernetes.New(config)
				if err != nil {
					return nil, err // and not a nil *Manager in a worker.Worker
				}
				return w, nil
			},
			Output: output[*kubernetes.Manager, operator.Manager],
		},
	}
}

// election is that of the agent that leads.
func (c *cluster) election(identity string, logger *slog.Logger) dependency.Manifold {
	return leader.ElectionManifold(leader.ManifoldConfig{Config: leader.Config{
		Client:    c.client, // no other worker uses it, so renewals wait for nobody
		Namespace: c.namespace,
		Name:      c.lease,
		Identity:  identity,
		Logger:    logger.With("worker", electionName),
	}})
}
