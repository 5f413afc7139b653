//go:build unix

package host_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

func machine() host.Host { return host.New(host.Config{}) }

func sh(script string, args ...string) host.Command {
	return host.Do(append([]string{"sh", "-c", script, "sh"}, args...)...)
}

func TestRunReturnsWhatWasPrinted(t *testing.T) {
	cmd := sh(`cat; echo "$1 $KEY $LC_ALL $0" >&2`, "a  b; exit 3")
	cmd.Stdin, cmd.Env = []byte("in\n"), []string{"KEY=v=1", "KEY=2"}
	out, err := machine().Run(t.Context(), cmd)
	if err != nil || string(out.Stdout) != "in\n" || string(out.Stderr) != "a  b; exit 3 2 C.UTF-8 sh\n" {
		t.Fatalf("%q, %q, %v", out.Stdout, out.Stderr, err)
	}
}

func TestACommandHasTheAgentsEnvironmentAndItsOwn(t *testing.T) {
	t.Setenv("SUTLER_TEST", "outer")
	t.Setenv("SUTLER_TEST_OTHER", "kept")
	cmd := sh(`echo $SUTLER_TEST $SUTLER_TEST_OTHER`)
	cmd.Env = []string{"SUTLER_TEST=inner"}
	if out, err := machine().Run(t.Context(), cmd); err != nil || string(out.Stdout) != "inner kept\n" {
		t.Fatalf("%q, %v", out.Stdout, err)
	}
}

func TestNoInputIsAnEndAtOnce(t *testing.T) {
	if out, err := machine().Run(t.Context(), host.Do("cat")); err != nil || len(out.Stdout) != 0 {
		t.Fatalf("%q, %v", out.Stdout, err)
	}
}

// More than a pipe holds, to who does not want it.
func TestInputThatIsNotReadIsNoError(t *testing.T) {
	cmd := sh("exit 0")
	cmd.Stdin = bytes.Repeat([]byte("x"), 1<<20)
	if _, err := machine().Run(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
}

func TestNoSuchProgram(t *testing.T) {
	for _, prefix := range [][]string{nil, {"env"}, {"env", "A=b", "nice"}} {
		for _, name := range []string{"sutler-no-such-program", "/no/such/program"} {
			_, err := host.New(host.Config{Prefix: prefix}).Run(t.Context(), host.Do(name, "-v"))
			if want := fmt.Sprintf("program %q not found", name); !errors.Is(err, errors.NotFound) || err.Error() != want {
				t.Errorf("after %q: %v (want %s)", prefix, err, want)
			}
		}
	}
	_, err := host.New(host.Config{Prefix: []string{"sutler-no-such-prefix"}}).Run(t.Context(), host.Do("true"))
	if !errors.Is(err, errors.NotFound) || err.Error() != `program "sutler-no-such-prefix" not found` {
		t.Error(err)
	}
	// Without a prefix, 127 is a program's own business.
	_, err = machine().Run(t.Context(), sh("exit 127"))
	if code, ran := host.ExitCode(err); !ran || code != 127 {
		t.Error(err)
	}
}

func TestAFileThatIsNoProgram(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := machine().Run(t.Context(), host.Do(name))
	if _, ran := host.ExitCode(err); err == nil || ran || errors.Is(err, errors.NotFound) || !errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
}

func TestPrefixStandsBeforeEveryCommand(t *testing.T) {
	prefix := []string{"env", "PREFIXED=yes"}
	h := host.New(host.Config{Prefix: prefix})
	prefix[1] = "PREFIXED=changed later"
	out, err := h.Run(t.Context(), sh("echo $PREFIXED"))
	if err != nil || string(out.Stdout) != "yes\n" {
		t.Fatalf("%q, %v", out.Stdout, err)
	}
	// Errors speak of the command, not of its prefix.
	_, err = h.Run(t.Context(), sh("exit 4"))
	if err == nil || err.Error() != "sh: exit code 4" {
		t.Fatal(err)
	}
}

func TestAFailureTellsCodeAndLastLine(t *testing.T) {
	for _, test := range []struct{ about, script, want string }{
		{"silent", `exit 7`, "sh: exit code 7"},
		{"the last line of standard error", `echo out; echo one >&2; echo " two " >&2; echo >&2; exit 1`, "sh: two (exit code 1)"},
		{"or else of standard output", `echo one; echo two; echo " " >&2; exit 1`, "sh: two (exit code 1)"},
		{"killed", `kill -9 $$`, "sh: exit code -1"},
		{"progress written over", `printf '10%%\r20%%\rno space\r\n' >&2; exit 1`, "sh: no space (exit code 1)"},
		{"control characters", `printf 'a\033[31mb\tc\001\177\302\205d\n' >&2; exit 1`, "sh: a [31mb c   d (exit code 1)"},
		{"text that runs backwards", "printf 'a\u202eb' >&2; exit 1", "sh: a b (exit code 1)"},
		{"not UTF-8", `printf 'a\377b' >&2; exit 1`, "sh: a\ufffdb (exit code 1)"},
		{"long", `printf '%0400d' 1 >&2; exit 1`, "sh: " + strings.Repeat("0", 300) + "... (exit code 1)"},
	} {
		t.Run(test.about, func(t *testing.T) {
			out, err := machine().Run(t.Context(), sh(test.script))
			if err == nil || err.Error() != test.want {
				t.Fatalf("got  %v\nwant %s", err, test.want)
			}
			if strings.Contains(test.script, "echo out") && string(out.Stdout) != "out\n" {
				t.Fatalf("the output is lost: %q", out.Stdout)
			}
		})
	}
}

func TestInvalidCommandsAreNotRun(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	for _, env := range []string{"", "x", "=y"} {
		_, err := machine().Run(t.Context(), host.Command{Args: []string{"touch", mark}, Env: []string{env}})
		if !errors.Is(err, errors.NotValid) {
			t.Error(err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("run all the same")
	}
}

const much = `i=0; while [ $i -lt 40 ]; do printf '%065536d' 0; i=$((i+1)); done`

func TestHugeOutputIsBounded(t *testing.T) {
	out, err := machine().Run(t.Context(), sh(much+`; echo end; `+much+` >&2; echo; echo "no space left" >&2`))
	if err != nil || len(out.Stdout) != 1<<20 || len(out.Stderr) != 1<<20 {
		t.Fatal(len(out.Stdout), len(out.Stderr), err)
	}
	// What went wrong stands at the end.
	_, err = machine().Run(t.Context(), sh(much+` >&2; echo >&2; echo "no space left" >&2; exit 1`))
	if err == nil || err.Error() != "sh: no space left (exit code 1)" {
		t.Fatal(err)
	}
}

// What is read from half of a list would be wrong.
func TestALookThatIsCutShortIsAnError(t *testing.T) {
	cmd := sh(much)
	cmd.ReadOnly = true
	if _, err := machine().Run(t.Context(), cmd); err == nil || err.Error() != "sh: more than 1048576 bytes of output" {
		t.Fatal(err)
	}
	exactly := sh(`printf '%01048576d' 0`)
	exactly.ReadOnly = true
	if out, err := machine().Run(t.Context(), exactly); err != nil || len(out.Stdout) != 1<<20 {
		t.Fatal(len(out.Stdout), err)
	}
}

// family is a shell with a child and a grandchild, which print their numbers and stay.
const family = `sh -c 'sleep 1000 & echo $$ $!; wait' & echo $$; wait`

// gone tells whether a process has ended, if nobody has asked for its exit code, too.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func numbers(t *testing.T, text string) []int {
	t.Helper()
	var out []int
	for _, word := range strings.Fields(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func TestTheDeadlineEndsTheWholeFamily(t *testing.T) {
	// On a slow machine it takes a while until all have told their number.
	for timeout := 200 * time.Millisecond; ; timeout *= 2 {
		cmd := sh(family)
		cmd.Timeout = timeout
		out, err := machine().Run(t.Context(), cmd)
		if want := fmt.Sprintf("sh, after %s, timeout", timeout); !errors.Is(err, errors.Timeout) || err.Error() != want {
			t.Fatalf("%v (want %s)", err, want)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("the caller's own deadline has not passed")
		}
		pids := numbers(t, string(out.Stdout))
		for _, pid := range pids {
			eventually(t, fmt.Sprintf("%d is gone", pid), func() bool { return gone(pid) })
		}
		if len(pids) == 3 {
			return
		}
		if timeout > time.Minute {
			t.Fatalf("%q", out.Stdout)
		}
	}
}

func TestCancellingEndsTheWholeFamily(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := machine().Run(ctx, sh(`exec >"$1"; `+family, name))
		done <- err
	}()
	var pids []int
	eventually(t, "all have told their number", func() bool {
		text, _ := os.ReadFile(name)
		if strings.Count(string(text), "\n") < 2 {
			return false
		}
		pids = numbers(t, string(text))
		return true
	})
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) || err.Error() != "sh: context canceled" {
		t.Fatal(err)
	}
	if errors.Is(err, errors.Timeout) {
		t.Fatal(err)
	}
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("%d is gone", pid), func() bool { return gone(pid) })
	}
}

func TestTheContextsOwnDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := machine().Run(ctx, host.Do("sleep", "1000"))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errors.Timeout) {
		t.Fatal(err)
	}
}

func TestNothingIsStartedOnceTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mark := filepath.Join(t.TempDir(), "mark")
	if _, err := machine().Run(ctx, host.Do("touch", mark)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Fatal("run all the same")
	}
}

// A daemon that a command has left running is none of its failures, and goes on.
func TestACommandMayLeaveSomethingRunning(t *testing.T) {
	out, err := machine().Run(t.Context(), sh(`sleep 1000 & echo $!`))
	if err != nil {
		t.Fatal(err)
	}
	pid := numbers(t, string(out.Stdout))[0]
	if gone(pid) {
		t.Error("it was ended")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)

	// Nor does it hide one.
	out, err = machine().Run(t.Context(), sh(`sleep 1000 & echo $!; exit 5`))
	_ = syscall.Kill(numbers(t, string(out.Stdout))[0], syscall.SIGKILL)
	if code, ran := host.ExitCode(err); !ran || code != 5 {
		t.Fatal(err)
	}
}

func TestManyCommandsAtOnce(t *testing.T) {
	h := machine()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			out, err := h.Run(t.Context(), sh(`cat; exit $1`, strconv.Itoa(i)))
			if code, _ := host.ExitCode(err); code != i || len(out.Stdout) != 0 {
				t.Errorf("%d: %q, %v", i, out.Stdout, err)
			}
		})
	}
	wg.Wait()
}
