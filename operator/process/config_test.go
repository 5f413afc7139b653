package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator/process"
)

func TestConfigIsRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*process.Config)
		want  string
	}{
		{"no Dir", func(c *process.Config) { c.Dir = "" }, "empty Dir not valid"},
		{"a relative Dir", func(c *process.Config) { c.Dir = "operators" }, "relative Dir not valid"},
		{"a Dir with NUL", func(c *process.Config) { c.Dir = "/a\x00" }, "Dir with a NUL byte not valid"},
		{"no Command", func(c *process.Config) { c.Command = nil }, "empty Command not valid"},
		{"an empty Command", func(c *process.Config) { c.Command = []string{""} }, "empty Command not valid"},
		{"a relative Command", func(c *process.Config) { c.Command[0] = "bin/op" }, "Command[0] with a relative path not valid"},
		{"a relative Command of an application", func(c *process.Config) { c.Command[0] = "{application}/op" }, "Command[0] with a relative path not valid"},
		{"an argument with NUL", func(c *process.Config) { c.Command[1] = "\x00" }, "Command[1] with a NUL byte not valid"},
		{"no Clock", func(c *process.Config) { c.Clock = nil }, "nil Clock not valid"},
		{"a negative StopTimeout", func(c *process.Config) { c.StopTimeout = -1 }, "negative StopTimeout not valid"},
		{"a variable without a value", func(c *process.Config) { c.Env = []string{"A=1", "canary"} }, "Env[1] (want KEY=VALUE) not valid"},
		{"a variable without a name", func(c *process.Config) { c.Env = []string{"=canary"} }, "Env[0] (want KEY=VALUE) not valid"},
		{"a variable with NUL", func(c *process.Config) { c.Env = []string{"A=canary\x00"} }, "Env[0] with a NUL byte not valid"},
		{"a variable twice", func(c *process.Config) { c.Env = []string{"A=canary", "A=canary"} }, `Env[1]: "A" a second time not valid`},
		{"the manager's own variable", func(c *process.Config) { c.Env = []string{process.TokenVariable + "=canary"} }, "Env[0]: SUTLER_OPERATOR, which is the manager's, not valid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "operators")
			c := process.Config{Dir: dir, Command: []string{"/bin/operator", "{dir}"}, Clock: clock.WallClock}
			if err := c.Validate(); err != nil {
				t.Fatalf("the sound config: %v", err)
			}
			test.spoil(&c)
			err := c.Validate()
			if !errors.Is(err, errors.NotValid) || err.Error() != test.want {
				t.Errorf("Validate() = %v, want %s", err, test.want)
			}
			if m, err := process.New(c); m != nil || !errors.Is(err, errors.NotValid) || strings.Contains(err.Error(), "canary") {
				t.Errorf("New() = %v, %v", m, err)
			}
			if _, err := os.Lstat(dir); err == nil {
				t.Error("New made Dir")
			}
		})
	}
}

func TestConfigTakesEveryWayToNameAProgram(t *testing.T) {
	for _, program := range []string{"/bin/op", "{dir}/bin/op", "op", "/opt/{application}/op"} {
		c := process.Config{Dir: "/x", Command: []string{program}, Clock: clock.WallClock}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", program, err)
		}
	}
}
