package embedding

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/containersetup/machinelock"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func Example_lock() {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	// A real agent: the file that all who change this machine agree on.
	lock, err := machinelock.New(machinelock.Config{
		Path:  filepath.Join(dir, "machine-lock"),
		Clock: clock.WallClock,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := newEngine(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop(engine)

	faults := fakes.NewFaults(clock.WallClock)
	machine := fakes.NewMachine(faults, "0")
	host := fakes.NewHost(faults)
	machine.AddContainer("0/lxd/0", fakes.Container{})
	heard := make(phases, 100)
	err = dependency.Install(engine, dependency.Manifolds{
		"controller":   enginevalue.Manifold[facade.Machine](machine),
		"machine-lock": enginevalue.Manifold[containersetup.Lock](lock),
		"clock":        enginevalue.Manifold[clock.Clock](clock.WallClock),
		"container-setup": containersetup.Manifold(containersetup.ManifoldConfig{
			FacadeName: "controller",
			LockName:   "machine-lock",
			ClockName:  "clock",
			MachineID:  "0",
			Backends:   host.Backends(containersetup.LXD),
			Network:    host.Network(),
			Bridger:    host.Bridger(),
			NewWorker: func(config containersetup.Config) (worker.Worker, error) {
				config.Metrics = heard
				// Here a host sets what it wants of the provisioners that
				// are started for it.
				config.NewProvisioner = func(p containerprovisioner.Config) (worker.Worker, error) {
					p.MaxAttempts = 3
					return containerprovisioner.New(p)
				}
				return containersetup.Start(config)
			},
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	heard.wait(containersetup.PhaseProvisioner)
	fmt.Println("prepared")
	// Output: prepared
}
