package containerprovisioner

import (
	"context"
	"log/slog"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// start makes a living container's instance run and has it recorded. Removal
// wins: the container is looked at right before and right after.
func (p *pass) start() result {
	p.acting = startInstance
	params, err := p.prepare()
	if err != nil {
		return p.startFailed(err)
	}
	if p.memory.attempts == 0 {
		// Later ones say more, of what went wrong.
		p.w.tell(p.ctx, p.id, p.memory, said{facade.ContainerProvisioning, "starting"})
	}
	if err := p.still(startInstance); err != nil {
		return p.startFailed(noAnswer(err))
	}

	p.memory.unsure = true
	var started container.StartResult
	err = p.w.within(p.ctx, p.w.config.StartTimeout, func(ctx context.Context) (err error) {
		started, err = p.w.config.Broker.StartInstance(ctx, params)
		return err
	})
	if err == nil && started.InstanceID == "" {
		err = errors.NotValidf("empty InstanceID of a started instance")
	}
	if err != nil {
		return p.startFailed(errors.Annotate(err, "starting the instance"))
	}
	p.memory.unsure = false
	p.started = p.memory.attempts + 1
	p.memory.started = &facade.InstanceInfo{
		ID:         p.id,
		InstanceID: string(started.InstanceID),
		Nonce:      params.Info.Nonce,
		Hardware:   started.Hardware,
		Interfaces: started.Interfaces,
	}
	p.w.log(p.ctx, slog.LevelInfo, "instance started", p.id, slog.String("instance", string(started.InstanceID)))

	p.acting = noStep
	p.seen.started, p.seen.asked = started.InstanceID, true
	if err := p.still(recordInstance); err != nil {
		return p.failed(err)
	}
	return p.record()
}

// errNoAnswer is the kind of error of a question about the container that the
// controller did not answer in time. That says nothing of the container, and is
// not counted as an attempt to start it.
const errNoAnswer = errors.ConstError("controller did not answer")

// noAnswer makes a time-out of the controller an error of that kind.
func noAnswer(err error) error {
	if errors.Is(err, errors.Timeout) {
		return errors.WithType(err, errNoAnswer)
	}
	return err
}

// prepare gets the host ready and finds out what to start the instance from.
func (p *pass) prepare() (container.StartParams, error) {
	params := container.StartParams{ContainerID: p.id}
	if preparer := p.w.config.Preparer; preparer != nil {
		err := p.w.ask(p.ctx, p.w.config.StartTimeout, func(ctx context.Context) error {
			return preparer.Prepare(ctx, p.id)
		})
		if err != nil {
			return params, errors.Annotate(err, "preparing the host")
		}
	}
	info, err := join(p.ctx, p.w, p.w.batchers.infos, p.id)
	if err != nil {
		return params, errors.Annotate(vanished(noAnswer(err)), "reading provisioning info")
	}
	var interfaces []facade.NetworkInterface
	p.memory.asked = true
	err = p.w.ask(p.ctx, p.w.config.CallTimeout, func(ctx context.Context) (err error) {
		interfaces, err = p.w.config.Facade.PrepareContainerInterfaceInfo(ctx, p.id)
		return err
	})
	if err != nil {
		return params, errors.Annotate(vanished(noAnswer(err)), "preparing network interfaces")
	}
	params.Info, params.Interfaces = info, interfaces
	return params, errors.Trace(params.Validate())
}

// vanished has the container looked at again when something of it was not
// found: what is to be done has changed.
func vanished(err error) error {
	if errors.Is(err, errors.NotFound) {
		return errors.WithType(err, lookAgain)
	}
	return err
}

// still reads the container again and returns lookAgain if something else is to
// be done now.
func (p *pass) still(s step) error {
	if err := p.readContainer(); err != nil {
		return err
	}
	if now, _ := decide(p.seen); now != s {
		return lookAgain
	}
	return nil
}

// startFailed counts the attempt, unless it was cut short by something else
// than a failure.
func (p *pass) startFailed(err error) result {
	res := p.failed(err)
	res.attempt = !errors.Is(err, errNoAnswer) && !errors.Is(err, lookAgain)
	return res
}

// record tells the controller which instance was started.
func (p *pass) record() result {
	p.acting = recordInstance
	m := p.memory
	_, err := join(p.ctx, p.w, p.w.batchers.records, *m.started)
	if err != nil {
		return p.failed(errors.Annotate(vanished(err), "recording the instance"))
	}
	p.acting = noStep
	*m = memory{said: m.said, asked: true, seenAt: p.w.config.Clock.Now()}
	return result{outcome: OutcomeSettled, running: true}
}
