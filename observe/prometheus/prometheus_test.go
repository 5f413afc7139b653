package prometheus_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/provisioner"
)

func TestEveryOptionalInterfaceIsThere(t *testing.T) {
	m := newMetrics(t, prometheus.Config{Registerer: client.NewRegistry()})
	if _, ok := m.Operators().(interface {
		provisioner.Attacher
		provisioner.EventMetrics
		provisioner.BatchMetrics
	}); !ok {
		t.Error("of operators, one is missing")
	}
	handler, ok := m.Setup().(interface {
		containersetup.Attacher
		containersetup.EventMetrics
		containersetup.ContainerMetrics
	})
	if !ok {
		t.Fatal("of set-up, one is missing")
	}
	if _, ok := handler.ContainerMetrics(containersetup.LXD).(interface {
		containerprovisioner.Attacher
		containerprovisioner.EventMetrics
		containerprovisioner.BatchMetrics
	}); !ok {
		t.Error("of containers, one is missing")
	}
}

func newMetrics(t *testing.T, config prometheus.Config) *prometheus.Metrics {
	t.Helper()
	m, err := prometheus.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAConfigThatCannotBeIsNotValid(t *testing.T) {
	registry := client.NewRegistry()
	labels := func(name, value string) map[string]string { return map[string]string{name: value} }
	for name, test := range map[string]struct {
		config prometheus.Config
		names  string
	}{
		"no registerer":       {prometheus.Config{}, "nil Registerer"},
		"namespace with dash": {prometheus.Config{Registerer: registry, Namespace: "my-agent"}, "Namespace"},
		"label with dash":     {prometheus.Config{Registerer: registry, ConstLabels: labels("my-model", "x")}, "ConstLabels"},
		"reserved label":      {prometheus.Config{Registerer: registry, ConstLabels: labels("__name", "x")}, "ConstLabels"},
		"label of ours":       {prometheus.Config{Registerer: registry, ConstLabels: labels("state", "x")}, "ConstLabels"},
		"label of histograms": {prometheus.Config{Registerer: registry, ConstLabels: labels("le", "x")}, "ConstLabels"},
		"value that is no text": {
			prometheus.Config{Registerer: registry, ConstLabels: labels("model", "\xff")}, "ConstLabels",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := prometheus.New(test.config)
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.names) {
				t.Errorf("got %v, want a NotValid that names %s", err, test.names)
			}
		})
	}
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series are registered (%v), want none", n, err)
	}
}

func TestNoConstantLabelCanHaveTheNameOfALabel(t *testing.T) {
	for _, f := range families(t) {
		for _, label := range f.Labels {
			if !slices.Contains(prometheus.LabelNames(), label) {
				t.Errorf("label %s of %s is not among them", label, f.Name)
			}
		}
	}
}

// refusing is a Registerer of somebody's own.
type refusing struct {
	client.Registerer
	err   error
	panic any
}

func (r refusing) Register(client.Collector) error {
	if r.panic != nil {
		panic(r.panic)
	}
	return r.err
}

func TestARegistererThatRefusesIsAnError(t *testing.T) {
	for name, registerer := range map[string]client.Registerer{
		"an error":        refusing{err: errors.New("closed for today")},
		"a panic":         refusing{panic: "closed for today"},
		"no registry":     (*client.Registry)(nil),
		"nothing but nil": refusing{panic: errors.New("closed for today")},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := prometheus.New(prometheus.Config{Registerer: registerer})
			if m != nil || err == nil || !strings.HasPrefix(err.Error(), "registering metrics: ") {
				t.Errorf("got %v and %v, want an error about registering", m, err)
			}
		})
	}
}

func TestTheSameMetricsTwiceAreRefusedAndTheFirstStay(t *testing.T) {
	registry := client.NewPedanticRegistry()
	first := newMetrics(t, prometheus.Config{Registerer: registry})
	_, err := prometheus.New(prometheus.Config{Registerer: registry})
	if !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("got %v, want AlreadyExists", err)
	}
	first.Operators().PassDone(provisioner.Pass{Outcome: provisioner.OutcomeSettled})
	if got := exposed(t, registry, "sutler_operator_retries_total"); len(got) != 1 {
		t.Errorf("exposed %q, want the first's", got)
	}

	// Once that is taken out, there is room.
	if !registry.Unregister(first) {
		t.Error("the first was not registered")
	}
	newMetrics(t, prometheus.Config{Registerer: registry})
}

func TestOneNameThatIsTakenRefusesAll(t *testing.T) {
	registry := client.NewPedanticRegistry()
	taken := client.NewGauge(client.GaugeOpts{Name: "sutler_operator_workers", Help: "Somebody else's."})
	registry.MustRegister(taken)
	if _, err := prometheus.New(prometheus.Config{Registerer: registry}); err == nil {
		t.Error("the name was taken, and nobody refused")
	}
	if got := exposed(t, registry); len(got) != 1 {
		t.Errorf("exposed %q, want only what was there", got)
	}
}

func TestModelsAreToldApartByConstantLabels(t *testing.T) {
	registry := client.NewPedanticRegistry()
	for _, model := range []string{"prod", "test"} {
		m := newMetrics(t, prometheus.Config{Registerer: registry, ConstLabels: map[string]string{"model": model}})
		if model == "prod" {
			m.Operators().PassDone(provisioner.Pass{Attempts: 1})
		}
	}
	got := exposed(t, registry, "sutler_operator_retries_total")
	want := []string{`sutler_operator_retries_total{model="prod"} 1`, `sutler_operator_retries_total{model="test"} 0`}
	if !slices.Equal(got, want) {
		t.Errorf("exposed %q, want %q", got, want)
	}
}

func TestTheNamespaceCanBeAnother(t *testing.T) {
	registry := client.NewPedanticRegistry()
	newMetrics(t, prometheus.Config{Registerer: registry, Namespace: "acme"})
	for _, line := range exposed(t, registry) {
		if !strings.HasPrefix(line, "acme_") {
			t.Fatalf("exposed %q", line)
		}
	}
}

// Without a type, everything that has none is there; with one, all.
func TestEverySeriesIsThereAtZeroFromTheStart(t *testing.T) {
	registry := client.NewPedanticRegistry()
	m := newMetrics(t, prometheus.Config{Registerer: registry})
	typed := func(f prometheus.Family) bool { return slices.Contains(f.Labels, "type") }
	check := func(want func(prometheus.Family) bool) {
		t.Helper()
		lines := exposed(t, registry)
		for _, line := range lines {
			if !strings.HasSuffix(line, " 0") {
				t.Errorf("not zero: %s", line)
			}
		}
		for _, f := range m.Families() {
			there := slices.ContainsFunc(lines, func(line string) bool {
				rest, ok := strings.CutPrefix(line, f.Name)
				return ok && strings.HasPrefix(strings.TrimPrefix(rest, "_count"), "{") || strings.HasPrefix(rest, " ") ||
					strings.HasPrefix(rest, "_count ")
			})
			if there != want(f) {
				t.Errorf("%s is there: %v", f.Name, there)
			}
		}
	}
	check(func(f prometheus.Family) bool { return !typed(f) })
	// As soon as a type is known.
	handler := m.Setup().(containersetup.ContainerMetrics)
	handler.ContainerMetrics(containersetup.LXD)
	containerOnly := func(f prometheus.Family) bool {
		return !typed(f) || !strings.HasPrefix(f.Name, "sutler_container_setup_") ||
			strings.HasPrefix(f.Name, "sutler_container_setup_") && f.Kind == "gauge"
	}
	check(containerOnly)
}

func TestNamesAndHelpPassPromlint(t *testing.T) {
	var text bytes.Buffer
	story(t, prometheus.Config{ApplicationLabels: true}, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("boom")}})
		w.faults.Add(fakes.Rule{Method: "StartInstance", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("boom")}})
		w.startOperators()
		w.startSetup()
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.after(time.Minute)
		problems, err := testutil.GatherAndLint(w.registry)
		if err != nil {
			t.Error(err)
		}
		for _, problem := range problems {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
		for name := range families(t) {
			if lines := exposed(t, w.registry, name); len(lines) == 0 {
				t.Errorf("%s was not seen", name)
			}
		}
		gathered, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range gathered {
			if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
				t.Fatal(err)
			}
		}
	})
	promtool(t, text.String(), "check", "metrics")
}

func TestValuesFromOutsideAreBounded(t *testing.T) {
	registry := client.NewPedanticRegistry()
	m := newMetrics(t, prometheus.Config{Registerer: registry})
	o := m.Operators().(interface {
		provisioner.EventMetrics
		provisioner.BatchMetrics
	})
	for i := range 100 {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		m.Operators().PassDone(provisioner.Pass{Outcome: provisioner.Outcome(name)})
		o.EventReceived(provisioner.Event{Source: provisioner.EventSource(name)})
		o.BatchDone(provisioner.Batch{Call: name, Err: errors.New("boom")})
		m.Setup().PhaseDone(containersetup.PhaseAttempt{Type: containersetup.ContainerType(name), Phase: containersetup.Phase(name)})
		release, err := m.Lock(fakes.NewLock(fakes.NewFaults(clock.WallClock))).Acquire(t.Context(), containersetup.Holder{
			Worker: name + "\xff" + strings.Repeat("x", 1000),
		})
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	for name, most := range map[string]int{
		"sutler_operator_passes_total":          len(provisioner.Outcomes()) + 1,
		"sutler_operator_events_total":          len(provisioner.EventSources()) + 1,
		"sutler_operator_batch_failures_total":  2 + 1,
		"sutler_container_setup_failures":       16 + 1,
		"sutler_container_setup_attempts_total": 17 * 2 * (5 + 1),
		"sutler_machine_lock_failures_total":    16 + 1,
	} {
		if n := len(exposed(t, registry, name)); n > most {
			t.Errorf("%s has %d series, want at most %d", name, n, most)
		}
	}
	want := `sutler_operator_passes_total{outcome="other"} 100`
	if got := exposed(t, registry, "sutler_operator_passes_total"); !slices.Contains(got, want) {
		t.Errorf("exposed %q, want %s", got, want)
	}
}
