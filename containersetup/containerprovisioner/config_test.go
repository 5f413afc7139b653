package containerprovisioner_test

import (
	"strings"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// validConfig returns a config over fakes that validates.
func validConfig(t *testing.T) containerprovisioner.Config {
	faults := fakes.NewFaults(clock.WallClock)
	return containerprovisioner.Config{
		Facade:    fakes.NewMachine(faults, "0"),
		MachineID: "0",
		Type:      container.LXD,
		Broker:    broker(t, fakes.NewHost(faults)),
		Clock:     clock.WallClock,
	}
}

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	type config = containerprovisioner.Config
	tests := []struct {
		field  string
		damage func(*config)
	}{
		{"Facade", func(c *config) { c.Facade = nil }},
		{"MachineID", func(c *config) { c.MachineID = "" }},
		{"MachineID", func(c *config) { c.MachineID = "zero" }},
		{"MachineID", func(c *config) { c.MachineID = "0/lxd" }},
		{"MachineID", func(c *config) { c.MachineID = strings.Repeat("9", 1<<20) }},
		{"Type", func(c *config) { c.Type = "" }},
		{"Type", func(c *config) { c.Type = "LXD" }},
		{"Broker", func(c *config) { c.Broker = nil }},
		{"Clock", func(c *config) { c.Clock = nil }},
		{"Concurrency", func(c *config) { c.Concurrency = -1 }},
		{"MaxAttempts", func(c *config) { c.MaxAttempts = -1 }},
		{"ResyncInterval", func(c *config) { c.ResyncInterval = -1 }},
		{"CallTimeout", func(c *config) { c.CallTimeout = -1 }},
		{"StartTimeout", func(c *config) { c.StartTimeout = -1 }},
		{"StopTimeout", func(c *config) { c.StopTimeout = -1 }},
		{"HarvestMode", func(c *config) { c.HarvestMode = "everything" }},
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			config := validConfig(t)
			test.damage(&config)
			err := config.Validate()
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.field) || len(err.Error()) > 200 {
				t.Errorf("Validate() = %v, want a short NotValid that names %s", err, test.field)
			}
			w, err := containerprovisioner.New(config)
			if !errors.Is(err, errors.NotValid) || w != nil {
				t.Errorf("New() = %v, %v, want no worker and a NotValid", w, err)
			}
		})
	}
}

func TestConfigNeedsNoOptionalField(t *testing.T) {
	config := validConfig(t)
	for _, mode := range append(modes, "") {
		config.HarvestMode = mode
		if err := config.Validate(); err != nil {
			t.Errorf("Validate() = %v, want nil", err)
		}
	}
	// A container may be a machine to others.
	config.MachineID, config.Type = "0/kvm/3", facade.ContainerType("jail")
	w, err := containerprovisioner.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	// The fake knows no such machine, which may be found out first.
	if err := w.Wait(); err != nil && !errors.Is(err, errors.NotFound) {
		t.Errorf("Wait() = %v, want nil", err)
	}
}
