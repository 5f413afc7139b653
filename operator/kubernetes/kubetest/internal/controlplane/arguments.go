package controlplane

import (
	"fmt"
	"net"
	"path/filepath"
)

// Every request is written down when it has been answered, and a watch when it
// begins. What asks whether the server is alive is not.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
- level: Metadata
`

// The default limits of a client make a control plane crawl when a thousand
// operators are made at once.
const (
	clientQPS   = "1000"
	clientBurst = "2000"
)

func schedulerConfig(state State) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: %s, burst: %s}
leaderElection: {leaderElect: false}
`, state.Kubeconfig("scheduler"), clientQPS, clientBurst)
}

// arguments returns those of a program.
func arguments(s State, program string) []string {
	in := func(name string) string { return filepath.Join(s.Dir, name) }
	etcdURL := fmt.Sprintf("http://127.0.0.1:%d", s.EtcdPort)
	switch program {
	case etcd:
		return []string{
			"--data-dir=" + in("etcd"),
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			// It has no peers, and listens for them on any port.
			"--listen-peer-urls=http://127.0.0.1:0", "--initial-advertise-peer-urls=http://127.0.0.1:0",
			"--initial-cluster=default=http://127.0.0.1:0",
			// Nothing is kept, so nothing has to reach the disk.
			"--unsafe-no-fsync", "--log-level=warn",
		}
	case apiServer:
		return append([]string{
			"--etcd-servers=" + etcdURL,
			"--bind-address=" + s.Address, "--advertise-address=" + s.Address, fmt.Sprintf("--secure-port=%d", s.Port),
			"--tls-cert-file=" + in("api.crt"), "--tls-private-key-file=" + in("api.key"), "--cert-dir=" + in("certs"),
			"--client-ca-file=" + in("ca.crt"), "--token-auth-file=" + in("tokens.csv"),
			"--authorization-mode=Node,RBAC",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + in("accounts.key"), "--service-account-signing-key-file=" + in("accounts.key"),
			"--service-cluster-ip-range=" + serviceRange,
			"--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
			"--enable-priority-and-fairness=false", "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
			"--audit-policy-file=" + in("audit.yaml"), "--audit-log-path=" + s.AuditLog(),
			"--audit-log-maxsize=500", "--audit-log-maxbackup=1",
			"--event-ttl=15m",
			// A namespace of a thousand operators has to go some day.
			"--delete-collection-workers=8",
		}, endpoints(s)...)
	case controllerManager:
		kubeconfig := s.Kubeconfig("controller-manager")
		return []string{
			"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--use-service-account-credentials=true", "--service-account-private-key-file=" + in("accounts.key"),
			"--root-ca-file=" + in("ca.crt"),
			"--kube-api-qps=" + clientQPS, "--kube-api-burst=" + clientBurst,
			"--concurrent-statefulset-syncs=20", "--concurrent-gc-syncs=20",
			// A machine that is busy, or was suspended, has not lost its node.
			"--node-monitor-grace-period=10m",
		}
	case scheduler:
		return []string{"--config=" + in("scheduler.yaml"), "--secure-port=0"}
	case fakeNode:
		return []string{"fakenode", "--kubeconfig=" + s.Kubeconfig("admin")}
	}
	return nil
}

// endpoints returns how the API server announces itself to pods. On the loopback
// interface none could reach it, and it would refuse to try.
func endpoints(s State) []string {
	if net.ParseIP(s.Address).IsLoopback() {
		return []string{"--endpoint-reconciler-type=none"}
	}
	return []string{"--endpoint-reconciler-type=lease"}
}
