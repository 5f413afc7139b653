package provisioner

import (
	"fmt"
	"slices"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// observed is what a pass knows so far of one application. A nil pointer is a
// question not yet asked.
type observed struct {
	life      *lifeSeen
	format    *formatSeen
	state     *operator.State
	operator  *operatorSeen
	glance    glancing // whether operator is, or can be, seen without its files
	info      *facade.OperatorProvisioningInfo
	providers []string // the storage providers that can be served
}

// lifeSeen is an application's life, or that there is no such application.
type lifeSeen struct {
	gone bool
	life facade.Life
}

// formatSeen is the format of its charm, or that there is no such charm.
type formatSeen struct {
	gone   bool
	format int
}

// operatorSeen is what there is of its operator, nil for nothing.
type operatorSeen struct {
	operator *operator.Operator
}

// step is what a pass does next.
type step uint8

const (
	readLife step = iota
	readFormat
	readState
	readOperator
	glanceOperator // read it without its files
	readInfo
	ensureOperator // make it be there and be as it should
	keepOperator   // the same with its files as they are, unless they have to change
	deleteOperator // start or continue its deletion, and look again
	awaitEnd       // its deletion is under way: look again soon
	awaitCharm     // there is no charm yet: look again with back-off
	leaveAlone     // nothing to do until something changes
	forgetIt       // nothing to do ever, as far as can be told
	refuseIt       // an error that no repetition mends
	stepCount      = int(iota)
)

func (s step) String() string {
	names := [stepCount]string{
		"read life", "read format", "read state", "read operator", "glance at operator",
		"read provisioning info", "ensure operator", "keep operator", "delete operator", "await end", "await charm", "leave alone", "forget", "refuse",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("step %d", uint8(s))
}

// decide says what to do about an application of which this much is known. It
// asks for one thing more at a time, and for no more than the outcome depends
// on. The error is there with refuseIt alone.
func decide(seen observed) (step, error) {
	switch {
	case seen.life == nil:
		return readLife, nil
	case seen.life.gone:
		return decideRemoval(seen)
	}
	if err := seen.life.life.Validate(); err != nil {
		return refuseIt, err
	}
	if seen.life.life == facade.Dying {
		// Its operator is what removes its units, so it stays; and one that
		// it never had is not made now.
		return leaveAlone, nil
	}
	if seen.format == nil {
		return readFormat, nil
	}
	if seen.format.format >= 2 {
		return leaveAlone, nil
	}
	if seen.life.life == facade.Dead {
		// Without its charm, too: what cannot be told to be somebody
		// else's is ours to remove.
		return decideRemoval(seen)
	}
	if seen.format.gone {
		return awaitCharm, nil
	}
	return decideAlive(seen)
}

// decideRemoval is decide for an application that is dead or gone.
func decideRemoval(seen observed) (step, error) {
	switch {
	case seen.state == nil:
		return readState, nil
	case seen.state.Exists || seen.state.Terminating:
		return deleteOperator, nil
	case seen.operator == nil:
		// A half-made operator is no State, but has a configuration.
		return readOperator, nil
	case seen.operator.operator != nil:
		return deleteOperator, nil
	}
	return forgetIt, nil
}

// decideAlive is decide for a living application with a charm of format 1.
func decideAlive(seen observed) (step, error) {
	switch {
	case seen.state == nil:
		return readState, nil
	case seen.state.Terminating:
		return awaitEnd, nil
	case seen.operator == nil && seen.glance == mayGlance && seen.state.Exists:
		return glanceOperator, nil
	case seen.operator == nil:
		return readOperator, nil
	case seen.operator.operator != nil && seen.operator.operator.Dying:
		return awaitEnd, nil
	case seen.info == nil:
		return readInfo, nil
	}
	if err := checkStorage(seen.info.CharmStorage, seen.providers); err != nil {
		return refuseIt, err
	}
	if seen.glance == glanced {
		return keepOperator, nil
	}
	return ensureOperator, nil
}

// checkStorage refuses charm storage that no operator manager here can serve.
func checkStorage(storage *facade.CharmStorage, providers []string) error {
	switch {
	case storage == nil:
		return nil
	case storage.Provider == "":
		return errors.NotValidf("charm storage without a provider")
	case !slices.Contains(providers, storage.Provider):
		return errors.NotSupportedf("charm storage provider %q (have %q)", storage.Provider, providers)
	}
	return nil
}

// passwordPlan is what to do about an operator's password.
type passwordPlan struct {
	// mint a new one.
	mint bool
	// tell the controller, before the operator is ensured.
	tell bool
	// stage the configuration before the controller is told, so that of
	// several workers that mint, all tell the same one.
	stage bool
	// mark the staged configuration as not yet told. Without the mark a
	// crash after staging would leave an operator that fully exists with a
	// password that its controller never heard of. It needs not exist before:
	// where only the configuration was missing, staging completes it.
	mark bool
}

// passwordFacts is what the plan depends on.
type passwordFacts struct {
	stored   bool // the stored agent.conf has a password
	untold   bool // and a mark that the controller was not told
	exists   bool // the operator fully exists
	part     bool // there is a part of it
	misled   bool // this worker told the controller another one
	canStage bool // the manager is an operator.Stager
}

// planPassword keeps a stored password always; tells the controller whenever
// it may not know; and leaves an operator that fully exists alone otherwise,
// since that may have changed its password itself.
func planPassword(f passwordFacts) passwordPlan {
	plan := passwordPlan{
		mint: !f.stored,
		tell: !f.stored || !f.exists || f.untold || f.misled,
	}
	plan.stage = plan.mint && f.canStage
	plan.mark = plan.stage && (f.exists || f.part)
	return plan
}
