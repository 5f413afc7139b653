package kvm_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
)

// fake is a libvirt in memory. It keeps what it is told, and says what libvirt says.
type fake struct {
	mu       sync.Mutex
	away     bool
	arch     string
	types    []string
	version  virt.Version
	memory   uint64 // MiB
	pools    map[string]virt.Pool
	networks map[string]virt.Network
	domains  map[string]*fakeDomain
	next     int
	// stubborn machines do not hear their button.
	stubborn bool
	// starts counts those that had an effect.
	starts int
}

type fakeDomain struct {
	virt.Domain
	xml string
}

func newFake() *fake {
	return &fake{
		arch: "x86_64", types: []string{"qemu"}, version: 9000000, memory: 4096,
		pools:    map[string]virt.Pool{},
		networks: map[string]virt.Network{"default": {Name: "default", UUID: "n", Bridge: "virbr0", Persistent: true}},
		domains:  map[string]*fakeDomain{},
	}
}

func refusal(code int, format string, args ...any) error {
	return &virt.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Codes of libvirt.
const (
	codeFailed    = 9  // an operation
	codeNoDomain  = 42 // of that name
	codeNoNetwork = 43
	codeNoPool    = 49
	codeInvalid   = 55
)

func (f *fake) lock(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.away {
		f.mu.Unlock()
		return nil, errors.NewNotYetAvailable(nil, "libvirt at socket /nowhere: connection refused")
	}
	return f.mu.Unlock, nil
}

func (f *fake) Close() {}

func (f *fake) Version(ctx context.Context) (virt.Version, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return f.version, nil
}

func (f *fake) Capabilities(ctx context.Context) (virt.Capabilities, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return virt.Capabilities{}, err
	}
	defer unlock()
	return virt.Capabilities{Arch: f.arch, Guests: []virt.Guest{{Arch: f.arch, OSType: "hvm", Types: f.types}}}, nil
}

func (f *fake) Node(ctx context.Context) (virt.Node, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return virt.Node{}, err
	}
	defer unlock()
	return virt.Node{Arch: f.arch, Memory: f.memory << 20, CPUs: 2}, nil
}

func (f *fake) Pool(ctx context.Context, name string) (virt.Pool, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return virt.Pool{}, err
	}
	defer unlock()
	pool, ok := f.pools[name]
	if !ok {
		return virt.Pool{}, refusal(codeNoPool, "Storage pool not found: no storage pool with matching name '%s'", name)
	}
	return pool, nil
}

func (f *fake) DefinePool(ctx context.Context, definition string) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var def struct {
		Type string `xml:"type,attr"`
		Name string `xml:"name"`
		UUID string `xml:"uuid"`
		Path string `xml:"target>path"`
	}
	if err := xml.Unmarshal([]byte(definition), &def); err != nil {
		return refusal(codeFailed, "%v", err)
	}
	if there, ok := f.pools[def.Name]; ok && there.UUID != def.UUID {
		return errors.WithType(refusal(codeFailed, "pool '%s' is already defined", def.Name), errors.AlreadyExists)
	}
	f.pools[def.Name] = virt.Pool{Name: def.Name, UUID: def.UUID, Type: def.Type, Path: def.Path, Persistent: true}
	return nil
}

func (f *fake) onPool(ctx context.Context, name string, do func(*virt.Pool) error) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	pool, ok := f.pools[name]
	if !ok {
		return refusal(codeNoPool, "Storage pool not found: no storage pool with matching name '%s'", name)
	}
	if err := do(&pool); err != nil {
		return err
	}
	f.pools[name] = pool
	return nil
}

func (f *fake) BuildPool(ctx context.Context, name string) error {
	return f.onPool(ctx, name, func(p *virt.Pool) error { return os.MkdirAll(p.Path, 0o711) })
}

func (f *fake) StartPool(ctx context.Context, name string) error {
	return f.onPool(ctx, name, func(p *virt.Pool) error {
		if _, err := os.Stat(p.Path); err != nil {
			return refusal(38, "cannot open directory '%s': No such file or directory", p.Path)
		}
		p.Active = true
		return nil
	})
}

func (f *fake) StopPool(ctx context.Context, name string) error {
	return f.onPool(ctx, name, func(p *virt.Pool) error { p.Active = false; return nil })
}

func (f *fake) SetPoolAutostart(ctx context.Context, name string, autostart bool) error {
	return f.onPool(ctx, name, func(p *virt.Pool) error { p.Autostart = autostart; return nil })
}

func (f *fake) UndefinePool(ctx context.Context, name string) error {
	err := f.onPool(ctx, name, func(p *virt.Pool) error {
		if p.Active {
			return refusal(codeInvalid, "storage pool '%s' is still active", name)
		}
		return nil
	})
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.pools, name)
	}
	return err
}

func (f *fake) Networks(ctx context.Context) ([]virt.Network, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var networks []virt.Network
	for _, n := range f.networks {
		networks = append(networks, n)
	}
	return networks, nil
}

func (f *fake) onNetwork(ctx context.Context, name string, do func(*virt.Network)) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	n, ok := f.networks[name]
	if !ok {
		return refusal(codeNoNetwork, "Network not found: no network with matching name '%s'", name)
	}
	do(&n)
	f.networks[name] = n
	return nil
}

func (f *fake) StartNetwork(ctx context.Context, name string) error {
	return f.onNetwork(ctx, name, func(n *virt.Network) { n.Active = true })
}

func (f *fake) StopNetwork(ctx context.Context, name string) error {
	return f.onNetwork(ctx, name, func(n *virt.Network) { n.Active = false })
}

func (f *fake) SetNetworkAutostart(ctx context.Context, name string, autostart bool) error {
	return f.onNetwork(ctx, name, func(n *virt.Network) { n.Autostart = autostart })
}

func (f *fake) Domains(ctx context.Context) ([]virt.Domain, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var domains []virt.Domain
	for _, d := range f.domains {
		domains = append(domains, d.Domain)
	}
	return domains, nil
}

func noDomain(name string) error {
	return refusal(codeNoDomain, "Domain not found: no domain with matching name '%s'", name)
}

func (f *fake) Domain(ctx context.Context, name string) (virt.Domain, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return virt.Domain{}, err
	}
	defer unlock()
	d, ok := f.domains[name]
	if !ok {
		return virt.Domain{}, noDomain(name)
	}
	return d.Domain, nil
}

func (f *fake) onDomain(ctx context.Context, domain virt.Domain, do func(*fakeDomain) error) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for _, d := range f.domains {
		if d.UUID == domain.UUID {
			return do(d)
		}
	}
	return noDomain(domain.Name)
}

func (f *fake) DomainXML(ctx context.Context, domain virt.Domain) (text string, err error) {
	err = f.onDomain(ctx, domain, func(d *fakeDomain) error { text = d.xml; return nil })
	return text, err
}

func (f *fake) DefineDomain(ctx context.Context, definition string) (virt.Domain, error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return virt.Domain{}, err
	}
	defer unlock()
	var def struct {
		Name     string `xml:"name"`
		UUID     string `xml:"uuid"`
		Metadata struct {
			Inner string `xml:",innerxml"`
		} `xml:"metadata"`
	}
	if err := xml.Unmarshal([]byte(definition), &def); err != nil {
		return virt.Domain{}, refusal(codeFailed, "%v", err)
	}
	there := f.domains[def.Name]
	if there != nil && there.UUID != def.UUID {
		return virt.Domain{}, errors.WithType(refusal(codeFailed, "domain '%s' already exists", def.Name), errors.AlreadyExists)
	}
	d := &fakeDomain{virt.Domain{Name: def.Name, UUID: def.UUID, State: virt.StateShutoff, Persistent: true, Metadata: def.Metadata.Inner}, definition}
	if there != nil {
		d.ID, d.State, d.Autostart = there.ID, there.State, there.Autostart
	}
	f.domains[def.Name] = d
	return d.Domain, nil
}

func (f *fake) SetDomainAutostart(ctx context.Context, domain virt.Domain, autostart bool) error {
	return f.onDomain(ctx, domain, func(d *fakeDomain) error { d.Autostart = autostart; return nil })
}

func (f *fake) StartDomain(ctx context.Context, domain virt.Domain) error {
	return f.onDomain(ctx, domain, func(d *fakeDomain) error {
		if d.Active() {
			return nil
		}
		for _, path := range between(d.xml, `source file="`, `"`) {
			if _, err := os.Stat(path); err != nil {
				return refusal(38, "Cannot access storage file '%s': No such file or directory", path)
			}
		}
		for _, name := range between(d.xml, `source network="`, `"`) {
			if !f.networks[name].Active {
				return refusal(codeInvalid, "network '%s' is not active", name)
			}
		}
		f.next++
		f.starts++
		d.ID, d.State = f.next, virt.StateRunning
		return nil
	})
}

// between returns what stands between two texts, each time that they do.
func between(text, before, after string) (found []string) {
	for _, part := range strings.Split(text, before)[1:] {
		word, _, _ := strings.Cut(part, after)
		found = append(found, word)
	}
	return found
}

func (f *fake) ShutdownDomain(ctx context.Context, domain virt.Domain) error {
	if f.stubborn {
		return nil
	}
	return f.DestroyDomain(ctx, domain)
}

func (f *fake) DestroyDomain(ctx context.Context, domain virt.Domain) error {
	return f.onDomain(ctx, domain, func(d *fakeDomain) error { d.ID, d.State = 0, virt.StateShutoff; return nil })
}

func (f *fake) UndefineDomain(ctx context.Context, domain virt.Domain) error {
	return f.onDomain(ctx, domain, func(d *fakeDomain) error { delete(f.domains, d.Name); return nil })
}

// machine is one whose files are real, and whose commands are scripted.
type machine struct {
	host.Host
	script *hosttest.Host
}

func newMachine() *machine {
	m := &machine{host.New(host.Config{}), &hosttest.Host{}}
	m.script.SetFile("/etc/os-release", "ID=debian\n")
	m.script.SetFile("/etc/resolv.conf", "nameserver 127.0.0.53\nnameserver 192.0.2.53\n")
	m.script.On(hosttest.Print("x86_64\n"), "uname", "-m")
	for _, program := range []string{"qemu-img", "libvirtd", "qemu-system-x86_64"} {
		m.script.On(hosttest.Print("7.2\n"), program, "--version")
	}
	m.script.On(hosttest.Print(`[{"ifname":"br0"}]`), "ip", "-json", "link")
	m.script.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		return host.Output{}, os.MkdirAll(cmd.Args[len(cmd.Args)-1], 0o711)
	}, "mkdir")
	m.script.On(hosttest.Print(`{"format":"qcow2","virtual-size":1048576}`), "qemu-img", "info")
	m.script.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		return host.Output{}, os.WriteFile(cmd.Args[len(cmd.Args)-2], []byte("overlay"), 0o600)
	}, "qemu-img", "create")
	return m
}

func (m *machine) Run(ctx context.Context, cmd host.Command) (host.Output, error) {
	return m.script.Run(ctx, cmd)
}

func (m *machine) scripted(name string) bool {
	return strings.HasPrefix(name, "/etc/") || strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/var/lib/")
}

func (m *machine) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if m.scripted(name) {
		return m.script.ReadFile(ctx, name)
	}
	return m.Host.ReadFile(ctx, name)
}

func (m *machine) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	if m.scripted(name) {
		return m.script.WriteFile(ctx, name, data, perm)
	}
	return m.Host.WriteFile(ctx, name, data, perm)
}

func (m *machine) Glob(ctx context.Context, pattern string) ([]string, error) {
	if m.scripted(pattern) {
		return m.script.Glob(ctx, pattern)
	}
	return m.Host.Glob(ctx, pattern)
}

func (m *machine) LockHolder(ctx context.Context, name string) (*host.Process, error) {
	return m.script.LockHolder(ctx, name)
}

// scripted is a machine whose libvirt is in memory.
type scripted struct {
	*testing.T
	machine *machine
	libvirt *fake
	hook    *hook
	config  kvm.Config
}

// emptyQCOW2 is the header of an image, which is all that is read of it here.
func emptyQCOW2() []byte {
	data := make([]byte, 104+8)
	copy(data, "QFI\xfb\x00\x00\x00\x03")
	data[103] = 104
	return data
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{T: t, machine: newMachine(), libvirt: newFake(), hook: &hook{}}
	path := filepath.Join(t.TempDir(), "image.qcow2")
	if err := os.WriteFile(path, emptyQCOW2(), 0o600); err != nil {
		t.Fatal(err)
	}
	s.config = s.connected(kvm.Config{
		ModelUUID: kvmtest.Model(), ControllerUUID: controllerUUID, StateDir: filepath.Join(t.TempDir(), "state"),
		Host: hookedHost{s.machine, s.hook}, Socket: "/nowhere/libvirt-sock", StopTimeout: 150 * time.Millisecond, ReadyTimeout: 5 * time.Second,
		Images: map[string]kvm.Image{"ubuntu/22.04": imageOf(t, path)}, AllowEmulation: true,
	})
	return s
}

// connected has a config's connections be to this libvirt, by the hook.
func (s *scripted) connected(c kvm.Config) kvm.Config {
	return kvm.WithDaemon(c, func(kvm.Config, func(kvm.Config) (kvm.Daemon, error)) (kvm.Daemon, error) {
		return hooked{s.libvirt, s.hook}, nil
	})
}

func (s *scripted) initialiser() *kvm.Initialiser {
	s.Helper()
	i, err := kvm.NewInitialiser(s.config)
	if err != nil {
		s.Fatal(err)
	}
	return i
}

func (s *scripted) broker() *kvm.Broker {
	s.Helper()
	if err := s.initialiser().Initialise(s.Context()); err != nil {
		s.Fatal(err)
	}
	b, err := kvm.NewBroker(s.Context(), s.config, nil)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// state is all that libvirt has, and all files.
func (s *scripted) state() string {
	s.libvirt.mu.Lock()
	defer s.libvirt.mu.Unlock()
	var domains, files []string
	for name := range s.libvirt.domains {
		domains = append(domains, name)
	}
	slices.Sort(domains)
	_ = filepath.WalkDir(s.config.StateDir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !(entry.IsDir() && name == s.config.StateDir) {
			files = append(files, name)
		}
		return nil
	})
	return fmt.Sprint(s.libvirt.pools, s.libvirt.networks, domains, files)
}
