package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/report"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// deadline is for what takes seconds at most on an idle machine.
const deadline = 3 * time.Minute

var (
	buildDir     string
	buildProgram = sync.OnceValues(func() (string, error) {
		path := filepath.Join(buildDir, "agent")
		out, err := exec.Command("go", "build", raceFlag, "-o", path, ".").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("building the agent: %v\n%s", err, out)
		}
		return path, nil
	})
)

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "agent-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

// world is a model, and an agent on it when there is one.
type world struct {
	t       *testing.T
	program string
	dir     string
	logPath string
	// prefix stands before the program, to have it run elsewhere, and env is added to
	// its environment.
	prefix, env []string

	agent *exec.Cmd
	ended chan struct{}
}

func newWorld(t *testing.T, apps ...string) *world {
	t.Helper()
	program, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	w := &world{t: t, program: program, dir: filepath.Join(root, "model"), logPath: filepath.Join(root, "log")}
	w.write("model.yaml", settings)
	for _, app := range apps {
		w.deploy(app)
	}
	t.Cleanup(func() {
		if w.agent != nil {
			_ = w.signal(syscall.SIGKILL)
			<-w.ended
		}
		for _, pid := range processesUnder(t, w.dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		eventually(t, "all operators are gone", func() bool { return len(processesUnder(t, w.dir)) == 0 })
		if t.Failed() {
			log, _ := os.ReadFile(w.logPath)
			t.Logf("log:\n%s", log)
		}
	})
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) { writeFile(w.t, w.path(name), text) }

func (w *world) deploy(app string) {
	w.write("applications/"+app+"/charm/metadata.yaml", "name: "+app+"\nseries: [kubernetes]\n")
	w.write("applications/"+app+"/application.yaml", "life: alive\n")
}

func (w *world) start(flags ...string) {
	w.t.Helper()
	w.startProgram(flags...)
}

// startProgram starts the agent or, with that as its first argument, a controller.
func (w *world) startProgram(args ...string) {
	w.t.Helper()
	log, err := os.OpenFile(w.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	argv := slices.Concat(w.prefix, []string{w.program}, args, []string{"--model", w.dir, "--debug"})
	w.agent = exec.Command(argv[0], argv[1:]...)
	w.agent.Env = append(os.Environ(), w.env...)
	w.agent.Stdout, w.agent.Stderr = log, log
	if err := w.agent.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(w.agent, w.ended)
}

// signal sends the agent a signal. What the prefix has started ends with it.
func (w *world) signal(sig syscall.Signal) error {
	pid := w.agent.Process.Pid
	if len(w.prefix) > 0 {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(string(data), &pid); err != nil {
			return err
		}
	}
	return syscall.Kill(pid, sig)
}

// checkLog searches the agent's log for what must not be in it.
func (w *world) checkLog(secret string) {
	w.t.Helper()
	log, err := os.ReadFile(w.logPath)
	if err != nil || strings.Contains(string(log), secret) {
		w.t.Errorf("%s is in the log, or %v", secret, err)
	}
}

// end signals the agent and returns its exit code, -1 if it was killed.
func (w *world) end(sig syscall.Signal) int {
	w.t.Helper()
	if err := w.signal(sig); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.ended:
		code := w.agent.ProcessState.ExitCode()
		w.agent = nil
		return code
	case <-time.After(deadline):
		w.t.Fatal("the agent does not end")
		return 0
	}
}

// state is what of the report the tests look at.
type state struct {
	Manifolds struct {
		Controller struct {
			Report struct {
				Address      string
				Applications map[string]struct {
					Provisioning string
					Operator     struct {
						Logins, Refused int
						Status          string
						Certificate     string
					}
				}
				Problems   []string
				Containers map[string]struct {
					Life, State, Message, Instance string
					Addresses                      []string
				}
			}
		}
		Manager struct {
			Report struct {
				Operators map[string]struct{ PID int }
			}
		} `yaml:"operator-manager"`
		Leader         struct{ State string }
		ContainerSetup *struct {
			State  string
			Report struct {
				Types map[string]struct{ Phase, Error string }
			}
		} `yaml:"container-setup"`
	}
}

// report returns the report, or none while there is no agent.
func (w *world) report() (s state, ok bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	data, err := report.Fetch(ctx, w.path(".agent"))
	if err != nil {
		return s, false
	}
	if err := yaml.Unmarshal(data, &s); err != nil {
		w.t.Fatal(err)
	}
	return s, true
}

// expectActive waits until these operators, and no others, run and have logged
// in since the agent started. It returns their pids.
func (w *world) expectActive(apps ...string) map[string]int {
	w.t.Helper()
	pids := map[string]int{}
	eventually(w.t, fmt.Sprintf("active: %v", apps), func() bool {
		s, ok := w.report()
		clear(pids)
		for app, op := range s.Manifolds.Manager.Report.Operators {
			pids[app] = op.PID
			a := s.Manifolds.Controller.Report.Applications[app]
			ok = ok && op.PID > 0 && a.Operator.Status == "active" && a.Provisioning == "provisioned"
		}
		return ok && slices.Equal(slices.Sorted(maps.Keys(pids)), apps)
	})
	return pids
}

// passwords returns the operators' passwords and the file of their hashes.
func (w *world) passwords(apps ...string) (passwords []string, hashes string) {
	w.t.Helper()
	for _, app := range apps {
		data, err := os.ReadFile(w.path(".agent/operators/" + app + "/agent.conf"))
		if err != nil {
			w.t.Fatal(err)
		}
		conf, err := agentconf.Parse(data)
		if err != nil {
			w.t.Fatal(err)
		}
		passwords = append(passwords, conf.OldPassword.Reveal())
	}
	data, err := os.ReadFile(w.path(".agent/passwords.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	return passwords, string(data)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// processesUnder finds the processes that have the directory in an argument.
func processesUnder(t *testing.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(data, []byte(dir+"/")) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestKilledAgentLeavesOperatorsThatTheNextOneAdopts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cache", "db", "web")
	w.start()
	before := w.expectActive("cache", "db", "web")
	passwords, hashes := w.passwords("cache", "db", "web")
	w.end(syscall.SIGKILL)

	// Meanwhile, one application goes and one comes.
	if err := os.RemoveAll(w.path("applications/web")); err != nil {
		t.Fatal(err)
	}
	w.deploy("proxy")
	w.start()
	after := w.expectActive("cache", "db", "proxy")
	if after["cache"] != before["cache"] || after["db"] != before["db"] {
		t.Errorf("not adopted: %v, then %v", before, after)
	}
	eventually(t, "the operator of the removed application is gone", func() bool {
		_, err := os.Stat(w.path(".agent/operators/web"))
		return os.IsNotExist(err) && syscall.Kill(before["web"], 0) != nil
	})
	again, hashesNow := w.passwords("cache", "db")
	if !slices.Equal(again, passwords[:2]) {
		t.Error("a password changed")
	}
	for line := range strings.Lines(hashes) {
		if !strings.Contains(hashesNow, line) {
			t.Error("a password was set again")
		}
	}

	if code := w.end(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	if left := processesUnder(t, w.dir); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	checkNoSecrets(t, w, passwords...)
}

// checkNoSecrets searches every file but those that are to have them.
func checkNoSecrets(t *testing.T, w *world, passwords ...string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(w.dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(path, "agent.conf") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, password := range passwords {
			if len(password) < 20 || bytes.Contains(data, []byte(password)) {
				t.Errorf("a password is in %s", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestKilledOperatorComesBackWithItsPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.start()
	before := w.expectActive("db")
	passwords, hashes := w.passwords("db")
	if err := syscall.Kill(before["db"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it logs in again", func() bool {
		s, _ := w.report()
		return s.Manifolds.Controller.Report.Applications["db"].Operator.Logins == 2
	})
	if after := w.expectActive("db"); after["db"] == before["db"] {
		t.Error("the same process")
	}
	again, hashesNow := w.passwords("db")
	if !slices.Equal(again, passwords) || hashesNow != hashes {
		t.Error("a password changed")
	}
}

func TestControllersNewAddressReachesOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.start()
	before := w.expectActive("db")
	s, _ := w.report()
	addr := s.Manifolds.Controller.Report.Address
	w.end(syscall.SIGKILL)
	other, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	w.start()
	after := w.expectActive("db")
	if s, _ := w.report(); s.Manifolds.Controller.Report.Address == addr {
		t.Error("the same address")
	}
	// It has to read its files again.
	if after["db"] == before["db"] {
		t.Error("the same process")
	}
}

func TestNewCAReachesOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.start()
	w.expectActive("db")
	s, _ := w.report()
	old := s.Manifolds.Controller.Report.Applications["db"].Operator.Certificate
	passwords, _ := w.passwords("db")
	w.end(syscall.SIGKILL)
	if err := os.Remove(w.path(".agent/ca.pem")); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.expectActive("db")
	s, _ = w.report()
	if now := s.Manifolds.Controller.Report.Applications["db"].Operator.Certificate; now == old {
		t.Error("the same certificate")
	}
	if again, _ := w.passwords("db"); !slices.Equal(again, passwords) {
		t.Error("the password changed")
	}
}

func TestOperatorsAreKeptWhenAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "db")
	w.start("--keep-operators")
	before := w.expectActive("db")
	if code := w.end(syscall.SIGINT); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	if err := syscall.Kill(before["db"], 0); err != nil {
		t.Errorf("the operator: %v", err)
	}
	w.start()
	if after := w.expectActive("db"); after["db"] != before["db"] {
		t.Error("not adopted")
	}
}

func TestModelHasOneAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	eventually(t, "it runs", func() bool { _, ok := w.report(); return ok })
	out, err := exec.Command(w.program, "--model", w.dir).CombinedOutput()
	if want := "agent: an agent already runs on " + w.dir + "\n"; err == nil || err.Error() != "exit status 1" || string(out) != want {
		t.Errorf("got %v, %q; want %q", err, out, want)
	}
	// The first one is not disturbed.
	out, err = exec.Command(w.program, "--model", w.dir, "--report").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "state: started\n") {
		t.Errorf("got %v, %s", err, out)
	}
}

func TestModelMayHaveALongPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dir = filepath.Join(w.dir, strings.Repeat("a-long-name-", 12))
	w.write("model.yaml", settings)
	w.deploy("db")
	w.start()
	w.expectActive("db")
	out, err := exec.Command(w.program, "--model", w.dir, "--report").Output()
	if err != nil || !strings.Contains(string(out), "state: started\n") {
		t.Errorf("got %v, %s", err, out)
	}
	if code := w.end(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d", code)
	}
}

// startDemo starts the demo with a temporary directory of its own.
func startDemo(t *testing.T, env ...string) (cmd *exec.Cmd, out *lockedBuffer, tmp string) {
	t.Helper()
	program, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	tmp = t.TempDir()
	out = &lockedBuffer{}
	cmd = exec.Command(program, "demo")
	cmd.Env = append(append(os.Environ(), "TMPDIR="+tmp), env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, tmp
}

func checkNothingLeft(t *testing.T, tmp string) {
	t.Helper()
	entries, err := os.ReadDir(tmp)
	if err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if left := processesUnder(t, tmp); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestDemoComesTrue(t *testing.T) {
	t.Parallel()
	cmd, out, tmp := startDemo(t)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the demo: %v\n%s", err, out)
	}
	if text := out.String(); strings.Count(text, "PASS") != 16 || strings.Contains(text, "\x1b") {
		t.Errorf("want fifteen steps and the end to pass, in plain text:\n%s", text)
	}
	checkNothingLeft(t, tmp)
}

func TestInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, out, tmp := startDemo(t)
	eventually(t, "operators run", func() bool { return strings.Contains(out.String(), "PASS") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "exit status 1" {
		t.Errorf("got %v, want exit status 1\n%s", err, out)
	}
	if !strings.Contains(out.String(), "interrupted") {
		t.Errorf("got\n%s", out)
	}
	checkNothingLeft(t, tmp)
}

// lockedBuffer is a bytes.Buffer for many goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
