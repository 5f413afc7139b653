package kvm

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/machine"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// lookAgain is how often a call begins anew because the daemon was restarted in the
// middle.
const lookAgain = 3

// parallelStops is how many machines are stopped at once.
const parallelStops = 4

// Broker makes and removes virtual machines of one model. It may be used by many
// goroutines at once. It has no connection between calls.
type Broker struct {
	config Config
	prefix string // of the model's instances
	host   observed
	store  *images.Store
}

var _ container.Broker = (*Broker)(nil)

// NewBackend returns the back end for a container-setup worker, or errors.NotValid that
// names the field.
func NewBackend(config Config) (container.Backend, error) {
	initialiser, err := NewInitialiser(config)
	if err != nil {
		return container.Backend{}, err
	}
	return container.Backend{
		Initialiser: initialiser,
		NewBroker: func(ctx context.Context, settings facade.ContainerManagerConfig) (container.Broker, error) {
			return NewBroker(ctx, config, settings)
		},
	}, nil
}

// NewBroker returns the broker of a host that was prepared. It is errors.NotValid when a
// setting is wrong, errors.NotYetAvailable when the daemon does not answer or the host is
// not prepared, and else as Initialise.
func NewBroker(ctx context.Context, config Config, settings facade.ContainerManagerConfig) (*Broker, error) {
	initialiser, err := NewInitialiser(config)
	if err != nil {
		return nil, err
	}
	if initialiser.config, err = initialiser.config.withSettings(settings); err != nil {
		return nil, err
	}
	config = initialiser.config
	o, err := initialiser.observe(ctx)
	if err != nil {
		return nil, err
	}
	if !o.answers {
		return nil, errors.NewNotYetAvailable(nil, "libvirt does not answer on "+config.Socket)
	}
	steps, err := decide(config, o)
	if err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		return nil, notPrepared(steps[0])
	}
	b := &Broker{config: config, host: o}
	if b.prefix, err = container.InstancePrefix(config.ModelUUID); err != nil {
		return nil, err
	}
	b.store, err = images.New(images.Config{Dir: o.pool.Path, Host: config.Host, Clock: config.Clock, Logger: config.Logger})
	return b, errors.Trace(err)
}

// StartInstance is part of container.Broker. Errors: errors.NotValid for what no machine can
// be made from, errors.NotSupported for an architecture that this host cannot run,
// errors.AlreadyExists when there is a domain of that name that is not this container's,
// errors.NotFound for a network, a bridge or an image that is not there, and libvirt's own
// refusals.
func (b *Broker) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	if err := params.Validate(); err != nil {
		return container.StartResult{}, err
	}
	id, err := container.ParseID(params.ContainerID)
	if err != nil {
		return container.StartResult{}, err
	}
	if id.Type != container.KVM {
		return container.StartResult{}, errors.NotValidf("container %q, which is none of type kvm,", params.ContainerID)
	}
	name, err := container.InstanceName(b.config.ModelUUID, params.ContainerID)
	if err != nil {
		return container.StartResult{}, err
	}
	want, err := b.describe(ctx, name, params)
	if err != nil {
		return container.StartResult{}, err
	}
	var result container.StartResult
	err = b.holding(ctx, name, func(d daemon, again bool) error {
		result, err = b.bringUp(ctx, d, want, again)
		return err
	})
	return result, err
}

// holding has an instance be this call's alone, and does something about it; anew when the
// daemon was away or ended in the middle. What was made by then is taken up.
func (b *Broker) holding(ctx context.Context, name string, do func(d daemon, again bool) error) error {
	release, err := b.store.Hold(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	d, err := b.config.dial()
	if err != nil {
		return err
	}
	defer d.Close()
	for look := 1; ; look++ {
		err := do(d, look > 1)
		if err == nil || look == lookAgain || !interrupted(err) || ctx.Err() != nil {
			return err
		}
		b.log(ctx, "libvirt was restarted while it worked", name)
		if err := awaitReady(ctx, b.config, d); err != nil {
			return err
		}
	}
}

// bringUp has the machine be there and run, whatever there is of it. Its domain comes
// first and its disk last, so that whose files are is known as long as there are any, and a
// domain with a disk was made as a whole.
func (b *Broker) bringUp(ctx context.Context, d daemon, want described, again bool) (container.StartResult, error) {
	name := want.spec.Name
	there, err := d.Domain(ctx, name)
	made := false
	switch {
	case errors.Is(err, errors.NotFound):
		// Files without a domain are the rest of one that somebody else has removed.
		if err = b.store.RemoveInstanceFiles(ctx, name); err == nil {
			there, err = b.make(ctx, d, want)
			made = true
		}
	case err != nil:
	case !b.isFor(there, want.spec.Metadata.ContainerID):
		return container.StartResult{}, errors.AlreadyExistsf("domain %q, which was not made for container %q of this model,", name, want.spec.Metadata.ContainerID)
	case !exists(want.spec.Disk):
		// Cut short when it was made, or when it was removed.
		b.log(ctx, "the half of an instance is removed", name)
		if err = b.remove(ctx, d, there); err == nil {
			there, err = b.make(ctx, d, want)
			made = true
		}
	}
	if err != nil {
		return container.StartResult{}, err
	}
	err = b.start(ctx, d, there, want)
	if err == nil {
		err = b.settled(ctx, d, there, again)
	}
	if err != nil {
		if made && refused(err) {
			b.forget(ctx, d, name)
		}
		return container.StartResult{}, err
	}
	return b.result(ctx, d, there)
}

// start has a machine that is there run, now and with the host.
func (b *Broker) start(ctx context.Context, d daemon, there virt.Domain, want described) error {
	if there.Persistent && !there.Autostart {
		if err := d.SetDomainAutostart(ctx, there, true); err != nil {
			return err
		}
	}
	if !exists(want.spec.Seed) {
		if err := b.writeSeed(ctx, want); err != nil {
			return err
		}
	}
	// Also one that is active: a daemon that was just restarted may yet find out that it
	// is not. This waits for that, and for whatever else libvirt is at with it.
	return d.StartDomain(ctx, there)
}

// settled returns when a machine runs. One whose start was cut short by the end of the
// daemon is taken for paused by the next one for a while, until that finds out that it is
// not there, and has to be started again then. Any other that is paused stays so: somebody
// has done that, or its disk could not be written.
func (b *Broker) settled(ctx context.Context, d daemon, there virt.Domain, again bool) error {
	began := b.config.Clock.Now()
	for {
		now, err := d.Domain(ctx, there.Name)
		if err != nil {
			return err
		}
		if !now.Active() {
			if err := d.StartDomain(ctx, there); err != nil {
				return err
			}
		} else if now.State != virt.StatePaused {
			return nil
		}
		if !again || b.config.Clock.Now().Sub(began) >= b.config.ReadyTimeout {
			return errors.Timeoutf("waiting for domain %q, which libvirt says is %s,", there.Name, now.State)
		}
		select {
		case <-b.config.Clock.After(stopPoll):
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "waiting for %s to run", there.Name)
		}
	}
}

// make makes a machine, which does not run then. What it was refused for leaves nothing.
func (b *Broker) make(ctx context.Context, d daemon, want described) (virt.Domain, error) {
	spec := want.spec
	var err error
	if spec.Interfaces, err = b.connected(ctx, d, spec.Interfaces); err != nil {
		return virt.Domain{}, err
	}
	image, err := b.fetch(ctx, want.source)
	if err != nil {
		return virt.Domain{}, err
	}
	if least := (image.VirtualSize + 1<<20 - 1) >> 20; spec.RootDisk < least {
		spec.RootDisk = least
	}
	text, err := machine.Describe(spec)
	if err != nil {
		return virt.Domain{}, err
	}
	there, err := d.DefineDomain(ctx, text)
	if err != nil {
		return virt.Domain{}, err
	}
	if err = b.writeSeed(ctx, want); err == nil {
		_, err = b.store.Overlay(ctx, image, spec.Name, spec.RootDisk)
	}
	if err != nil {
		b.forget(ctx, d, spec.Name)
		return virt.Domain{}, err
	}
	return there, nil
}

func (b *Broker) fetch(ctx context.Context, source images.Source) (images.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.FetchTimeout)
	defer cancel()
	image, err := b.store.Fetch(ctx, source)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = errors.WithType(err, errors.Timeout)
	}
	return image, err
}

func (b *Broker) writeSeed(ctx context.Context, want described) error {
	data, err := machine.Seed(want.seed)
	if err != nil {
		return err
	}
	_, err = b.store.WriteSeed(ctx, want.spec.Name, data)
	return err
}

// forget takes away what this call has made, as far as it goes: the next one finds the
// rest.
func (b *Broker) forget(ctx context.Context, d daemon, name string) {
	ctx = context.WithoutCancel(ctx)
	there, err := d.Domain(ctx, name)
	if err == nil {
		err = b.remove(ctx, d, there)
	}
	if err != nil {
		b.config.Logger.LogAttrs(ctx, slog.LevelInfo, "what was made of an instance stays for now", slog.String("instance", name), slog.String("error", err.Error()))
	}
}

// refused tells whether an error is libvirt's own word, and not of a lost connection.
func refused(err error) bool {
	var refusal *virt.Error
	return errors.As(err, &refusal)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// owner returns the container of this model that a domain was made for.
func (b *Broker) owner(domain virt.Domain) (containerID string, ok bool) {
	m, err := machine.ParseMetadata(domain.Metadata)
	if err != nil || m.ModelUUID != b.config.ModelUUID || m.ControllerUUID != b.config.ControllerUUID {
		return "", false
	}
	return m.ContainerID, m.ContainerID != ""
}

func (b *Broker) isFor(domain virt.Domain, containerID string) bool {
	id, ok := b.owner(domain)
	return ok && id == containerID
}

// StopInstances is part of container.Broker: each is asked to shut down, switched off if it
// does not within [Config.StopTimeout], and removed with its disk. One that is not this
// model's is errors.Forbidden, and left alone.
func (b *Broker) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	results := make([]error, len(ids))
	turns := make(chan struct{}, parallelStops)
	done := make(chan struct{})
	for n, id := range ids {
		go func() {
			turns <- struct{}{}
			defer func() { <-turns; done <- struct{}{} }()
			results[n] = b.stop(ctx, string(id))
		}()
	}
	for range ids {
		<-done
	}
	return results
}

func (b *Broker) stop(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return errors.Trace(err)
	}
	if _, err := b.store.Files(name); err != nil {
		return nil // there is none of that name
	}
	return b.holding(ctx, name, func(d daemon, _ bool) error { return b.takeDown(ctx, d, name) })
}

func (b *Broker) takeDown(ctx context.Context, d daemon, name string) error {
	there, err := d.Domain(ctx, name)
	if errors.Is(err, errors.NotFound) {
		if !strings.HasPrefix(name, b.prefix) {
			return nil
		}
		return b.store.RemoveInstanceFiles(ctx, name)
	}
	if err != nil {
		return err
	}
	if _, ok := b.owner(there); !ok {
		return errors.Forbiddenf("stopping domain %q, which is not this model's: that", name)
	}
	files, err := b.store.Files(name)
	if err != nil {
		return err
	}
	if there.Active() && exists(files.Disk) {
		if err := b.shutDown(ctx, d, there); err != nil {
			return err
		}
	}
	return b.remove(ctx, d, there)
}

// How often is looked whether a machine has shut down, and how often its button is
// pressed: one that is only booting does not hear the first time.
const (
	stopPoll  = 100 * time.Millisecond
	pressEach = 5 * time.Second
)

// shutDown has a machine shut down by itself, or gives it up after a while.
func (b *Broker) shutDown(ctx context.Context, d daemon, there virt.Domain) error {
	began := b.config.Clock.Now()
	pressed := began.Add(-pressEach)
	for {
		now := b.config.Clock.Now()
		if now.Sub(began) >= b.config.StopTimeout {
			b.log(ctx, "instance does not shut down and is switched off", there.Name)
			return nil
		}
		if now.Sub(pressed) >= pressEach {
			pressed = now
			if err := d.ShutdownDomain(ctx, there); err != nil && !refused(err) {
				return orGone(err)
			}
		}
		current, err := d.Domain(ctx, there.Name)
		if err != nil {
			return orGone(err)
		}
		if !current.Active() {
			return nil
		}
		select {
		case <-b.config.Clock.After(stopPoll):
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "waiting for %s to shut down", there.Name)
		}
	}
}

// remove switches a machine off, should it run, and removes it. Its disk goes first: when
// this is cut short and libvirt goes on with it, nobody takes the machine for a whole one
// meanwhile. Its domain goes last, so that whose files are is known as long as there are any.
func (b *Broker) remove(ctx context.Context, d daemon, there virt.Domain) error {
	if err := b.store.RemoveInstanceFiles(ctx, there.Name); err != nil {
		return err
	}
	if err := orGone(d.DestroyDomain(ctx, there)); err != nil {
		return err
	}
	// As long as it ran, its console's log may have come back.
	if err := b.store.RemoveInstanceFiles(ctx, there.Name); err != nil {
		return err
	}
	return orGone(d.UndefineDomain(ctx, there))
}

// AllInstances is part of container.Broker.
func (b *Broker) AllInstances(ctx context.Context) ([]container.Instance, error) {
	d, err := b.config.dial()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	// Files are looked for before and after: one that is made meanwhile has a domain before
	// it has files, and one that is removed has none after.
	before, err := b.store.Names(ctx)
	if err != nil {
		return nil, err
	}
	all, err := d.Domains(ctx)
	if err != nil {
		return nil, err
	}
	names, err := b.store.Names(ctx)
	if err != nil {
		return nil, err
	}
	instances := []container.Instance{}
	taken := map[string]bool{}
	for _, domain := range all {
		taken[domain.Name] = true
		if id, ok := b.owner(domain); ok {
			instances = append(instances, container.Instance{
				ID: container.InstanceID(domain.Name), ContainerID: id,
				Running: domain.Active() && domain.State != virt.StatePaused, Status: domain.State.String(),
			})
		}
	}
	for _, name := range names {
		if id, ok := b.idOf(name); ok && !taken[name] && slices.Contains(before, name) {
			instances = append(instances, container.Instance{ID: container.InstanceID(name), ContainerID: id, Status: "files without a domain"})
		}
	}
	slices.SortFunc(instances, func(a, b container.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return instances, nil
}

// idOf returns the container of this model that files are of, as far as their name tells.
func (b *Broker) idOf(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, b.prefix)
	if !ok {
		return "", false
	}
	id := strings.ReplaceAll(rest, "-", "/")
	back, err := container.InstanceName(b.config.ModelUUID, id)
	return id, err == nil && back == name
}

func (b *Broker) log(ctx context.Context, what, name string) {
	b.config.Logger.LogAttrs(ctx, slog.LevelInfo, what, slog.String("instance", name))
}

// String tells whose machines they are.
func (b *Broker) String() string { return "KVM machines of model " + b.config.ModelUUID }
