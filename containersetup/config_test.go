package containersetup_test

import (
	"strings"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3/dependency"
	dt "github.com/juju/worker/v3/dependency/testing"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// validConfig returns a config over fakes that validates.
func validConfig() containersetup.Config {
	faults := fakes.NewFaults(clock.WallClock)
	host := fakes.NewHost(faults)
	return containersetup.Config{
		Facade:    fakes.NewMachine(faults, "0"),
		MachineID: "0",
		Backends:  host.Backends(lxd),
		Lock:      host.Lock(),
		Network:   host.Network(),
		Bridger:   host.Bridger(),
		Clock:     clock.WallClock,
	}
}

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	tests := []struct {
		field  string
		damage func(*containersetup.Config)
	}{
		{"Facade", func(c *containersetup.Config) { c.Facade = nil }},
		{"MachineID", func(c *containersetup.Config) { c.MachineID = "" }},
		{"MachineID", func(c *containersetup.Config) { c.MachineID = "../0" }},
		{"Lock", func(c *containersetup.Config) { c.Lock = nil }},
		{"Network", func(c *containersetup.Config) { c.Network = nil }},
		{"Bridger", func(c *containersetup.Config) { c.Bridger = nil }},
		{"Clock", func(c *containersetup.Config) { c.Clock = nil }},
		{"CallTimeout", func(c *containersetup.Config) { c.CallTimeout = -1 }},
		{"InitialiseTimeout", func(c *containersetup.Config) { c.InitialiseTimeout = -1 }},
		{"RestartDelay", func(c *containersetup.Config) { c.RestartDelay = -1 }},
		{"Backends", func(c *containersetup.Config) { c.Backends["L/D"] = c.Backends[lxd] }},
		{`Backends["kvm"]: nil Initialiser`, func(c *containersetup.Config) { c.Backends[kvm] = containersetup.Backend{} }},
		{`Backends["kvm"]: nil NewBroker`, func(c *containersetup.Config) {
			c.Backends[kvm] = containersetup.Backend{Initialiser: c.Backends[lxd].Initialiser}
		}},
		{"SupportedTypes[1]", func(c *containersetup.Config) { c.SupportedTypes = []containersetup.ContainerType{lxd, ""} }},
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			config := validConfig()
			test.damage(&config)
			err := config.Validate()
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.field) {
				t.Errorf("Validate() = %v, want a NotValid that names %s", err, test.field)
			}
			w, err := containersetup.New(config)
			if !errors.Is(err, errors.NotValid) || w != nil {
				t.Errorf("New() = %v, %v, want no worker and a NotValid", w, err)
			}
		})
	}
	if err := validConfig().Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func validManifold() containersetup.ManifoldConfig {
	config := validConfig()
	return containersetup.ManifoldConfig{
		FacadeName: "facade", LockName: "lock", ClockName: "clock",
		MachineID: config.MachineID, Backends: config.Backends, Network: config.Network, Bridger: config.Bridger,
		NewWorker: containersetup.Start,
	}
}

func inputs() map[string]any {
	config := validConfig()
	return map[string]any{"facade": config.Facade, "lock": config.Lock, "clock": clock.Clock(clock.WallClock)}
}

func TestManifoldConfigNamesTheFieldThatIsWrong(t *testing.T) {
	tests := []struct {
		field  string
		damage func(*containersetup.ManifoldConfig)
	}{
		{"FacadeName", func(c *containersetup.ManifoldConfig) { c.FacadeName = "" }},
		{"LockName", func(c *containersetup.ManifoldConfig) { c.LockName = "" }},
		{"ClockName", func(c *containersetup.ManifoldConfig) { c.ClockName = "" }},
		{"MachineID", func(c *containersetup.ManifoldConfig) { c.MachineID = "" }},
		{"Network", func(c *containersetup.ManifoldConfig) { c.Network = nil }},
		{"Bridger", func(c *containersetup.ManifoldConfig) { c.Bridger = nil }},
		{"NewWorker", func(c *containersetup.ManifoldConfig) { c.NewWorker = nil }},
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			config := validManifold()
			test.damage(&config)
			err := config.Validate()
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.field) {
				t.Errorf("Validate() = %v, want a NotValid that names %s", err, test.field)
			}
			_, err = containersetup.Manifold(config).Start(dt.StubContext(nil, inputs()))
			if !errors.Is(err, errors.NotValid) {
				t.Errorf("Start() = %v, want NotValid", err)
			}
		})
	}
}

func TestManifoldWaitsForEachInput(t *testing.T) {
	manifold := containersetup.Manifold(validManifold())
	for _, name := range manifold.Inputs {
		resources := inputs()
		resources[name] = dependency.ErrMissing
		w, err := manifold.Start(dt.StubContext(nil, resources))
		if w != nil || !errors.Is(err, dependency.ErrMissing) {
			t.Errorf("without %s: Start() = %v, %v, want ErrMissing", name, w, err)
		}
	}
	w, err := manifold.Start(dt.StubContext(nil, inputs()))
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	if err := w.Wait(); err != nil && !errors.Is(err, errors.NotSupported) {
		t.Errorf("Wait() = %v", err)
	}
}

func TestManifoldMapsErrorsForTheEngine(t *testing.T) {
	filter := containersetup.Manifold(validManifold()).Filter
	if got := filter(errors.WithType(boom, facade.ErrConnectionLost)); got != dependency.ErrBounce {
		t.Errorf("a lost connection gives %v", got)
	}
	if got := filter(boom); got != error(boom) {
		t.Errorf("anything else gives %v", got)
	}
	if got := filter(nil); got != nil {
		t.Errorf("no error gives %v", got)
	}
	story(t, func(w *world) {
		w.machine.SetSupported()
		w.start()
		if got := filter(w.ended()); got != dependency.ErrUninstall {
			t.Errorf("a machine without containers gives %v", got)
		}
	})
}
