package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest"
)

func plainCell(_ row, _ int, cell string) string { return cell }

func TestTableIsAligned(t *testing.T) {
	rows := []row{
		{application: "db", life: "alive", state: "settled", operator: "active"},
		{application: "a-long-name", life: "dying", state: "failed", attempts: 12, operator: "-", lastError: "no\nluck"},
	}
	got := renderTable(rows, 200, plainCell)
	want := []string{
		"APPLICATION  LIFE   STATE    ATTEMPTS  OPERATOR  LAST ERROR",
		"db           alive  settled  -         active    -",
		"a-long-name  dying  failed   12        -         no luck",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTableIsNeverWiderThanTheTerminal(t *testing.T) {
	rows := []row{{application: "db", life: "alive", state: "failed", operator: "-", lastError: strings.Repeat("ü", 300)}}
	for width := range 120 {
		for _, line := range renderTable(rows, width, plainCell) {
			if n := utf8.RuneCountInString(line); n > width {
				t.Fatalf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
}

func TestPlainScreenWritesALineForWhatChanged(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	db := row{application: "db", life: "alive", state: "failed", attempts: 1, operator: "-", lastError: "why"}
	s.table([]row{db}, nil)
	db.attempts = 2 // is no news
	s.table([]row{db}, nil)
	db.state, db.lastError, db.operator = settled, "", "active"
	s.table([]row{db}, nil)
	s.table(nil, nil)
	s.clear()
	want := `      db             alive    failed         -          why
      db             alive    settled        active
      db             is gone
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestContainersHaveATableOfTheirOwn(t *testing.T) {
	rows := []containerRow{
		{"0/box/0", "alive", "running", "juju-1c2d3e-0-box-0", ""},
		{"0/lxd/0", "dying", "error", "", "not here"},
	}
	got := renderTable(rows, 200, func(_ containerRow, _ int, cell string) string { return cell })
	want := []string{
		"CONTAINER  LIFE   STATE    INSTANCE             MESSAGE",
		"0/box/0    alive  running  juju-1c2d3e-0-box-0  -",
		"0/lxd/0    dying  error    -                    not here",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	var out bytes.Buffer
	s := newScreen(&out)
	s.table(nil, rows)
	s.table(nil, rows)
	s.table(nil, rows[:1])
	const plain = `      0/box/0        alive    running        juju-1c2d3e-0-box-0
      0/lxd/0        dying    error          -                    not here
      0/lxd/0        is gone
`
	if out.String() != plain {
		t.Errorf("got\n%s\nwant\n%s", out.String(), plain)
	}

	out.Reset()
	s = newScreen(&out)
	s.live, s.colour = true, true
	s.table([]row{{application: "db", life: "alive", state: settled}}, rows)
	if s.drawn != len(s.lines()) || s.drawn != 9 {
		t.Errorf("drew %d lines of %d", s.drawn, len(s.lines()))
	}
	for _, want := range []string{"\x1b[32mrunning", "\x1b[31merror", "\x1b[33mdying", "CONTAINER", "APPLICATION"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
}

func TestLiveScreenErasesWhatItDrew(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	s.live = true
	rows := []row{{application: "db", life: "alive", state: settled, operator: "active"}}
	s.now("a step")
	s.table(rows, nil)
	drawn := s.drawn
	if drawn != len(s.lines()) || drawn < 4 {
		t.Fatalf("drew %d lines", drawn)
	}
	out.Reset()
	s.table(slices.Clone(rows), nil)
	if out.Len() > 0 {
		t.Errorf("drawn again without a change: %q", out.String())
	}
	s.say("a line")
	if got := out.String(); !strings.HasPrefix(got, "\x1b[5A\r\x1b[Ja line\n") || drawn != 5 {
		t.Errorf("got %q after %d lines", got, drawn)
	}
	if strings.Contains(out.String(), "\x1b[3") {
		t.Errorf("coloured: %q", out.String())
	}
	out.Reset()
	s.colour = true
	s.say("a line")
	if !strings.Contains(out.String(), "\x1b[32msettled") {
		t.Errorf("not coloured: %q", out.String())
	}
	s.clear()
	if s.drawn != 0 {
		t.Error("the table is left")
	}
}

func TestViewTellsRowsFromTheReport(t *testing.T) {
	v, err := parseView([]byte(`
manifolds:
  controller:
    report:
      problems: ["applications/broken/application.yaml:2: no"]
      applications:
        db: {life: alive, format: 1, provisioning: provisioned, operator: {status: active, logins: 2}}
        new: {life: alive, format: 1}
        web: {life: alive, format: 2}
        old: {life: dying, format: 1, operator: {status: active}}
        broken: {life: unknown, error: no}
      containers:
        0/lxd/0: {life: alive, state: error, message: why}
        0/box/0: {life: alive, state: running, instance: i, addresses: [192.0.2.2/24]}
        0/box/1: {life: unknown, state: pending, error: "containers/0-box-1.yaml:2: no", message: old}
  operator-provisioner:
    report:
      totals: {failed: 1}
      applications:
      - {name: broken, state: failed, attempts: 3, error: "no, really"}
      - {name: going, state: waiting}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []row{
		{"broken", "unknown", "failed", 3, "-", "no, really"},
		{"db", "alive", settled, 0, "active", ""},
		{"going", "gone", "waiting", 0, "-", ""},
		{"new", "alive", "-", 0, "-", ""},
		{"old", "dying", settled, 0, "active", ""},
		{"web", "alive", "not ours (v2)", 0, "-", ""},
	}
	if got := v.rows(); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	containers := []containerRow{
		{"0/box/0", "alive", "running", "i", ""},
		{"0/box/1", "unknown", "pending", "", "containers/0-box-1.yaml:2: no"},
		{"0/lxd/0", "alive", "error", "", "why"},
	}
	if got := v.containerRows(); !slices.Equal(got, containers) {
		t.Errorf("got  %v\nwant %v", got, containers)
	}
	if v.container("0/box/0").Addresses[0] != "192.0.2.2/24" || v.container("0/box/9").Life != "" {
		t.Errorf("got %+v", v.container("0/box/0"))
	}
	if v.failed() != 1 || len(v.problems()) != 1 {
		t.Errorf("got %d failed, problems %v", v.failed(), v.problems())
	}
	if _, err := parseView([]byte("[")); err == nil {
		t.Error("want an error")
	}
}

func TestDemoOfAnAgentThatDiesFailsAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	program := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho last words\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Run(t.Context(), Config{Program: program, Out: &out})
	if err == nil || !strings.Contains(err.Error(), "the agent ended: exit status 3") {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"FAIL", "14 more not played", "last words"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "PASS") {
		t.Errorf("something passed:\n%s", out.String())
	}
	checkEmpty(t, tmp)
}

func TestDemoOfPodsLeavesNoNamespace(t *testing.T) {
	c := kubetest.Need(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	program := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho $*\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cluster := &Cluster{Kubeconfig: c.Kubeconfig(t), Image: "registry.example/agent:1", Listen: "192.0.2.1:0"}
	var out bytes.Buffer
	err := Run(t.Context(), Config{Program: program, Out: &out, Cluster: cluster})
	if err == nil || !strings.Contains(err.Error(), "the agent ended: exit status 3") {
		t.Errorf("got %v", err)
	}
	_, text, _ := strings.Cut(out.String(), "pods in ")
	namespace, _, _ := strings.Cut(text, ",")
	want := "--operators kubernetes --namespace " + namespace + " --kubeconfig " + cluster.Kubeconfig +
		" --image registry.example/agent:1 --listen 192.0.2.1:0 --model "
	if !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
	if _, err := c.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace %q: %v", namespace, err)
	}
	checkEmpty(t, tmp)
}

func TestDemoWithoutItsClusterLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	cluster := &Cluster{Kubeconfig: filepath.Join(t.TempDir(), "none")}
	if err := Run(t.Context(), Config{Out: &bytes.Buffer{}, Cluster: cluster}); err == nil || !strings.Contains(err.Error(), "how to reach the cluster") {
		t.Errorf("got %v", err)
	}
	checkEmpty(t, tmp)
}

func TestWhatIsLeftInANamespaceIsSeen(t *testing.T) {
	c := kubetest.Need(t)
	p, err := newPods(t.Context(), Cluster{Kubeconfig: c.Kubeconfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.clear(t.Context())
	kubetest.Eventually(t, "an empty namespace", func() error {
		left, err := p.left(t.Context())
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %v", left)
		}
		return err
	})
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "db-operator"}}
	if _, err := p.client.CoordinationV1().Leases(p.namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, err := p.left(t.Context()); err != nil || !slices.Equal(left, []string{"leases/db-operator"}) {
		t.Errorf("got %v, %v", left, err)
	}
	if err := p.empty(t.Context(), "db"); err == nil || err.Error() != "db has left leases/db-operator" {
		t.Errorf("got %v", err)
	}
	if err := p.empty(t.Context(), "web"); err != nil {
		t.Errorf("got %v", err)
	}
	if _, err := p.operator(t.Context(), "db"); err == nil || err.Error() != "db has 0 pods, want one" {
		t.Errorf("got %v", err)
	}
}

func TestDemoOfLXDWantsOneThatIsThereForIt(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for dir, want := range map[string]string{
		"":                                 "no LXD_DIR: this demo is for an LXD of the test bed (make demo-lxd)",
		filepath.Join(t.TempDir(), "none"): "no such file or directory",
	} {
		t.Setenv("LXD_DIR", dir)
		var out bytes.Buffer
		if err := Run(t.Context(), Config{Out: &out, LXD: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if out.Len() > 0 {
			t.Errorf("got %s", out.String())
		}
	}
	checkEmpty(t, tmp)
}

func TestDemoOfKVMWantsALibvirtThatIsThereForIt(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for uri, want := range map[string]string{
		"":               "no LIBVIRT_DEFAULT_URI: this demo is for a libvirt of the test bed (make demo-kvm)",
		"qemu:///system": "the image of the disk: open /none: no such file or directory",
	} {
		t.Setenv("LIBVIRT_DEFAULT_URI", uri)
		var out bytes.Buffer
		if err := Run(t.Context(), Config{Out: &out, Disk: "/none"}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if out.Len() > 0 {
			t.Errorf("got %s", out.String())
		}
	}
	checkEmpty(t, tmp)
}

func TestRulesThatDoNothingAreNotOfAccount(t *testing.T) {
	const own = `table inet mine {
	chain in {
		type filter hook input priority filter; policy accept;
		tcp dport 22 counter packets 7 bytes 300 accept
	}
}
`
	const empty = `# Warning: table ip filter is managed by iptables-nft, do not touch!
table ip filter {
	chain LIBVIRT_INP {
	}

	chain INPUT {
		type filter hook input priority filter; policy accept;
		counter packets 1 bytes 40 jump LIBVIRT_INP
	}
}
`
	const want = "table inet mine { chain in { tcp dport 22 accept\n"
	if got := rulesOf(own); got != want {
		t.Errorf("got %q", got)
	}
	if got := rulesOf(own + empty); got != want {
		t.Errorf("got %q", got)
	}
	used := strings.Replace(empty, "LIBVIRT_INP {\n", "LIBVIRT_INP {\n\t\tiifname \"virbr0\" udp dport 53 counter packets 0 bytes 0 accept\n", 1)
	if got := rulesOf(used); got != "table ip filter { chain LIBVIRT_INP { iifname \"virbr0\" udp dport 53 accept\n" {
		t.Errorf("got %q", got)
	}
}

func TestConsoleIsReadByItsLines(t *testing.T) {
	got := linesWith([]byte("guest: hostname a\r\n[ 1.0] x\r\nguest: hostname b\nguest: hostnames\nguest: host"), "guest: hostname")
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
}

func TestMachineThatLooksDifferentIsToldByALine(t *testing.T) {
	before := looks{"routes": "default via a\nb dev c\n", packages: "one 1\ntwo 2\n"}
	for name, test := range map[string]struct {
		now  looks
		want string
	}{
		"the same":        {looks{"routes": before["routes"], packages: before[packages]}, ""},
		"a new route":     {looks{"routes": before["routes"] + "x dev y\n", packages: before[packages]}, `routes: new is "x dev y"`},
		"a missing route": {looks{"routes": "b dev c\n", packages: before[packages]}, `routes: missing is "default via a"`},
		"another order":   {looks{"routes": "b dev c\ndefault via a\n", packages: before[packages]}, "routes: in another order"},
		"a new package":   {looks{"routes": before["routes"], packages: "one 1\nthree 3\ntwo 2\n"}, ""},
		"a package less":  {looks{"routes": before["routes"], packages: "one 1\n"}, `packages: missing is "two 2"`},
		"a newer package": {looks{"routes": before["routes"], packages: "one 1\ntwo 3\n"}, `packages: missing is "two 2"`},
	} {
		err := before.same(test.now)
		if got := fmt.Sprint(err); got != test.want && (err != nil || test.want != "") {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestDemoThatIsCancelledLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := Run(ctx, Config{Program: "/bin/sleep", Out: &out}); err == nil {
		t.Error("want an error")
	}
	checkEmpty(t, tmp)
}

func checkEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
