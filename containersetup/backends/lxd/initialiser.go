package lxd

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Initialiser prepares the host for LXD containers. It has no state of its own but the
// record in [Config.StateDir].
type Initialiser struct{ config Config }

var _ container.SettingsInitialiser = (*Initialiser)(nil)

// NewInitialiser returns an initialiser, or errors.NotValid that names the field.
func NewInitialiser(config Config) (*Initialiser, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "lxd")
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

// connect returns a client of the daemon, which need not be there.
func (i *Initialiser) connect(ctx context.Context) (*api.Client, error) {
	return api.New(api.Config{
		Socket:           socketOf(ctx, i.config, os.Getenv),
		Clock:            i.config.Clock,
		CallTimeout:      i.config.CallTimeout,
		OperationTimeout: 10 * time.Minute,
	})
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

// maxRounds is how often the host is looked at and something is done to it: more often
// than there are steps.
const maxRounds = 20

// Initialise is part of container.Initialiser: it installs LXD if there is none, waits
// for the daemon, and has it have a storage pool, a bridge, and a default profile with
// both. What is there already stays as it is. Errors: errors.NotSupported when packages
// cannot be installed on this system, or LXD is too old; errors.NotFound for a configured
// bridge that is not there, or when no subnet is free; errors.NotValid for a configured
// subnet that is not; errors.Timeout when the package manager is locked, or the daemon is
// not ready, for too long; and LXD's own refusals.
func (i *Initialiser) Initialise(ctx context.Context) error {
	for range maxRounds {
		o, err := i.observe(ctx)
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
	}
	return errors.Errorf("LXD is not as it should be after %d changes: somebody else changes it, too", maxRounds)
}

// carryOut records a step and does it.
func (i *Initialiser) carryOut(ctx context.Context, s step) error {
	i.config.Logger.LogAttrs(ctx, slog.LevelInfo, "preparing the host for LXD", slog.String("step", s.String()), slog.String("reason", s.why))
	switch s.Kind {
	case await:
		return i.await(ctx)
	case install:
		return i.install(ctx, s)
	}
	r, err := i.readRecord(ctx)
	if err != nil {
		return err
	}
	if s.Kind == makeNetwork && !i.hasTable(ctx) {
		s.Before = noTable
	}
	r.note(s)
	if err := i.writeRecord(ctx, r); err != nil {
		return err
	}
	client, err := i.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return errors.Trace(i.change(ctx, client, s, r.ID))
}

// await waits for the daemon.
func (i *Initialiser) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, i.config.ReadyTimeout)
	defer cancel()
	if i.config.Socket != "" {
		return i.ready(ctx)
	}
	// Which of the places the socket comes to is not known before it is there.
	for {
		slice, done := context.WithTimeout(ctx, 2*time.Second)
		err := i.ready(slice)
		done()
		if err == nil || ctx.Err() != nil || !errors.Is(err, errors.Timeout) {
			return err
		}
	}
}

func (i *Initialiser) ready(ctx context.Context) error {
	client, err := i.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.WaitReady(ctx)
}

// install installs LXD. What there was before is in the record while that goes on: apt
// goes on when the agent dies.
func (i *Initialiser) install(ctx context.Context, s step) error {
	packages, err := host.Packages(ctx, i.config.Host, i.config.Clock)
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
	added, err := packages.Install(ctx, host.Package{Name: "lxd", Channel: i.config.Channel})
	s.Added, s.Had = append(s.Added, added...), nil
	r.note(s)
	// Also when the caller has given up: what was added has to be known.
	if recordErr := i.writeRecord(context.WithoutCancel(ctx), r); err == nil {
		err = recordErr
	}
	return errors.Annotatef(err, "with %s", packages.Name())
}

// change does a step by the daemon. One that somebody else did meanwhile is refused by
// LXD; then the next look shows it.
func (i *Initialiser) change(ctx context.Context, client *api.Client, s step, mark string) error {
	var err error
	switch s.Kind {
	case makePool:
		config := map[string]string{markKey: mark}
		for key, value := range s.Config {
			if key != "driver" {
				config[key] = value
			}
		}
		err = client.CreateStoragePool(ctx, api.StoragePool{Name: s.Name, Driver: s.Config["driver"], Config: config})
	case makeNetwork:
		config := map[string]string{markKey: mark}
		maps.Copy(config, s.Config)
		err = client.CreateNetwork(ctx, api.Network{Name: s.Name, Type: "bridge", Config: config})
	case addDevice:
		err = i.editProfile(ctx, client, func(devices api.Devices) { devices[s.Name] = s.Config })
	case configureItem:
		err = client.PatchServerConfig(ctx, map[string]string{s.Name: s.Config["value"]})
	default:
		return errors.NotImplementedf("step %q", s.Kind)
	}
	if errors.Is(err, errors.AlreadyExists) || errors.Is(err, api.ErrChanged) || errors.Is(err, api.ErrOperationLost) {
		return nil
	}
	return err
}

// editProfile changes the devices of the default profile, and nothing else of it.
func (i *Initialiser) editProfile(ctx context.Context, client *api.Client, edit func(api.Devices)) error {
	profile, etag, err := client.Profile(ctx, defaultProfile)
	if err != nil {
		return err
	}
	if profile.Devices == nil {
		profile.Devices = api.Devices{}
	}
	edit(profile.Devices)
	return client.PutProfile(ctx, profile, etag)
}
