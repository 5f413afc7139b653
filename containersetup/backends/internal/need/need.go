// Package need ends tests for want of something real: a daemon, a program, root. It is
// for this module's tests and their helpers.
package need

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Missing skips the test and says why, or fails it where the variable SUTLER_REQUIRE, a
// list with commas, has the name, as in CI.
func Missing(t testing.TB, name, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SUTLER_REQUIRE"), ","), name) {
		t.Fatalf("SUTLER_REQUIRE has %s: %s", name, why)
	}
	t.Skip(why)
}
