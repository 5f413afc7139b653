package containerprovisioner

import (
	"fmt"
	"slices"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// observed is what a pass knows so far of one container. A nil pointer is a
// question not yet asked.
type observed struct {
	container *containerSeen
	instances *instancesSeen

	// harvest is empty while the facade has not told it.
	harvest facade.HarvestMode
	// started is the instance that this worker started and has not recorded.
	started container.InstanceID
	// asked tells that this worker began to make an instance of it.
	asked bool
	// exhausted tells that its attempts to start are used up.
	exhausted bool
	// evident tells that its instance was started a moment ago.
	evident bool

	// stopped and released tell what this pass has done; marked, what any
	// pass has.
	stopped, released, marked bool
}

// containerSeen is a container as the controller tells of it, or that there is
// none.
type containerSeen struct {
	gone     bool
	life     facade.Life
	instance container.InstanceID // the recorded one
	state    facade.ContainerState
}

// instancesSeen is what the broker has for the container.
type instancesSeen struct {
	// fresh tells that it was asked after the container was read, as it must
	// have been before anything is done about the answer.
	fresh bool
	// own are the instances made for the container.
	own []container.InstanceID
	// taken tells that the recorded one was made for another.
	taken bool
}

// step is what a pass does next.
type step uint8

const (
	noStep step = iota
	readContainer
	readInstances // in a burst others' answer will do; the second time, it must be fresh

	startInstance
	recordInstance
	stopInstances
	releaseAddresses
	markForRemoval

	leaveAlone   // nothing to do until something changes
	awaitRequest // not started until somebody asks for it again
	awaitMode    // until it is known which instances are to be taken away
	reportLost   // its recorded instance is not there
	forgetIt     // nothing to do ever, as far as can be told
	refuseIt     // an answer that makes no sense
	stepCount    = int(iota)
)

func (s step) String() string {
	names := [stepCount]string{
		"nothing", "read container", "read instances",
		"start", "record", "stop", "release addresses", "mark for removal",
		"leave alone", "await request", "await mode", "report lost", "forget", "refuse",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("step %d", uint8(s))
}

// decide says what to do about a container of which this much is known. It asks
// for one thing more at a time, and for no more than the outcome depends on. The
// error is there with refuseIt alone.
func decide(seen observed) (step, error) {
	c := seen.container
	switch {
	case c == nil:
		return readContainer, nil
	case c.gone:
		return decideGone(seen), nil
	}
	if err := c.life.Validate(); err != nil {
		return refuseIt, err
	}
	switch {
	case c.life == facade.Dead:
		return decideDead(seen), nil
	case c.instance == "" && seen.started != "":
		// Also of one that is dying: it runs, so it is to be known.
		return recordInstance, nil
	case c.life == facade.Dying:
		// Its instance is what winds it up; one that it never had is not
		// made now.
		return leaveAlone, nil
	}
	return decideAlive(seen), nil
}

// decideAlive is decide for a living container with nothing left to record.
func decideAlive(seen observed) step {
	c, in := seen.container, seen.instances
	switch {
	case c.instance == "" && (seen.exhausted || c.state == facade.ContainerError):
		return awaitRequest
	case c.instance == "":
		return startInstance
	case seen.evident:
		return leaveAlone
	case in == nil:
		return readInstances
	case len(seen.surplus()) == 0 && seen.isThere():
		return leaveAlone
	case !in.fresh:
		return readInstances
	case !seen.isThere():
		// Never started anew: what was in it would be gone for good, and
		// nobody would know.
		return reportLost
	case seen.harvest.Unknown() && !seen.stopped:
		return stopInstances
	}
	return leaveAlone
}

// decideDead is decide for a dead container.
func decideDead(seen observed) step {
	in := seen.instances
	switch {
	case seen.harvest == "":
		return awaitMode
	case in == nil || !in.fresh:
		return readInstances
	case seen.harvest.Dead() && !seen.stopped && len(seen.unwanted()) > 0:
		return stopInstances
	case seen.marked:
		return leaveAlone
	case seen.harvest.Dead() && !seen.released:
		return releaseAddresses
	case !seen.harvest.Dead() && len(in.own) == 0 && !seen.released:
		return releaseAddresses
	}
	// With its addresses, if an instance is left that uses them.
	return markForRemoval
}

// decideGone is decide for a container that the controller does not know.
func decideGone(seen observed) step {
	in := seen.instances
	switch {
	case in == nil, !in.fresh && (seen.asked || len(seen.unwanted()) > 0):
		return readInstances
	case seen.stopped || len(seen.unwanted()) == 0:
		if (seen.stopped || seen.asked) && !seen.released {
			return releaseAddresses
		}
		return forgetIt
	case seen.harvest == "":
		return awaitMode
	case seen.harvest.Unknown(), seen.asked && seen.harvest.Dead():
		// One that this worker started was known, and is destroyed.
		return stopInstances
	}
	return leaveAlone
}

// isThere tells whether the recorded instance is.
func (seen observed) isThere() bool {
	return slices.Contains(seen.instances.own, seen.container.instance)
}

// surplus are the instances of a living container that nobody recorded.
func (seen observed) surplus() []container.InstanceID {
	return slices.DeleteFunc(slices.Clone(seen.instances.own), func(id container.InstanceID) bool {
		return id == seen.container.instance
	})
}

// unwanted are the instances of a container that is dead or gone: those that
// were made for it, and those that it had by the record or by this worker's
// memory, should the broker not list them. A record of another's instance does
// not count.
func (seen observed) unwanted() []container.InstanceID {
	ids := slices.Clone(seen.instances.own)
	add := func(id container.InstanceID) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if !seen.instances.taken && !seen.marked {
		add(seen.container.instance)
	}
	add(seen.started)
	return ids
}

// toStop are the instances that stopInstances is about.
func (seen observed) toStop() []container.InstanceID {
	if !seen.container.gone && seen.container.life == facade.Alive {
		return seen.surplus()
	}
	return seen.unwanted()
}
