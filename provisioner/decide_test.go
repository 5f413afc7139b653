package provisioner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

func TestDecide(t *testing.T) {
	var (
		alive   = &lifeSeen{life: facade.Alive}
		dying   = &lifeSeen{life: facade.Dying}
		dead    = &lifeSeen{life: facade.Dead}
		gone    = &lifeSeen{gone: true}
		v1      = &formatSeen{format: 1}
		v2      = &formatSeen{format: 2}
		v3      = &formatSeen{format: 3}
		noCharm = &formatSeen{gone: true}

		absent      = &operator.State{}
		present     = &operator.State{Exists: true}
		terminating = &operator.State{Exists: true, Terminating: true}
		ending      = &operator.State{Terminating: true}

		nothing = &operatorSeen{}
		some    = &operatorSeen{operator: &operator.Operator{Config: &operator.Config{}}}
		leaving = &operatorSeen{operator: &operator.Operator{Dying: true, Config: &operator.Config{}}}

		plain   = &facade.OperatorProvisioningInfo{}
		storage = func(provider string) *facade.OperatorProvisioningInfo {
			return &facade.OperatorProvisioningInfo{CharmStorage: &facade.CharmStorage{Provider: provider}}
		}
	)
	tests := []struct {
		about string
		seen  observed
		want  step
		err   error
	}{
		{"life is asked first", observed{}, readLife, nil},
		{"then the charm's format", observed{life: alive}, readFormat, nil},
		{"then the operator's state", observed{life: alive, format: v1}, readState, nil},
		{"then its configuration", observed{life: alive, format: v1, state: absent}, readOperator, nil},
		{"also when it is present", observed{life: alive, format: v1, state: present}, readOperator, nil},
		{"then what to make it from", observed{life: alive, format: v1, state: absent, operator: nothing}, readInfo, nil},
		{"absent is ensured", observed{life: alive, format: v1, state: absent, operator: nothing, info: plain}, ensureOperator, nil},
		{"partial is ensured", observed{life: alive, format: v1, state: absent, operator: some, info: plain}, ensureOperator, nil},
		{"present is ensured", observed{life: alive, format: v1, state: present, operator: some, info: plain}, ensureOperator, nil},
		{"terminating is awaited", observed{life: alive, format: v1, state: terminating}, awaitEnd, nil},
		{"ending is awaited", observed{life: alive, format: v1, state: ending}, awaitEnd, nil},
		{"dying since the state was read is awaited", observed{life: alive, format: v1, state: present, operator: leaving}, awaitEnd, nil},

		{"one that may be as remembered is glanced at", observed{life: alive, format: v1, state: present, glance: mayGlance}, glanceOperator, nil},
		{"one that is not there is not", observed{life: alive, format: v1, state: absent, glance: mayGlance}, readOperator, nil},
		{"nor one that ends", observed{life: alive, format: v1, state: terminating, glance: mayGlance}, awaitEnd, nil},
		{"one that is as remembered is compared", observed{life: alive, format: v1, state: present, operator: some, glance: glanced}, readInfo, nil},
		{"and kept", observed{life: alive, format: v1, state: present, operator: some, info: plain, glance: glanced}, keepOperator, nil},
		{"unless it is dying since", observed{life: alive, format: v1, state: present, operator: leaving, glance: glanced}, awaitEnd, nil},
		{"one whose files have to change is read", observed{life: alive, format: v1, state: present, info: plain}, readOperator, nil},

		{"alive without a charm is awaited", observed{life: alive, format: noCharm}, awaitCharm, nil},
		{"alive of format 2 is left alone", observed{life: alive, format: v2}, leaveAlone, nil},
		{"alive of a later format is left alone", observed{life: alive, format: v3}, leaveAlone, nil},

		{"dying is left alone, whatever its charm", observed{life: dying}, leaveAlone, nil},
		{"dying of format 2 is left alone", observed{life: dying, format: v2}, leaveAlone, nil},

		{"dead is asked for its format", observed{life: dead}, readFormat, nil},
		{"dead of format 2 is left alone", observed{life: dead, format: v2}, leaveAlone, nil},
		{"dead is asked for its operator", observed{life: dead, format: v1}, readState, nil},
		{"dead without a charm is removed all the same", observed{life: dead, format: noCharm, state: present}, deleteOperator, nil},
		{"dead is not glanced at", observed{life: dead, format: v1, state: absent, glance: mayGlance}, readOperator, nil},
		{"dead with an operator", observed{life: dead, format: v1, state: present}, deleteOperator, nil},
		{"dead with one terminating", observed{life: dead, format: v1, state: terminating}, deleteOperator, nil},
		{"dead with nothing to see is asked for parts", observed{life: dead, format: v1, state: absent}, readOperator, nil},
		{"dead with a part of one", observed{life: dead, format: v1, state: absent, operator: some}, deleteOperator, nil},
		{"dead with nothing", observed{life: dead, format: v1, state: absent, operator: nothing}, forgetIt, nil},

		{"gone is not asked for its charm", observed{life: gone}, readState, nil},
		{"gone with an operator", observed{life: gone, state: present}, deleteOperator, nil},
		{"gone with one ending", observed{life: gone, state: ending}, deleteOperator, nil},
		{"gone with a part of one", observed{life: gone, state: absent, operator: some}, deleteOperator, nil},
		{"gone with nothing", observed{life: gone, state: absent, operator: nothing}, forgetIt, nil},

		{"unknown life", observed{life: &lifeSeen{life: "undead"}}, refuseIt, errors.NotValid},
		{"empty life", observed{life: &lifeSeen{}}, refuseIt, errors.NotValid},
		{
			"storage without a provider",
			observed{life: alive, format: v1, state: absent, operator: nothing, info: storage("")},
			refuseIt, errors.NotValid,
		},
		{
			"storage of another provider",
			observed{life: alive, format: v1, state: absent, operator: nothing, info: storage("tape")},
			refuseIt, errors.NotSupported,
		},
		{
			"storage of a provider at hand",
			observed{life: alive, format: v1, state: absent, operator: nothing, info: storage("kubernetes")},
			ensureOperator, nil,
		},
		{
			"storage of another provider for one that is as remembered",
			observed{life: alive, format: v1, state: present, operator: some, glance: glanced, info: storage("tape")},
			refuseIt, errors.NotSupported,
		},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			test.seen.providers = []string{"kubernetes"}
			got, err := decide(test.seen)
			if got != test.want {
				t.Errorf("decide() = %v, want %v", got, test.want)
			}
			if (err == nil) != (test.err == nil) || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("decide() error = %v, want kind %v", err, test.err)
			}
		})
	}
}

// TestDecideEnds asks every question that is put, with every answer: each way
// through ends, asks nothing twice, and touches no application that is not to be
// touched.
func TestDecideEnds(t *testing.T) {
	var walk func(t *testing.T, seen observed, path string)
	walk = func(t *testing.T, seen observed, path string) {
		next, err := decide(seen)
		path += " > " + next.String()
		if (err != nil) != (next == refuseIt) {
			t.Errorf("%s: error %v", path, err)
		}
		if next == deleteOperator || next == ensureOperator || next == keepOperator {
			if seen.format != nil && seen.format.format >= 2 {
				t.Errorf("%s: touches an application of format 2", path)
			}
			if seen.life.life == facade.Dying {
				t.Errorf("%s: touches a dying application", path)
			}
			if (next != deleteOperator) != (seen.life.life == facade.Alive) {
				t.Errorf("%s: life %+v", path, *seen.life)
			}
			if next == keepOperator && !seen.state.Exists {
				t.Errorf("%s: keeps what is not there", path)
			}
		}
		switch next {
		case readLife:
			for _, l := range []lifeSeen{{gone: true}, {life: facade.Alive}, {life: facade.Dying}, {life: facade.Dead}, {life: "x"}} {
				seen.life = &l
				walk(t, seen, fmt.Sprintf("%s %+v", path, l))
			}
		case readFormat:
			for _, f := range []formatSeen{{gone: true}, {format: 1}, {format: 2}} {
				seen.format = &f
				walk(t, seen, fmt.Sprintf("%s %+v", path, f))
			}
		case readState:
			for i := range 4 {
				seen.state = &operator.State{Exists: i&1 > 0, Terminating: i&2 > 0}
				walk(t, seen, fmt.Sprintf("%s %+v", path, *seen.state))
			}
		case readOperator:
			for _, op := range []*operator.Operator{nil, {}, {Dying: true}} {
				seen.operator = &operatorSeen{operator: op}
				walk(t, seen, path)
			}
		case glanceOperator:
			seen.glance = readFiles
			walk(t, seen, path+" in vain")
			seen.glance = glanced
			for _, op := range []*operator.Operator{{}, {Dying: true}} {
				seen.operator = &operatorSeen{operator: op}
				walk(t, seen, path)
			}
		case keepOperator:
			seen.operator, seen.glance = nil, readFiles
			walk(t, seen, path+" in vain")
		case readInfo:
			for _, s := range []*facade.CharmStorage{nil, {}, {Provider: "p"}} {
				seen.info = &facade.OperatorProvisioningInfo{CharmStorage: s}
				walk(t, seen, path)
			}
		}
		if strings.Count(path, ">") > 9 {
			t.Fatalf("%s: no end", path)
		}
	}
	for _, glance := range []glancing{readFiles, mayGlance} {
		walk(t, observed{providers: []string{"p"}, glance: glance}, "")
	}
}

// TestPlanPassword states the protocol's rules over every combination of facts.
func TestPlanPassword(t *testing.T) {
	for i := range 64 {
		f := passwordFacts{
			stored: i&1 > 0, untold: i&2 > 0, exists: i&4 > 0, misled: i&8 > 0, canStage: i&16 > 0, part: i&32 > 0,
		}
		plan := planPassword(f)
		rules := []struct {
			about string
			holds bool
		}{
			{"a stored password is kept, always", plan.mint == !f.stored},
			{"a new password is told", !plan.mint || plan.tell},
			{"a crash may have lost the first telling of one that does not fully exist", f.exists || plan.tell},
			{"a staged password that was not told is told", !f.untold || plan.tell},
			{"a controller that was told another one is told this one", !f.misled || plan.tell},
			{
				"an operator that fully exists is otherwise never told about again",
				!(f.stored && f.exists && !f.untold && !f.misled) || !plan.tell,
			},
			{"what is minted is staged first where that can be", plan.stage == (plan.mint && f.canStage)},
			{
				"only what is staged for an operator that exists, or that exists by being staged, needs the mark",
				plan.mark == (plan.stage && (f.exists || f.part)),
			},
		}
		for _, rule := range rules {
			if !rule.holds {
				t.Errorf("%+v gives %+v: %s", f, plan, rule.about)
			}
		}
	}
}
