package box

import (
	"context"
	"runtime"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// broker makes and removes boxes.
type broker struct {
	host     *Host
	settings settings
}

// StartInstance is part of container.Broker.
func (b *broker) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	name, err := b.check(ctx, params)
	if err != nil {
		return container.StartResult{}, err
	}
	unlock, err := b.host.locks.lock(ctx, name)
	if err != nil {
		return container.StartResult{}, err
	}
	defer unlock()

	i := b.host.instance(name)
	f, err := i.look()
	switch {
	case err == nil && f.record.Container != params.ContainerID:
		return container.StartResult{}, errors.AlreadyExistsf("instance %q of another container", name)
	case err == nil && b.usable(ctx, f):
		f, err = b.run(ctx, f)
	case err == nil, errors.Is(err, errors.NotValid):
		// Half made, or half removed, or damaged.
		if err = b.clear(ctx, i); err == nil {
			f, err = b.create(ctx, i, params)
		}
	case errors.Is(err, errors.NotFound):
		f, err = b.create(ctx, i, params)
	}
	if err != nil {
		return container.StartResult{}, errors.Annotatef(err, "box %s", name)
	}
	return f.result(), nil
}

// check returns the name of the instance to be.
func (b *broker) check(ctx context.Context, params container.StartParams) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := params.Validate(); err != nil {
		return "", err
	}
	id, err := container.ParseID(params.ContainerID)
	if err != nil {
		return "", errors.Trace(err)
	}
	if id.Type != Type {
		return "", errors.NotValidf("ContainerID of type %q (want %s)", id.Type, Type)
	}
	// Boxes share the machine's memory and disk; a CPU that is not there they
	// cannot.
	if cores, most := params.Info.Constraints.Cores, runtime.NumCPU(); cores > uint64(most) {
		return "", errors.NotValidf("a box with %d cores on a machine with %d is", cores, most)
	}
	return container.InstanceName(b.host.config.ModelUUID, params.ContainerID)
}

// usable tells whether the instance only has to run: it was ready once, or is
// ready although the agent that made it was not there any more to hear of it.
func (b *broker) usable(ctx context.Context, f found) bool {
	if f.record.Stopping {
		return false
	}
	return f.record.Started || f.process.alive() && f.answers(ctx)
}

// run has a usable instance run.
func (b *broker) run(ctx context.Context, f found) (found, error) {
	if !f.process.alive() {
		p, err := f.spawn(ctx)
		if err != nil {
			return f, err
		}
		f.process = p
	}
	if f.record.Started {
		return f, nil
	}
	f.record.Started = true
	return f, f.record.write(f.dir)
}

// create makes an instance where there is none.
func (b *broker) create(ctx context.Context, i instance, params container.StartParams) (found, error) {
	f := found{instance: i, record: record{
		Container:   params.ContainerID,
		Model:       b.host.config.ModelUUID,
		Base:        params.Info.Base,
		Constraints: params.Info.Constraints,
		Nonce:       params.Info.Nonce,
		Tags:        params.Info.Tags,
		Interfaces:  params.Interfaces,
	}}
	if err := i.make(f.record, params.Info.UserData); err != nil {
		return f, err
	}
	// Read back, so that nothing is shared with the caller.
	f, err := i.look()
	if err != nil {
		return f, err
	}
	if f, err = b.run(ctx, f); err != nil {
		return f, err
	}
	b.host.logger.Info("box made", "instance", i.name, "container", f.record.Container, "pid", f.process.PID)
	return f, nil
}

// clear stops and removes an instance, whatever there is of it.
func (b *broker) clear(ctx context.Context, i instance) error {
	p, err := readProcess(i.dir)
	if err != nil {
		// Its process, if there is one, ends when it misses its directory.
		b.host.warn(i.name, "process of a box is not known", err)
	}
	if err := b.host.end(ctx, p, b.settings.stopTimeout); err != nil {
		return err
	}
	return i.remove()
}

// result is what the first start returned, and every later one does.
func (f found) result() container.StartResult {
	return container.StartResult{
		InstanceID: container.InstanceID(f.name),
		// A box has no limits of its own: what was asked for, it has.
		Hardware: facade.Hardware{
			Cores:    f.record.Constraints.Cores,
			Memory:   f.record.Constraints.Memory,
			RootDisk: f.record.Constraints.RootDisk,
			Arch:     runtime.GOARCH,
		},
		Interfaces: f.record.Interfaces,
	}
}

// StopInstances is part of container.Broker.
func (b *broker) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	results := make([]error, len(ids))
	for n, id := range ids {
		results[n] = errors.Annotate(b.stop(ctx, string(id)), "stopping a box")
	}
	return results
}

func (b *broker) stop(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !b.host.isName(name) {
		return nil // none of ours has such a name
	}
	unlock, err := b.host.locks.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	i := b.host.instance(name)
	f, err := i.look()
	switch {
	case errors.Is(err, errors.NotFound):
		return nil
	case err == nil && !f.record.Stopping:
		// So that nobody starts it again, should this be cut short.
		f.record.Stopping = true
		err = f.record.write(f.dir)
	case errors.Is(err, errors.NotValid):
		err = nil // damaged; it goes all the same
	}
	if err != nil {
		return err
	}
	if err := b.clear(ctx, i); err != nil {
		return err
	}
	b.host.logger.Info("box removed", "instance", name, "container", f.record.Container)
	return nil
}

// AllInstances is part of container.Broker.
func (b *broker) AllInstances(ctx context.Context) ([]container.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := b.host.list()
	if err != nil {
		return nil, err
	}
	out := make([]container.Instance, len(all))
	for n, f := range all {
		out[n] = container.Instance{
			ID:          container.InstanceID(f.name),
			ContainerID: f.record.Container,
			Running:     f.running(),
			Status:      f.status(),
		}
	}
	return out, nil
}
