package prometheus_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/provisioner"
)

// world is an agent with both workers, in virtual time, and what Prometheus sees
// of it.
type world struct {
	*testing.T
	log      *fakes.Log
	registry *client.Registry
	metrics  *prometheus.Metrics

	faults     *fakes.Faults // of both
	controller *fakes.Controller
	manager    *fakes.Manager
	operators  provisioner.Config

	machine *fakes.Machine
	host    *fakes.Host
	setup   containersetup.Config
}

// story tells one in a world whose workers are not started yet. Their back-off
// and resync are without jitter.
func story(t *testing.T, config prometheus.Config, tell func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		registry := client.NewPedanticRegistry()
		log := fakes.NewLog()
		config.Registerer, config.Logger = registry, log.Logger()
		metrics, err := prometheus.New(config)
		if err != nil {
			t.Fatal(err)
		}
		faults := fakes.NewFaults(clock.WallClock)
		w := &world{
			T: t, log: log, registry: registry, metrics: metrics, faults: faults,
			controller: fakes.NewController(faults),
			manager:    fakes.NewManager(faults),
			machine:    fakes.NewMachine(faults, "0"),
			host:       fakes.NewHost(faults),
		}
		w.machine.SetSupported(containersetup.LXD, containersetup.KVM)
		w.operators = provisioner.Config{
			Facade:          w.controller,
			OperatorManager: w.manager,
			Agent:           fakes.NewAgent(w.controller.CACert()),
			ModelUUID:       fakes.ModelUUID,
			Clock:           clock.WallClock,
			Metrics:         metrics.Operators(),
			Backoff:         doubling,
			Jitter:          func(d time.Duration) time.Duration { return d },
		}
		w.setup = containersetup.Config{
			Facade:    w.machine,
			MachineID: "0",
			Backends:  w.host.Backends(containersetup.LXD, containersetup.KVM),
			Lock:      metrics.Lock(w.host.Lock()),
			Network:   w.host.Network(),
			Bridger:   w.host.Bridger(),
			Clock:     clock.WallClock,
			Backoff:   doubling,
			Metrics:   metrics.Setup(),
			NewProvisioner: func(config containerprovisioner.Config) (worker.Worker, error) {
				config.Backoff = doubling
				config.Jitter = func(d time.Duration) time.Duration { return d }
				return containerprovisioner.New(config)
			},
		}
		tell(w)
	})
}

// doubling is the default back-off without jitter.
func doubling(_ time.Duration, attempt int) time.Duration {
	return min(time.Second<<min(attempt, 20), 2*time.Minute)
}

// startOperators starts an operator provisioner, which is stopped at the end if
// not before, and lets it do what it can do at once.
func (w *world) startOperators() *provisioner.Worker {
	w.Helper()
	started, err := provisioner.New(w.operators)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { w.stop(started) })
	synctest.Wait()
	return started
}

// startSetup is startOperators for a container-setup handler.
func (w *world) startSetup() *containersetup.Worker {
	w.Helper()
	started, err := containersetup.New(w.setup)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { w.stop(started) })
	synctest.Wait()
	return started
}

func (w *world) stop(started worker.Worker) {
	w.Helper()
	started.Kill()
	if err := started.Wait(); err != nil {
		w.Errorf("the worker ended with %v, want nil", err)
	}
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// sees wants the families named to be exposed exactly so; lines of HELP and TYPE
// are left out.
func (w *world) sees(want string, names ...string) {
	w.Helper()
	got := strings.Join(exposed(w.T, w.registry, names...), "\n")
	if want = strings.Join(lines(want), "\n"); got != want {
		w.Errorf("exposed:\n%s\nwant:\n%s", got, want)
	}
}

// exposed is the exposition of the families named, or of all, without HELP and
// TYPE.
func exposed(t *testing.T, gatherer client.Gatherer, names ...string) []string {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if len(names) == 0 || slices.Contains(names, family.GetName()) {
			if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
				t.Fatal(err)
			}
		}
	}
	return lines(text.String())
}

func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}
