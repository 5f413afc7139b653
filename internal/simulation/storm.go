package simulation

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

// storm decides what befalls the calls of a story while it storms. All of it
// keeps to what the interfaces allow: a facade or a manager that says what is
// not so (that a living application is not found, that a password was set) can
// be believed by nobody.
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
const over = 100 * time.Hour

// hook returns the hook of a session.
func (st storm) hook(s *Session) func(fakes.Call) fakes.Effect {
	return func(c fakes.Call) fakes.Effect {
		if !st.story.stormy.Load() {
			return fakes.Effect{}
		}
		d := throwFor(st.story.seed, c.N, s.name, "storm", c.Method, c.Key)
		faults, crashes := st.faults, st.crashes
		if c.Method == st.worst {
			faults, crashes = 5*faults, 5*crashes
		}
		switch {
		case c.Item:
			if d.in1000(faults / 2) {
				return st.item(d, c)
			}
		case d.in1000(crashes):
			if d.in1000(500) {
				return fakes.Effect{Before: s.faults.Cut}
			}
			return fakes.Effect{Then: s.faults.Cut}
		case d.in1000(faults):
			return st.fault(d, c, s)
		}
		return fakes.Effect{}
	}
}

// fault is what befalls a whole call.
func (st storm) fault(d *dice, c fakes.Call, s *Session) fakes.Effect {
	switch c.Method {
	case "WatchApplications", "WatchProvisioning", "WatchOperators":
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
		return fakes.Effect{Delay: over}
	case 12:
		return fakes.Effect{Late: over}
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
	case "OperatorExists", "Operator", "EnsureOperator", "StageOperator", "GlanceOperator", "KeepOperator", "DeleteOperator", "Operators":
		return false
	}
	return true
}

// watchFault is what befalls a call for a watcher. Any failure of it ends the
// worker, but for one that the interface has a meaning for.
func (st storm) watchFault(d *dice, c fakes.Call, s *Session) fakes.Effect {
	if c.Method != "WatchApplications" && d.in1000(300) {
		return fakes.Effect{Err: errors.NotSupportedf(c.Method)}
	}
	s.Doom("it was refused a watcher")
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
	case "StageOperator", "GlanceOperator", "Operators", "SetProvisioningStatus":
		// Where it says that they are done without from then on.
	default:
		kinds = append(kinds, errors.NotSupportedf("all of it"))
	}
	switch c.Method {
	case "EnsureOperator", "StageOperator", "KeepOperator":
		kinds = append(kinds, operator.ErrConflict, operator.ErrConflict)
		fallthrough
	case "SetPasswords", "ApplicationsInfo", "OperatorProvisioningInfo", "IssueOperatorCertificate", "OperatorExists":
		// Where this does not say that there is no such application, or
		// no such operator, but that of something else.
		kinds = append(kinds, errors.NotFoundf("all of it"))
	}
	return pick(d, kinds...)
}

// item is what befalls one application in a call for several.
func (st storm) item(d *dice, c fakes.Call) fakes.Effect {
	if c.Method == "SetPasswords" {
		e := fakes.Effect{Err: st.failure(d, c)}
		if d.in1000(500) {
			e.Act = fakes.Fully
		}
		return e
	}
	if d.in1000(500) {
		return fakes.Effect{Err: pick[error](d, boom, errors.Timeoutf("this one"), errors.Unauthorizedf("this one"))}
	}
	return fakes.Effect{Answer: fakes.Alter(func(i facade.ApplicationInfo) facade.ApplicationInfo {
		switch d.below(4) {
		case 0:
			i.Format = 0
		case 1:
			i.Life = "undead"
		case 2:
			i.Name = ""
		default:
			i.Format, i.FormatErr = 0, boom
		}
		return i
	})}
}

// nonsense returns an answer that cannot be right, or nil where every answer
// could be.
func (st storm) nonsense(d *dice, c fakes.Call) func(any) any {
	switch c.Method {
	case "Life":
		return fakes.Return(pick(d, facade.Life("undead"), facade.Life("")))
	case "CharmInfo", "Operator", "IssueOperatorCertificate":
		return fakes.Return(nil)
	case "GlanceOperator":
		return pick(d, fakes.Return(nil), fakes.Alter(func(op *operator.Operator) *operator.Operator {
			op.Config.Generation = pick(d, "", "no such generation")
			return op
		}))
	case "OperatorProvisioningInfo":
		return pick(d, fakes.Return(nil), fakes.Alter(func(i facade.OperatorProvisioningInfo) facade.OperatorProvisioningInfo {
			i.APIAddresses = []string{"no port"}
			return i
		}))
	case "SetPasswords":
		return pick(d, fakes.Return(nil), fakes.Short[error](), fakes.Long[error]())
	case "ApplicationsInfo":
		return pick(d, fakes.Return(nil), fakes.Short[facade.ApplicationInfo](),
			fakes.Long[facade.ApplicationInfo](), fakes.Reversed[facade.ApplicationInfo]())
	case "StageOperator":
		return fakes.Return("no such generation")
	case "Operators":
		return pick(d, fakes.Return(nil), fakes.Short[string](), fakes.Alter(func(names []string) []string {
			return append(names, "ghost")
		}))
	}
	return nil
}
