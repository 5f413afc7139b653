package containersim

import (
	"context"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// storm decides what befalls the calls of a story while it storms. All of it
// keeps to what the interfaces allow: a controller or a back end that says what
// is not so (that a living container is not found, that there is no instance
// where there is one) can be believed by nobody.
type storm struct {
	story *Story
	// faults and crashes are how many calls in a thousand suffer one.
	faults, crashes int
	// worst is the method that suffers them far more often.
	worst string
}

// boom is what fails for no reason.
const boom = errors.ConstError("boom")

// over is longer than any deadline.
const over = 24 * time.Hour

// overFor is how long a call takes that is to be over its deadline. The wait for
// the lock to prepare a host has none: it only takes long.
func overFor(method string) time.Duration {
	if method == "Acquire" {
		return startTimeout + time.Minute
	}
	return over
}

// hook returns the hook of a session.
func (st storm) hook(s *Session) func(fakes.Call) fakes.Effect {
	return func(c fakes.Call) fakes.Effect {
		if !st.story.stormy.Load() {
			return fakes.Effect{}
		}
		item := ""
		if c.Item {
			item = "item"
		}
		d := s.throw("storm", item, c.Method, s.about(c))
		faults, crashes := st.faults, st.crashes
		if c.Method == st.worst {
			faults, crashes = 5*faults, 5*crashes
		}
		switch {
		case st.joined(c) && (c.Method == "AllInstances" || c.Method == "SetContainerStatus"):
			// After one that fails there is a pause for all, so that how
			// they are joined would matter.
		case c.Item:
			if d.in1000(faults / 2) {
				return st.item(d, c)
			}
		case d.in1000(crashes):
			return st.crash(d, c, s)
		case !d.in1000(faults):
		case st.joined(c):
			return st.joinedFault(d, c)
		default:
			return st.fault(d, c, s)
		}
		return fakes.Effect{}
	}
}

// joined tells whether the call is one of those that take no time, so that it is
// not certain what they are about.
func (st storm) joined(c fakes.Call) bool { return st.story.world.options.Quick && shared(c.Method) }

// crash ends the agent at a call.
func (st storm) crash(d *dice, c fakes.Call, s *Session) fakes.Effect {
	switch {
	case st.joined(c), c.Method == "Acquire":
		// A moment later, when all that happens now has happened.
		return fakes.Effect{Then: func() { st.story.world.clock.AfterFunc(1, s.faults.Cut) }}
	case d.in1000(500):
		return fakes.Effect{Before: s.faults.Cut}
	}
	return fakes.Effect{Then: s.faults.Cut}
}

// joinedFault is what befalls a whole call that is joined: the same for all that
// happen at this instant, and about each container alike.
func (st storm) joinedFault(d *dice, c fakes.Call) fakes.Effect {
	switch d.below(6) {
	case 0, 1:
		return fakes.Effect{Err: st.failure(d, c)}
	case 2, 3:
		return fakes.Effect{Err: st.failure(d, c), Act: fakes.Fully}
	case 4:
		return fakes.Effect{Panic: boom, Act: pick(d, fakes.Nothing, fakes.Fully)}
	}
	return fakes.Effect{Answer: fakes.Return(nil)}
}

// fault is what befalls a whole call.
func (st storm) fault(d *dice, c fakes.Call, s *Session) fakes.Effect {
	switch c.Method {
	case "WatchAllContainers", "WatchContainers", "WatchHarvestMode":
		return st.watchFault(d, c, s)
	}
	slow := d.between(time.Second, callTimeout-5*time.Second)
	switch d.below(20) {
	case 0, 1, 2, 3:
		return fakes.Effect{Err: st.failure(d, c)}
	case 4, 5, 6, 7:
		return fakes.Effect{Err: st.failure(d, c), Act: fakes.Fully}
	case 8:
		return fakes.Effect{Err: boom, Act: fakes.Half}
	case 9:
		return fakes.Effect{Panic: boom}
	case 10:
		return fakes.Effect{Panic: boom, Act: fakes.Fully}
	case 11:
		return fakes.Effect{Delay: overFor(c.Method)}
	case 12:
		return fakes.Effect{Late: overFor(c.Method)}
	case 13, 14:
		return fakes.Effect{Delay: slow}
	case 15:
		return fakes.Effect{Late: slow}
	case 16, 17:
		if answer := st.nonsense(d, c); answer != nil {
			return fakes.Effect{Answer: answer}
		}
		return fakes.Effect{Err: boom}
	case 18:
		return fakes.Effect{Before: func() { st.story.flip(d, c.Key) }}
	}
	if ofFacade(c.Method) && d.in1000(300) {
		s.Doom("its connection was lost")
		return fakes.Effect{Err: errors.Annotate(facade.ErrConnectionLost, "boom")}
	}
	return fakes.Effect{Delay: slow / 4}
}

func ofFacade(method string) bool {
	switch method {
	case "Acquire", "Initialise", "NewBroker", "StartInstance", "StopInstances", "AllInstances", "Observe", "Bridge":
		return false
	}
	return true
}

// watchFault is what befalls a call for a watcher. The handler ends by any
// failure of its own; a provisioner, too, and is started again.
func (st storm) watchFault(d *dice, c fakes.Call, s *Session) fakes.Effect {
	if c.Method == "WatchAllContainers" {
		s.Doom("it was refused its watcher")
	}
	switch d.below(4) {
	case 0:
		return fakes.Effect{Err: boom, Act: fakes.Fully}
	case 1:
		return fakes.Effect{Delay: over}
	case 2:
		return fakes.Effect{Panic: boom}
	}
	return fakes.Effect{Answer: fakes.Return(nil)}
}

// failure returns an error that the call may return.
func (st storm) failure(d *dice, c fakes.Call) error {
	kinds := []error{
		boom, boom, context.DeadlineExceeded, context.Canceled,
		errors.Timeoutf("all of it"), errors.NotValidf("all of it"),
		errors.Unauthorizedf("all of it"), errors.Forbiddenf("all of it"), errors.BadRequestf("all of it"),
		errors.QuotaLimitExceededf("all of it"), errors.NotYetAvailablef("all of it"), errors.AlreadyExistsf("all of it"),
	}
	switch c.Method {
	case "ContainerManagerConfig", "Acquire", "Initialise", "NewBroker", "HarvestMode":
		// Where it says that there never will be such a thing.
	default:
		kinds = append(kinds, errors.NotSupportedf("all of it"))
	}
	if c.Method != "ReleaseContainerAddresses" {
		// Where this does not say that there is nothing to give back, but
		// that something else is not there.
		kinds = append(kinds, errors.NotFoundf("all of it"))
	}
	return pick(d, kinds...)
}

// item is what befalls one container in a call for several.
func (st storm) item(d *dice, c fakes.Call) fakes.Effect {
	refused := pick[error](d, boom, errors.Timeoutf("this one"), errors.Unauthorizedf("this one"), errors.NotValidf("this one"))
	if c.Method == "Containers" && d.in1000(500) {
		return fakes.Effect{Answer: fakes.Alter(func(r facade.ContainerResult) facade.ContainerResult {
			if r.Err == nil {
				r.Life = pick(d, facade.Life("undead"), facade.Life(""))
			}
			return r
		})}
	}
	if c.Method == "ProvisioningInfo" && d.in1000(500) {
		return fakes.Effect{Answer: fakes.Alter(func(r facade.ContainerProvisioningResult) facade.ContainerProvisioningResult {
			r.Info.Base.Channel = ""
			return r
		})}
	}
	return fakes.Effect{Err: refused, Act: pick(d, fakes.Nothing, fakes.Fully)}
}

// nonsense returns an answer that cannot be right, or nil where every answer
// could be.
func (st storm) nonsense(d *dice, c fakes.Call) func(any) any {
	odd := facade.NetworkInterface{Name: "no such name"}
	switch c.Method {
	case "Containers":
		return lists[facade.ContainerResult](d)
	case "ProvisioningInfo":
		return lists[facade.ContainerProvisioningResult](d)
	case "SetContainerStatus", "SetInstanceInfo", "MarkForRemoval", "StopInstances":
		return pick(d, fakes.Return(nil), fakes.Short[error](), fakes.Long[error]())
	case "SupportedContainers":
		return fakes.Alter(func(types []facade.ContainerType) []facade.ContainerType {
			return append([]facade.ContainerType{"", "No Type"}, types...)
		})
	case "HarvestMode":
		return fakes.Return(pick(d, facade.HarvestMode("sometimes"), facade.HarvestMode("")))
	case "Observe":
		return fakes.Alter(func(seen []facade.NetworkInterface) []facade.NetworkInterface {
			return slices.Insert(slices.Clone(seen), d.below(len(seen)+1), odd)
		})
	case "HostChangesForContainer":
		return fakes.Alter(func(changes facade.HostChanges) facade.HostChanges {
			if d.in1000(500) {
				changes.ReconfigureDelay = -time.Second
			} else {
				changes.Devices = append(changes.Devices, facade.DeviceToBridge{Device: "eth0/../x", Bridge: "br"})
			}
			return changes
		})
	case "PrepareContainerInterfaceInfo":
		return fakes.Return([]facade.NetworkInterface{odd})
	case "StartInstance":
		return fakes.Return(container.StartResult{})
	case "NewBroker":
		return fakes.Return(nil)
	}
	return nil
}

// lists are answers that are lists and name what they are about.
func lists[T any](d *dice) func(any) any {
	return pick(d, fakes.Return(nil), fakes.Short[T](), fakes.Long[T](), fakes.Reversed[T]())
}
