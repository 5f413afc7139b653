package lxdfake

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
)

// Request is one that came.
type Request struct {
	Method string
	// Path is without the query.
	Path string
}

// String returns it as in "GET /1.0".
func (r Request) String() string { return r.Method + " " + r.Path }

// Fake is LXD in memory. All methods may be called at any time by any goroutine.
type Fake struct {
	t      testing.TB
	socket string
	mux    *http.ServeMux

	mu       sync.Mutex
	state    state
	faults   []*fault
	requests []Request
	crash    int     // changes until it dies; 0 is never
	run      *daemon // nil while it is stopped
}

// daemon is one life of the daemon.
type daemon struct {
	ctx    context.Context
	cancel context.CancelFunc
	server *http.Server
	served chan struct{}

	operations map[string]*operation
	nextID     int
	// Both are added to with the fake's mutex held, and only while it runs.
	handlers, working sync.WaitGroup
}

// New starts a daemon, which is gone when the test ends.
func New(t testing.TB) *Fake {
	t.Helper()
	// Not t.TempDir: a socket's path has to be short.
	dir, err := os.MkdirTemp("", "lxd") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{t: t, socket: filepath.Join(dir, "unix.socket"), state: newState()}
	f.mux = f.routes()
	f.start()
	t.Cleanup(func() {
		f.Stop()
		_ = os.RemoveAll(dir)
	})
	return f
}

// Socket returns the path of its socket.
func (f *Fake) Socket() string { return f.socket }

// Requests returns all requests so far.
func (f *Fake) Requests() []Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Request(nil), f.requests...)
}

// Changes returns the requests so far that were not just questions.
func (f *Fake) Changes() []Request {
	var changes []Request
	for _, r := range f.Requests() {
		if r.Method != http.MethodGet {
			changes = append(changes, r)
		}
	}
	return changes
}

// Count returns how many requests there were of a method and a pattern.
func (f *Fake) Count(method, pattern string) int {
	n := 0
	for _, r := range f.Requests() {
		if matches(method, pattern, r) {
			n++
		}
	}
	return n
}

// ForgetRequests begins anew with Requests, Changes and Count.
func (f *Fake) ForgetRequests() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

// Stop kills the daemon: the socket refuses, connections break, operations are
// cut short where they are. It returns when nothing of it is left.
func (f *Fake) Stop() {
	if d := f.kill(); d != nil {
		d.handlers.Wait()
	}
}

// kill is Stop for a handler, which cannot wait for itself. It returns what was
// running.
func (f *Fake) kill() *daemon {
	f.mu.Lock()
	d := f.run
	f.run, f.crash = nil, 0
	if d != nil {
		d.cancel() // from here on, no operation changes anything
	}
	f.mu.Unlock()
	if d == nil {
		return nil
	}
	_ = d.server.Close()
	<-d.served
	d.working.Wait()
	return d
}

// Restart starts the daemon, and stops it first if it runs. It has forgotten its
// operations, and nothing else; instances run on.
func (f *Fake) Restart() {
	f.Stop()
	f.start()
}

func (f *Fake) start() {
	// One that was killed leaves its socket behind.
	_ = os.Remove(f.socket)
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", f.socket)
	if err != nil {
		f.t.Errorf("lxdfake: %v", err)
		return
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	d := &daemon{served: make(chan struct{}), operations: make(map[string]*operation)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(d, w, r) }),
		ReadHeaderTimeout: time.Minute,
	}
	f.mu.Lock()
	f.run = d
	f.mu.Unlock()
	go func() {
		defer close(d.served)
		_ = d.server.Serve(listener)
	}()
}

// AddPool puts a storage pool there.
func (f *Fake) AddPool(pool api.StoragePool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.pools[pool.Name] = &poolState{driver: pool.Driver, description: pool.Description, config: clone(pool.Config)}
}

// AddNetwork puts a network there, or an interface that is not LXD's.
func (f *Fake) AddNetwork(network api.Network) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.networks[network.Name] = &networkState{
		kind: network.Type, managed: network.Managed,
		description: network.Description, config: clone(network.Config),
	}
}

// AddImage puts an image into the daemon's store. An alias may be empty.
func (f *Fake) AddImage(alias, fingerprint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.images[fingerprint] = imageState{}
	if alias != "" {
		f.state.aliases[alias] = fingerprint
	}
}

// AddRemoteImage puts an image onto all servers of the world, from where it can be
// fetched.
func (f *Fake) AddRemoteImage(alias, fingerprint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.remote[alias] = fingerprint
}

// AddInstance puts an instance there: its name, status code (stopped by default),
// configuration, devices and profiles are kept.
func (f *Fake) AddInstance(instance api.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := &instanceState{
		status: instance.StatusCode, config: clone(instance.Config), devices: cloneDevices(instance.Devices),
		profiles: append([]string{}, instance.Profiles...), description: instance.Description,
		kind: instance.Type, ephemeral: instance.Ephemeral, created: instance.CreatedAt, number: f.state.next(),
	}
	if i.status == 0 {
		i.status = api.StatusStopped
	}
	if i.kind == "" {
		i.kind = "container"
	}
	f.state.instances[instance.Name] = i
}

// SetInstanceStatus brings an instance into a state, as if by itself; see package
// api for the codes.
func (f *Fake) SetInstanceStatus(name string, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.state.instances[name]; i != nil {
		i.status = code
	}
}

// SetStubborn makes an instance ignore that it is asked to shut down.
func (f *Fake) SetStubborn(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.state.instances[name]; i != nil {
		i.stubborn = true
	}
}

// SetExtensions has the daemon know these API extensions and no others.
func (f *Fake) SetExtensions(extensions ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.extensions = append([]string{}, extensions...)
}

// SetProfile replaces a profile, or adds one.
func (f *Fake) SetProfile(profile api.Profile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.profiles[profile.Name] = &profileState{
		description: profile.Description, config: clone(profile.Config), devices: cloneDevices(profile.Devices),
	}
}

// Instances returns all instances, sorted by name.
func (f *Fake) Instances() []api.Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []api.Instance
	for _, name := range names(f.state.instances) {
		i := f.state.instances[name]
		config, devices := f.state.expand(i)
		all = append(all, api.Instance{
			Name: name, Description: i.description, Type: i.kind,
			Status: words(i.status), StatusCode: i.status, Architecture: architecture,
			Config: clone(i.config), ExpandedConfig: config,
			Devices: cloneDevices(i.devices), ExpandedDevices: devices,
			Profiles: append([]string{}, i.profiles...), Ephemeral: i.ephemeral, CreatedAt: i.created,
		})
	}
	return all
}

// Networks returns all networks, sorted by name.
func (f *Fake) Networks() []api.Network {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []api.Network
	for _, name := range names(f.state.networks) {
		n := f.state.networks[name]
		all = append(all, api.Network{
			Name: name, Type: n.kind, Managed: n.managed,
			Description: n.description, Config: clone(n.config), UsedBy: f.state.usesNetwork(name),
		})
	}
	return all
}

// Pools returns all storage pools, sorted by name.
func (f *Fake) Pools() []api.StoragePool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []api.StoragePool
	for _, name := range names(f.state.pools) {
		p := f.state.pools[name]
		all = append(all, api.StoragePool{
			Name: name, Driver: p.driver, Description: p.description,
			Config: clone(p.config), Status: "Created", UsedBy: f.state.usesPool(name),
		})
	}
	return all
}

// Profile returns a profile, empty if there is none.
func (f *Fake) Profile(name string) api.Profile {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.state.profiles[name]
	if p == nil {
		return api.Profile{}
	}
	return api.Profile{
		Name: name, Description: p.description, Config: clone(p.config),
		Devices: cloneDevices(p.devices), UsedBy: f.state.usesProfile(name),
	}
}

// ServerConfig returns the daemon's configuration.
func (f *Fake) ServerConfig() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return clone(f.state.config)
}

// SetServerConfig sets a key of the daemon's configuration.
func (f *Fake) SetServerConfig(key, value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.config[key] = value
}

// Downloads returns how many images were fetched.
func (f *Fake) Downloads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.downloads
}
