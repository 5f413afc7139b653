package otel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/otel"
	"github.com/sutler-dev/sutler/provisioner"
)

const (
	lxd = containersetup.LXD
	kvm = containersetup.KVM
)

// boom is an error of no particular kind.
const boom = errors.ConstError("boom")

// otherModel is one more, besides fakes.ModelUUID.
const otherModel = "5d2b4c1e-77aa-4b0e-8a51-0f6c3d9e2b11"

// world is a tracer with workers, and everything that these work with, in virtual
// time.
type world struct {
	*testing.T
	faults     *fakes.Faults
	controller *fakes.Controller
	manager    *fakes.Manager
	machine    *fakes.Machine
	host       *fakes.Host
	log        *fakes.Log
	exporter   *tracetest.InMemoryExporter
	provider   *sdk.TracerProvider
	tracer     *otel.Tracer
	workers    []worker.Worker
}

// story tells one in a world whose spans are kept, processed by the options.
func story(t *testing.T, tell func(w *world), options ...sdk.TracerProviderOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		faults := fakes.NewFaults(clock.WallClock)
		controller := fakes.NewController(faults)
		exporter := tracetest.NewInMemoryExporter()
		w := &world{
			T: t, faults: faults, controller: controller,
			manager:  fakes.NewManager(faults),
			machine:  fakes.NewMachine(faults, "0"),
			host:     fakes.NewHost(faults),
			log:      fakes.NewLog(),
			exporter: exporter,
			provider: sdk.NewTracerProvider(append([]sdk.TracerProviderOption{sdk.WithSyncer(exporter)}, options...)...),
		}
		w.machine.SetSupported(lxd, kvm)
		tracer, err := otel.New(otel.Config{TracerProvider: w.provider, Clock: clock.WallClock, Logger: w.log.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		w.tracer = tracer
		defer w.stop()
		tell(w)
	})
}

// stop ends the workers, and then the tracer.
func (w *world) stop() {
	w.Helper()
	for _, started := range w.workers {
		began := time.Now()
		if err := worker.Stop(started); err != nil && !errors.Is(err, boom) {
			w.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			w.Errorf("a worker took %v to stop", took)
		}
	}
	w.workers = nil
	began := time.Now()
	if err := worker.Stop(w.tracer); err != nil {
		w.Errorf("the tracer ended with %v", err)
	}
	if took := time.Since(began); took > time.Second {
		w.Errorf("the tracer took %v to stop", took)
	}
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func doubling(_ time.Duration, attempt int) time.Duration {
	return min(time.Second<<min(attempt, 20), 2*time.Minute)
}

// operators starts an operator provisioner, and lets it do what it can do at once.
func (w *world) operators(change ...func(*provisioner.Config)) *provisioner.Worker {
	w.Helper()
	config := provisioner.Config{
		Facade: w.controller, OperatorManager: w.manager,
		Agent:     fakes.NewAgent(w.controller.CACert()),
		ModelUUID: fakes.ModelUUID, Clock: clock.WallClock, Logger: w.log.Logger(),
		Metrics: w.tracer.Operators(), Backoff: doubling,
		Jitter: func(d time.Duration) time.Duration { return d },
	}
	for _, f := range change {
		f(&config)
	}
	started, err := provisioner.New(config)
	if err != nil {
		w.Fatal(err)
	}
	w.workers = append(w.workers, started)
	synctest.Wait()
	return started
}

// setup starts a container-setup handler, and lets it do what it can do at once.
func (w *world) setup() {
	w.Helper()
	started, err := containersetup.New(containersetup.Config{
		Facade: w.machine, MachineID: "0",
		Backends: w.host.Backends(lxd, kvm),
		Lock:     w.host.Lock(), Network: w.host.Network(), Bridger: w.host.Bridger(),
		Clock: clock.WallClock, Logger: w.log.Logger(),
		Metrics: w.tracer.Setup(), Backoff: doubling,
		NewProvisioner: func(config containerprovisioner.Config) (worker.Worker, error) {
			config.Backoff = doubling
			return containerprovisioner.New(config)
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.workers = append(w.workers, started)
	synctest.Wait()
}

// settled wants the worker to have settled so many applications.
func (w *world) settled(p *provisioner.Worker, n int) {
	w.Helper()
	if got := p.Status().Applications[provisioner.StateSettled]; got != n {
		w.Errorf("%d applications are settled, want %d", got, n)
	}
}

// spans returns those of a name, in the order of their ends, with all the
// attributes, given as key=value.
func (w *world) spans(name string, with ...string) (out tracetest.SpanStubs) {
	for _, span := range w.exporter.GetSpans() {
		has := func(want string) bool { return slices.Contains(values(span), want) }
		if span.Name == name && !slices.ContainsFunc(with, func(want string) bool { return !has(want) }) {
			out = append(out, span)
		}
	}
	return out
}

// one wants exactly one such span, and returns it.
func (w *world) one(name string, with ...string) tracetest.SpanStub {
	w.Helper()
	found := w.spans(name, with...)
	if len(found) != 1 {
		w.Fatalf("%d spans %s with %q, want one; there are\n%s", len(found), name, with, w.list())
	}
	return found[0]
}

// list shows all spans.
func (w *world) list() string {
	var out strings.Builder
	for _, span := range w.exporter.GetSpans() {
		fmt.Fprintln(&out, span.Name, values(span), span.Status)
	}
	return out.String()
}

// values are a span's attributes as key=value, in order.
func values(span tracetest.SpanStub) (out []string) {
	for _, a := range span.Attributes {
		out = append(out, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
	}
	slices.Sort(out)
	return out
}

// value is a span's attribute; empty if it has none.
func value(span tracetest.SpanStub, key string) string {
	for _, a := range span.Attributes {
		if a.Key == attribute.Key(key) {
			return a.Value.String()
		}
	}
	return ""
}

// processor is a span processor that is two functions.
type processor struct {
	mu      sync.Mutex
	onStart func()
	onEnd   func()
}

func (p *processor) set(onStart, onEnd func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onStart, p.onEnd = onStart, onEnd
}

func (p *processor) run(f *func()) {
	p.mu.Lock()
	do := *f
	p.mu.Unlock()
	if do != nil {
		do()
	}
}

func (p *processor) OnStart(context.Context, sdk.ReadWriteSpan) { p.run(&p.onStart) }
func (p *processor) OnEnd(sdk.ReadOnlySpan)                     { p.run(&p.onEnd) }
func (p *processor) Shutdown(context.Context) error             { return nil }
func (p *processor) ForceFlush(context.Context) error           { return nil }
