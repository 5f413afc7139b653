package containerprovisioner

import (
	"fmt"
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

func TestDecide(t *testing.T) {
	const (
		mine, other = container.InstanceID("mine"), container.InstanceID("other")
		all         = facade.HarvestAll
		destroyed   = facade.HarvestDestroyed
		unknown     = facade.HarvestUnknown
		none        = facade.HarvestNone
	)
	var (
		gone    = &containerSeen{gone: true}
		pending = &containerSeen{life: facade.Alive, state: facade.ContainerPending}
		failed  = &containerSeen{life: facade.Alive, state: facade.ContainerError}
		alive   = &containerSeen{life: facade.Alive, instance: mine}
		wrong   = &containerSeen{life: facade.Alive, instance: mine, state: facade.ContainerError}
		dying   = &containerSeen{life: facade.Dying, instance: mine}
		unborn  = &containerSeen{life: facade.Dying}
		dead    = &containerSeen{life: facade.Dead, instance: mine}
		still   = &containerSeen{life: facade.Dead}
	)
	old := func(own ...container.InstanceID) *instancesSeen { return &instancesSeen{own: own} }
	fresh := func(own ...container.InstanceID) *instancesSeen { return &instancesSeen{own: own, fresh: true} }
	taken := &instancesSeen{fresh: true, taken: true}

	tests := []struct {
		about string
		seen  observed
		want  step
	}{
		{"the container is read first", observed{}, readContainer},

		{"pending is started", observed{container: pending}, startInstance},
		{"also while the harvest mode is not known", observed{container: pending, harvest: ""}, startInstance},
		{"started is recorded", observed{container: pending, started: mine}, recordInstance},
		{"started is recorded though attempts are used up", observed{container: failed, started: mine, exhausted: true}, recordInstance},
		{"in error is not started", observed{container: failed}, awaitRequest},
		{"after too many attempts is not started", observed{container: pending, exhausted: true}, awaitRequest},
		{"recorded needs its instance", observed{container: alive}, readInstances},
		{"recorded and there", observed{container: alive, instances: old(mine)}, leaveAlone},
		{"recorded and started a moment ago", observed{container: alive, evident: true}, leaveAlone},
		{"in error, recorded and there", observed{container: wrong, instances: old(mine)}, leaveAlone},
		{"recorded and not there is looked for again", observed{container: alive, instances: old()}, readInstances},
		{"recorded and not there", observed{container: alive, instances: fresh()}, reportLost},
		{"recorded and another there", observed{container: alive, instances: fresh(other), harvest: all}, reportLost},
		{"recorded is another's", observed{container: alive, instances: taken}, reportLost},
		{"surplus is looked for again", observed{container: alive, instances: old(mine, other), harvest: all}, readInstances},
		{"surplus", observed{container: alive, instances: fresh(mine, other), harvest: unknown}, stopInstances},
		{"surplus, stopped", observed{container: alive, instances: fresh(mine, other), harvest: all, stopped: true}, leaveAlone},
		{"surplus, not harvested", observed{container: alive, instances: fresh(mine, other), harvest: destroyed}, leaveAlone},
		{"surplus, harvest mode not known", observed{container: alive, instances: fresh(mine, other)}, leaveAlone},

		{"dying", observed{container: dying}, leaveAlone},
		{"dying, never started", observed{container: unborn}, leaveAlone},
		{"dying, started and not recorded", observed{container: unborn, started: mine}, recordInstance},

		{"dead waits for the harvest mode", observed{container: dead}, awaitMode},
		{"dead needs its instances", observed{container: dead, harvest: destroyed}, readInstances},
		{"dead needs them fresh", observed{container: dead, harvest: destroyed, instances: old(mine)}, readInstances},
		{"dead is stopped", observed{container: dead, harvest: destroyed, instances: fresh(mine)}, stopInstances},
		{"dead, not listed, is stopped by the record", observed{container: dead, harvest: all, instances: fresh()}, stopInstances},
		{"dead, not recorded, is stopped by the list", observed{container: still, harvest: all, instances: fresh(mine)}, stopInstances},
		{"dead, known to this worker alone", observed{container: still, harvest: all, instances: fresh(), started: mine}, stopInstances},
		{"dead with another's record", observed{container: dead, harvest: all, instances: taken}, releaseAddresses},
		{"dead and nothing there", observed{container: still, harvest: all, instances: fresh()}, releaseAddresses},
		{"dead and stopped", observed{container: dead, harvest: all, instances: fresh(mine), stopped: true}, releaseAddresses},
		{"dead and released", observed{container: dead, harvest: all, instances: fresh(mine), stopped: true, released: true}, markForRemoval},
		{"dead and marked", observed{container: dead, harvest: all, instances: fresh(), marked: true}, leaveAlone},
		{"dead, marked, and there all the same", observed{container: dead, harvest: all, instances: fresh(mine), marked: true}, stopInstances},
		{"dead, not harvested, keeps its addresses", observed{container: dead, harvest: none, instances: fresh(mine)}, markForRemoval},
		{"dead, not harvested either", observed{container: dead, harvest: unknown, instances: fresh(mine)}, markForRemoval},
		{"dead, not harvested, nothing there", observed{container: dead, harvest: none, instances: fresh()}, releaseAddresses},
		{"dead, not harvested, released", observed{container: dead, harvest: none, instances: fresh(), released: true}, markForRemoval},
		{"dead, not harvested, marked", observed{container: dead, harvest: none, instances: fresh(mine), marked: true}, leaveAlone},

		{"gone needs its instances", observed{container: gone, harvest: all}, readInstances},
		{"gone and nothing there", observed{container: gone, harvest: all, instances: old()}, forgetIt},
		{"gone and something there is looked at again", observed{container: gone, harvest: all, instances: old(mine)}, readInstances},
		{"gone while it was made is looked at again", observed{container: gone, harvest: all, instances: old(), asked: true}, readInstances},
		{"gone while it was made", observed{container: gone, harvest: destroyed, instances: fresh(mine), asked: true}, stopInstances},
		{"gone while it was made, known here alone", observed{container: gone, harvest: destroyed, instances: fresh(), asked: true, started: mine}, stopInstances},
		{"gone before it was made", observed{container: gone, harvest: destroyed, instances: fresh(), asked: true}, releaseAddresses},
		{"gone before it was made, released", observed{container: gone, harvest: destroyed, instances: fresh(), asked: true, released: true}, forgetIt},
		{"gone while it was made, not harvested", observed{container: gone, harvest: none, instances: fresh(mine), asked: true}, leaveAlone},
		{"unknown", observed{container: gone, harvest: unknown, instances: fresh(mine)}, stopInstances},
		{"unknown, harvest mode not known", observed{container: gone, instances: fresh(mine)}, awaitMode},
		{"unknown, not harvested", observed{container: gone, harvest: destroyed, instances: fresh(mine)}, leaveAlone},
		{"unknown, never harvested", observed{container: gone, harvest: none, instances: fresh(mine)}, leaveAlone},
		{"unknown and stopped", observed{container: gone, harvest: unknown, instances: fresh(mine), stopped: true}, releaseAddresses},
		{"unknown and released", observed{container: gone, harvest: unknown, instances: fresh(mine), stopped: true, released: true}, forgetIt},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			got, err := decide(test.seen)
			if got != test.want || err != nil {
				t.Errorf("decide() = %v, %v, want %v", got, err, test.want)
			}
		})
	}
	for _, life := range []facade.Life{"", "undead"} {
		if got, err := decide(observed{container: &containerSeen{life: life}}); got != refuseIt || !errors.Is(err, errors.NotValid) {
			t.Errorf("a container whose life is %q: %v, %v, want it refused as NotValid", life, got, err)
		}
	}
}

// Every combination of what can be seen is held against the rules.
func TestDecisionsKeepTheRules(t *testing.T) {
	var containers []*containerSeen
	for _, life := range []facade.Life{facade.Alive, facade.Dying, facade.Dead} {
		for _, instance := range []container.InstanceID{"", "mine"} {
			for _, state := range []facade.ContainerState{facade.ContainerPending, facade.ContainerError} {
				containers = append(containers, &containerSeen{life: life, instance: instance, state: state})
			}
		}
	}
	containers = append(containers, &containerSeen{gone: true})
	instances := []*instancesSeen{nil}
	for _, own := range [][]container.InstanceID{nil, {"mine"}, {"other"}, {"mine", "other"}} {
		for _, fresh := range []bool{false, true} {
			instances = append(instances, &instancesSeen{own: own, fresh: fresh})
		}
	}
	instances = append(instances, &instancesSeen{taken: true, fresh: true})
	modes := []facade.HarvestMode{"", facade.HarvestNone, facade.HarvestUnknown, facade.HarvestDestroyed, facade.HarvestAll}
	flags := []bool{false, true}

	n := 0
	for _, c := range containers {
		for _, in := range instances {
			for _, mode := range modes {
				for bits := range 1 << 7 {
					flag := func(i int) bool { return flags[bits>>i&1] }
					seen := observed{
						container: c, instances: in, harvest: mode,
						asked: flag(0), exhausted: flag(1), evident: flag(2), stopped: flag(3), released: flag(4), marked: flag(5),
					}
					if flag(6) {
						seen.started = "mine"
					}
					n++
					holdRules(t, seen)
				}
			}
		}
	}
	t.Logf("%d combinations", n)
}

func holdRules(t *testing.T, seen observed) {
	t.Helper()
	got, err := decide(seen)
	c, in := seen.container, seen.instances
	left := in != nil && len(in.own) > 0 && !seen.stopped
	rules := []struct {
		about string
		holds bool
	}{
		{"no error", err == nil},
		{"only living containers without an instance are started", got != startInstance || c.life == facade.Alive && c.instance == "" && seen.started == ""},
		{"none in error is started", got != startInstance || c.state != facade.ContainerError && !seen.exhausted},
		{"only what is started is recorded", got != recordInstance || seen.started != "" && c.instance == "" && c.life != facade.Dead && !c.gone},
		{"nothing is stopped by an old list", got != stopInstances || in.fresh},
		{"nothing is stopped while the mode is not known, or none", got != stopInstances || seen.harvest.Dead() || seen.harvest.Unknown()},
		{"nothing dying is stopped", got != stopInstances || c.life != facade.Dying},
		{"the recorded instance of a living container is not stopped", got != stopInstances || c.life != facade.Alive || !slices.Contains(seen.toStop(), c.instance)},
		{"something is stopped", got != stopInstances || len(seen.toStop()) > 0},
		{"nothing is stopped twice", got != stopInstances || !seen.stopped},
		{"a dead one's instances go by their own mode", got != stopInstances || c.gone || c.life != facade.Dead || seen.harvest.Dead()},
		{"only dead containers are marked", got != markForRemoval || c.life == facade.Dead && !c.gone && !seen.marked},
		{"nothing is marked that was to be stopped first", got != markForRemoval || !left || !seen.harvest.Dead()},
		{"addresses in use are not released", got != releaseAddresses || !left || c.life == facade.Dead && in.taken},
		{"addresses are released once", got != releaseAddresses || !seen.released},
		{"only what is gone is forgotten", got != forgetIt || c.gone && !left},
		{"a question is asked twice at most", got != readInstances || in == nil || !in.fresh},
	}
	for _, rule := range rules {
		if !rule.holds {
			t.Fatalf("%s: %s and %s, %+v gives %s", rule.about, fmt.Sprintf("%+v", c), fmt.Sprintf("%+v", in), seen, got)
		}
	}
}

func TestEveryStepHasAName(t *testing.T) {
	for s := range step(stepCount) {
		if s.String() == "" {
			t.Errorf("step %d has no name", s)
		}
	}
	if got := step(stepCount).String(); got == "" {
		t.Error("what is no step has no name")
	}
}
