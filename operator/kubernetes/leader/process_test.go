package leader_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

// The environment of a process that is to be an agent, and no test.
const (
	identityEnv   = "SUTLER_LEADER_IDENTITY"
	namespaceEnv  = "SUTLER_LEADER_NAMESPACE"
	kubeconfigEnv = "KUBECONFIG"
)

// quick is an election in which a Lease expires soon, though not so soon that a
// busy machine cannot renew it.
func quick(c leader.Config) leader.Config {
	c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 6*time.Second, 5*time.Second, 500*time.Millisecond
	return c
}

func TestMain(m *testing.M) {
	if os.Getenv(identityEnv) != "" {
		if err := beAgent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beAgent runs an agent with a job for its leader, which says on standard output
// when it starts and stops. The agent ends on SIGTERM, or when standard input does.
func beAgent() error {
	rest, err := clientcmd.BuildConfigFromFlags("", os.Getenv(kubeconfigEnv))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	election := quick(config(client, os.Getenv(identityEnv)))
	election.Namespace, election.Logger = os.Getenv(namespaceEnv), logger

	engine, err := startEngine(logger, dependency.Manifolds{
		"leader-election": leader.ElectionManifold(leader.ManifoldConfig{Config: election}),
		"leader":          leader.Manifold("leader-election"),
		"job": leader.Wrap(dependency.Manifold{
			Start: func(dependency.Context) (worker.Worker, error) {
				fmt.Println("started")
				return &spoken{job{dead: make(chan struct{})}}, nil
			},
		}, "leader"),
	})
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop <- syscall.SIGTERM
	}()
	<-stop
	engine.Kill()
	return engine.Wait()
}

// spoken is a job that says when it has stopped.
type spoken struct{ job }

func (s *spoken) Wait() error {
	err := s.job.Wait()
	fmt.Println("stopped")
	return err
}

// process is an agent in a process of its own.
type process struct {
	identity string
	cmd      *exec.Cmd
	stdin    io.Closer
	log      journal
	read     sync.WaitGroup

	mu      sync.Mutex
	running bool // its job, by what it said last
	starts  int
}

// agents are the processes of one election.
type agents struct {
	cluster    *kubetest.Cluster
	namespace  string
	kubeconfig string
}

func (a agents) start(t *testing.T, identity string) *process {
	t.Helper()
	p := &process{identity: identity, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), identityEnv+"="+identity, namespaceEnv+"="+a.namespace, kubeconfigEnv+"="+a.kubeconfig)
	p.cmd.Stderr = &p.log
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.read.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.said(lines.Text())
		}
	})
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s logged:\n%s", identity, &p.log)
		}
	})
	return p
}

func (p *process) said(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = line == "started"
	if p.running {
		p.starts++
	}
}

func (p *process) works() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// kill is SIGKILL: nothing is released. Again it does nothing.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.read.Wait()
	_ = p.cmd.Wait()
}

// terminate ends the agent as its host would, and wants it to end well.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.read.Wait()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s: %v", p.identity, err)
	}
}

// standsBy waits until the process has seen another lead.
func (p *process) standsBy(t *testing.T) {
	t.Helper()
	kubetest.Eventually(t, p.identity+" to stand by", func() error {
		if p.log.count("another agent leads") == 0 {
			return fmt.Errorf("it has seen nobody")
		}
		return nil
	})
}

// leads waits until the process's job runs.
func (p *process) leads(t *testing.T) {
	t.Helper()
	kubetest.Eventually(t, p.identity+" to lead", func() error {
		if !p.works() {
			return fmt.Errorf("its job does not run")
		}
		return nil
	})
}
