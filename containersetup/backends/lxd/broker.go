package lxd

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Keys of an instance's configuration that tell whose it is. They are there from the
// moment that the instance is.
const (
	modelKey      = "user.sutler.model"
	controllerKey = "user.sutler.controller"
	containerKey  = "user.sutler.container"
	// madeKey is set once the instance was made as a whole: what lacks it is the half
	// of one.
	madeKey = "user.sutler.made"
	// tagPrefix is before the tags that an instance is to have.
	tagPrefix = "user."
)

// lookAgain is how often a start begins anew because the daemon was restarted in the
// middle.
const lookAgain = 3

// parallelStops is how many instances are stopped at once.
const parallelStops = 4

// Broker makes and removes containers of one model. It may be used by many goroutines at
// once.
type Broker struct {
	config Config
	// quick is for what takes seconds, slow for making instances and fetching images.
	quick, slow *api.Client
	bridge      bridgeOf
	// fetching is held by whoever fetches an image.
	fetching chan struct{}
	// busy are the instances that somebody works on.
	busy *keyed
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
// setting is wrong, errors.NotYetAvailable when the daemon does not answer, and
// errors.NotFound when a bridge that is configured is not there.
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
		return nil, errors.NewNotYetAvailable(nil, "LXD does not answer on "+socketOf(ctx, config, os.Getenv))
	}
	bridge, steps, err := decideNetwork(config, o)
	if err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		return nil, errors.NewNotYetAvailable(nil, "LXD has no bridge: the host is not prepared")
	}
	b := &Broker{config: config, bridge: bridge, fetching: make(chan struct{}, 1), busy: newKeyed()}
	socket := socketOf(ctx, config, os.Getenv)
	for client, limit := range map[**api.Client]time.Duration{&b.quick: 5 * time.Minute, &b.slow: config.CreateTimeout} {
		*client, err = api.New(api.Config{Socket: socket, Clock: config.Clock, CallTimeout: config.CallTimeout, OperationTimeout: limit})
		if err != nil {
			return nil, errors.Trace(err)
		}
	}
	return b, nil
}

// StartInstance is part of container.Broker. Errors: errors.NotValid for what no container
// can be made from, errors.AlreadyExists when there is an instance of that name that is
// not this container's, errors.NotFound for a bridge or an image that is not there, and
// LXD's own refusals.
func (b *Broker) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	if err := params.Validate(); err != nil {
		return container.StartResult{}, err
	}
	id, err := container.ParseID(params.ContainerID)
	if err != nil {
		return container.StartResult{}, err
	}
	if id.Type != container.LXD {
		return container.StartResult{}, errors.NotValidf("container %q, which is none of type lxd,", params.ContainerID)
	}
	name, err := container.InstanceName(b.config.ModelUUID, params.ContainerID)
	if err != nil {
		return container.StartResult{}, err
	}
	instance, err := b.describe(ctx, name, params)
	if err != nil {
		return container.StartResult{}, err
	}
	release, err := b.busy.acquire(ctx, name)
	if err != nil {
		return container.StartResult{}, err
	}
	defer release()
	for look := 1; ; look++ {
		result, err := b.bringUp(ctx, instance, params)
		if err == nil || look == lookAgain || !interrupted(err) {
			return result, err
		}
		// The daemon was restarted, and may have finished what it was at or not. As soon
		// as it is back it is looked at, with what was made taken up.
		b.log(ctx, "LXD was restarted while it worked", name)
		waiting, cancel := context.WithTimeout(ctx, b.config.ReadyTimeout)
		readyErr := b.quick.WaitReady(waiting)
		cancel()
		if readyErr != nil {
			return result, readyErr
		}
	}
}

// interrupted tells whether the daemon ended in the middle.
func interrupted(err error) bool {
	return errors.Is(err, api.ErrOperationLost) || errors.Is(err, api.ErrNoReply) || errors.Is(err, errors.NotYetAvailable)
}

// bringUp has the instance be there and run, whatever there is of it.
func (b *Broker) bringUp(ctx context.Context, want api.CreateInstance, params container.StartParams) (container.StartResult, error) {
	// LXD goes on with what an earlier call began, whatever became of that.
	if err := b.slow.Settled(ctx, want.Name); err != nil {
		return container.StartResult{}, err
	}
	there, _, err := b.quick.Instance(ctx, want.Name)
	switch {
	case errors.Is(err, errors.NotFound):
		there, err = b.make(ctx, want, params)
	case err != nil:
	case !b.owns(there) || there.Config[containerKey] != params.ContainerID:
		return container.StartResult{}, errors.AlreadyExistsf("instance %q, which was not made for container %q of this model,", want.Name, params.ContainerID)
	case there.Config[madeKey] == "":
		// Cut short when it was made. What there is of it cannot be told, so that it is
		// made anew.
		b.log(ctx, "the half of an instance is removed", want.Name)
		if err = b.remove(ctx, there); err == nil {
			there, err = b.make(ctx, want, params)
		}
	}
	if err != nil {
		return container.StartResult{}, err
	}
	if !there.Running() {
		if err := b.quick.StartInstance(ctx, want.Name); err != nil {
			return container.StartResult{}, err
		}
	}
	if there, _, err = b.quick.Instance(ctx, want.Name); err != nil {
		return container.StartResult{}, err
	}
	return b.result(there), nil
}

// make makes an instance, which does not run then.
func (b *Broker) make(ctx context.Context, want api.CreateInstance, params container.StartParams) (api.Instance, error) {
	fingerprint, err := b.image(ctx, params.Info)
	if err != nil {
		return api.Instance{}, err
	}
	want.Fingerprint = fingerprint
	if err := b.slow.CreateInstance(ctx, want); err != nil && !errors.Is(err, errors.AlreadyExists) {
		return api.Instance{}, err
	} else if err != nil {
		// Half made, by a call whose reply was lost or by another agent of this machine.
		return api.Instance{}, errors.Annotate(errors.WithType(err, errors.NotYetAvailable), "somebody else makes it")
	}
	// From here it starts with the host; the half of one must not.
	made := map[string]string{madeKey: "true", "boot.autostart": "true"}
	if err := b.quick.PatchInstance(ctx, want.Name, api.InstancePatch{Config: made}, ""); err != nil {
		return api.Instance{}, err
	}
	there, _, err := b.quick.Instance(ctx, want.Name)
	return there, err
}

// owns tells whether an instance is this model's.
func (b *Broker) owns(i api.Instance) bool {
	return i.Config[modelKey] == b.config.ModelUUID && i.Config[controllerKey] == b.config.ControllerUUID
}

// instanceName is what LXD takes as a name.
var instanceName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// StopInstances is part of container.Broker: each is asked to shut down, switched off if
// it does not within [Config.StopTimeout], and deleted. One that is not this model's is
// errors.Forbidden, and left alone.
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
	if !instanceName.MatchString(name) {
		return nil // LXD has none of that name
	}
	release, err := b.busy.acquire(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	for look := 1; ; look++ {
		err := b.takeDown(ctx, name)
		if err == nil || look == lookAgain || !interrupted(err) {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, b.config.ReadyTimeout)
		readyErr := b.quick.WaitReady(waiting)
		cancel()
		if readyErr != nil {
			return readyErr
		}
	}
}

func (b *Broker) takeDown(ctx context.Context, name string) error {
	if err := b.slow.Settled(ctx, name); err != nil {
		return err
	}
	there, _, err := b.quick.Instance(ctx, name)
	if errors.Is(err, errors.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !b.owns(there) {
		return errors.Forbiddenf("stopping instance %q, which is not this model's: that", name)
	}
	if there.Running() && there.Config[madeKey] != "" {
		err := b.quick.StopInstance(ctx, name, b.config.StopTimeout, false)
		if errors.Is(err, errors.NotFound) {
			return nil
		}
		if ctx.Err() != nil || interrupted(err) {
			return err
		}
		if err != nil {
			b.log(ctx, "instance does not shut down and is switched off", name)
		}
	}
	return b.remove(ctx, there)
}

// remove switches an instance off, should it run, and deletes it.
func (b *Broker) remove(ctx context.Context, there api.Instance) error {
	now, _, err := b.quick.Instance(ctx, there.Name)
	if err != nil {
		return orGone(err)
	}
	if now.StatusCode != api.StatusStopped {
		// One that is in error cannot be stopped, and may yet be deleted.
		if err := b.quick.StopInstance(ctx, there.Name, b.config.StopTimeout, true); err != nil && (ctx.Err() != nil || interrupted(err)) {
			return err
		}
	}
	return orGone(b.quick.DeleteInstance(ctx, there.Name))
}

// AllInstances is part of container.Broker.
func (b *Broker) AllInstances(ctx context.Context) ([]container.Instance, error) {
	all, err := b.quick.Instances(ctx)
	if err != nil {
		return nil, err
	}
	instances := []container.Instance{}
	for _, i := range all {
		if b.owns(i) && i.Config[containerKey] != "" {
			instances = append(instances, container.Instance{
				ID:          container.InstanceID(i.Name),
				ContainerID: i.Config[containerKey],
				Running:     i.Running(),
				Status:      i.Status,
			})
		}
	}
	slices.SortFunc(instances, func(a, b container.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return instances, nil
}

func (b *Broker) log(ctx context.Context, what, name string) {
	b.config.Logger.LogAttrs(ctx, slog.LevelInfo, what, slog.String("instance", name))
}
