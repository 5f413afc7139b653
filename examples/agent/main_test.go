package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/examples/agent/internal/remote"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/process"
	"github.com/sutler-dev/sutler/provisioner"
)

const settings = "name: shop\nuuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\n"

// nowhere is a kubeconfig of a cluster that does not answer.
const nowhere = `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}],
clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]}`

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

	virtual := filepath.Join(dir, "settings")
	writeFile(t, filepath.Join(virtual, "model.yaml"), settings)
	writeFile(t, filepath.Join(virtual, "machine.yaml"), "id: 0\ncontainers: [lxd, kvm]\nsettings: {kvm: {kvm-emulation: perhaps}}\n")

	writeFile(t, filepath.Join(dir, "good", "model.yaml"), settings)
	writeFile(t, filepath.Join(dir, "kubeconfig"), nowhere)

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
		"malformed model":    {"--model TMP/malformed", 2, "agent: TMP/malformed: model.yaml:3: region: unknown key (want one of name, uuid, version, certificate-life)"},
		"no place for any":   {"--model TMP/blocked", 2, "agent: TMP/blocked: applications: cannot be read: not a directory"},
		"damaged state":      {"--model TMP/damaged", 2, "agent: TMP/damaged/.agent: ca.pem not valid"},
		"malformed machine":  {"--model TMP/machine", 2, "agent: TMP/machine: machine.yaml:2: containers: want types of containers, as in lxd: lower-case letters and digits, a letter first"},
		"damaged records":    {"--model TMP/records", 2, "agent: TMP/records/.agent: containers.yaml not valid"},
		"box of none":        {"box --dir TMP/none", 1, "agent: box: box.yaml not found"},
		"box alone":          {"box", 2, "agent: box: empty Dir not valid"},
		"report of none":     {"--model TMP/none --report", 1, "agent: no agent runs on TMP/none"},
		"report and another": {"--model x --report --debug", 2, "agent: --debug does not go with --report"},
		"listen anywhere":    {"--model TMP/none --listen :0", 2, `agent: --listen ":0" (want host:port, where the host is what operators reach)`},
		"listen everywhere":  {"--model TMP/none --listen 0.0.0.0:0", 2, `agent: --listen "0.0.0.0:0" (want host:port, where the host is what operators reach)`},
		"page for all":       {"--model TMP/none --page 0.0.0.0:80", 2, `agent: --page "0.0.0.0:80" (want a loopback address and a port, as in 127.0.0.1:8080: what is seen has no password)`},
		"page of a report":   {"--model x --report --page localhost:0", 2, "agent: --page does not go with --report"},
		"spans nowhere":      {"--model TMP/good --traces TMP/none/spans", 2, "agent: file of spans: open TMP/none/spans: no such file or directory"},
		"controller alone":   {"controller", 2, "agent: --model DIR is missing (agent --help tells more)"},
		"controller of none": {"controller --model TMP/none", 2, "agent: TMP/none: model.yaml: is not there"},
		"controller nowhere": {"controller --model TMP/none --listen x", 2, `agent: --listen "x" (want host:port, where the host is what operators reach)`},
		"install nowhere":    {"install", 2, "agent: install wants the path to copy this program to"},
		"install with more":  {"install a b", 2, "agent: install wants the path to copy this program to"},

		"host of what":       {"host", 2, "agent: host wants plan or undo (agent --help tells more)"},
		"host of no model":   {"host plan", 2, "agent: --model DIR is missing (agent --help tells more)"},
		"host and more":      {"host undo now --model x", 2, `agent: "now" is not understood (agent --help tells more)`},
		"host without any":   {"host plan --model TMP/good", 2, "agent: TMP/good: machine.yaml: lists neither lxd nor kvm: there is nothing to do to this machine"},
		"host of malformed":  {"host undo --model TMP/machine", 2, "agent: TMP/machine: machine.yaml:2: containers: want types of containers, as in lxd: lower-case letters and digits, a letter first"},
		"installs and joins": {"--model x --operators kubernetes --namespace ns --join one --leader-lease l --install-lxd", 2, "agent: --install-lxd does not go with --join: an agent that joins has no containers"},

		"emulates and joins": {"--model x --operators kubernetes --namespace ns --join one --leader-lease l --kvm-emulation", 2, "agent: --kvm-emulation does not go with --join: an agent that joins has no containers"},
		"emulates a report":  {"--model x --report --kvm-emulation", 2, "agent: --kvm-emulation does not go with --report"},
		"host kvm settings":  {"host plan --model TMP/settings", 2, `agent: plan: machine.yaml: settings: kvm: setting "kvm-emulation": value "perhaps" (want true or false) not valid`},

		"demo of pods":       {"demo --operators kubernetes", 2, "agent: --image is missing: that of operators"},
		"watching nothing":   {"watch-network", 2, `agent: watch-network: StateDir "" (want an absolute path of its own) not valid`},
		"demo of kvm":        {"demo --containers kvm", 2, "agent: --image is missing: that of the disk of virtual machines, from testbed/libvirt-guest"},
		"demo of kvm, more":  {"demo --containers kvm --image x --kubeconfig k", 2, "agent: --kubeconfig does not go with --containers kvm"},
		"demo of zones":      {"demo --containers zones", 2, `agent: --containers "zones" (want lxd or kvm, or nothing for boxes)`},
		"demo of both":       {"demo --containers lxd --operators kubernetes", 2, "agent: --operators does not go with --containers lxd"},
		"demo of vms":        {"demo --operators vms", 2, `agent: --operators "vms" (want processes or kubernetes)`},
		"demo and a cluster": {"demo --image x", 2, "agent: --image does not go with --operators processes"},
		"unknown operators":  {"--model x --operators vms", 2, `agent: --operators "vms" (want processes or kubernetes)`},
		"a cluster unasked":  {"--model x --namespace ns", 2, "agent: --namespace does not go with --operators processes"},
		"no namespace":       {"--model x --operators kubernetes", 2, "agent: --namespace is missing: the cluster's, for the model's operators"},
		"no image":           {"--model x --operators kubernetes --namespace ns", 2, "agent: --image is missing: that of operators"},
		"joining and image":  {"--model x --operators kubernetes --namespace ns --join one --leader-lease l --image i", 2, "agent: --listen and --image are the controller's, which is joined"},
		"joining alone":      {"--model x --operators kubernetes --namespace ns --join one", 2, "agent: --join and --leader-lease go together"},
		"leading alone":      {"--model x --operators kubernetes --namespace ns --leader-lease l", 2, "agent: --join and --leader-lease go together"},
		"joining as a path":  {"--model x --operators kubernetes --namespace ns --leader-lease l --join ../x", 2, `agent: --join "../x" (want a name, as of an application)`},
		"joining nobody":     {"--model TMP/good --operators kubernetes --namespace ns --leader-lease l --join one", 1, "agent: running controller not found"},
		"report of a path":   {"--model x --report --join ../x", 2, `agent: --join "../x" (want a name, as of an application)`},
		"no such kubeconfig": {"--model TMP/good --operators kubernetes --namespace ns --image i --kubeconfig TMP/none", 2, "agent: how to reach the cluster: stat TMP/none: no such file or directory"},

		"demo with a flag": {"demo --fast", 2, "agent: flag provided but not defined: -fast"},
		"operator alone":   {"operator", 2, "agent: operator: empty Dir not valid"},
		"operator of what": {"operator --dir TMP", 2, "agent: operator: empty application name not valid"},
		"operator of none": {"operator --dir TMP --application db", 1, "agent: operator: agent.conf not found"},
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

func TestClusterThatCannotBeMeantIsOneLine(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "model.yaml"), settings)
	writeFile(t, filepath.Join(dir, "kubeconfig"), nowhere)
	var stdout, stderr bytes.Buffer
	code := run([]string{
		"--model", dir, "--operators", "kubernetes", "--image", "i", "--kubeconfig", filepath.Join(dir, "kubeconfig"), "--namespace", "n_s",
	}, &stdout, &stderr)
	if got := stderr.String(); code != 2 || !strings.HasPrefix(got, `agent: operators as pods: Namespace "n_s"`) || strings.Count(got, "\n") != 1 {
		t.Errorf("got %d %q", code, got)
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
	logger := slog.New(slog.DiscardHandler)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	writeFile(t, kubeconfig, nowhere)
	cluster, err := openCluster(t.Context(), clusterOptions{kubeconfig: kubeconfig, namespace: "ns", lease: "l"},
		model.Settings{Name: "shop", UUID: "9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e"}, state.ControllerUUID(), logger)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := openOutside("shop", agentOptions{logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.close()
	p := parts{logger: logger, directory: directory{dir: dir, state: state}, operators: cluster.operators(), outside: seen.outside}
	onProcesses, withMachine := p, p
	onProcesses.operators = processOperators(dir, "agent", logger, new(atomic.Pointer[process.Manager]))
	withMachine.machine = &machineParts{id: "0"}
	for name, test := range map[string]struct {
		all  dependency.Manifolds
		want int
	}{
		"processes":  {manifolds(onProcesses), 5},
		"pods":       {manifolds(p), 5},
		"a machine":  {manifolds(withMachine), 7},
		"joined":     {joinedManifolds(p, p.operators.joined(dir), cluster.election("one", logger)), 6},
		"controller": {controllerManifolds(p.directory, logger), 3},
	} {
		if err := dependency.Validate(test.all); err != nil || len(test.all) != test.want {
			t.Errorf("%s: got %d manifolds, %v; want %d", name, len(test.all), err, test.want)
		}
		for manifold, m := range test.all {
			for _, input := range m.Inputs {
				if test.all[input].Output == nil {
					t.Errorf("%s: %s wants %s, which has no output", name, manifold, input)
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
	var a provisioner.AgentConfig
	var src remote.Source
	joined := operators{dataDir: "data", logDir: "log"}.joined("")
	for name, err := range map[string]error{
		"a clock for a controller":      output[*controller.Controller, facade.Applications](wall, &f),
		"a controller as a manager":     output[*controller.Controller, facade.Applications](&controller.Controller{}, &o),
		"a clock for a machine":         outputController(wall, &m),
		"a clock for applications":      outputController(wall, &f),
		"a controller for a manager":    outputController(&controller.Controller{}, &o),
		"a clock for a source":          outputController(wall, &src),
		"a clock for a joined one":      joined.Output(wall, &f),
		"a clock for an agent's config": joined.Output(wall, &a),
		"a joined one for a manager":    joined.Output(&remote.Controller{}, &o),
		"a controller for no interface": output[*controller.Controller, operator.Manager](&controller.Controller{}, &o),
	} {
		if err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if err := outputController(&controller.Controller{}, &f); err != nil || f == nil {
		t.Errorf("got %v, %v", f, err)
	}
	if err := outputController(&controller.Controller{}, &m); err != nil || m == nil {
		t.Errorf("got %v, %v", m, err)
	}
	if err := outputController(&controller.Controller{}, &src); err != nil || src == nil {
		t.Errorf("got %v, %v", src, err)
	}
	if err := joined.Output(&remote.Controller{}, &f); err != nil || f == nil {
		t.Errorf("got %v, %v", f, err)
	}
	if err := joined.Output(&remote.Controller{}, &a); err != nil || a.DataDir() != "data" || a.LogDir() != "log" {
		t.Errorf("got %v, %v", a, err)
	}
}
