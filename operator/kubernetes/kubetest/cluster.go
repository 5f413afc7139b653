package kubetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/internal/controlplane"
)

// Cluster is a cluster that a test may use.
type Cluster struct {
	// Config is for clients of the test's own, with the administrator's rights
	// and without a limit of its own. Copy it before changing it.
	Config *rest.Config
	// Client is one.
	Client kubernetes.Interface

	raw  api.Config
	fake bool
	// node is the folder of the real node's state; empty on other clusters.
	node string
}

// The environment variable with what must not be skipped, and the names there.
const (
	requireVariable = "SUTLER_REQUIRE"
	requireCluster  = "kubernetes"
	requireNode     = "kubernetes-node"
)

// Need returns the cluster that tests run against. Without one the test ends, as the
// package's documentation says.
func Need(t testing.TB) *Cluster {
	t.Helper()
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		// It was asked for, so it has to work.
		c, err := open(clientcmd.NewDefaultClientConfigLoadingRules())
		if err != nil {
			t.Fatalf("the cluster of KUBECONFIG=%s: %v", path, err)
		}
		return c
	}
	state, err := controlplane.Open(filepath.Join(controlplane.Root(), "k8s"))
	if err != nil {
		missing(t, requireCluster, "no Kubernetes API server: KUBECONFIG is not set, and the test bed is not up (make testbed): %v", err)
	}
	c, err := open(&clientcmd.ClientConfigLoadingRules{ExplicitPath: state.Kubeconfig("admin")})
	if err != nil {
		t.Fatalf("the test bed in %s: %v", state.Dir, err)
	}
	return c
}

// missing ends the test for want of something.
func missing(t testing.TB, name, format string, args ...any) {
	t.Helper()
	required := strings.FieldsFunc(os.Getenv(requireVariable), func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(required, name) {
		t.Fatalf(format+" ("+requireVariable+" has "+name+")", args...)
	}
	t.Skipf(format, args...)
}

// How long a cluster may take to say that it is there.
const greeting = 10 * time.Second

// open returns the cluster of a kubeconfig, having talked to it.
func open(rules *clientcmd.ClientConfigLoadingRules) (*Cluster, error) {
	raw, err := rules.Load()
	if err != nil {
		return nil, errors.Trace(err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, raw.CurrentContext, nil, rules).ClientConfig()
	if err != nil {
		return nil, errors.Trace(err)
	}
	if err := api.MinifyConfig(raw); err != nil {
		return nil, errors.Trace(err)
	}
	if err := api.FlattenConfig(raw); err != nil {
		return nil, errors.Trace(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, errors.Trace(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), greeting)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fakenode.NodeLabel})
	if err != nil {
		return nil, errors.Annotate(err, "listing nodes")
	}
	return &Cluster{Config: config, Client: client, raw: *raw, fake: len(nodes.Items) > 0}, nil
}

// FakeNode says whether pods run on the test bed's fake node: they are Running, but
// nothing really runs.
func (c *Cluster) FakeNode() bool { return c.fake }

// NeedFakeNode skips the test on a cluster without the fake node, or fails it where
// clusters are required.
func (c *Cluster) NeedFakeNode(t testing.TB) {
	t.Helper()
	if !c.fake {
		missing(t, requireCluster, "this cluster has no fake node, which the test needs: unset KUBECONFIG and use the test bed's (make testbed)")
	}
}

// Kubeconfig returns the path of a kubeconfig file for the cluster, with the
// administrator's rights. It goes when the test ends.
func (c *Cluster) Kubeconfig(t testing.TB) string {
	t.Helper()
	return writeKubeconfig(t, c.raw)
}

// KubeconfigFor returns the path of a kubeconfig file that does as the configuration
// does, which [Cluster.ServiceAccount] may have made. It goes when the test ends.
func KubeconfigFor(t testing.TB, config *rest.Config) string {
	t.Helper()
	raw := api.NewConfig()
	raw.Clusters["test"] = &api.Cluster{
		Server: config.Host, TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
		CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
	}
	raw.AuthInfos["test"] = &api.AuthInfo{
		Token: config.BearerToken, TokenFile: config.BearerTokenFile,
		ClientCertificate: config.CertFile, ClientCertificateData: config.CertData,
		ClientKey: config.KeyFile, ClientKeyData: config.KeyData,
	}
	raw.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test"}
	raw.CurrentContext = "test"
	return writeKubeconfig(t, *raw)
}

func writeKubeconfig(t testing.TB, raw api.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(raw, path); err != nil {
		t.Fatal(fmt.Errorf("writing a kubeconfig: %w", err))
	}
	return path
}
