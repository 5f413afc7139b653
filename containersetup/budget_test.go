package containersetup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
)

// callsToPrepare are the calls that come one after the other from the request
// for the first container of a type to the start of the type's provisioner:
// the container is looked at, then come settings, lock, initialisation, network
// (observed, published, and observed again) and broker; and what was told of the
// container is taken back. What it is told meanwhile comes beside that.
const callsToPrepare = 9

// TestPreparationTakesWhatItsCallsTake has every call take a second, in virtual
// time: the handler itself adds nothing to that.
func TestPreparationTakesWhatItsCallsTake(t *testing.T) {
	story(t, func(w *world) {
		w.faults.SetLatency(time.Second)
		w.start()
		w.after(time.Minute)
		asked := time.Now()
		w.ask("0/lxd/0")
		for len(w.provisioners.running()) == 0 {
			w.after(time.Millisecond)
		}
		if took := time.Since(asked).Round(time.Second); took != callsToPrepare*time.Second {
			t.Errorf("it took %s, want %d calls of a second", took, callsToPrepare)
		}
	})
}

// TestEveryCallCanBeKilled kills the worker, with the real provisioner, in each
// call that it makes for its first container. It is gone within a second, in
// virtual time, without an error and without the lock; which the story sees to.
func TestEveryCallCanBeKilled(t *testing.T) {
	var calls []fakes.Call
	story(t, func(w *world) {
		w.config.NewProvisioner = nil
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.start()
		w.after(time.Minute)
		calls = w.faults.Calls()
	})
	if len(calls) < 20 {
		t.Fatalf("%d calls: nothing to kill", len(calls))
	}
	for n, call := range calls {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after: %t", call.Method, after), func(t *testing.T) {
				story(t, func(w *world) {
					here := make(chan struct{})
					w.faults.OnCall(func(c fakes.Call) fakes.Effect {
						switch {
						case c.Seq != n+1 || c.Item:
							return fakes.Effect{}
						case after:
							return fakes.Effect{Then: func() { close(here) }, Late: time.Hour}
						}
						close(here)
						return fakes.Effect{Delay: time.Hour}
					})
					w.config.NewProvisioner = nil
					w.machine.AddContainer("0/lxd/0", fakes.Container{})
					w.start()
					<-here
					w.stop()
				})
			})
		}
	}
}

// BenchmarkFirstContainer measures the handler's own work for one type: from the
// request for its first container to the start of its provisioner, with fakes
// that answer at once. The budget is 5 ms; it is 0.1 ms.
func BenchmarkFirstContainer(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		faults := fakes.NewFaults(clock.WallClock)
		machine, host := fakes.NewMachine(faults, "0"), fakes.NewHost(faults)
		started := make(chan struct{})
		w, err := containersetup.New(containersetup.Config{
			Facade:    machine,
			MachineID: "0",
			Backends:  host.Backends(lxd),
			Lock:      host.Lock(),
			Network:   host.Network(),
			Bridger:   host.Bridger(),
			Clock:     clock.WallClock,
			NewProvisioner: func(containerprovisioner.Config) (worker.Worker, error) {
				close(started)
				return fakes.NewNotifyWatcher(), nil
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		for len(machine.ContainerWatchers("")) == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		b.StartTimer()

		machine.AddContainer("0/lxd/0", fakes.Container{})
		<-started

		b.StopTimer()
		w.Kill()
		if err := w.Wait(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
