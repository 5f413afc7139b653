package process

import (
	"fmt"
	"testing"
)

// BenchmarkSettledPass is what a provisioner asks in a pass in which nothing
// changed, with a hundred operators beside.
func BenchmarkSettledPass(b *testing.B) {
	bench := newBench(b)
	bench.config.Command = []string{"sleep", "1000000"}
	m := bench.start()
	for i := range 100 {
		app := fmt.Sprintf("app-x%d", i)
		bench.ensure(app, config(app, 1))
	}
	cfg := config("app-x7", 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.OperatorExists(b.Context(), "app-x7"); err != nil {
			b.Fatal(err)
		}
		op, err := m.Operator(b.Context(), "app-x7")
		if err != nil {
			b.Fatal(err)
		}
		cfg.Generation = op.Config.Generation
		if err := m.EnsureOperator(b.Context(), "app-x7", "/var/lib/juju", cfg); err != nil {
			b.Fatal(err)
		}
	}
}
