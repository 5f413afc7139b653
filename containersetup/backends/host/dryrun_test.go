package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
)

func TestADryRunTakesWhatItTellsForDone(t *testing.T) {
	var machine hosttest.Host
	machine.SetFile("/etc/a.yaml", "a")
	machine.SetFile("/etc/b.yaml", "b")
	var told []string
	h := host.DryRun(&machine, func(line string) { told = append(told, line) })
	ctx := t.Context()

	read := func(name string) string {
		t.Helper()
		data, err := h.ReadFile(ctx, name)
		if errors.Is(err, errors.NotFound) {
			return "(none)"
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	list := func() string {
		t.Helper()
		names, err := h.Glob(ctx, "/etc/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	if read("/etc/a.yaml") != "a" || read("/etc/c.yaml") != "(none)" || list() != "/etc/a.yaml /etc/b.yaml" {
		t.Fatal("what is there is not seen")
	}
	content := []byte("new")
	do(h.WriteFile(ctx, "/etc/a.yaml", content, 0o600))
	content[0] = 'X' // it is the caller's own
	do(h.WriteFile(ctx, "/etc//c.yaml", nil, 0o644))
	do(h.WriteFile(ctx, "/etc/c.text", nil, 0o644))
	do(h.Remove(ctx, "/etc/./b.yaml"))
	do(h.Remove(ctx, "/etc/b.yaml"))
	do(h.Remove(ctx, "/etc/none"))
	if read("/etc/a.yaml") != "new" || read("/etc/b.yaml") != "(none)" || read("/etc/c.yaml") != "" {
		t.Error("what was told is not seen")
	}
	if got := list(); got != "/etc/a.yaml /etc/c.yaml" {
		t.Error(got)
	}
	do(h.Remove(ctx, "/etc/c.yaml"))
	do(h.WriteFile(ctx, "/etc/b.yaml", []byte("again"), 0o600))
	if got := list(); got != "/etc/a.yaml /etc/b.yaml" || read("/etc/b.yaml") != "again" {
		t.Error(got)
	}

	want := []string{
		"write /etc/a.yaml (3 bytes, 0600)", "write /etc//c.yaml (0 bytes, 0644)", "write /etc/c.text (0 bytes, 0644)",
		"remove /etc/./b.yaml", "remove /etc/c.yaml", "write /etc/b.yaml (5 bytes, 0600)",
	}
	if !slices.Equal(told, want) {
		t.Errorf("got  %q\nwant %q", told, want)
	}
	if changes := machine.Changes(); len(changes) != 0 {
		t.Errorf("the host was changed: %q", changes)
	}
}

func TestADryRunLooks(t *testing.T) {
	var machine hosttest.Host
	machine.On(hosttest.Print("2: eth0"), "ip", "link")
	machine.On(hosttest.Exit(1, "no"), "ip", "route")
	machine.HoldLock("/lock", &host.Process{PID: 7, Name: "apt"})
	var told []string
	h := host.DryRun(&machine, func(line string) { told = append(told, line) })

	if out, err := h.Run(t.Context(), host.Look("ip", "link", "show")); err != nil || string(out.Stdout) != "2: eth0" {
		t.Error(out, err)
	}
	if _, err := h.Run(t.Context(), host.Look("ip", "route")); err == nil {
		t.Error("a look that fails succeeds")
	}
	// Nothing that changes something is run, not even to see whether it is there.
	secret := host.Command{Args: []string{"passwd", "a b"}, Stdin: []byte("canary"), Env: []string{"P=canary"}}
	if out, err := h.Run(t.Context(), secret); err != nil || len(out.Stdout)+len(out.Stderr) != 0 {
		t.Error(out, err)
	}
	if p, err := h.LockHolder(t.Context(), "/lock"); err != nil || p == nil || p.PID != 7 {
		t.Error(p, err)
	}
	if want := []string{`run passwd "a b"`}; !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
	if log := machine.Log(); !slices.Equal(log, []string{"look ip link show", "look ip route", "look lock /lock"}) {
		t.Errorf("%q", log)
	}
}

func TestADryRunRefusesWhatTheHostWould(t *testing.T) {
	h := host.DryRun(&hosttest.Host{}, func(line string) { t.Errorf("told: %s", line) })
	_, readErr := h.ReadFile(t.Context(), "a")
	_, globErr := h.Glob(t.Context(), "/[")
	_, runErr := h.Run(t.Context(), host.Command{})
	for i, err := range []error{
		readErr, globErr, runErr, h.WriteFile(t.Context(), "a", nil, 0o600), h.Remove(t.Context(), "a"),
	} {
		if !errors.Is(err, errors.NotValid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// The function that is told need not mind being called by many.
func TestADryRunByMany(t *testing.T) {
	told := 0
	h := host.DryRun(&hosttest.Host{}, func(string) { told++ })
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			name := fmt.Sprintf("/file%d", i)
			_ = h.WriteFile(t.Context(), name, []byte(name), 0o600)
			if data, err := h.ReadFile(t.Context(), name); err != nil || string(data) != name {
				t.Errorf("%q, %v", data, err)
			}
			_, _ = h.Glob(t.Context(), "/file*")
			_, _ = h.Run(t.Context(), host.Do("true"))
			_ = h.Remove(t.Context(), name)
		})
	}
	wg.Wait()
	if told != 60 {
		t.Error(told)
	}
}

func ExampleDryRun() {
	var machine hosttest.Host // or host.New(host.Config{})
	machine.On(hosttest.Print("nothing there"), "ip", "link", "show", "br0")

	dry := host.DryRun(&machine, func(line string) { fmt.Println(line) })
	ctx := context.Background()
	out, _ := dry.Run(ctx, host.Look("ip", "link", "show", "br0"))
	fmt.Printf("seen: %s\n", out.Stdout)
	_, _ = dry.Run(ctx, host.Do("ip", "link", "add", "br0", "type", "bridge"))
	_ = dry.WriteFile(ctx, "/etc/network/interfaces.d/br0", []byte("auto br0\n"), 0o644)
	// Output:
	// seen: nothing there
	// run ip link add br0 type bridge
	// write /etc/network/interfaces.d/br0 (9 bytes, 0644)
}
