package observe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe"
	"github.com/sutler-dev/sutler/observe/otel"
	"github.com/sutler-dev/sutler/observe/page"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/provisioner"
)

// outside is everything that shows the workers of one agent.
type outside struct {
	page   *page.Page
	tracer *otel.Tracer
}

// look has both workers measured, traced and shown on a page that also serves
// the metrics.
func look(provider *sdk.TracerProvider, operators *provisioner.Config, setup *containersetup.Config) (outside, error) {
	registry := client.NewRegistry()
	metrics, err := prometheus.New(prometheus.Config{Registerer: registry})
	if err != nil {
		return outside{}, err
	}
	tracer, err := otel.New(otel.Config{TracerProvider: provider, Clock: clock.WallClock})
	if err != nil {
		return outside{}, err
	}
	shown, err := page.New(page.Config{
		Clock:   clock.WallClock,
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	})
	if err != nil {
		return outside{}, err
	}
	operators.Metrics = observe.Operators(metrics.Operators(), tracer.Operators(), shown.Operators())
	setup.Metrics = observe.Setup(metrics.Setup(), tracer.Setup(), shown.Setup())
	return outside{shown, tracer}, nil
}

// One worker is shown by all three packages at once.
func Example() {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	controller.AddApplication("mysql", fakes.App{})
	config := provisioner.Config{
		Facade:          controller.Plain(),
		OperatorManager: fakes.NewManager(faults).Plain(),
		Agent:           fakes.NewAgent(controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
	}
	spans := tracetest.NewInMemoryExporter()
	seen, err := look(sdk.NewTracerProvider(sdk.WithSyncer(spans)), &config, new(containersetup.Config))
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
	get := func(path string) string {
		recorder := httptest.NewRecorder()
		seen.page.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		return recorder.Body.String()
	}
	fmt.Println("on the page:", strings.Contains(get("/"), "mysql"))
	fmt.Println("measured:", strings.Contains(get("/metrics"), `sutler_operator_applications{state="settled"} 1`))

	for _, each := range []worker.Worker{w, seen.tracer} {
		if err := worker.Stop(each); err != nil {
			fmt.Println(err)
		}
	}
	for _, span := range spans.GetSpans() {
		fmt.Println("traced:", span.Name)
	}
	// Output:
	// on the page: true
	// measured: true
	// traced: sutler.operator.event
	// traced: sutler.operator.pass
}
