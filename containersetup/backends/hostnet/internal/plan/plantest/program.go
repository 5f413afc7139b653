package plantest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
)

// Program skips the test where a program is not installed. With "network" in the
// variable SUTLER_REQUIRE (a list with commas) it fails the test instead.
func Program(t testing.TB, name, debian string) {
	t.Helper()
	_, err := exec.LookPath(name)
	if err == nil {
		return
	}
	need.Missing(t, "network", name+" is missing (on Debian: apt-get install "+debian+")")
}

// Put writes files below a folder that stands for the root of a host.
func Put(t testing.TB, root string, files []plan.File) {
	t.Helper()
	for _, f := range files {
		name := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Run runs a program and returns what it printed; the test fails when it does.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := try(t, name, args)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Refuses runs a program that is to fail, and returns what it printed.
func Refuses(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := try(t, name, args)
	if err == nil {
		t.Fatalf("%s %s: no error\n%s", name, strings.Join(args, " "), out)
	}
	return out
}

func try(t testing.TB, name string, args []string) (string, error) {
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}
