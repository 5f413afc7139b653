package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is for a command on a machine that is busy with much else.
const patience = 10 * time.Minute

// How a command of the documentation is known to work.
type proof struct {
	by proving
	// detail is the folder to run it in, the step of CI that runs it, what of the
	// test bed it needs, or the reason.
	detail string
}

type proving string

const (
	// ran: by TestCommandsRun, in a folder of the repository.
	ran proving = "run"
	// played: by TestTheAgentsReadmeIsPlayed.
	played proving = "played"
	// newModule: by TestAModuleOfItsOwn, in an empty folder.
	newModule proving = "in a new module"
	// ci: a line of .ci/run, or of what that calls, has it.
	ci proving = "by CI"
	// testbed: by TestCommandsRun, when that part of the test bed is up.
	testbed proving = "on the test bed"
	// agentFlags: it needs a cluster or host of the user's own, so TestFlagsAreKnown
	// looks at its flags only.
	agentFlags proving = "flags"
	// there: a target of make, which is too much for a test, and which is there.
	there proving = "make -n"
	// own: it needs a cluster or host of the user's own.
	own proving = "by nobody"
)

// proofs has every command that a page of the documentation shows.
var proofs = map[string]proof{
	"make test":            {ci, ".ci/run: make test"},
	"make testbed":         {ci, ".ci/run: make testbed"},
	"make demo":            {ci, ".ci/run: make demo"},
	"make demo-kubernetes": {ci, ".ci/run: make demo-kubernetes"},
	"make demo-lxd":        {ci, ".ci/run: make demo-lxd"},
	"make demo-kvm":        {ci, ".ci/run: make demo-kvm"},
	"testbed/up":           {ci, "Makefile: testbed/up"},
	"testbed/down":         {ci, "Makefile: testbed/down"},
	"testbed/in-node go test ./operator/kubernetes/kubetest -run RealPod": {ci, ".ci/run: make test-node"},
	"testbed/lxd-up --state /tmp/x":                                       {ci, "examples/agent/demo-lxd: testbed/lxd-up --state"},
	"testbed/libvirt-up --state /tmp/x":                                   {ci, "examples/agent/demo-kvm: testbed/libvirt-up --state"},
	"testbed/libvirt-guest":                                               {ci, "testbed/up: ./libvirt-guest"},

	"make bench": {there, "takes many minutes"},
	"go test ./provisioner -run '^$' -bench . -benchmem": {own, "takes minutes; the second of its kind runs"},
	"go test ./provisioner -run 'Throughput|Settled' -v": {ran, "."},

	"go mod tidy":                                                 {newModule, ""},
	"go mod init example.com/agent":                               {newModule, ""},
	"go get github.com/sutler-dev/sutler":                         {newModule, ""},
	"go get github.com/sutler-dev/sutler/operator/kubernetes":     {newModule, ""},
	"go get github.com/sutler-dev/sutler/containersetup/backends": {newModule, ""},
	"go get github.com/sutler-dev/sutler/observe":                 {newModule, ""},
	"go test -race -count=5 -run TestManagerPasses ./guides":      {ran, "examples"},
	"go test -race -count=5 -run TestBackendPasses ./guides":      {ran, "examples"},

	"go build -C examples -o ../agent ./agent":                                                      {played, ""},
	"mkdir -p shop/applications/db/charm":                                                           {played, ""},
	`printf 'name: shop\nuuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\n' > shop/model.yaml`:           {played, ""},
	`printf 'name: mariadb-k8s\nseries: [kubernetes]\n' > shop/applications/db/charm/metadata.yaml`: {played, ""},
	`printf 'life: alive\n' > shop/applications/db/application.yaml`:                                {played, ""},
	"./agent --model shop": {played, ""},
	`printf 'id: 0\ncontainers: [zone, box]\n' > shop/machine.yaml`: {played, ""},
	"touch shop/containers/0-box-0.yaml":                            {played, ""},

	"curl --silent --unix-socket shop/.agent/introspection.sock http://localhost/metrics | grep '^sutler_operator_applications{'": {played, ""},
	"curl --silent --unix-socket shop/.agent/introspection.sock 'http://localhost/report?format=json'":                            {played, ""},
	"curl --silent --unix-socket shop/.agent/introspection.sock http://localhost/ready":                                           {played, ""},

	"testbed/kubectl get nodes":                    {testbed, "kubernetes"},
	"testbed/in-node testbed/kubectl get pods -A":  {testbed, "kubernetes-node"},
	"/tmp/sutler-testbed-0/node/ctr containers ls": {testbed, "kubernetes-node"},
	"testbed/in-lxd lxc list":                      {testbed, "lxd"},
	"testbed/in-libvirt virsh list --all":          {testbed, "kvm"},

	"./agent --model shop --page 127.0.0.1:8080": {agentFlags, "the port may be taken"},
	"./agent --model shop --operators kubernetes --namespace shop --image registry.example.com/agent:1 --listen 10.0.0.5:0": {agentFlags, "a cluster, and an image in a registry"},
	"./agent controller --model shop --listen 10.0.0.5:0 --image registry.example.com/agent:1":                              {agentFlags, "a cluster, and an image in a registry"},
	"./agent --model shop --join one --leader-lease agents --operators kubernetes --namespace shop":                         {agentFlags, "a cluster"},
	"./agent --model shop --join two --leader-lease agents --operators kubernetes --namespace shop":                         {agentFlags, "a cluster"},
	"./agent --model shop --join two --report":                                                                              {agentFlags, "a cluster"},
	"sudo ./agent host plan --model shop":                                                                                   {agentFlags, "root, on a host of the user's own; make demo-lxd does it in a namespace"},
	"sudo ./agent host plan --model shop --kvm-emulation":                                                                   {agentFlags, "root, on a host of the user's own; make demo-kvm does it in a namespace"},
	"sudo ./agent --model shop":                 {agentFlags, "root, on a host of the user's own"},
	"sudo ./agent --model shop --kvm-emulation": {agentFlags, "root, on a host of the user's own"},

	"kubectl create namespace shop":                                {own, "a cluster of the user's"},
	"kubectl -n shop get statefulsets,pods,services,secrets":       {own, "a cluster of the user's"},
	`printf 'id: 0\ncontainers: [lxd]\n' > shop/machine.yaml`:      {own, "an LXD of the user's; make demo-lxd plays the like"},
	`printf 'base: ubuntu@24.04\n' > shop/containers/0-lxd-0.yaml`: {own, "fetches an image from the internet"},
	"lxc list": {own, "an LXD of the user's"},
	`printf 'id: 0\ncontainers: [kvm]\n' > shop/machine.yaml`:                                                          {own, "a libvirt of the user's; make demo-kvm plays the like"},
	"disk=$(testbed/libvirt-guest)/disk.qcow2":                                                                         {own, "a libvirt of the user's; make demo-kvm plays the like"},
	`printf 'image: %s\nimage-sha256: %s\n' $disk $(sha256sum < $disk | cut -d' ' -f1) > shop/containers/0-kvm-0.yaml`: {own, "a libvirt of the user's; make demo-kvm plays the like"},
	"virsh -c qemu:///system list":                                                                                     {own, "a libvirt of the user's"},
	"sudo cat /var/lib/libvirt/images/sutler/juju-1c2d3e-0-kvm-0-console.log":                                          {own, "a libvirt of the user's"},
	"netplan apply":               {own, "would change this machine's network; hostnet's tests do, in a namespace"},
	"ifdown br-eth0 && ifup eth0": {own, "would change this machine's network; hostnet's tests do, in a namespace"},
}

// command is one that a page shows.
type command struct {
	page  string
	line  int
	block int // of the page
	text  string
	// output are the lines below it in a console.
	output []string
}

var remark = regexp.MustCompile(`\s+# .*$`)

// commands are those of a page's shell blocks.
func (p page) commands() []command {
	var out []command
	for n, b := range p.blocks {
		if b.language != "sh" && b.language != "console" {
			continue
		}
		for i, line := range strings.Split(strings.TrimRight(b.text, "\n"), "\n") {
			text, prompt := strings.CutPrefix(line, "$ ")
			if b.language == "console" && !prompt {
				if last := len(out) - 1; last >= 0 && out[last].block == n {
					out[last].output = append(out[last].output, line)
				}
				continue
			}
			text = strings.TrimSpace(remark.ReplaceAllString(text, ""))
			if text != "" && !strings.HasPrefix(text, "#") {
				out = append(out, command{page: p.path, line: b.line + 1 + i, block: n, text: text})
			}
		}
	}
	return out
}

func allCommands(t *testing.T) []command {
	t.Helper()
	var out []command
	for _, p := range readPages(t) {
		out = append(out, p.commands()...)
	}
	return out
}

func TestEveryCommandIsProven(t *testing.T) {
	unused := map[string]bool{}
	for text := range proofs {
		unused[text] = true
	}
	for _, c := range allCommands(t) {
		if _, ok := proofs[c.text]; !ok {
			t.Errorf("%s:%d: how is it known that this works? Add it to proofs:\n\t%s", c.page, c.line, c.text)
		}
		delete(unused, c.text)
	}
	for text := range unused {
		t.Errorf("no page shows %q any more", text)
	}
}

func TestCIRunsWhatItIsSaidToRun(t *testing.T) {
	for text, p := range proofs {
		switch p.by {
		case ci:
			file, line, _ := strings.Cut(p.detail, ": ")
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(`(?m)(^|[\s@&;])` + regexp.QuoteMeta(line) + `($|[\s;])`).Match(data) {
				t.Errorf("%s: %s has no line with %q", text, file, line)
			}
			first, rest, _ := strings.Cut(text, " ")
			if first == "make" {
				makes(t, strings.Fields(rest)...)
			} else if info, err := os.Stat(filepath.Join(root, first)); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s: there is no such program: %v", text, err)
			}
		case there:
			makes(t, strings.Fields(strings.TrimPrefix(text, "make "))...)
		case own, agentFlags:
			if p.detail == "" {
				t.Errorf("%s: no reason is given", text)
			}
		}
	}
}

var makeSpan = regexp.MustCompile(`^make ([a-z][a-z-]*)\b`)

// Targets of make that are named in passing have to be there as well.
func TestMakeTargetsAreThere(t *testing.T) {
	named := map[string]bool{}
	for _, p := range readPages(t) {
		for _, s := range p.spans() {
			if m := makeSpan.FindStringSubmatch(s.target); m != nil {
				named[m[1]] = true
			}
		}
	}
	if len(named) < 5 {
		t.Errorf("only %d targets are named: is this test still looking?", len(named))
	}
	for target := range named {
		makes(t, target)
	}
}

func makes(t *testing.T, arguments ...string) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		require(t, "make", err)
		return
	}
	if out, err := shell(t, root, "make -n "+strings.Join(arguments, " ")); err != nil {
		t.Errorf("make -n %q: %v\n%s", arguments, err, out)
	}
}

func TestCommandsRun(t *testing.T) {
	for _, c := range uniqueCommands(t) {
		p := proofs[c.text]
		switch p.by {
		case ran:
			t.Run(c.text, func(t *testing.T) {
				if testing.Short() {
					t.Skip("not in a short run")
				}
				if out, err := shell(t, filepath.Join(root, p.detail), c.text); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		case testbed:
			t.Run(c.text, func(t *testing.T) {
				if !isUp(p.detail) {
					require(t, p.detail, nil)
					return
				}
				text := strings.Replace(c.text, "/tmp/sutler-testbed-0", stateDir(), 1)
				// Whatever other cluster KUBECONFIG names, this is about the test bed.
				out, err := shell(t, root, text, "KUBECONFIG=")
				if err != nil && strings.HasPrefix(out, "testbed: no ") {
					require(t, p.detail, err) // it was there, and has died
				}
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// uniqueCommands leaves out repetitions.
func uniqueCommands(t *testing.T) []command {
	t.Helper()
	var out []command
	for _, c := range allCommands(t) {
		if !slices.ContainsFunc(out, func(o command) bool { return o.text == c.text }) {
			out = append(out, c)
		}
	}
	return out
}

func stateDir() string {
	if dir := os.Getenv("SUTLER_TESTBED_STATE"); dir != "" {
		return dir
	}
	return fmt.Sprintf("/tmp/sutler-testbed-%d", os.Getuid())
}

// isUp tells whether a part of the test bed was started, and not stopped.
func isUp(part string) bool {
	file := map[string]string{
		"kubernetes": "k8s/admin.kubeconfig", "kubernetes-node": "node/pid", "lxd": "lxd/pid", "kvm": "libvirt/pid",
	}[part]
	_, err := os.Stat(filepath.Join(stateDir(), file))
	return err == nil
}

// require fails the test where what it lacks has to be there, and skips it else.
func require(t *testing.T, name string, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SUTLER_REQUIRE"), ","), name) {
		t.Fatalf("%s is required and not there: %v", name, err)
	}
	t.Skipf("%s is not there; of the test bed, make testbed starts what it can", name)
}

// shell runs a command as a reader would, and returns all that it says.
func shell(t *testing.T, dir, text string, env ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// Whoever follows the guide begins in an empty folder, and gets the modules from a proxy.
// Here that is a folder which has this checkout as their only version.
func TestAModuleOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("not in a short run")
	}
	proxy, dir := t.TempDir(), t.TempDir()
	for _, module := range []string{"", "operator/kubernetes", "containersetup/backends", "observe"} {
		publish(t, proxy, module)
	}
	settings, err := shell(t, dir, "go env GOMODCACHE GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	cache, ambient, _ := strings.Cut(strings.TrimSpace(settings), "\n")
	env := []string{
		"GOWORK=off",
		// A cache of its own, since that version is another one each time; what
		// was downloaded before need not be again.
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw",
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download," + ambient,
		"GONOSUMDB=github.com/sutler-dev",
	}
	must := func(text string) {
		t.Helper()
		if out, err := shell(t, dir, text, env...); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, out)
		}
	}
	const initialise, tidy = "go mod init example.com/agent", "go mod tidy"
	must(initialise)
	for text, p := range proofs {
		if p.by == newModule && text != initialise && text != tidy {
			must(text)
		}
	}
	write(t, dir, "main.go", `package main

import (
	"fmt"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/provisioner"
)

func main() {
	_, err := provisioner.New(provisioner.Config{})
	fmt.Println(err)
	_, err = containersetup.New(containersetup.Config{})
	fmt.Println(err)
}
`)
	must(tidy)
	out, err := shell(t, dir, "go run .", env...)
	const want = "operator provisioner config: nil Facade not valid\ncontainer setup config: nil Facade not valid\n"
	if err != nil || out != want {
		t.Errorf("go run: %v\n%s\nwant\n%s", err, out, want)
	}
}

func TestCommandsOfAPageAreFound(t *testing.T) {
	p, err := parsePage("x.md", []byte("```console\n$ one --a 'b # c'   # remark\nout\n$ two\n```\n```sh\n# nothing\nthree | four\n\n```\n```go\nfive()\n```\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range p.commands() {
		got = append(got, c.text+strings.Join(c.output, ";"))
	}
	if want := []string{"one --a 'b", "two", "three | four"}; !slices.Equal(got[1:], want[1:]) || !strings.HasPrefix(got[0], want[0]) || !strings.HasSuffix(got[0], "out") {
		t.Errorf("commands: %q", got)
	}
}
