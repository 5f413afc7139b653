package containersim

import (
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// TestWhoeverWaitsIsToldWhatFor holds what users and the report are told while
// something keeps containers from running for an hour, and that nothing of it is
// left to be seen when that is over.
func TestWhoeverWaitsIsToldWhatFor(t *testing.T) {
	failing := func(method string) func(*World, *Session) func() {
		return func(_ *World, s *Session) func() {
			s.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
			return s.faults.Clear
		}
	}
	for about, test := range map[string]struct {
		// trouble begins it and returns what ends it.
		trouble func(*World, *Session) (end func())
		state   facade.ContainerState
		says    string
		phase   string
	}{
		"others have the lock": {
			trouble: func(w *World, _ *Session) func() {
				return w.host.Lock().Occupy(container.Holder{Worker: "somebody"}, 4711)
			},
			state: facade.ContainerPending, says: "initialise", phase: "initialise",
		},
		"there are no settings":          {failing("ContainerManagerConfig"), facade.ContainerPending, "settings: reading the settings: boom (next attempt at", "settings"},
		"the host cannot be prepared":    {failing("Initialise"), facade.ContainerPending, "initialise: boom (next attempt at", "initialise"},
		"the network cannot be seen":     {failing("Observe"), facade.ContainerPending, "network: observing the network: boom (next attempt at", "network"},
		"there is nothing to connect to": {failing("NewBroker"), facade.ContainerPending, "broker: connecting to the back end: boom (next attempt at", "broker"},
		"no device can be bridged":       {failing("Bridge"), facade.ContainerError, "given up after 10 attempts", "ready"},
		"no instance can be started":     {failing("StartInstance"), facade.ContainerError, "given up after 10 attempts", "ready"},
	} {
		t.Run(about, func(t *testing.T) {
			var w *World
			wrong := bubble(t, func() []string {
				w = NewWorld(Options{Seed: 6})
				ids := []string{"0/lxd/0", "0/lxd/1", "0/kvm/0"}
				for _, id := range ids {
					w.Add(Spec{ID: id, Devices: []string{"eth0"}})
				}
				s := w.Prepare("only", nil)
				end := test.trouble(w, s)
				w.Start(s)
				w.Sleep(time.Hour)
				for _, id := range ids {
					if status := w.machine.Status(id); status.State != test.state || !strings.Contains(status.Message, test.says) {
						w.violated("%s: its status is %+v", id, status)
					}
				}
				report := s.worker.Report()
				for _, typ := range []string{"lxd", "kvm"} {
					entry, _ := at(report, "types", typ).(map[string]any)
					if entry["phase"] != test.phase {
						w.violated("the phase of %s is reported as %v", typ, entry)
					}
				}
				end()
				s.faults.OnCall(s.befalls)
				wrong := w.Settle(enumerationBound, time.Second)
				return append(wrong, w.Finish()...)
			})
			if wrong != nil {
				t.Error(told(wrong, w, 40))
			}
		})
	}
}
