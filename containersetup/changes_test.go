package containersetup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// What changes while a type is being prepared, or was refused: by users, by
// another type's provisioner, by an earlier agent.

func TestContainerThatWasGivenUpIsNotAskedForByARestart(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/0", fakes.Container{State: facade.ContainerError})
		w.faults.Add(fakes.Rule{Method: "Initialise", Effect: fakes.Effect{Err: boom}})
		w.start()
		w.after(time.Minute)
		w.ready(lxd)
		if statuses := w.machine.Statuses("0/lxd/0"); len(statuses) > 0 {
			t.Errorf("its status became %+v", statuses)
		}
	})
}

func TestContainerThatIsAskedForMeanwhileIsToldWhatItWaitsFor(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/0", fakes.Container{State: facade.ContainerError})
		w.faults.Add(fakes.Rule{Method: "Initialise", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.start()
		w.after(time.Second)
		w.machine.AskAgain("0/lxd/0")
		w.after(time.Hour)
		w.told("0/lxd/0", facade.ContainerPending, "boom")
	})
}

func TestWhoeverAsksAgainForWhatCannotBeHadIsToldAgain(t *testing.T) {
	for about, arrange := range map[string]func(*world){
		"a type that is not supported":       func(w *world) { w.machine.SetSupported(kvm) },
		"a type without a back end":          func(w *world) { delete(w.config.Backends, lxd) },
		"a type that the host turns out not": func(w *world) { w.host.SetUnsupported(lxd) },
	} {
		t.Run(about, func(t *testing.T) {
			story(t, func(w *world) {
				arrange(w)
				w.start()
				w.ask("0/lxd/0")
				w.after(time.Second)
				w.told("0/lxd/0", facade.ContainerError, "cannot be had")
				w.faults.Add(fakes.Rule{Method: "Containers", Effect: fakes.Effect{Err: boom}})
				w.machine.AskAgain("0/lxd/0")
				w.after(2 * time.Second)
				w.told("0/lxd/0", facade.ContainerError, "cannot be had")
				// Naming it again is not asking.
				n := len(w.machine.Statuses("0/lxd/0"))
				for range 3 {
					w.machine.ContainerWatchers("")[0].Send([]string{"0/lxd/0"})
					w.after(time.Minute)
				}
				if got := len(w.machine.Statuses("0/lxd/0")); got != n {
					t.Errorf("it was told %d times more", got-n)
				}
				w.machine.RemoveContainer("0/lxd/0")
				w.after(time.Minute)
			})
		})
	}
}

func TestWhoeverAsksAgainWhileTheStatusIsReadIsToldAgain(t *testing.T) {
	story(t, func(w *world) {
		w.machine.SetSupported(kvm)
		w.start()
		w.ask("0/lxd/0")
		w.faults.Add(fakes.Rule{Method: "Containers", Effect: fakes.Effect{
			Then: func() { w.machine.AskAgain("0/lxd/0") }, Late: time.Second,
		}})
		w.machine.ContainerWatchers("")[0].Send([]string{"0/lxd/0"})
		w.after(time.Minute)
		w.told("0/lxd/0", facade.ContainerError, "cannot be had")
	})
}

// A provisioner may bridge a device, and publish that, while another type's
// set-up is about to publish what it saw before.
func TestOldSightOfTheNetworkIsNotTheLastWord(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SetHostMachineNetworkConfig", Times: 2, Effect: fakes.Effect{
			Before: func() {
				seen := w.host.Interfaces()
				seen[1].MTU++
				w.host.SetInterfaces(seen...)
			},
		}})
		w.start()
		w.ask("0/lxd/0")
		w.ready(lxd)
		network, n := w.machine.Network()
		if n != 3 || network[1].MTU != w.host.Interfaces()[1].MTU {
			t.Errorf("published %d times, last %+v", n, network)
		}
	})
}

func TestNetworkThatKeepsChangingHoldsNothingUp(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SetHostMachineNetworkConfig", Times: fakes.Always, Effect: fakes.Effect{
			Then: func() {
				seen := w.host.Interfaces()
				seen[1].MTU++
				w.host.SetInterfaces(seen...)
			},
		}})
		w.start()
		w.ask("0/lxd/0")
		w.ready(lxd)
	})
}

func TestTypeThatNobodyWantsAnyMoreIsNotPrepared(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "ContainerManagerConfig", Times: 3, Effect: fakes.Effect{Err: boom}})
		w.start()
		w.ask("0/lxd/0", "0/lxd/1")
		w.machine.RemoveContainer("0/lxd/0")
		w.after(time.Second)
		if got := w.phase(lxd)["phase"]; got != string(containersetup.PhaseSettings) {
			t.Errorf("the phase is %v while one is left", got)
		}
		w.machine.RemoveContainer("0/lxd/1")
		w.after(time.Hour)
		if n := w.count("Initialise"); n != 0 {
			t.Error("the host was prepared for containers that are gone")
		}
		if got := w.phase(lxd)["phase"]; got != string(containersetup.PhaseIdle) {
			t.Errorf("the phase is %v, want idle", got)
		}
		w.ask("0/lxd/2")
		w.after(time.Minute)
		w.ready(lxd)
	})
}

func TestStatusesOfOneTypeHoldUpNoOther(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SetContainerStatus", Key: "0/kvm/0", Times: fakes.Always, Effect: fakes.Effect{Delay: time.Hour}})
		w.host.SetInitialiseTime(time.Minute)
		w.start()
		w.ask("0/lxd/0")
		w.ask("0/kvm/0")
		w.after(time.Minute)
		w.ready(lxd)
		w.told("0/lxd/0", facade.ContainerPending, "")
		w.after(2 * time.Minute)
		w.ready(lxd, kvm)
	})
}

func TestRefusalIsToldWhole(t *testing.T) {
	for range 20 {
		story(t, func(w *world) {
			w.host.SetUnsupported(lxd)
			w.start()
			w.ask("0/lxd/0")
			for _, status := range w.machine.Statuses("0/lxd/0") {
				if strings.HasSuffix(status.Message, ": ") {
					t.Errorf("it was told %q", status.Message)
				}
			}
		})
	}
}
