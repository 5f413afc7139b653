package otel

import (
	"log/slog"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"go.opentelemetry.io/otel/trace"
)

// Config is what a [Tracer] works with. All fields but Logger are required.
type Config struct {
	// TracerProvider makes the tracer. It stays its owner's: shut it down
	// after the Tracer has ended.
	TracerProvider trace.TracerProvider
	// Clock is where the times of spans come from; the workers' own.
	Clock clock.Clock
	// Logger hears when spans are lost; nil discards.
	Logger *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing, or nil.
func (c Config) Validate() error {
	switch {
	case c.TracerProvider == nil:
		return errors.NotValidf("nil TracerProvider")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	}
	return nil
}
