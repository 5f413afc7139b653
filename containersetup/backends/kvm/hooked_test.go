package kvm_test

import (
	"context"
	"io/fs"
	"sync"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

// hook stands between the back end and what it works on: each call, by its name, is made
// by it, or not.
type hook struct {
	mu sync.Mutex
	f  func(name string, changes bool, do func() error) error
}

func (h *hook) set(f func(name string, changes bool, do func() error) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.f = f
}

func (h *hook) call(name string, changes bool, do func() error) error {
	h.mu.Lock()
	f := h.f
	h.mu.Unlock()
	if f == nil {
		return do()
	}
	return f(name, changes, do)
}

// on has a back end's calls to libvirt go by the hook.
func (h *hook) on(c kvm.Config) kvm.Config {
	return kvm.WithDaemon(c, func(c kvm.Config, dial func(kvm.Config) (kvm.Daemon, error)) (kvm.Daemon, error) {
		d, err := dial(c)
		if err != nil {
			return nil, err
		}
		return hooked{d, h}, nil
	})
}

// hooked is libvirt behind a hook.
type hooked struct {
	kvm.Daemon
	*hook
}

func value[T any](h *hook, name string, changes bool, do func() (T, error)) (v T, err error) {
	err = h.call(name, changes, func() error {
		var err error
		v, err = do()
		return err
	})
	return v, err
}

func (d hooked) Version(ctx context.Context) (virt.Version, error) {
	return value(d.hook, "Version", false, func() (virt.Version, error) { return d.Daemon.Version(ctx) })
}

func (d hooked) Capabilities(ctx context.Context) (virt.Capabilities, error) {
	return value(d.hook, "Capabilities", false, func() (virt.Capabilities, error) { return d.Daemon.Capabilities(ctx) })
}

func (d hooked) Node(ctx context.Context) (virt.Node, error) {
	return value(d.hook, "Node", false, func() (virt.Node, error) { return d.Daemon.Node(ctx) })
}

func (d hooked) Pool(ctx context.Context, name string) (virt.Pool, error) {
	return value(d.hook, "Pool", false, func() (virt.Pool, error) { return d.Daemon.Pool(ctx, name) })
}

func (d hooked) Networks(ctx context.Context) ([]virt.Network, error) {
	return value(d.hook, "Networks", false, func() ([]virt.Network, error) { return d.Daemon.Networks(ctx) })
}

func (d hooked) Domains(ctx context.Context) ([]virt.Domain, error) {
	return value(d.hook, "Domains", false, func() ([]virt.Domain, error) { return d.Daemon.Domains(ctx) })
}

func (d hooked) Domain(ctx context.Context, name string) (virt.Domain, error) {
	return value(d.hook, "Domain", false, func() (virt.Domain, error) { return d.Daemon.Domain(ctx, name) })
}

func (d hooked) DomainXML(ctx context.Context, domain virt.Domain) (string, error) {
	return value(d.hook, "DomainXML", false, func() (string, error) { return d.Daemon.DomainXML(ctx, domain) })
}

func (d hooked) DefinePool(ctx context.Context, definition string) error {
	return d.call("DefinePool", true, func() error { return d.Daemon.DefinePool(ctx, definition) })
}

func (d hooked) BuildPool(ctx context.Context, name string) error {
	return d.call("BuildPool", true, func() error { return d.Daemon.BuildPool(ctx, name) })
}

func (d hooked) StartPool(ctx context.Context, name string) error {
	return d.call("StartPool", true, func() error { return d.Daemon.StartPool(ctx, name) })
}

func (d hooked) StopPool(ctx context.Context, name string) error {
	return d.call("StopPool", true, func() error { return d.Daemon.StopPool(ctx, name) })
}

func (d hooked) SetPoolAutostart(ctx context.Context, name string, autostart bool) error {
	return d.call("SetPoolAutostart", true, func() error { return d.Daemon.SetPoolAutostart(ctx, name, autostart) })
}

func (d hooked) UndefinePool(ctx context.Context, name string) error {
	return d.call("UndefinePool", true, func() error { return d.Daemon.UndefinePool(ctx, name) })
}

func (d hooked) StartNetwork(ctx context.Context, name string) error {
	return d.call("StartNetwork", true, func() error { return d.Daemon.StartNetwork(ctx, name) })
}

func (d hooked) StopNetwork(ctx context.Context, name string) error {
	return d.call("StopNetwork", true, func() error { return d.Daemon.StopNetwork(ctx, name) })
}

func (d hooked) SetNetworkAutostart(ctx context.Context, name string, autostart bool) error {
	return d.call("SetNetworkAutostart", true, func() error { return d.Daemon.SetNetworkAutostart(ctx, name, autostart) })
}

func (d hooked) DefineDomain(ctx context.Context, definition string) (virt.Domain, error) {
	return value(d.hook, "DefineDomain", true, func() (virt.Domain, error) { return d.Daemon.DefineDomain(ctx, definition) })
}

func (d hooked) SetDomainAutostart(ctx context.Context, domain virt.Domain, autostart bool) error {
	return d.call("SetDomainAutostart", true, func() error { return d.Daemon.SetDomainAutostart(ctx, domain, autostart) })
}

func (d hooked) StartDomain(ctx context.Context, domain virt.Domain) error {
	return d.call("StartDomain", true, func() error { return d.Daemon.StartDomain(ctx, domain) })
}

func (d hooked) ShutdownDomain(ctx context.Context, domain virt.Domain) error {
	return d.call("ShutdownDomain", true, func() error { return d.Daemon.ShutdownDomain(ctx, domain) })
}

func (d hooked) DestroyDomain(ctx context.Context, domain virt.Domain) error {
	return d.call("DestroyDomain", true, func() error { return d.Daemon.DestroyDomain(ctx, domain) })
}

func (d hooked) UndefineDomain(ctx context.Context, domain virt.Domain) error {
	return d.call("UndefineDomain", true, func() error { return d.Daemon.UndefineDomain(ctx, domain) })
}

// hookedHost is a machine behind a hook: its changes alone.
type hookedHost struct {
	host.Host
	*hook
}

func (m hookedHost) Run(ctx context.Context, cmd host.Command) (host.Output, error) {
	if cmd.ReadOnly {
		return m.Host.Run(ctx, cmd)
	}
	return value(m.hook, cmd.Args[0], true, func() (host.Output, error) { return m.Host.Run(ctx, cmd) })
}

func (m hookedHost) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	return m.call("WriteFile", true, func() error { return m.Host.WriteFile(ctx, name, data, perm) })
}

func (m hookedHost) Remove(ctx context.Context, name string) error {
	return m.call("Remove", true, func() error { return m.Host.Remove(ctx, name) })
}
