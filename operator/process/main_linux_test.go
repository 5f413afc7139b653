package process

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// The test binary is its own operator: with these arguments it runs no tests.
const (
	operatorRole = "as-an-operator" // then application, directory
	agentRole    = "as-an-agent"    // then the manager's directory
	childRole    = "as-a-child"     // then whatever
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case operatorRole:
			runOperator(os.Args[2], os.Args[3])
		case agentRole:
			runAgent(os.Args[2])
		case childRole:
			select {}
		}
	}
	os.Exit(m.Run())
}

// birth is what an operator writes down of itself when it is up.
type birth struct {
	Pid, Group                int
	Args, Env, Files          []string
	Dir                       string
	Template, Info, AgentConf string
	Child                     int
}

// runOperator is an operator whose name says how it behaves.
func runOperator(app, dir string) {
	terms := make(chan os.Signal, 8)
	signal.Notify(terms, syscall.SIGTERM)
	b := birth{Pid: os.Getpid(), Group: syscall.Getpgrp(), Args: os.Args, Env: os.Environ()}
	b.Dir, _ = os.Getwd()
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			b.Files = append(b.Files, fd.Name()+" "+to)
		}
	}
	read := func(name string) string {
		data, _ := os.ReadFile(name)
		return string(data)
	}
	b.Template, b.Info, b.AgentConf = read(templateName), read(infoName), read(agentConfName)
	fmt.Println("operator", app, "is up")
	fmt.Fprintln(os.Stderr, "and speaks twice")
	switch {
	case strings.HasPrefix(app, "with-child"):
		p, err := os.StartProcess(os.Args[0], []string{os.Args[0], childRole, dir}, &os.ProcAttr{Env: os.Environ()})
		if err != nil {
			os.Exit(90)
		}
		b.Child = p.Pid
	case strings.HasPrefix(app, "chatty"):
		line := strings.Repeat("x", 1023) + "\n"
		for range logLimit/len(line) + 100 {
			_, _ = os.Stdout.WriteString(line)
		}
		fmt.Println("the last word")
	}
	f, err := os.OpenFile("births", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		os.Exit(91)
	}
	line, _ := json.Marshal(b)
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()

	if strings.HasPrefix(app, "crashing") {
		os.Exit(3)
	}
	for range terms {
		if !strings.HasPrefix(app, "stubborn") {
			os.Exit(0)
		}
		f, _ := os.OpenFile("deaf", os.O_WRONLY|os.O_CREATE, 0o600)
		_ = f.Close()
	}
}

// runAgent is an agent that ensures one operator and waits to be killed.
func runAgent(dir string) {
	m, err := New(testConfig(dir))
	if err == nil {
		err = m.EnsureOperator(context.Background(), "mysql", "/var/lib/juju", config("mysql", 1))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(92)
	}
	fmt.Println("ready")
	select {}
}

// quick is a back-off for tests that are not about back-off.
func quick(time.Duration, int) time.Duration { return 10 * time.Millisecond }

func testConfig(dir string) Config {
	return Config{
		Dir:     dir,
		Command: []string{"/proc/self/exe", operatorRole, "{application}", "{dir}"},
		Clock:   clock.WallClock,
		// The race detector would make every exit take a second.
		Env:     []string{"GORACE=atexit_sleep_ms=0"},
		Backoff: quick,
	}
}

// config returns a configuration as the provisioner makes them; those of
// different n differ in password and key.
func config(app string, n int) *operator.Config {
	return configWith(app, n, "10.0.0.1:17070", "10.0.0.2:17070")
}

func configWith(app string, n int, addresses ...string) *operator.Config {
	conf := fmt.Sprintf(`# format 2.0
tag: application-%[1]s
datadir: /var/lib/juju
transient-datadir: /var/run/juju
logdir: /var/log/juju
metricsspooldir: /var/lib/juju/metricspool
upgradedToVersion: 2.9.49
cacert: ca
controller: controller-a1e5c3f2-7d4b-4c68-9f10-3b2d6e8a7c51
model: model-5d0f8b6e-42c7-4a19-8e3d-9b7a1c6f2e04
apiaddresses:
- %[3]s
oldpassword: canary-password-%[2]d
values: {}
`, app, n, strings.Join(addresses, "\n- "))
	return &operator.Config{
		ImageDetails: facade.ImageDetails{
			RegistryPath: "registry.example.com/operator:2.9.49",
			Username:     "puller",
			Password:     facade.NewSecret("canary-registry"),
		},
		Version:      "2.9.49",
		ResourceTags: map[string]string{"purpose": "test"},
		CharmStorage: &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: "kubernetes", Attributes: map[string]string{"a": "b"}},
		AgentConf:    facade.NewSecret(conf),
		OperatorInfo: facade.NewSecret(fmt.Sprintf("cert: cert-%[1]d\nprivate-key: canary-key-%[1]d\n", n)),
	}
}

// bench is a directory of operators and what a test does with it.
type bench struct {
	testing.TB
	dir     string
	config  Config
	logs    *syncBuffer
	manager *Manager
}

// syncBuffer keeps what was logged.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newBench returns a bench with no manager yet. When the test ends, nothing
// that was started in the directory runs any more.
func newBench(t testing.TB) *bench {
	b := &bench{TB: t, dir: filepath.Join(t.TempDir(), "operators"), logs: &syncBuffer{}}
	b.config = testConfig(b.dir)
	b.config.Logger = slog.New(slog.NewTextHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.Cleanup(func() {
		b.finish()
		if t.Failed() {
			t.Logf("the log:\n%s", b.logs)
		}
	})
	return b
}

// finish leaves nothing running.
func (b *bench) finish() {
	if b.manager != nil {
		b.kill()
	}
	for _, pid := range b.running() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil) // if it is our child
	}
}

// start makes a manager, with whatever config the test has made of it.
func (b *bench) start() *Manager {
	b.Helper()
	return b.startWith(options{})
}

func (b *bench) startWith(opts options) *Manager {
	b.Helper()
	m, err := newManager(b.config, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.manager = m
	return m
}

// kill ends the manager and leaves its operators running.
func (b *bench) kill() {
	b.Helper()
	m := b.manager
	b.manager = nil
	m.Kill()
	done := make(chan error, 1)
	go func() { done <- m.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			b.Errorf("Wait: %v", err)
		}
	case <-time.After(30 * time.Second):
		b.Fatal("the manager does not end")
	}
}

func (b *bench) restart() *Manager {
	b.Helper()
	b.kill()
	return b.start()
}

func (b *bench) ensure(app string, cfg *operator.Config) {
	b.Helper()
	if op, err := b.manager.Operator(b.Context(), app); err == nil {
		cfg.Generation = op.Config.Generation
	}
	if err := b.manager.EnsureOperator(b.Context(), app, "/var/lib/juju", cfg); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) path(elements ...string) string {
	return filepath.Join(append([]string{b.dir}, elements...)...)
}

func (b *bench) read(elements ...string) string {
	b.Helper()
	data, err := os.ReadFile(b.path(elements...))
	if err != nil {
		b.Fatal(err)
	}
	return string(data)
}

// eventually polls: processes take the time that they take.
func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("not within the deadline: %s", what)
		}
	}
}

// births returns what the application's processes wrote when they were up.
func (b *bench) births(app string) []birth {
	data, _ := os.ReadFile(b.path(app, "births"))
	var out []birth
	for line := range strings.Lines(string(data)) {
		var one birth
		if json.Unmarshal([]byte(line), &one) == nil {
			out = append(out, one)
		}
	}
	return out
}

// born waits for the application's n-th process, counted from 1, to be up, and
// returns it.
func (b *bench) born(app string, n int) birth {
	b.Helper()
	b.eventually(fmt.Sprintf("process %d of %s up", n, app), func() bool { return len(b.births(app)) >= n })
	return b.births(app)[n-1]
}

// last returns the application's last process that came up, zero for none.
func (b *bench) last(app string) birth {
	births := b.births(app)
	if len(births) == 0 {
		return birth{}
	}
	return births[len(births)-1]
}

// running finds the living processes of the bench's operators.
func (b *bench) running() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// By where it works, and by what it was told, in case the
		// directory was moved.
		cwd, _ := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		args, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		ours := strings.HasPrefix(cwd, b.dir+"/") || strings.Contains(string(args), b.dir+"/")
		if ours && isRunning(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runningFor finds those that lead a group in the application's directory.
func (b *bench) runningFor(app string) []int {
	var pids []int
	for _, pid := range b.running() {
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		s, err := procfs{dir: "/proc"}.stat(pid)
		if cwd == b.path(app) && err == nil && s.pgrp == pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isRunning(pid int) bool {
	s, err := procfs{dir: "/proc"}.stat(pid)
	return err == nil && !s.dead()
}

// pid returns the pid in the manager's report, or 0.
func (b *bench) pid(app string) int {
	v, _ := b.report(app)["pid"].(int)
	return v
}

func (b *bench) report(app string) map[string]any {
	operators, _ := b.manager.Report()["operators"].(map[string]any)
	r, _ := operators[app].(map[string]any)
	return r
}

func (b *bench) state(app string) operator.State {
	b.Helper()
	state, err := b.manager.OperatorExists(b.Context(), app)
	if err != nil {
		b.Fatal(err)
	}
	return state
}

func (b *bench) operator(app string) *operator.Operator {
	b.Helper()
	op, err := b.manager.Operator(b.Context(), app)
	if err != nil {
		b.Fatal(err)
	}
	return op
}

// gone waits until nothing is left of the application's operator.
func (b *bench) gone(app string) {
	b.Helper()
	b.eventually("the operator of "+app+" gone", func() bool {
		_, err := os.Lstat(b.path(app))
		return os.IsNotExist(err) && len(b.runningFor(app)) == 0 && b.state(app) == operator.State{}
	})
}

// contextUntil returns a context that is cancelled when ok says so.
func contextUntil(t *testing.T, ok func() bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ; ctx.Err() == nil && !ok(); time.Sleep(2 * time.Millisecond) {
		}
		cancel()
	}()
	return ctx, cancel
}
