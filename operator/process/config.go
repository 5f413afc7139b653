package process

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// Defaults of the optional fields of [Config].
const (
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = time.Minute
	DefaultStopTimeout = 10 * time.Second
)

// TokenVariable is the variable in an operator's environment that tells the
// processes of one operator from all others. Its value names the directory, by a
// random id, and the application, and is otherwise random; it is no secret.
const TokenVariable = "SUTLER_OPERATOR"

// Placeholders in [Config.Command].
const (
	applicationPlaceholder = "{application}"
	dirPlaceholder         = "{dir}"
)

// resetAfter is how long a process has to run for its earlier ends to be
// forgotten.
const resetAfter = time.Minute

// Config is what a [Manager] works with. Dir, Command and Clock are required;
// the zero value of any other field stands for its default.
type Config struct {
	// Dir is an absolute path: the directory that has one directory for
	// each operator. It is created with mode 0700 when it is not there.
	// Nobody else should be able to write to it.
	Dir string
	// Command is the program of an operator and its arguments. No shell is
	// involved. In every element, {application} stands for the
	// application's name and {dir} for the absolute path of the operator's
	// directory. The first one is an absolute path, or a name that New
	// finds in PATH.
	Command []string
	// Env is the environment of operators, each KEY=VALUE. PATH is the
	// agent's unless it is among them; nothing else is inherited. It is no
	// place for secrets.
	Env []string
	// Clock is where time comes from.
	Clock clock.Clock
	// Logger hears of starts, ends and trouble, with the application as an
	// attribute; nil discards.
	Logger *slog.Logger
	// Backoff returns how long an operator that ended, or could not be
	// started, waits before its next start. attempt counts from 0; the
	// delay given is the previous one. Both begin anew when it ran for a
	// minute or its configuration changed. The default doubles from 1 s to
	// 1 min.
	Backoff func(delay time.Duration, attempt int) time.Duration
	// StopTimeout is the time between SIGTERM and SIGKILL; 10 s by default.
	StopTimeout time.Duration
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil. Whether the command is there is for New.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.NotValidf("empty Dir")
	case !filepath.IsAbs(c.Dir):
		return errors.NotValidf("relative Dir")
	case hasNUL(c.Dir):
		return errors.NotValidf("Dir with a NUL byte")
	case len(c.Command) == 0 || c.Command[0] == "":
		return errors.NotValidf("empty Command")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.StopTimeout < 0:
		return errors.NotValidf("negative StopTimeout")
	}
	for i, arg := range c.Command {
		if hasNUL(arg) {
			return errors.NotValidf("Command[%d] with a NUL byte", i)
		}
	}
	// {dir} expands to an absolute path; any other relative path would
	// depend on where the agent happens to be.
	if first := c.Command[0]; strings.Contains(first, "/") &&
		!filepath.IsAbs(first) && !strings.HasPrefix(first, dirPlaceholder+"/") {
		return errors.NotValidf("Command[0] with a relative path")
	}
	return c.validateEnv()
}

// validateEnv quotes no value, for there might be a secret after all.
func (c Config) validateEnv() error {
	seen := make(map[string]bool)
	for i, entry := range c.Env {
		key, _, found := strings.Cut(entry, "=")
		switch {
		case !found || key == "":
			return errors.NotValidf("Env[%d] (want KEY=VALUE)", i)
		case hasNUL(entry):
			return errors.NotValidf("Env[%d] with a NUL byte", i)
		case key == TokenVariable:
			return errors.NotValidf("Env[%d]: %s, which is the manager's,", i, TokenVariable)
		case seen[key]:
			return errors.NotValidf("Env[%d]: %q a second time", i, key)
		}
		seen[key] = true
	}
	return nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// withDefaults returns the config with every optional field set.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Backoff == nil {
		c.Backoff = defaultBackoff
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = DefaultStopTimeout
	}
	c.Dir = filepath.Clean(c.Dir)
	return c
}

// defaultBackoff has no jitter: the processes of one machine do not end at the
// same instant, and a person who watches a log likes round numbers.
func defaultBackoff(delay time.Duration, _ int) time.Duration {
	return min(max(2*delay, DefaultMinBackoff), DefaultMaxBackoff)
}
