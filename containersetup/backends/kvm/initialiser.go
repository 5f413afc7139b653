package kvm

import (
	"context"
	"log/slog"

	"github.com/juju/errors"
	"libvirt.org/go/libvirtxml"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Initialiser prepares the host for virtual machines. It has no state of its own but the
// record in [Config.StateDir].
type Initialiser struct{ config Config }

var _ container.SettingsInitialiser = (*Initialiser)(nil)

// NewInitialiser returns an initialiser, or errors.NotValid that names the field.
func NewInitialiser(config Config) (*Initialiser, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "kvm")
	}
	return &Initialiser{config.withDefaults()}, nil
}

// WithSettings is part of container.SettingsInitialiser; see the package's comment for
// the settings that there are.
func (i *Initialiser) WithSettings(settings facade.ContainerManagerConfig) (container.Initialiser, error) {
	config, err := i.config.withSettings(settings)
	if err != nil {
		return nil, err
	}
	return &Initialiser{config}, nil
}

// Plan returns what Initialise would do now, in order, and why, and does none of it. What
// depends on a daemon that is not there yet is told as for a new one. There is nothing to
// do when it is empty. Errors are those of Initialise.
func (i *Initialiser) Plan(ctx context.Context) ([]Step, error) {
	o, err := i.observe(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := decide(i.config, o)
	if err != nil {
		return nil, err
	}
	return told(steps), nil
}

// Probe tells whether machines can be run here as things are, but for the pool and the
// network, and changes nothing. It is errors.NotYetAvailable when no daemon answers or
// something is not installed, and errors.NotSupported and errors.Forbidden as with
// Initialise. It is for agents that use libvirt where it is: Initialise installs it.
func (i *Initialiser) Probe(ctx context.Context) error {
	o, err := i.observe(ctx)
	if err != nil {
		return err
	}
	steps, err := decide(i.config, o)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.Kind == install || s.Kind == await {
			return notPrepared(s)
		}
	}
	return nil
}

// notPrepared is the error of a host to which something is yet to be done.
func notPrepared(s step) error {
	return errors.NewNotYetAvailable(nil, "the host is not prepared for KVM ("+s.String()+"): "+s.why)
}

// maxRounds is how often the host is looked at and something is done to it: more often
// than there are steps.
const maxRounds = 20

// Initialise is part of container.Initialiser: it installs libvirt and QEMU where they are
// not, waits for the daemon, and has it have an active storage pool and network. What is
// there already stays as it is. Errors: errors.NotSupported when the processor cannot run
// virtual machines and software may not, when packages cannot be installed on this system,
// or libvirt is too old; errors.NotFound for a configured network or bridge that is not
// there; errors.AlreadyExists for a pool of the name that is another one; errors.Forbidden
// when this process may not use libvirt; errors.Timeout when the package manager is locked,
// or the daemon does not answer, for too long; and libvirt's own refusals.
func (i *Initialiser) Initialise(ctx context.Context) error {
	var machine *observed
	for range maxRounds {
		o, err := i.observeAgain(ctx, machine)
		if err != nil {
			return err
		}
		steps, err := decide(i.config, o)
		if err != nil {
			return err
		}
		if len(steps) == 0 {
			return nil
		}
		// One at a time: what comes after may look different then.
		if err := i.carryOut(ctx, steps[0]); err != nil {
			return err
		}
		// What no step by the daemon changes is not looked at each time.
		if machine = &o; steps[0].Kind == install {
			machine = nil
		}
	}
	return errors.Errorf("libvirt is not as it should be after %d changes: somebody else changes it, too", maxRounds)
}

// carryOut records a step and does it.
func (i *Initialiser) carryOut(ctx context.Context, s step) error {
	i.config.Logger.LogAttrs(ctx, slog.LevelInfo, "preparing the host for KVM", slog.String("step", s.String()), slog.String("reason", s.why))
	if s.Kind == install {
		return i.install(ctx, s)
	}
	d, err := i.config.dial()
	if err != nil {
		return err
	}
	defer d.Close()
	if s.Kind == await {
		return awaitReady(ctx, i.config, d)
	}
	r, err := i.readRecord(ctx)
	if err != nil {
		return err
	}
	r.note(s)
	if err := i.writeRecord(ctx, r); err != nil {
		return err
	}
	return errors.Annotatef(i.change(ctx, d, s, r.ID), "preparing the host (%s)", s)
}

// packageManager returns the one that libvirt comes from.
func (i *Initialiser) packageManager(ctx context.Context) (host.PackageManager, error) {
	packages, err := host.DebianPackages(ctx, i.config.Host, i.config.Clock)
	return packages, errors.Annotate(err, "libvirt, QEMU and qemu-img, which are to be installed by hand")
}

// install installs packages. What there was before is in the record while that goes on:
// apt goes on when the agent dies.
func (i *Initialiser) install(ctx context.Context, s step) error {
	packages, err := i.packageManager(ctx)
	if err != nil {
		return err
	}
	had, err := packages.List(ctx)
	if err != nil {
		return errors.Annotatef(err, "with %s", packages.Name())
	}
	r, err := i.readRecord(ctx)
	if err != nil {
		return err
	}
	s.Had = had
	r.note(s)
	if err := i.writeRecord(ctx, r); err != nil {
		return err
	}
	cut := r.step(s).Had
	if len(without(had, cut)) > 0 {
		// An earlier agent died in the middle: what came since came by it.
		s.Added = without(had, cut)
	}
	var wanted []host.Package
	for _, name := range s.Packages {
		wanted = append(wanted, host.Package{Name: name})
	}
	added, err := packages.Install(ctx, wanted...)
	s.Added, s.Had = append(s.Added, added...), nil
	r.note(s)
	// Also when the caller has given up: what was added has to be known.
	if recordErr := i.writeRecord(context.WithoutCancel(ctx), r); err == nil {
		err = recordErr
	}
	return errors.Annotatef(err, "with %s", packages.Name())
}

// change does a step by the daemon. What somebody else did meanwhile is shown by the next
// look.
func (i *Initialiser) change(ctx context.Context, d daemon, s step, uuid string) error {
	switch s.Kind {
	case definePool:
		text, err := poolXML(s.Name, s.Dir, uuid)
		if err == nil {
			err = d.DefinePool(ctx, text)
		}
		if errors.Is(err, errors.AlreadyExists) {
			return nil
		}
		return err
	case buildPool:
		return d.BuildPool(ctx, s.Name)
	case startPool:
		return d.StartPool(ctx, s.Name)
	case autoPool:
		return d.SetPoolAutostart(ctx, s.Name, true)
	case startNetwork:
		return d.StartNetwork(ctx, s.Name)
	case autoNetwork:
		return d.SetNetworkAutostart(ctx, s.Name, true)
	}
	return errors.NotImplementedf("step %q", s.Kind)
}

// poolXML describes the pool. Its folder is entered by the hypervisor's user, and listed by
// root alone.
func poolXML(name, dir, uuid string) (string, error) {
	text, err := (&libvirtxml.StoragePool{
		Type: "dir", Name: name, UUID: uuid,
		Target: &libvirtxml.StoragePoolTarget{
			Path:        dir,
			Permissions: &libvirtxml.StoragePoolTargetPermissions{Mode: "0711"},
		},
	}).Marshal()
	return text, errors.Trace(err)
}
