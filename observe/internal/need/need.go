// Package need ends tests for want of a program.
package need

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Program returns the path of a program that testbed/prometheus or
// testbed/chromium installs. Without it, the test is skipped, or fails where the
// variable SUTLER_REQUIRE, a list with commas, has the program's name, as in CI.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv("SUTLER_REQUIRE"), ","), name) {
		t.Fatalf("SUTLER_REQUIRE has %s: %v", name, err)
	}
	t.Skipf("%v: testbed/up (or make testbed) installs it, as root", err)
	return ""
}
