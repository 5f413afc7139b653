package prometheus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/prometheus"
)

// One application fails, the operator of another does not end, a third settles.
// The clock of a bubble starts at 946684800.
func TestOperatorsAreSeen(t *testing.T) {
	story(t, prometheus.Config{}, func(w *world) {
		w.operators.Facade = w.controller.Plain()
		w.operators.OperatorManager = w.manager.Plain()
		for _, app := range []string{"mysql", "broken", "old"} {
			w.controller.AddApplication(app, fakes.App{})
		}
		w.faults.Add(fakes.Rule{
			Method: "EnsureOperator", Key: "broken", Times: fakes.Always,
			Effect: fakes.Effect{Err: errors.New("no room")},
		})
		w.manager.SetTermination(fakes.Termination{For: 24 * time.Hour}, "old")
		w.startOperators()
		w.after(time.Second)
		w.controller.SetLife("old", facade.Dead)
		w.after(5 * time.Minute)

		want := `
# HELP sutler_operator_applications Applications, by where each is between two looks or within one.
# TYPE sutler_operator_applications gauge
sutler_operator_applications{state="failed"} 1
sutler_operator_applications{state="queued"} 0
sutler_operator_applications{state="running"} 0
sutler_operator_applications{state="settled"} 1
sutler_operator_applications{state="stuck"} 1
sutler_operator_applications{state="waiting"} 0
# HELP sutler_operator_oldest_unsettled_timestamp_seconds Since when the application is unsettled that has been so the longest; 0 if all are settled.
# TYPE sutler_operator_oldest_unsettled_timestamp_seconds gauge
sutler_operator_oldest_unsettled_timestamp_seconds 9.466848e+08
# HELP sutler_operator_passes_total Looks at one application, by how they ended.
# TYPE sutler_operator_passes_total counter
sutler_operator_passes_total{outcome="failed"} 9
sutler_operator_passes_total{outcome="forgotten"} 0
sutler_operator_passes_total{outcome="panicked"} 0
sutler_operator_passes_total{outcome="permanent"} 0
sutler_operator_passes_total{outcome="settled"} 2
sutler_operator_passes_total{outcome="stuck"} 40
sutler_operator_passes_total{outcome="waiting"} 61
# HELP sutler_operator_retries_total Looks at applications whose look before had failed.
# TYPE sutler_operator_retries_total counter
sutler_operator_retries_total 8
# HELP sutler_operator_workers Operator provisioners that run.
# TYPE sutler_operator_workers gauge
sutler_operator_workers 1
`
		err := testutil.GatherAndCompare(w.registry, strings.NewReader(want),
			"sutler_operator_applications", "sutler_operator_oldest_unsettled_timestamp_seconds",
			"sutler_operator_passes_total", "sutler_operator_retries_total", "sutler_operator_workers")
		if err != nil {
			t.Error(err)
		}
	})
}
