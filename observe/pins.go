package observe

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/juju/clock"
	_ "github.com/juju/errors"
	_ "github.com/juju/worker/v3"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "github.com/prometheus/client_golang/prometheus/testutil/promlint"
	_ "go.opentelemetry.io/otel/sdk/trace"
	_ "go.opentelemetry.io/otel/sdk/trace/tracetest"
	_ "go.opentelemetry.io/otel/trace"
	_ "gopkg.in/yaml.v3"
)
