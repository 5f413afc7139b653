package otel_test

import (
	"fmt"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/otel"
	"github.com/sutler-dev/sutler/provisioner"
)

// instrument has both workers traced. The caller stops the tracer after them, and
// then shuts the provider down.
func instrument(provider *trace.TracerProvider, operators *provisioner.Config, setup *containersetup.Config) (*otel.Tracer, error) {
	tracer, err := otel.New(otel.Config{TracerProvider: provider, Clock: clock.WallClock})
	if err != nil {
		return nil, err
	}
	operators.Metrics = tracer.Operators()
	setup.Metrics = tracer.Setup()
	return tracer, nil
}

func Example() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("mysql", fakes.App{})
	config := provisioner.Config{
		// Plain, so that nothing else has the application looked at.
		Facade:          controller.Plain(),
		OperatorManager: fakes.NewManager(faults).Plain(),
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
	}
	exporter := tracetest.NewInMemoryExporter()
	tracer, err := instrument(trace.NewTracerProvider(trace.WithSyncer(exporter)), &config, new(containersetup.Config))
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := provisioner.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	for w.Status().Applications[provisioner.StateSettled] == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, one := range []worker.Worker{w, tracer} {
		if err := worker.Stop(one); err != nil {
			fmt.Println(err)
		}
	}
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name, span.Links != nil)
		for _, a := range span.Attributes {
			if a.Key == otel.KeyApplication || a.Key == otel.KeyOutcome {
				fmt.Println("-", a.Key, a.Value.AsString())
			}
		}
	}
	// Output:
	// sutler.operator.event false
	// sutler.operator.pass true
	// - sutler.application.name mysql
	// - sutler.outcome settled
}

// Without a provider there is nothing to trace with.
func ExampleNew() {
	_, err := otel.New(otel.Config{Clock: clock.WallClock})
	fmt.Println(err)
	// Output: tracer config: nil TracerProvider not valid
}
