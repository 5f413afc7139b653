package containerprovisioner

import (
	"context"
	"log/slog"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// lookAgain is the kind of error of a pass whose observations no longer hold:
// the container died, or vanished, between two reads. It is no failure; the
// pass begins again.
const lookAgain = errors.ConstError("observation is out of date")

// maxLooks is how often a pass begins before it counts as failed after all, so
// that a controller whose answers contradict each other is not asked without a
// pause.
const maxLooks = 3

// result is how a pass ended.
type result struct {
	outcome Outcome
	err     error
	// step is what failed.
	step step
	// attempt tells that it was one of the attempts to start that are
	// counted.
	attempt bool
	// start is which attempt to start this was, counted or not; zero if it
	// was none.
	start int
	// early tells that nothing was done, since what is to be done failed a
	// short while ago.
	early bool
	// turn tells that the container waits for a turn, and keeps its place.
	turn bool

	// state is the container's status as it was read.
	state facade.ContainerState
	// running tells that it is alive, and its instance recorded and there;
	// lost, that it is recorded and not there.
	running, lost bool
	// kept are instances that are left although nobody wants them.
	kept []container.InstanceID
}

// pass is one look at one container: observe, decide, act.
type pass struct {
	w   *Worker
	id  string
	ctx context.Context
	// memory is what is remembered of the container; only the pass that
	// holds its key touches it.
	memory *memory
	seen   observed
	// listed is a number of the lister's from after the container was read.
	listed uint64
	// acting is what is being done, should it panic.
	acting step
	// started is which attempt to start has succeeded; zero if none has.
	started int
}

// run looks until the observations held for the whole of a look.
func (p *pass) run() (res result) {
	for look := 1; ; look++ {
		res = p.look()
		if !errors.Is(res.err, lookAgain) {
			break
		}
		if look == maxLooks {
			// It is there, and something of it is not found: a failure
			// like any other.
			res.step, res.attempt = p.acting, p.acting == startInstance
			break
		}
		// Begun again at once, by this loop.
	}
	if c := p.seen.container; c != nil {
		res.state = c.state
	}
	return res
}

// look observes, one question at a time, until it is decided what to do, and
// does it.
func (p *pass) look() result {
	m := p.memory
	p.acting = noStep
	p.seen = observed{
		harvest: p.w.harvestMode(),
		asked:   m.asked,
		marked:  m.marked,
	}
	if m.started != nil {
		p.seen.started = container.InstanceID(m.started.InstanceID)
	}
	for {
		next, reason := decide(p.seen)
		if next == m.failed && p.w.config.Clock.Now().Before(m.notBefore) {
			return result{outcome: OutcomeFailed, early: true}
		}
		var err error
		switch next {
		case readContainer:
			err = p.readContainer()
		case readInstances:
			err = p.readInstances()
		case startInstance:
			if !p.w.turns.mayStart(p.id) {
				return result{outcome: OutcomeWaiting, err: errors.New("waits for a turn to start"), turn: true}
			}
			return p.start()
		case recordInstance:
			return p.record()
		case stopInstances:
			if !p.w.turns.mayStop(p.id) {
				return result{outcome: OutcomeWaiting, err: errors.New("waits for a turn to stop"), turn: true}
			}
			err = p.act(next, p.stop)
		case releaseAddresses:
			err = p.act(next, p.release)
		case markForRemoval:
			err = p.act(next, p.mark)
		case leaveAlone:
			return p.settle()
		case awaitRequest:
			return result{outcome: OutcomeGivenUp, err: errors.New("not started until somebody asks for it again")}
		case awaitMode:
			return result{outcome: OutcomeWaiting, err: errors.New("waits for the harvest mode to be known")}
		case reportLost:
			return p.lost()
		case forgetIt:
			return result{outcome: OutcomeForgotten}
		case refuseIt:
			return result{outcome: OutcomePermanent, err: reason}
		}
		if err != nil {
			return p.failed(err)
		}
	}
}

// failed happens again after a back-off.
func (p *pass) failed(err error) result {
	return result{outcome: OutcomeFailed, err: err, step: p.acting}
}

// act does a step.
func (p *pass) act(s step, do func() error) error {
	p.acting = s
	err := do()
	if err == nil {
		p.acting = noStep
	}
	return err
}

func (p *pass) readContainer() error {
	answer, err := join(p.ctx, p.w, p.w.batchers.containers, p.id)
	gone := errors.Is(err, errors.NotFound)
	dead := err == nil && answer.Life == facade.Dead
	// One whose stopping failed before does not hold up the others again.
	p.w.turns.read(p.id, dead && p.seen.harvest.Dead() && !p.seen.marked && p.memory.failures == 0)
	if err != nil && !gone {
		return errors.Annotate(err, "reading the container")
	}
	c := &containerSeen{gone: gone}
	if !gone {
		c.life, c.instance, c.state = answer.Life, container.InstanceID(answer.InstanceID), answer.Status
		if p.memory.heard(c.state) {
			p.w.log(p.ctx, slog.LevelInfo, "asked to start the container again", p.id)
			p.memory.attempts, p.memory.failures, p.memory.failed = 0, 0, noStep
		}
	}
	p.seen.container = c
	p.seen.exhausted = p.memory.attempts >= p.w.config.MaxAttempts
	p.seen.evident = !p.memory.seenAt.IsZero() && p.w.config.Clock.Now().Sub(p.memory.seenAt) < burst
	p.listed = p.w.lister.now()
	return nil
}

// readInstances finds out what the broker has: the first time from a listing
// that may be a little old, then from one that was asked for since the
// container was read.
func (p *pass) readInstances() error {
	var l *listing
	var err error
	if p.seen.instances == nil {
		l, err = p.w.lister.recent(p.ctx)
	} else {
		l, err = p.w.lister.after(p.ctx, p.listed)
	}
	if err != nil {
		return err
	}
	in := &instancesSeen{fresh: l.number > p.listed, own: l.of(p.id)}
	p.seen.instances = in
	if recorded := p.seen.container.instance; recorded != "" {
		there := p.seen.isThere()
		in.taken = !there && l.owned(recorded)
		if there {
			p.memory.missing = false
		}
	}
	return nil
}

// settle leaves the container as it is.
func (p *pass) settle() result {
	res := result{outcome: OutcomeSettled}
	c, in := p.seen.container, p.seen.instances
	res.running = !c.gone && c.life == facade.Alive && c.instance != ""
	if in == nil || p.seen.stopped {
		return res
	}
	switch {
	case res.running:
		res.kept = p.seen.surplus()
	case c.gone || c.life == facade.Dead:
		res.kept = in.own
	}
	return res
}

// lost is about a recorded instance that is not there. It may be that it is only
// not listed; so it is looked for twice before anybody hears of it.
func (p *pass) lost() result {
	recorded := p.seen.container.instance
	err := errors.NotFoundf("recorded instance %q", recorded)
	if p.seen.instances.taken {
		err = errors.NotValidf("recorded instance %q, which was made for another container,", recorded)
	}
	res := result{outcome: OutcomePermanent, err: err, lost: true}
	if !p.memory.missing {
		p.memory.missing = true
		res.outcome = OutcomeFailed
	}
	return res
}

// stop stops the instances that nobody wants.
func (p *pass) stop() error {
	ids := p.seen.toStop()
	if err := p.w.stopInstances(p.ctx, ids); err != nil {
		return errors.Annotate(err, "stopping instances")
	}
	for _, id := range ids {
		p.w.log(p.ctx, slog.LevelInfo, "instance stopped", p.id, slog.String("instance", string(id)))
	}
	m := p.memory
	if p.seen.container.gone || p.seen.container.life != facade.Alive {
		m.started, m.seenAt, m.marked = nil, time.Time{}, false
	}
	p.seen.stopped, p.seen.started, p.seen.marked = true, "", false
	return nil
}

// release gives back the addresses of a container that is dead or gone.
func (p *pass) release() error {
	err := p.w.ask(p.ctx, p.w.config.CallTimeout, func(ctx context.Context) error {
		return p.w.config.Facade.ReleaseContainerAddresses(ctx, p.id)
	})
	if err != nil && !errors.Is(err, errors.NotFound) {
		return errors.Annotate(err, "releasing addresses")
	}
	p.seen.released = true
	return nil
}

// mark says that nothing is left of a dead container.
func (p *pass) mark() error {
	_, err := join(p.ctx, p.w, p.w.batchers.removals, p.id)
	if err != nil && !errors.Is(err, errors.NotFound) {
		return errors.Annotate(err, "marking for removal")
	}
	p.w.log(p.ctx, slog.LevelInfo, "container removed", p.id)
	p.seen.marked, p.memory.marked = true, true
	p.memory.asked = p.memory.unsure // all that was made is gone, or left on purpose
	return nil
}
