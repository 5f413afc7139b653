package kvm

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

// daemon is what is used of libvirt. Its methods are those of virt.Client, and described
// there.
type daemon interface {
	Version(ctx context.Context) (virt.Version, error)
	Capabilities(ctx context.Context) (virt.Capabilities, error)
	Node(ctx context.Context) (virt.Node, error)

	Pool(ctx context.Context, name string) (virt.Pool, error)
	DefinePool(ctx context.Context, definition string) error
	BuildPool(ctx context.Context, name string) error
	StartPool(ctx context.Context, name string) error
	StopPool(ctx context.Context, name string) error
	SetPoolAutostart(ctx context.Context, name string, autostart bool) error
	UndefinePool(ctx context.Context, name string) error

	Networks(ctx context.Context) ([]virt.Network, error)
	StartNetwork(ctx context.Context, name string) error
	StopNetwork(ctx context.Context, name string) error
	SetNetworkAutostart(ctx context.Context, name string, autostart bool) error

	Domains(ctx context.Context) ([]virt.Domain, error)
	Domain(ctx context.Context, name string) (virt.Domain, error)
	DomainXML(ctx context.Context, domain virt.Domain) (string, error)
	DefineDomain(ctx context.Context, definition string) (virt.Domain, error)
	SetDomainAutostart(ctx context.Context, domain virt.Domain, autostart bool) error
	StartDomain(ctx context.Context, domain virt.Domain) error
	ShutdownDomain(ctx context.Context, domain virt.Domain) error
	DestroyDomain(ctx context.Context, domain virt.Domain) error
	UndefineDomain(ctx context.Context, domain virt.Domain) error

	// Close ends the connection and waits for what uses it.
	Close()
}

var _ daemon = (*virt.Client)(nil)

// connect returns libvirt itself.
func connect(c Config) (daemon, error) {
	client, err := virt.New(virt.Config{
		Socket: c.Socket, Clock: c.Clock, CallTimeout: c.CallTimeout, OperationTimeout: c.ChangeTimeout,
	})
	if err != nil {
		return nil, err
	}
	return client, nil
}

// dial returns a connection whose changes are seen to their ends.
func (c Config) dial() (daemon, error) {
	d, err := c.connect(c)
	if err != nil {
		return nil, err
	}
	return patient{d, c.Clock}, nil
}

// interrupted tells whether the daemon was away, or ended in the middle.
func interrupted(err error) bool {
	return errors.Is(err, virt.ErrNoReply) || errors.Is(err, errors.NotYetAvailable)
}

// readyPoll is the pause between two looks at whether the daemon is there.
const readyPoll = 100 * time.Millisecond

// awaitReady returns when the daemon answers.
func awaitReady(ctx context.Context, c Config, d daemon) error {
	began := c.Clock.Now()
	for {
		_, err := d.Version(ctx)
		if err == nil || ctx.Err() != nil || !interrupted(err) && !errors.Is(err, errors.Timeout) {
			return err
		}
		if c.Clock.Now().Sub(began) >= c.ReadyTimeout {
			return errors.WithType(errors.Annotate(err, "waiting for libvirt"), errors.Timeout)
		}
		select {
		case <-c.Clock.After(readyPoll):
		case <-ctx.Done():
			return errors.Annotate(ctx.Err(), "waiting for libvirt")
		}
	}
}
