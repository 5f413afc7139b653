package leader_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

const (
	namespace = "model"
	leaseName = "sutler-leader"
)

var leases = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}

// forbidden is what the API server answers without rights.
func forbidden(verb string) error {
	return apierrors.NewForbidden(leases, leaseName, fmt.Errorf("no right to %s", verb))
}

// cluster keeps Leases as the API server does. client-go's fake clientset has no
// optimistic locking, on which an election rests.
type cluster struct {
	mu     sync.Mutex
	leases map[string]*coordinationv1.Lease // by namespace and name

	version int
}

func newCluster() *cluster { return &cluster{leases: make(map[string]*coordinationv1.Lease)} }

const leaseKey = namespace + "/" + leaseName

// lease is a copy of the Lease, or nil.
func (c *cluster) lease() *coordinationv1.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leases[leaseKey].DeepCopy()
}

// holder is who the Lease names; "" for nobody.
func (c *cluster) holder() string {
	if lease := c.lease(); lease != nil && lease.Spec.HolderIdentity != nil {
		return *lease.Spec.HolderIdentity
	}
	return ""
}

// edit changes the Lease as somebody else would.
func (c *cluster) edit(change func(*coordinationv1.Lease)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lease := c.leases[leaseKey].DeepCopy()
	change(lease)
	c.store(leaseKey, lease)
}

func (c *cluster) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, leaseKey)
}

func (c *cluster) store(key string, lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	c.version++
	lease.ResourceVersion = strconv.Itoa(c.version)
	c.leases[key] = lease
	return lease.DeepCopy()
}

// client is one agent's way to the cluster. Each call asks before, and then
// after, when there is one: an error of before is returned instead of acting, one
// of after is returned in place of the answer.
type client struct {
	kubernetes.Interface
	coordinationclient.CoordinationV1Interface
	cluster *cluster

	mu            sync.Mutex
	before, after func(ctx context.Context, verb string) error
	calls         map[string]int
}

func (c *cluster) client() *client { return &client{cluster: c, calls: make(map[string]int)} }

// fail has calls fail for which before returns an error.
func (c *client) fail(before func(ctx context.Context, verb string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

// lose has each call act, and then fail.
func (c *client) lose(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = func(context.Context, string) error { return err }
}

func (c *client) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = nil, nil
}

func (c *client) count(verb string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[verb]
}

func (c *client) CoordinationV1() coordinationclient.CoordinationV1Interface { return c }

func (c *client) Leases(namespace string) coordinationclient.LeaseInterface {
	return &leaseClient{c: c, namespace: namespace}
}

func (c *client) call(ctx context.Context, verb string, act func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	c.calls[verb]++
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(ctx, verb); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.cluster.mu.Lock()
	lease, err := act()
	c.cluster.mu.Unlock()
	if after != nil {
		if err := after(ctx, verb); err != nil {
			return nil, err
		}
	}
	return lease, err
}

// leaseClient has the calls of an election. Others panic.
type leaseClient struct {
	coordinationclient.LeaseInterface
	c         *client
	namespace string
}

func (l *leaseClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.c.call(ctx, "get", func() (*coordinationv1.Lease, error) {
		stored := l.c.cluster.leases[l.namespace+"/"+name]
		if stored == nil {
			return nil, apierrors.NewNotFound(leases, name)
		}
		return stored.DeepCopy(), nil
	})
}

func (l *leaseClient) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.c.call(ctx, "create", func() (*coordinationv1.Lease, error) {
		key := l.namespace + "/" + lease.Name
		if l.c.cluster.leases[key] != nil {
			return nil, apierrors.NewAlreadyExists(leases, lease.Name)
		}
		return l.c.cluster.store(key, lease), nil
	})
}

func (l *leaseClient) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.c.call(ctx, "update", func() (*coordinationv1.Lease, error) {
		key := l.namespace + "/" + lease.Name
		stored := l.c.cluster.leases[key]
		switch {
		case stored == nil:
			return nil, apierrors.NewNotFound(leases, lease.Name)
		case stored.ResourceVersion != lease.ResourceVersion:
			return nil, apierrors.NewConflict(leases, lease.Name, fmt.Errorf("it is at %s", stored.ResourceVersion))
		}
		return l.c.cluster.store(key, lease), nil
	})
}

// journal is where a test's loggers write.
type journal struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.String()
}

// count is the number of lines that have all the words.
func (j *journal) count(words ...string) int {
	n := 0
	for line := range strings.Lines(j.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			n++
		}
	}
	return n
}

// agent is a worker with its client and what it logs, at the info level.
type agent struct {
	*leader.Worker
	name   string
	client *client
	log    *journal
}

func config(client kubernetes.Interface, identity string) leader.Config {
	return leader.Config{Client: client, Namespace: namespace, Name: leaseName, Identity: identity}
}

// stand starts a worker with the default durations. The test has to see to its
// end, or stop it.
func (c *cluster) stand(t testing.TB, identity string, prepare ...func(*leader.Config, *client)) *agent {
	t.Helper()
	a := &agent{name: identity, client: c.client(), log: new(journal)}
	cfg := config(a.client, identity)
	cfg.Logger = slog.New(slog.NewTextHandler(a.log, nil))
	for _, f := range prepare {
		f(&cfg, a.client)
	}
	var err error
	if a.Worker, err = leader.New(cfg); err != nil {
		t.Fatal(err)
	}
	return a
}

// stop kills the agent and wants it to end without an error.
func (a *agent) stop(t testing.TB) {
	t.Helper()
	a.Kill()
	if err := a.Wait(); err != nil {
		t.Errorf("%s: Wait() = %v, want nil", a.name, err)
	}
}

// pass lets virtual time go by, and then all that it sets off.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// within wants the channel to be closed before that much virtual time has gone
// by, and returns how much it was.
func within(t testing.TB, limit time.Duration, what string, c <-chan struct{}) time.Duration {
	t.Helper()
	start := time.Now()
	select {
	case <-c:
	case <-time.After(limit):
		t.Fatalf("%s: not within %v", what, limit)
	}
	synctest.Wait()
	return time.Since(start)
}

// ended is closed when the worker has.
func ended(w interface{ Wait() error }) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		_ = w.Wait()
	}()
	return c
}
