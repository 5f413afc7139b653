package host

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/juju/errors"
)

// Host is the machine.
type Host interface {
	Commands
	Files
	Locks
}

// Commands runs programs.
type Commands interface {
	// Run runs a command to its end and returns what it printed. The error is
	// errors.NotFound when there is no such program, errors.Timeout when its
	// deadline passed, the context's own when that ended, and an *[ExitError]
	// when it ran and failed; in the last three cases the output up to then is
	// there, too. A read-only command that prints more than an [Output] has room
	// for is an error: what is read from a part of it would be wrong.
	Run(ctx context.Context, cmd Command) (Output, error)
}

// Files reads and writes files, by absolute names; others, and malformed patterns, are
// errors.NotValid. What is begun is completed, also when the context ends.
type Files interface {
	// ReadFile returns a file's content, or errors.NotFound.
	ReadFile(ctx context.Context, name string) ([]byte, error)
	// WriteFile puts a file in place as a whole, and makes the directories above
	// it that are missing, for those to enter who may read the file. One that is
	// there keeps its owner (if this process is root) and its permissions; perm
	// is for a new one. A link stays, and what it leads to is written.
	WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error
	// Remove removes a file, or an empty directory. One that is not there is
	// success.
	Remove(ctx context.Context, name string) error
	// Glob returns the names that match a pattern of path/filepath, sorted.
	Glob(ctx context.Context, pattern string) ([]string, error)
}

// Locks looks at locks of files.
type Locks interface {
	// LockHolder returns the process that has a POSIX lock on the file, or nil
	// when nobody has one or there is no such file. It takes no lock. It must not
	// be asked about a file that this process itself has locked: it does not see
	// such a lock, and the kernel drops it.
	LockHolder(ctx context.Context, name string) (*Process, error)
}

// Process is one that runs on the host.
type Process struct {
	// PID is its number; 0 for one that cannot be seen from here, such as one in
	// another container.
	PID int
	// Name is its program's; empty where it cannot be told.
	Name string
}

// String returns the name and the number.
func (p Process) String() string {
	switch {
	case p.PID == 0:
		return "a process that cannot be seen from here"
	case p.Name == "":
		return "process " + strconv.Itoa(p.PID)
	}
	return fmt.Sprintf("%s (process %d)", p.Name, p.PID)
}

// DefaultTimeout is the deadline of a command that names none.
const DefaultTimeout = time.Minute

// Command is a program and its arguments.
type Command struct {
	// Args are the program, by path or by a name to be looked up, and its
	// arguments.
	Args []string
	// Stdin is what it reads; it reads nothing by default.
	Stdin []byte
	// Env are further variables, as in "KEY=value".
	Env []string
	// ReadOnly says that it changes nothing.
	ReadOnly bool
	// Timeout is for how long it may run; [DefaultTimeout] by default.
	Timeout time.Duration
}

// Look returns a command that changes nothing.
func Look(args ...string) Command { return Command{Args: args, ReadOnly: true} }

// Do returns a command that changes something.
func Do(args ...string) Command { return Command{Args: args} }

// Validate returns errors.NotValid, naming the field.
func (c Command) Validate() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.NotValidf("command with empty Args")
	}
	for i, arg := range c.Args {
		if strings.Contains(arg, "\x00") {
			return errors.NotValidf("command %q: Args[%d] with a zero byte", c.Args[0], i)
		}
	}
	for i, env := range c.Env {
		if key, _, ok := strings.Cut(env, "="); !ok || key == "" || strings.Contains(env, "\x00") {
			return errors.NotValidf("command %q: Env[%d] (want KEY=value)", c.Args[0], i)
		}
	}
	if c.Timeout < 0 {
		return errors.NotValidf("command %q: negative Timeout", c.Args[0])
	}
	return nil
}

// String returns the command as a person would type it. Input and environment are left
// out.
func (c Command) String() string {
	words := make([]string, len(c.Args))
	for i, arg := range c.Args {
		if plain(arg) {
			words[i] = arg
		} else {
			words[i] = strconv.Quote(arg)
		}
	}
	return strings.Join(words, " ")
}

func plain(word string) bool {
	return word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == ""
}

// maxOutput is how much of each output of a command is kept.
const maxOutput = 1 << 20

// Output is what a command printed: the first mebibyte of each.
type Output struct {
	Stdout, Stderr []byte
}

// Lines returns the lines of the standard output that are not empty.
func (o Output) Lines() []string {
	var lines []string
	for line := range strings.Lines(string(o.Stdout)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// ExitError is of a command that ran and failed.
type ExitError struct {
	// Program is what ran.
	Program string
	// Code is its exit code; -1 for one that was killed.
	Code int
	// Message is the last line that it printed to its standard error, or else to its
	// standard output.
	Message string
}

// Error returns one line.
func (e *ExitError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s: exit code %d", e.Program, e.Code)
	}
	return fmt.Sprintf("%s: %s (exit code %d)", e.Program, e.Message, e.Code)
}

// ExitCode returns the exit code of a command that failed with err, and whether it
// ran at all.
func ExitCode(err error) (int, bool) {
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code, true
	}
	return 0, false
}

// lastLine is what an error tells of what a command printed.
func lastLine(stderr, stdout []byte) string {
	for _, text := range [][]byte{stderr, stdout} {
		// A carriage return is how a line of progress is written over.
		lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
		for _, line := range slices.Backward(lines) {
			if line = strings.TrimSpace(strings.Map(printable, line)); line != "" {
				return cut(line, 300)
			}
		}
	}
	return ""
}

// printable keeps what could move a terminal's cursor, or hide other text, out of logs.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

func cut(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
