package provisioner_test

import (
	"strings"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3/dependency"
	dt "github.com/juju/worker/v3/dependency/testing"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

func validManifold() provisioner.ManifoldConfig {
	return provisioner.ManifoldConfig{
		AgentName:           "agent",
		FacadeName:          "facade",
		OperatorManagerName: "operators",
		ClockName:           "clock",
		ModelUUID:           validConfig().ModelUUID,
		NewWorker:           provisioner.Start,
	}
}

// inputs are the resources of a config's parts, under the names above.
func inputs(config provisioner.Config) map[string]any {
	return map[string]any{
		"agent":     config.Agent,
		"facade":    config.Facade,
		"operators": config.OperatorManager,
		"clock":     clock.Clock(clock.WallClock),
	}
}

func TestManifoldConfigNamesTheFieldThatIsWrong(t *testing.T) {
	tests := []struct {
		field  string
		damage func(*provisioner.ManifoldConfig)
	}{
		{"AgentName", func(c *provisioner.ManifoldConfig) { c.AgentName = "" }},
		{"FacadeName", func(c *provisioner.ManifoldConfig) { c.FacadeName = "" }},
		{"OperatorManagerName", func(c *provisioner.ManifoldConfig) { c.OperatorManagerName = "" }},
		{"ClockName", func(c *provisioner.ManifoldConfig) { c.ClockName = "" }},
		{"ModelUUID", func(c *provisioner.ManifoldConfig) { c.ModelUUID = "" }},
		{"ModelUUID", func(c *provisioner.ManifoldConfig) { c.ModelUUID = "prod" }},
		{"NewWorker", func(c *provisioner.ManifoldConfig) { c.NewWorker = nil }},
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			config := validManifold()
			test.damage(&config)
			err := config.Validate()
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.field) {
				t.Errorf("Validate() = %v, want a NotValid that names %s", err, test.field)
			}
			_, err = provisioner.Manifold(config).Start(dt.StubContext(nil, inputs(validConfig())))
			if !errors.Is(err, errors.NotValid) {
				t.Errorf("Start() = %v, want NotValid", err)
			}
		})
	}
}

func TestManifoldWaitsForEachInput(t *testing.T) {
	manifold := provisioner.Manifold(validManifold())
	if got := strings.Join(manifold.Inputs, " "); got != "agent facade operators clock" {
		t.Errorf("Inputs = %q", got)
	}
	for _, name := range manifold.Inputs {
		resources := inputs(validConfig())
		resources[name] = dependency.ErrMissing
		w, err := manifold.Start(dt.StubContext(nil, resources))
		if w != nil || !errors.Is(err, dependency.ErrMissing) {
			t.Errorf("without %s: Start() = %v, %v, want ErrMissing", name, w, err)
		}
	}
}

func TestManifoldStartsAWorkerOnItsInputs(t *testing.T) {
	config := validConfig()
	w, err := provisioner.Manifold(validManifold()).Start(dt.StubContext(nil, inputs(config)))
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait() = %v, want nil", err)
	}
}

func TestManifoldMapsErrorsForTheEngine(t *testing.T) {
	plain := errors.New("no room")
	tests := []struct {
		about     string
		err, want error
	}{
		{"a lost connection bounces", errors.Annotate(errors.WithType(plain, facade.ErrConnectionLost), "x"), dependency.ErrBounce},
		{"anything else is retried", plain, plain},
		{"the end is the end", nil, nil},
	}
	filter := provisioner.Manifold(validManifold()).Filter
	for _, test := range tests {
		if got := filter(test.err); got != test.want {
			t.Errorf("%s: Filter(%v) = %v, want %v", test.about, test.err, got, test.want)
		}
	}
}

func TestManifoldIsUninstalledWhereThereAreNoOperators(t *testing.T) {
	faults := fakes.NewFaults(clock.WallClock)
	faults.Fail("WatchApplications", "", errors.NotSupportedf("operators"))
	config := validConfig()
	config.Facade = fakes.NewController(faults)
	manifold := provisioner.Manifold(validManifold())
	w, err := manifold.Start(dt.StubContext(nil, inputs(config)))
	if err != nil {
		t.Fatal(err)
	}
	if err := manifold.Filter(w.Wait()); err != dependency.ErrUninstall {
		t.Errorf("the worker ended with %v, want ErrUninstall", err)
	}
}
