package backendtest_test

import (
	"context"
	"fmt"

	"github.com/sutler-dev/sutler/containersetup/backendtest"
)

// A test function calls Run, see the package documentation. Whoever needs
// another order, or virtual time, goes through the checks by hand.
func ExampleChecks() {
	failed := 0
	for _, check := range backendtest.Checks() {
		r := &recorder{ctx: context.Background()}
		check.Run(r, backendtest.Harness{Backend: full(newHost())})
		if r.failed() {
			fmt.Println(check.Name)
			failed++
		}
	}
	fmt.Println(failed, "failed")
	// Output:
	// 0 failed
}

func ExampleParams() {
	params := backendtest.Params("0/lxd/1")
	fmt.Println(params.Validate(), params.Info.Base.Name, params.Info.UserData)
	// Output:
	// <nil> ubuntu [redacted]
}
