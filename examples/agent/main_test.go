package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

const settings = "name: shop\nuuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\n"

// writeFile writes a file, and the directories that it is in.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsWrongIsOneLineAndAnExitCode(t *testing.T) {
	dir := t.TempDir()
	malformed := filepath.Join(dir, "malformed")
	writeFile(t, filepath.Join(malformed, "model.yaml"), settings+"region: x\n")
	blocked := filepath.Join(dir, "blocked")
	writeFile(t, filepath.Join(blocked, "model.yaml"), settings)
	writeFile(t, filepath.Join(blocked, "applications"), "")
	damaged := filepath.Join(dir, "damaged")
	writeFile(t, filepath.Join(damaged, "model.yaml"), settings)
	writeFile(t, filepath.Join(damaged, ".agent", "ca.pem"), "")

	machine := filepath.Join(dir, "machine")
	writeFile(t, filepath.Join(machine, "model.yaml"), settings)
	writeFile(t, filepath.Join(machine, "machine.yaml"), "id: 0\ncontainers: [LXD]\n")
	records := filepath.Join(dir, "records")
	writeFile(t, filepath.Join(records, "model.yaml"), settings)
	writeFile(t, filepath.Join(records, ".agent", "containers.yaml"), "containers: 3\n")

	for name, test := range map[string]struct {
		args string
		code int
		want string
	}{
		"no model":           {"", 2, "agent: --model DIR is missing (agent --help tells more)"},
		"unknown flag":       {"--report-all", 2, "agent: flag provided but not defined: -report-all"},
		"no directory":       {"--model", 2, "agent: flag needs an argument: -model"},
		"unknown argument":   {"--model x run", 2, `agent: "run" is not understood (agent --help tells more)`},
		"no such model":      {"--model TMP/none", 2, "agent: TMP/none: model.yaml: is not there"},
		"malformed model":    {"--model TMP/malformed", 2, "agent: TMP/malformed: model.yaml:3: region: unknown key (want one of name, uuid, version)"},
		"no place for any":   {"--model TMP/blocked", 2, "agent: TMP/blocked: applications: cannot be read: not a directory"},
		"damaged state":      {"--model TMP/damaged", 2, "agent: TMP/damaged/.agent: ca.pem not valid"},
		"malformed machine":  {"--model TMP/machine", 2, "agent: TMP/machine: machine.yaml:2: containers: want types of containers, as in lxd: lower-case letters and digits, a letter first"},
		"damaged records":    {"--model TMP/records", 2, "agent: TMP/records/.agent: containers.yaml not valid"},
		"box of none":        {"box --dir TMP/none", 1, "agent: box: box.yaml not found"},
		"box alone":          {"box", 2, "agent: box: empty Dir not valid"},
		"report of none":     {"--model TMP/none --report", 1, "agent: no agent runs on TMP/none"},
		"report and another": {"--model x --report --debug", 2, "agent: --report goes with --model alone"},
		"demo with a flag":   {"demo --fast", 2, "agent: flag provided but not defined: -fast"},
		"operator alone":     {"operator", 2, "agent: operator: empty Dir not valid"},
		"operator of what":   {"operator --dir TMP", 2, "agent: operator: empty application name not valid"},
		"operator of none":   {"operator --dir TMP --application db", 1, "agent: operator: agent.conf not found"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(strings.Fields(strings.ReplaceAll(test.args, "TMP", dir)), &stdout, &stderr)
			if want := strings.ReplaceAll(test.want, "TMP", dir) + "\n"; stderr.String() != want || code != test.code {
				t.Errorf("got %d %q\nwant %d %q", code, stderr.String(), test.code, want)
			}
			if stdout.Len() > 0 {
				t.Errorf("got output %q", stdout.String())
			}
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, args := range []string{"--help", "-h", "demo --help", "operator -h", "box --help"} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(args), &stdout, &stderr); code != 0 || stdout.String() != usage || stderr.Len() > 0 {
			t.Errorf("%s: got %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}

func TestManifoldsFitTogether(t *testing.T) {
	dir := t.TempDir()
	state, err := controller.OpenState(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	for n, machine := range map[int]*machineParts{5: nil, 7: {id: "0"}} {
		all := manifolds(parts{dir: dir, state: state, logger: slog.New(slog.DiscardHandler), machine: machine})
		if err := dependency.Validate(all); err != nil || len(all) != n {
			t.Errorf("got %d manifolds, %v; want %d", len(all), err, n)
		}
		for name, manifold := range all {
			for _, input := range manifold.Inputs {
				if all[input].Output == nil {
					t.Errorf("%s wants %s, which has no output", name, input)
				}
			}
		}
	}
}

func TestOutputsServeWhatTheProvisionerAsksFor(t *testing.T) {
	wall, err := enginevalue.Manifold[clock.Clock](clock.WallClock).Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Stop(wall) }()
	// Whatever else is asked for is an error, not a panic.
	var f facade.Applications
	var m facade.Machine
	var o operator.Manager
	for name, err := range map[string]error{
		"a clock for a controller":      output[*controller.Controller, facade.Applications](wall, &f),
		"a controller as a manager":     output[*controller.Controller, facade.Applications](&controller.Controller{}, &o),
		"a clock for a machine":         parts{}.outputController(wall, &m),
		"a clock for applications":      parts{}.outputController(wall, &f),
		"a controller for a manager":    parts{}.outputController(&controller.Controller{}, &o),
		"a controller for no interface": output[*controller.Controller, operator.Manager](&controller.Controller{}, &o),
	} {
		if err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if err := (parts{}).outputController(&controller.Controller{}, &f); err != nil || f == nil {
		t.Errorf("got %v, %v", f, err)
	}
	if err := (parts{}).outputController(&controller.Controller{}, &m); err != nil || m == nil {
		t.Errorf("got %v, %v", m, err)
	}
}
