package hostprep

import (
	"context"
	stderrors "errors"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// lastWords is how long a cancelled call may still observe and publish. Killing a
// worker must not take a second.
const lastWords = 500 * time.Millisecond

// Preparer prepares one host; see the package's documentation. Make one with
// [New].
type Preparer struct {
	config Config
}

// New returns a preparer, or an errors.NotValid for an impossible config.
func New(config Config) (*Preparer, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "host preparer config")
	}
	return &Preparer{config: config.withDefaults()}, nil
}

// Prepare makes this host ready for the container, which is a direct child of
// it. It waits for the machine lock for as long as ctx lasts; all after that has
// the deadlines of the config. Running it again is harmless.
//
// It returns errors.NotValid for an id that is not one of this host's
// containers, and for an impossible answer of the controller, in which case
// nothing was changed; errors.Timeout for a call that took too long; ctx's error
// when that ended before all was done; and otherwise what the calls returned,
// the Bridger's error before those of observing and publishing.
func (p *Preparer) Prepare(ctx context.Context, id string) error {
	if err := p.checkID(id); err != nil {
		return err
	}
	err := p.prepare(ctx, id)
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		// Whatever else came of it, the caller has to be able to see that
		// it is not the container's fault.
		err = stderrors.Join(err, ended)
	}
	return errors.Annotatef(err, "preparing host for container %s", id)
}

// checkID returns an errors.NotValid unless the id is that of a direct child of
// this host.
func (p *Preparer) checkID(id string) error {
	parsed, err := container.ParseID(id)
	if err != nil {
		return err
	}
	if parsed.Host != p.config.MachineID {
		return errors.NotValidf("container %q on machine %q", id, p.config.MachineID)
	}
	return nil
}

// prepare does all of it inside the lock, which it gives back in any case.
func (p *Preparer) prepare(ctx context.Context, id string) error {
	release, err := p.config.Lock.Acquire(ctx, container.Holder{
		Worker: "hostprep",
		Reason: "bridge devices for " + id,
	})
	if err != nil {
		return errors.Trace(err)
	}
	if release == nil {
		return errors.NotValidf("nil release of the machine lock")
	}
	// Deferred, for panics too.
	defer release()

	changes, err := p.ask(ctx, id)
	if err != nil {
		return errors.Annotate(err, "asking for host changes")
	}
	if len(changes.Devices) == 0 {
		return nil
	}
	// The last moment at which nothing is changed yet.
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.change(ctx, id, changes)
}

// ask returns what must change, checked.
func (p *Preparer) ask(ctx context.Context, id string) (changes facade.HostChanges, err error) {
	err = p.within(ctx, p.config.AskTimeout, func(ctx context.Context) error {
		changes, err = p.config.Facade.HostChangesForContainer(ctx, id)
		return err
	})
	if err == nil {
		err = changes.Validate()
	}
	return changes, err
}

// change bridges, and says how the host looks afterwards.
func (p *Preparer) change(ctx context.Context, id string, changes facade.HostChanges) (err error) {
	// Deferred, since it is also to be known what a bridger that panicked
	// has left.
	defer func() { err = stderrors.Join(err, p.tell(ctx, id)) }()

	begun := p.config.Clock.Now()
	timeout := p.config.BridgeTimeout + changes.ReconfigureDelay
	err = p.within(ctx, timeout, func(ctx context.Context) error {
		return p.config.Bridger.Bridge(ctx, changes.Devices, changes.ReconfigureDelay)
	})
	if err != nil {
		return errors.Annotatef(err, "bridging %s", devices(changes.Devices))
	}
	p.config.Logger.Info("bridged devices of the host",
		"container", id,
		"devices", devices(changes.Devices),
		"took", p.config.Clock.Now().Sub(begun))
	return nil
}
