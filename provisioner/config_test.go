package provisioner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// validConfig returns a config over fakes that validates.
func validConfig() provisioner.Config {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	return provisioner.Config{
		Facade:          controller,
		OperatorManager: fakes.NewManager(faults),
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
	}
}

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	tests := []struct {
		field  string
		damage func(*provisioner.Config)
	}{
		{"Facade", func(c *provisioner.Config) { c.Facade = nil }},
		{"OperatorManager", func(c *provisioner.Config) { c.OperatorManager = nil }},
		{"Agent", func(c *provisioner.Config) { c.Agent = nil }},
		{"ModelUUID", func(c *provisioner.Config) { c.ModelUUID = "" }},
		{"ModelUUID", func(c *provisioner.Config) { c.ModelUUID = "prod" }},
		{"ModelUUID", func(c *provisioner.Config) { c.ModelUUID = strings.Repeat("-", 36) }},
		{"ModelUUID", func(c *provisioner.Config) { c.ModelUUID = strings.Repeat("0", 36) }},
		{"Clock", func(c *provisioner.Config) { c.Clock = nil }},
		{"Concurrency", func(c *provisioner.Config) { c.Concurrency = -1 }},
		{"ResyncInterval", func(c *provisioner.Config) { c.ResyncInterval = -1 }},
		{"TerminationPoll", func(c *provisioner.Config) { c.TerminationPoll = -1 }},
		{"TerminationTimeout", func(c *provisioner.Config) { c.TerminationTimeout = -1 }},
		{"CallTimeout", func(c *provisioner.Config) { c.CallTimeout = -1 }},
		{"StorageProviders", func(c *provisioner.Config) { c.StorageProviders = []string{"kubernetes", ""} }},
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			config := validConfig()
			test.damage(&config)
			err := config.Validate()
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.field) {
				t.Errorf("Validate() = %v, want a NotValid that names %s", err, test.field)
			}
			w, err := provisioner.New(config)
			if !errors.Is(err, errors.NotValid) || w != nil {
				t.Errorf("New() = %v, %v, want no worker and a NotValid", w, err)
			}
		})
	}
}

func TestConfigNeedsNoOptionalField(t *testing.T) {
	if err := validConfig().Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func TestConfigTakesUUIDsInEitherCase(t *testing.T) {
	config := validConfig()
	config.ModelUUID = strings.ToUpper(config.ModelUUID)
	if err := config.Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func TestWorkerWithoutOptionalFieldsEnds(t *testing.T) {
	w, err := provisioner.New(validConfig())
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
	case <-ctx.Done():
		t.Error("the worker did not end")
	}
}
