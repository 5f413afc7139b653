package hosttest_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
)

func expect(t *testing.T, about string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", about, got, want)
	}
}

func TestTheLatestHandlerThatFitsAnswers(t *testing.T) {
	var h hosttest.Host
	for _, words := range [][]string{{}, {"ip"}, {"ip", "*", "show"}, {"ip", "link"}, {"ip", "link", "add", "br0"}} {
		h.On(hosttest.Print(strings.Join(words, " ")), words...)
	}
	for args, want := range map[string]string{
		"tc": "", "ip": "ip", "ip addr": "ip", "ip addr show": "ip * show", "ip addr show eth0": "ip * show",
		"ip link show": "ip link", "ip link add br1": "ip link", "ip link add br0 up": "ip link add br0",
	} {
		out, err := h.Run(t.Context(), host.Look(strings.Fields(args)...))
		if err != nil || string(out.Stdout) != want {
			t.Errorf("%s: answered by %q, %v", args, out.Stdout, err)
		}
	}
}

func TestACommandThatNobodyKnowsIsNotFound(t *testing.T) {
	var h hosttest.Host
	_, err := h.Run(t.Context(), host.Do("ip", "a b"))
	if !errors.Is(err, errors.NotFound) || err.Error() != `program "ip" (no handler for ip "a b") not found` {
		t.Error(err)
	}
	if _, err := h.Run(t.Context(), host.Command{}); !errors.Is(err, errors.NotValid) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Run(ctx, host.Do("ip")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	expect(t, "log", h.Log(), `run ip "a b"`)
}

func TestExitFailsAsACommandDoes(t *testing.T) {
	var h hosttest.Host
	h.On(hosttest.Exit(3, "first\n last \n"), "ip")
	h.On(hosttest.Exit(1, ""), "false")
	out, err := h.Run(t.Context(), host.Do("ip"))
	if code, ran := host.ExitCode(err); code != 3 || !ran || err.Error() != "ip: last (exit code 3)" || string(out.Stderr) != "first\n last \n" {
		t.Error(err, out)
	}
	if _, err := h.Run(t.Context(), host.Do("false")); err == nil || err.Error() != "false: exit code 1" {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	var h hosttest.Host
	ctx := t.Context()
	h.SetFile("/etc/a", "one")
	content := []byte("two")
	for name, perm := range map[string]fs.FileMode{"/etc/a": 0o600, "/etc/sub/../b": 0o600} {
		if err := h.WriteFile(ctx, name, content, perm); err != nil {
			t.Fatal(err)
		}
	}
	content[0] = 'X'
	if got := h.Files(); len(got) != 2 || got["/etc/a"] != "two" || got["/etc/b"] != "two" {
		t.Error(got)
	}
	if h.Mode("/etc/a") != 0o644 || h.Mode("/etc/b") != 0o600 {
		t.Error("a file that was there keeps its permissions, and a new one has its own")
	}
	data, err := h.ReadFile(ctx, "/etc//a")
	if err != nil || string(data) != "two" {
		t.Fatalf("%q, %v", data, err)
	}
	data[0] = 'X'
	if got := h.Files()["/etc/a"]; got != "two" {
		t.Error("a reader has changed it")
	}
	if names, err := h.Glob(ctx, "/etc/*"); err != nil || strings.Join(names, " ") != "/etc/a /etc/b" {
		t.Error(names, err)
	}
	for range 2 {
		if err := h.Remove(ctx, "/etc/a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.ReadFile(ctx, "/etc/a"); !errors.Is(err, errors.NotFound) || err.Error() != `file "/etc/a" not found` {
		t.Error(err)
	}
	if got := h.Mode("/etc/a"); got != 0 {
		t.Error(got)
	}
	changes := h.Changes()
	slices.Sort(changes[:2]) // they came out of a map
	expect(t, "changes", changes, "write /etc/a", "write /etc/b", "remove /etc/a")
}

func TestWhatARealHostRefuses(t *testing.T) {
	var h hosttest.Host
	ctx := t.Context()
	_, readErr := h.ReadFile(ctx, "a")
	_, globErr := h.Glob(ctx, "*")
	_, patternErr := h.Glob(ctx, "/[")
	_, lockErr := h.LockHolder(ctx, "")
	for i, err := range []error{readErr, globErr, patternErr, lockErr, h.WriteFile(ctx, "./a", nil, 0o600), h.Remove(ctx, "a")} {
		if !errors.Is(err, errors.NotValid) {
			t.Errorf("%d: %v", i, err)
		}
	}
	expect(t, "log", h.Log())
}

func TestLocks(t *testing.T) {
	var h hosttest.Host
	look := func() *host.Process {
		t.Helper()
		p, err := h.LockHolder(t.Context(), "/lock")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := look(); p != nil {
		t.Error(p)
	}
	h.HoldLock("/lock", &host.Process{PID: 7, Name: "apt"})
	if p := look(); p == nil || p.PID != 7 {
		t.Error(p)
	}
	h.HoldLock("/lock", nil)
	if p := look(); p != nil {
		t.Error(p)
	}
	expect(t, "log", h.Log(), "look lock /lock", "look lock /lock", "look lock /lock")
	expect(t, "changes", h.Changes())
}

func TestACrashedHostAnswersNothing(t *testing.T) {
	ctx := t.Context()
	for n := range 4 {
		var h hosttest.Host
		h.SetFile("/old", "")
		h.On(hosttest.Print("ok"), "ip")
		h.CrashAfter(n)
		steps := []func() error{
			func() error { _, err := h.Run(ctx, host.Do("ip", "link", "add")); return err },
			func() error { return h.WriteFile(ctx, "/new", nil, 0o600) },
			func() error { return h.Remove(ctx, "/old") },
		}
		for i, step := range steps {
			if err := step(); (err == nil) != (i < n) || err != nil && !errors.Is(err, hosttest.ErrCrashed) {
				t.Errorf("crashing after %d: step %d: %v", n, i, err)
			}
		}
		_, readErr := h.ReadFile(ctx, "/new")
		_, runErr := h.Run(ctx, host.Look("ip"))
		_, globErr := h.Glob(ctx, "/*")
		_, lockErr := h.LockHolder(ctx, "/lock")
		for i, err := range []error{readErr, runErr, globErr, lockErr, h.Remove(ctx, "/none")} {
			// All three changes bring it to its end, too.
			if !errors.Is(err, hosttest.ErrCrashed) {
				t.Errorf("crashing after %d: look %d: %v", n, i, err)
			}
		}
		if got := len(h.Changes()); got != min(n, 3) {
			t.Errorf("crashing after %d: %q", n, h.Changes())
		}
		h.CrashAfter(-1)
		if _, err := h.Run(ctx, host.Do("ip")); err != nil {
			t.Error(err)
		}
	}
}

// Looking costs nothing.
func TestACrashCountsChangesAlone(t *testing.T) {
	var h hosttest.Host
	h.On(hosttest.Print("ok"), "ip")
	h.CrashAfter(1)
	for range 10 {
		if _, err := h.Run(t.Context(), host.Look("ip")); err != nil {
			t.Fatal(err)
		}
		if err := h.Remove(t.Context(), "/none"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAHandlerMayUseTheHostAndManyMayUseBoth(t *testing.T) {
	var h hosttest.Host
	h.On(func(ctx context.Context, cmd host.Command) (host.Output, error) {
		h.SetFile("/"+cmd.Args[1], string(cmd.Stdin))
		data, err := h.ReadFile(ctx, "/"+cmd.Args[1])
		h.On(hosttest.Print(""), "other", cmd.Args[1])
		return host.Output{Stdout: data}, err
	}, "put")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			name := fmt.Sprint(i)
			out, err := h.Run(t.Context(), host.Command{Args: []string{"put", name}, Stdin: []byte(name)})
			if err != nil || string(out.Stdout) != name {
				t.Errorf("%q, %v", out.Stdout, err)
			}
			_, _ = h.Files(), h.Log()
		})
	}
	wg.Wait()
	if got := len(h.Files()); got != 20 {
		t.Error(got)
	}
}

func TestContentsStayOutOfLogs(t *testing.T) {
	var h hosttest.Host
	h.SetFile("/etc/secret", "canary")
	h.On(hosttest.Print(""), "passwd")
	_, _ = h.Run(t.Context(), host.Command{Args: []string{"passwd"}, Stdin: []byte("canary"), Env: []string{"A=canary"}})
	for _, text := range []string{fmt.Sprint(&h), fmt.Sprintf("%+v", &h), strings.Join(h.Log(), "\n")} {
		if strings.Contains(text, "canary") {
			t.Error(text)
		}
	}
}

// bridge is what a test is about: it makes a bridge unless there is one.
func bridge(ctx context.Context, h host.Host) error {
	if _, err := h.Run(ctx, host.Look("ip", "link", "show", "br0")); err == nil {
		return nil
	}
	if err := h.WriteFile(ctx, "/etc/network/interfaces.d/br0", []byte("auto br0\n"), 0o644); err != nil {
		return err
	}
	_, err := h.Run(ctx, host.Do("ifup", "br0"))
	return err
}

func ExampleHost() {
	var machine hosttest.Host
	machine.On(hosttest.Exit(1, `Device "br0" does not exist.`), "ip", "link", "show")
	machine.On(func(context.Context, host.Command) (host.Output, error) {
		machine.On(hosttest.Print("7: br0: <UP>"), "ip", "link", "show", "br0")
		return host.Output{}, nil
	}, "ifup", "*")

	ctx := context.Background()
	fmt.Println(bridge(ctx, &machine), bridge(ctx, &machine))
	for _, line := range machine.Changes() {
		fmt.Println(line)
	}
	// Output:
	// <nil> <nil>
	// write /etc/network/interfaces.d/br0
	// run ifup br0
}

// Wherever the machine stops, the next run completes the work.
func ExampleHost_CrashAfter() {
	for n := 0; ; n++ {
		var machine hosttest.Host
		machine.On(hosttest.Exit(1, "no such device"), "ip", "link", "show")
		machine.On(hosttest.Print(""), "ifup")

		machine.CrashAfter(n)
		err := bridge(context.Background(), &machine)
		done := len(machine.Changes())
		machine.CrashAfter(-1)
		again := bridge(context.Background(), &machine)
		fmt.Printf("after %d: %v, then %v\n", done, err, again)
		if err == nil {
			break
		}
	}
	// Output:
	// after 0: the host crashed, then <nil>
	// after 1: the host crashed, then <nil>
	// after 2: <nil>, then <nil>
}
