package outside

import (
	"context"
	stderrors "errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/observe"
	"github.com/sutler-dev/sutler/observe/otel"
	"github.com/sutler-dev/sutler/observe/page"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/provisioner"
)

// farewell is how long the last spans have to reach their file.
const farewell = 5 * time.Second

// Config is what an [Outside] is made from.
type Config struct {
	// Title is what the page is called.
	Title string
	// Traces is the file that spans are added to, one JSON value each; empty
	// for none.
	Traces string
	// Logger hears of what goes wrong.
	Logger *slog.Logger
}

// Outside is what sees the workers. Its owner serves it, and closes it after them.
type Outside struct {
	page    *page.Page
	metrics *prometheus.Metrics
	spans   *spans // nil without a file
	// These are made when they are first asked for: the page is not ready
	// before a worker that it was asked to show has started.
	operators func() provisioner.Metrics
	setup     func() containersetup.Metrics
	// reporter is whose report is that of the agent as a whole. It comes late:
	// an engine is made from workers, which are made from this.
	reporter atomic.Pointer[page.Reporter]
}

// New returns one that has seen nothing yet. A file of spans that cannot be opened
// is an errors.BadRequest.
func New(config Config) (_ *Outside, err error) {
	o := &Outside{}
	// What it is made of is good: an error is a mistake here.
	registry := client.NewRegistry()
	if err := registry.Register(collectors.NewGoCollector()); err != nil {
		return nil, errors.Trace(err)
	}
	o.metrics, err = prometheus.New(prometheus.Config{Registerer: registry})
	if err != nil {
		return nil, errors.Trace(err)
	}
	o.page, err = page.New(page.Config{
		Clock:    clock.WallClock,
		Title:    config.Title,
		Reporter: o,
		Metrics:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}),
		Logger:   config.Logger,
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	if config.Traces != "" {
		if o.spans, err = openSpans(config.Traces, config.Logger); err != nil {
			return nil, err
		}
	}
	o.operators = sync.OnceValue(func() provisioner.Metrics {
		parts := []provisioner.Metrics{o.metrics.Operators(), o.page.Operators()}
		if o.spans != nil {
			parts = append(parts, o.spans.tracer.Operators())
		}
		return observe.Operators(parts...)
	})
	o.setup = sync.OnceValue(func() containersetup.Metrics {
		parts := []containersetup.Metrics{o.metrics.Setup(), o.page.Setup()}
		if o.spans != nil {
			parts = append(parts, o.spans.tracer.Setup())
		}
		return observe.Setup(parts...)
	})
	return o, nil
}

// Operators is what an operator provisioner tells.
func (o *Outside) Operators() provisioner.Metrics { return o.operators() }

// Setup is what a container-setup handler tells.
func (o *Outside) Setup() containersetup.Metrics { return o.setup() }

// Lock has the waiting for a machine lock, and its holding, measured.
func (o *Outside) Lock(lock containersetup.Lock) containersetup.Lock { return o.metrics.Lock(lock) }

// Report is part of page.Reporter.
func (o *Outside) Report() map[string]any {
	if reporter := o.reporter.Load(); reporter != nil {
		return (*reporter).Report()
	}
	return nil
}

// Close ends the spans, for which it may take seconds.
func (o *Outside) Close() error {
	if o.spans == nil {
		return nil
	}
	return errors.Annotate(o.spans.close(), "closing the file of spans")
}

// spans are what goes to a file.
type spans struct {
	file     *os.File
	provider *sdk.TracerProvider
	tracer   *otel.Tracer
}

func openSpans(path string, logger *slog.Logger) (_ *spans, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.NewBadRequest(err, "file of spans")
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(file))
	if err != nil {
		return nil, errors.Trace(err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter))
	tracer, err := otel.New(otel.Config{TracerProvider: provider, Clock: clock.WallClock, Logger: logger})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return &spans{file, provider, tracer}, nil
}

func (s *spans) close() error {
	err := worker.Stop(s.tracer)
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return stderrors.Join(err, s.provider.Shutdown(ctx), s.file.Close())
}
