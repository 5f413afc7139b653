package managertest_test

import (
	"context"
	"fmt"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator/managertest"
)

// A test function calls Run, see the package documentation. Whoever needs
// another order, or virtual time, goes through the checks by hand.
func ExampleChecks() {
	failed := 0
	for _, check := range managertest.Checks() {
		manager := fakes.NewManager(fakes.NewFaults(clock.WallClock))
		r := &recorder{ctx: context.Background()}
		check.Run(r, managertest.Harness{Manager: manager, Loops: 5})
		if r.failed() {
			fmt.Println(check.Name)
			failed++
		}
	}
	fmt.Println(failed, "failed")
	// Output:
	// 0 failed
}

func ExampleConfig() {
	cfg := managertest.Config("postgresql", 1)
	fmt.Println(cfg.Validate(), cfg.AgentConf)
	// Output:
	// <nil> [redacted]
}
