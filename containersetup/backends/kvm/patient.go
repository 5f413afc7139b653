package kvm

import (
	"context"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

// grace is how much longer than its context a change may take: libvirt goes on with what
// was begun in any case, and whoever comes next is better off when it is over.
const grace = 3 * time.Second

// patient is libvirt with changes of domains that are seen to their ends, within grace.
type patient struct {
	daemon
	clock clock.Clock
}

// see does something that has begun once ctx has ended as well.
func (p patient) see(ctx context.Context, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err // it has not begun
	}
	patiently, give := context.WithCancel(context.WithoutCancel(ctx))
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		select {
		case <-ended:
		case <-p.clock.After(grace):
			give()
		}
	}()
	err := do(patiently)
	close(ended)
	<-gone
	give()
	if errors.Is(err, context.Canceled) {
		err = errors.Annotate(ctx.Err(), "waiting for libvirt")
	}
	return err
}

func (p patient) DefineDomain(ctx context.Context, definition string) (domain virt.Domain, err error) {
	err = p.see(ctx, func(ctx context.Context) (err error) {
		domain, err = p.daemon.DefineDomain(ctx, definition)
		return err
	})
	return domain, err
}

func (p patient) SetDomainAutostart(ctx context.Context, domain virt.Domain, autostart bool) error {
	return p.see(ctx, func(ctx context.Context) error { return p.daemon.SetDomainAutostart(ctx, domain, autostart) })
}

func (p patient) StartDomain(ctx context.Context, domain virt.Domain) error {
	return p.see(ctx, func(ctx context.Context) error { return p.daemon.StartDomain(ctx, domain) })
}

func (p patient) ShutdownDomain(ctx context.Context, domain virt.Domain) error {
	return p.see(ctx, func(ctx context.Context) error { return p.daemon.ShutdownDomain(ctx, domain) })
}

func (p patient) DestroyDomain(ctx context.Context, domain virt.Domain) error {
	return p.see(ctx, func(ctx context.Context) error { return p.daemon.DestroyDomain(ctx, domain) })
}

func (p patient) UndefineDomain(ctx context.Context, domain virt.Domain) error {
	return p.see(ctx, func(ctx context.Context) error { return p.daemon.UndefineDomain(ctx, domain) })
}
