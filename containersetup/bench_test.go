package containersetup_test

import (
	"testing"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
)

// BenchmarkPrepareType is what the handler itself adds to the preparation of one
// type: a worker is made, a container asked for, and every phase gone through,
// over fakes that answer at once, until the provisioner is started; then all of
// it ends. The budget is 5 ms.
func BenchmarkPrepareType(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		faults := fakes.NewFaults(clock.WallClock)
		machine := fakes.NewMachine(faults, "0")
		machine.SetSupported(lxd)
		machine.AddContainer("0/lxd/0", fakes.Container{})
		host := fakes.NewHost(faults)
		ready := make(chan struct{})
		config := containersetup.Config{
			Facade: machine, MachineID: "0", Backends: host.Backends(lxd), Lock: host.Lock(),
			Network: host.Network(), Bridger: host.Bridger(), Clock: clock.WallClock,
			NewProvisioner: func(containerprovisioner.Config) (worker.Worker, error) {
				close(ready)
				return fakes.NewNotifyWatcher(), nil
			},
		}
		b.StartTimer()
		w, err := containersetup.New(config)
		if err != nil {
			b.Fatal(err)
		}
		<-ready
		w.Kill()
		if err := w.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
