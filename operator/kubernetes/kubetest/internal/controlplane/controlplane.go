//go:build linux

package controlplane

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The file that marks a folder as a control plane's, so that nothing else is ever
// removed.
const markerFile = ".sutler-testbed"

// ControlPlane is a control plane that this process has started. Its methods are
// not safe for concurrent use.
type ControlPlane struct {
	State
	starter *starter
}

// Lock waits until nobody else has the folder locked, and returns how to unlock it.
// It is for processes that may start or stop the same control plane at once. The
// lock is a file beside the folder, which stays.
func Lock(dir string) (unlock func(), err error) {
	path := filepath.Clean(dir) + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, errors.Trace(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, errors.Annotatef(err, "locking %s", path)
	}
	return func() { file.Close() }, nil
}

// Open returns what runs in the folder. It is an errors.NotFound when that is not
// a whole control plane.
func Open(dir string) (State, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return State{}, errors.Trace(err)
	}
	state, err := load(dir)
	if err != nil {
		return State{}, errors.Trace(err)
	}
	for _, program := range programs() {
		if program == fakeNode && state.Tool == "" {
			continue
		}
		if p, ok := recorded(dir, program); !ok || !p.alive() {
			return State{}, errors.NotFoundf("running %s in %s", program, dir)
		}
	}
	return state, nil
}

// Start starts a control plane and returns when it is of use: the API server is
// ready, service accounts are made and pods can be scheduled. What an earlier one
// left in the folder is cleared first, running or not. When it fails, or the
// context ends, nothing runs; the folder stays, for its logs.
func Start(ctx context.Context, config Config) (*ControlPlane, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if config.Address == "" {
		config.Address = "127.0.0.1"
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if err := Stop(dir); err != nil {
		return nil, errors.Annotate(err, "clearing what was left")
	}
	state := State{Dir: dir, Bin: config.Bin, Tool: config.Tool, Address: config.Address, Port: config.Port}
	if err := choosePorts(&state); err != nil {
		return nil, errors.Trace(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o700); err != nil {
		return nil, errors.Trace(err)
	}
	for name, data := range map[string]string{markerFile: "", "audit.yaml": auditPolicy, "scheduler.yaml": schedulerConfig(state)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			return nil, errors.Trace(err)
		}
	}
	if err := writePKI(state); err != nil {
		return nil, errors.Trace(err)
	}

	c := &ControlPlane{State: state}
	if !config.Detached {
		c.starter = newStarter()
	}
	if err := c.start(ctx); err != nil {
		killAll(dir) //nolint:errcheck // The first error says more.
		c.close()
		return nil, errors.Trace(err)
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.run(etcd); err != nil {
		return errors.Trace(err)
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return errors.Trace(err)
	}
	started := []string{controllerManager, scheduler}
	if c.Tool != "" {
		started = append(started, fakeNode)
	}
	for _, program := range started {
		if err := c.run(program); err != nil {
			return errors.Trace(err)
		}
	}
	client, err := c.client()
	if err != nil {
		return errors.Trace(err)
	}
	err = c.wait(ctx, "default service account", started, func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	if err == nil && c.Tool != "" {
		err = c.wait(ctx, "fake node", started, func(ctx context.Context) bool {
			nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			// A node is tainted until a controller has seen that it is ready.
			return err == nil && len(nodes.Items) == 1 && ready(nodes.Items[0]) && len(nodes.Items[0].Spec.Taints) == 0
		})
	}
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(c.save(), "saying that it is up")
}

func ready(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// StartAPIServer starts the API server, which must not run, and waits until it is
// ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	if err := c.run(apiServer); err != nil {
		return errors.Trace(err)
	}
	client, err := c.client()
	if err != nil {
		return errors.Trace(err)
	}
	return c.wait(ctx, "ready API server", []string{etcd, apiServer}, func(ctx context.Context) bool {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
	})
}

// StopAPIServer kills the API server and returns when it has gone. All else runs on.
func (c *ControlPlane) StopAPIServer() error {
	p, ok := recorded(c.Dir, apiServer)
	if !ok {
		return nil
	}
	return errors.Trace(p.kill())
}

// FreezeAPIServer stops the API server in its tracks, or has it go on: connections stay,
// and nothing is answered from when it returns.
func (c *ControlPlane) FreezeAPIServer(frozen bool) error {
	p, ok := recorded(c.Dir, apiServer)
	if !ok || !p.alive() {
		return errors.NotFoundf("running %s", apiServer)
	}
	if frozen {
		return errors.Trace(p.freeze())
	}
	return errors.Trace(syscall.Kill(p.pid, syscall.SIGCONT))
}

// Stop ends the control plane and removes its folder.
func (c *ControlPlane) Stop() error {
	err := Stop(c.Dir)
	c.close()
	return errors.Trace(err)
}

func (c *ControlPlane) close() {
	if c.starter != nil {
		c.starter.close()
		c.starter = nil
	}
}

// Stop ends what runs in the folder, whoever started it, and removes the folder. A
// folder that is not there is no error; one that is no control plane's is an
// errors.NotValid.
func Stop(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return errors.Trace(err)
	}
	if _, err := os.Stat(filepath.Join(dir, markerFile)); err != nil {
		return errors.NotValidf("folder %s, which has other things in it,", dir)
	}
	if err := killAll(dir); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(os.RemoveAll(dir))
}

// killAll ends every program, the later ones first: they would complain.
func killAll(dir string) error {
	all := programs()
	for i := range all {
		p, ok := recorded(dir, all[len(all)-1-i])
		if !ok {
			continue
		}
		if err := p.kill(); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// run starts a program.
func (c *ControlPlane) run(program string) error {
	path := filepath.Join(c.Bin, program)
	if program == fakeNode {
		path = c.Tool
	}
	return c.starter.start(c.State, program, path, arguments(c.State, program)...)
}

// client returns a client with all rights and no limit of its own.
func (c *ControlPlane) client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig("admin"))
	if err != nil {
		return nil, errors.Trace(err)
	}
	config.QPS, config.Timeout = -1, 5*time.Second
	client, err := kubernetes.NewForConfig(config)
	return client, errors.Trace(err)
}

// How long a control plane may take to come up, on a machine with other work.
const patience = 3 * time.Minute

// wait returns when done says so. It gives up when one of the programs ends, saying
// what it said last.
func (c *ControlPlane) wait(ctx context.Context, what string, needed []string, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done(ctx) {
		for _, program := range needed {
			if p, ok := recorded(c.Dir, program); !ok || !p.alive() {
				return errors.Errorf("%s ended while waiting for the %s: %s", program, what, c.tail(program))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "waiting for the %s (logs are in %s)", what, filepath.Join(c.Dir, "log"))
		}
	}
	return nil
}

// choosePorts sets the ports that are not set.
func choosePorts(s *State) error {
	for _, want := range []struct {
		port    *int
		address string
	}{{&s.Port, s.Address}, {&s.EtcdPort, "127.0.0.1"}} {
		if *want.port != 0 {
			continue
		}
		port, err := freePort(want.address)
		if err != nil {
			return errors.Trace(err)
		}
		*want.port = port
	}
	return nil
}

// freePort returns a port that nobody listens on. It is below those that the kernel
// gives to outgoing connections: one that a client happened to be given could not
// be listened on again after the API server has stopped.
func freePort(address string) (int, error) {
	const lowest, highest = 16384, 32767
	var err error
	for range 100 {
		port := lowest + rand.IntN(highest-lowest) //nolint:gosec // No secret.
		var listener net.Listener
		listener, err = net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port))) //nolint:noctx // It does not block.
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.Annotatef(err, "looking for a free port on %s", address)
}
