package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

func TestInvalidCommandsNameTheField(t *testing.T) {
	for _, test := range []struct {
		cmd  host.Command
		want string
	}{
		{host.Command{}, "command with empty Args not valid"},
		{host.Do(""), "command with empty Args not valid"},
		{host.Do("", "a"), "command with empty Args not valid"},
		{host.Do("ip", "a\x00b"), `command "ip": Args[1] with a zero byte not valid`},
		{host.Command{Args: []string{"ip"}, Env: []string{"A=1", "B"}}, `command "ip": Env[1] (want KEY=value) not valid`},
		{host.Command{Args: []string{"ip"}, Env: []string{"=1"}}, `command "ip": Env[0] (want KEY=value) not valid`},
		{host.Command{Args: []string{"ip"}, Env: []string{"A=secret\x00"}}, `command "ip": Env[0] (want KEY=value) not valid`},
		{host.Command{Args: []string{"ip"}, Timeout: -1}, `command "ip": negative Timeout not valid`},
	} {
		err := test.cmd.Validate()
		if !errors.Is(err, errors.NotValid) || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
	good := host.Command{Args: []string{"ip", "", "-4"}, Env: []string{"A=", "B=c=d"}, Timeout: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestACommandReadsAsOneWouldTypeIt(t *testing.T) {
	cmd := host.Command{
		Args:  []string{"lxc", "a b", "", "it's", "--x=/y", "new\nline", "\x1b[31m", "$HOME"},
		Stdin: []byte("canary-in"), Env: []string{"PASSWORD=canary-env"},
	}
	const want = `lxc "a b" "" "it's" --x=/y "new\nline" "\x1b[31m" "$HOME"`
	if got := cmd.String(); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if printed := fmt.Sprint(cmd); strings.Contains(printed, "canary") {
		t.Fatal(printed)
	}
}

func TestLines(t *testing.T) {
	out := host.Output{Stdout: []byte("\n one \n\n\ttwo\r\nthree"), Stderr: []byte("four")}
	if got := out.Lines(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Fatalf("%q", got)
	}
	if got := (host.Output{}).Lines(); got != nil {
		t.Fatalf("%q", got)
	}
}

func TestExitErrors(t *testing.T) {
	err := errors.Annotate(errors.Trace(&host.ExitError{Program: "ip", Code: 2, Message: "no such device"}), "moving routes")
	if want := "moving routes: ip: no such device (exit code 2)"; err.Error() != want {
		t.Error(err)
	}
	if code, ran := host.ExitCode(err); code != 2 || !ran {
		t.Error(code, ran)
	}
	if silent := (&host.ExitError{Program: "false", Code: 1}).Error(); silent != "false: exit code 1" {
		t.Error(silent)
	}
	for _, other := range []error{nil, errors.NotFoundf("program")} {
		if code, ran := host.ExitCode(other); code != 0 || ran {
			t.Error(other, code, ran)
		}
	}
}

func TestProcessesHaveNames(t *testing.T) {
	for want, p := range map[string]host.Process{
		"apt-get (process 12)": {PID: 12, Name: "apt-get"},
		"process 12":           {PID: 12},
		"a process that cannot be seen from here": {},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
