package otel_test

import (
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sutler-dev/sutler/containersetup/container"
)

type spanStub = tracetest.SpanStub

// holder is somebody else who has the machine lock.
func holder() container.Holder { return container.Holder{Worker: "somebody", Reason: "else"} }
