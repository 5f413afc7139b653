package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

func TestOperatorFindsItsFilesAndNothingElse(t *testing.T) {
	t.Setenv("SUTLER_TEST_OF_THE_AGENT", "1")
	b := newBench(t)
	b.config.Env = append(b.config.Env, "GREETING=hello world")
	b.start()
	cfg := config("mysql", 1)
	b.ensure("mysql", cfg)
	one := b.born("mysql", 1)

	if want := []string{"/proc/self/exe", operatorRole, "mysql", b.path("mysql")}; !slices.Equal(one.Args, want) {
		t.Errorf("arguments %q, want %q", one.Args, want)
	}
	slices.Sort(one.Env)
	want := []string{"GORACE=atexit_sleep_ms=0", "GREETING=hello world", "PATH=" + os.Getenv("PATH")}
	if len(one.Env) != 4 || !slices.Equal(one.Env[:3], want) || !strings.HasPrefix(one.Env[3], TokenVariable+"=") {
		t.Errorf("environment %q, want %q and the token", one.Env, want)
	}
	if one.Dir != b.path("mysql") {
		t.Errorf("works in %s", one.Dir)
	}
	if one.Group != one.Pid {
		t.Errorf("process %d is of the group %d", one.Pid, one.Group)
	}
	if one.Template != cfg.AgentConf.Reveal() || one.AgentConf != cfg.AgentConf.Reveal() || one.Info != cfg.OperatorInfo.Reveal() {
		t.Error("it read other files than were stored")
	}
	for _, file := range one.Files {
		fd, to, _ := strings.Cut(file, " ")
		switch fd {
		case "0":
			if to != "/dev/null" {
				t.Errorf("standard input is %s", to)
			}
		case "1", "2":
			if to != b.path("mysql", logName) {
				t.Errorf("output %s is %s", fd, to)
			}
		default:
			// The lock above all: it would outlive the agent. Others are
			// what its runtime opened, or what our own parent left open.
			if strings.HasPrefix(to, b.dir) {
				t.Errorf("inherited: %s", file)
			}
		}
	}
	if log := b.read("mysql", logName); log != "operator mysql is up\nand speaks twice\n" {
		t.Errorf("the log is %q", log)
	}
	op := b.operator("mysql")
	if op.Status.Phase != operator.Running || op.Status.Since.IsZero() || op.ID != b.path("mysql") || op.Dying {
		t.Errorf("Operator: %+v", op)
	}
}

func TestEverythingIsPrivate(t *testing.T) {
	b := newBench(t)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	b.start()
	b.ensure("mysql", config("mysql", 1))
	b.born("mysql", 1)
	seen := 0
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = fs.ModeDir | 0o700
		}
		if info.Mode() != want {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		seen++
		return nil
	})
	// Dir, lock, application, its five files, and the test's own.
	if err != nil || seen != 9 {
		t.Errorf("%d files, %v", seen, err)
	}
}

func TestKilledOperatorComesBackWithWhatItWroteItself(t *testing.T) {
	b := newBench(t)
	b.start()
	b.ensure("mysql", config("mysql", 1))
	first := b.born("mysql", 1)
	if err := os.WriteFile(b.path("mysql", agentConfName), []byte("its own"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := b.born("mysql", 2)
	if second.AgentConf != "its own" {
		t.Errorf("agent.conf is %q", second.AgentConf)
	}
	if second.Template != first.Template {
		t.Error("the template changed")
	}
	b.eventually("it is reported", func() bool {
		r := b.report("mysql")
		return r["pid"] == second.Pid && r["restarts"] == 1 && r["last-exit"] == "ended by signal 9 (killed)"
	})
	if got := b.runningFor("mysql"); !slices.Equal(got, []int{second.Pid}) {
		t.Errorf("running: %d", got)
	}
}

func TestCrashLoopIsBackedOff(t *testing.T) {
	b := newBench(t)
	c := newFakeClock()
	b.config.Clock, b.config.Backoff = c, nil
	b.start()
	const app = "crashing"
	b.ensure(app, config(app, 1))
	for i, delay := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		b.born(app, i+1)
		b.eventually("back-off", func() bool { return c.waits(delay * time.Second) })
		s := b.operator(app).Status
		want := "exited with status 3, next start at " + c.Now().Add(delay*time.Second).UTC().Format(time.RFC3339)
		if s.Phase != operator.Waiting || s.Message != want || !s.Since.Equal(c.Now()) {
			t.Fatalf("after start %d: %+v, want %s", i+1, s, want)
		}
		c.advance(delay*time.Second - time.Nanosecond)
		if n := len(b.births(app)); n != i+1 {
			t.Fatalf("%d starts before the delay of %d s is over", n, delay)
		}
		c.advance(time.Nanosecond)
	}
	b.born(app, 9)
	b.eventually("back-off", func() bool { return c.waits(time.Minute) })

	// Whoever changes the configuration does not want to wait.
	b.ensure(app, config(app, 2))
	b.born(app, 10)
	b.eventually("back-off from the start", func() bool { return c.waits(time.Second) })
}

func TestBackOffIsForgottenAfterAMinute(t *testing.T) {
	b := newBench(t)
	c := newFakeClock()
	b.config.Clock, b.config.Backoff = c, nil
	b.start()
	b.ensure("mysql", config("mysql", 1))
	end := func(n int, ran, delay time.Duration) {
		t.Helper()
		pid := b.born("mysql", n).Pid
		b.eventually("recorded", func() bool { return b.pid("mysql") == pid })
		c.advance(ran)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.eventually(fmt.Sprintf("back-off of %v", delay), func() bool { return c.waits(delay) })
		c.advance(delay)
	}
	end(1, time.Second, time.Second)
	end(2, 59*time.Second, 2*time.Second)
	end(3, 60*time.Second, time.Second)
	end(4, 0, 2*time.Second)
	b.born("mysql", 5)
}

func TestEffectiveChangeRestartsOnce(t *testing.T) {
	b := newBench(t)
	b.start()
	b.ensure("mysql", configWith("mysql", 1, "a:1", "b:2"))
	first := b.born("mysql", 1)

	// None of these is one.
	tagged := configWith("mysql", 1, "a:1", "b:2")
	tagged.ResourceTags = map[string]string{"other": "tag"}
	b.ensure("mysql", tagged)
	if got := b.operator("mysql").Config.ResourceTags["other"]; got != "tag" {
		t.Errorf("the tag is %q", got)
	}
	permuted := configWith("mysql", 1, "b:2", "a:1")
	b.ensure("mysql", permuted)
	if !b.operator("mysql").Config.AgentConf.Equal(permuted.AgentConf) {
		t.Error("the permuted addresses are not stored")
	}

	// This is.
	b.ensure("mysql", configWith("mysql", 1, "b:2", "c:3"))
	second := b.born("mysql", 2)
	if !strings.Contains(second.Template, "c:3") {
		t.Error("it was restarted with the old template")
	}
	if second.AgentConf != first.AgentConf {
		t.Error("its own agent.conf was touched")
	}
	b.ensure("mysql", configWith("mysql", 1, "c:3", "b:2"))
	b.ensure("mysql", config("mysql", 2))
	third := b.born("mysql", 3)
	if !strings.Contains(third.Info, "canary-key-2") {
		t.Error("it was restarted with the old operator.yaml")
	}
	b.eventually("settled", func() bool { return b.pid("mysql") == third.Pid })
	if got := b.births("mysql"); len(got) != 3 {
		t.Errorf("%d starts, want 3", len(got))
	}
	if got := b.runningFor("mysql"); !slices.Equal(got, []int{third.Pid}) {
		t.Errorf("running: %d", got)
	}
}

func TestStagedOverRestartsOnlyWhenEnsured(t *testing.T) {
	b := newBench(t)
	m := b.start()
	b.ensure("mysql", config("mysql", 1))
	first := b.born("mysql", 1)
	next := config("mysql", 2)
	next.Generation = b.operator("mysql").Config.Generation
	gen, err := m.StageOperator(t.Context(), "mysql", "/", next)
	if err != nil {
		t.Fatal(err)
	}
	// It ends by itself meanwhile, and the new one reads what there is.
	if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := b.born("mysql", 2)
	if second.Template != next.AgentConf.Reveal() {
		t.Error("the second process read another template than is stored")
	}
	next.Generation = gen
	if err := m.EnsureOperator(t.Context(), "mysql", "/", next); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.eventually("adopted", func() bool { return b.pid("mysql") == second.Pid })
	if n := len(b.births("mysql")); n != 2 {
		t.Errorf("%d starts, want 2: the third would have read nothing new", n)
	}
}

func TestDeafOperatorIsKilledAfterTheTimeout(t *testing.T) {
	b := newBench(t)
	c := newFakeClock()
	b.config.Clock = c
	m := b.start()
	const app = "stubborn"
	b.ensure(app, config(app, 1))
	pid := b.born(app, 1).Pid
	if err := m.DeleteOperator(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	b.eventually("SIGTERM heard", func() bool { _, err := os.Lstat(b.path(app, "deaf")); return err == nil })
	b.eventually("waiting", func() bool { return c.waits(DefaultStopTimeout) })
	if got := b.state(app); got != (operator.State{Exists: true, Terminating: true}) {
		t.Errorf("state %+v", got)
	}
	op := b.operator(app)
	if !op.Dying || op.Status.Phase != operator.Running || op.Status.Message != "told to end" {
		t.Errorf("Operator: %+v", op)
	}
	for what, err := range map[string]error{
		"EnsureOperator": m.EnsureOperator(t.Context(), app, "/", config(app, 1)),
		"StageOperator":  second(m.StageOperator(t.Context(), app, "/", config(app, 1))),
	} {
		if !errors.Is(err, errors.NotYetAvailable) {
			t.Errorf("%s meanwhile: %v", what, err)
		}
	}
	c.advance(DefaultStopTimeout - time.Nanosecond)
	if !isRunning(pid) {
		t.Fatal("killed too early")
	}
	c.advance(time.Nanosecond)
	b.gone(app)

	// The name is free for a new one.
	b.ensure(app, config(app, 2))
	if n := b.born(app, 1); n.Template != config(app, 2).AgentConf.Reveal() {
		t.Error("the new one has the old template")
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestWhatAnOperatorStartedEndsWithIt(t *testing.T) {
	b := newBench(t)
	b.start()
	const app = "with-child"
	b.ensure(app, config(app, 1))
	first := b.born(app, 1)
	if !isRunning(first.Child) {
		t.Fatal("no child to begin with")
	}
	if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := b.born(app, 2)
	if isRunning(first.Child) {
		t.Error("the child of the first process runs beside the second")
	}
	if err := b.manager.DeleteOperator(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	b.gone(app)
	b.eventually("no child", func() bool { return !isRunning(second.Child) })
}

func TestDeletionTakesAll(t *testing.T) {
	b := newBench(t)
	m := b.start()
	b.ensure("mysql", config("mysql", 1))
	b.born("mysql", 1)
	// A charm left this.
	if err := os.MkdirAll(b.path("mysql", "charm", "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path("mysql", "charm", "lib", "file"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(b.path("mysql", "charm", "lib"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
		t.Fatal(err)
	}
	b.gone("mysql")
	b.eventually("the directory is empty", func() bool {
		entries, _ := os.ReadDir(b.dir)
		return len(entries) == 1 && entries[0].Name() == lockName
	})
	if report := m.Report()["operators"]; len(report.(map[string]any)) != 0 {
		t.Errorf("still reported: %v", report)
	}
}

func TestCommandThatIsNotThereIsWaitedFor(t *testing.T) {
	b := newBench(t)
	b.config.Command[0] = "{dir}/operator"
	b.start()
	b.ensure("mysql", config("mysql", 1))
	b.eventually("trouble", func() bool {
		s := b.operator("mysql").Status
		return s.Phase == operator.Waiting && strings.Contains(s.Message, "starting: fork/exec "+b.path("mysql", "operator")+": no such file")
	})
	if !b.state("mysql").Exists {
		t.Error("an operator that cannot start does not exist")
	}
	if err := os.Symlink("/proc/self/exe", b.path("mysql", "operator")); err != nil {
		t.Fatal(err)
	}
	b.born("mysql", 1)
	b.eventually("running", func() bool { return b.operator("mysql").Status.Phase == operator.Running })
	if p, ok := b.report("mysql")["problem"]; ok {
		t.Errorf("still a problem: %v", p)
	}
}

func TestLogIsBounded(t *testing.T) {
	b := newBench(t)
	b.start()
	const app = "chatty"
	b.ensure(app, config(app, 1))
	b.born(app, 1)
	b.eventually("log moved", func() bool {
		info, err := os.Lstat(b.path(app, oldLogName))
		return err == nil && info.Size() == logLimit && info.Mode() == 0o600
	})
	b.eventually("log emptied", func() bool {
		info, err := os.Lstat(b.path(app, logName))
		return err == nil && info.Size() < logLimit
	})
	if !strings.HasSuffix(b.read(app, oldLogName), "\nthe last word\n") {
		t.Error("the end of the log is lost")
	}
}

func TestLogIsNeverWrittenThroughALink(t *testing.T) {
	b := newBench(t)
	b.config.Clock = newFakeClock()
	b.start()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.manager.StageOperator(t.Context(), "mysql", "/", config("mysql", 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, b.path("mysql", logName)); err != nil {
		t.Fatal(err)
	}
	b.ensure("mysql", config("mysql", 1))
	b.eventually("trouble", func() bool {
		return strings.Contains(b.operator("mysql").Status.Message, "starting: \"operator.log\" (not a regular file) not valid")
	})
	if content, _ := os.ReadFile(outside); string(content) != "outside" {
		t.Errorf("outside is %q", content)
	}
}

func TestSecretsStayInTheirFiles(t *testing.T) {
	b := newBench(t)
	m := b.start()
	seen := func(where, text string) {
		t.Helper()
		if strings.Contains(text, "canary") {
			t.Errorf("a secret is in %s", where)
		}
	}
	b.ensure("mysql", config("mysql", 1))
	first := b.born("mysql", 1)
	b.ensure("mysql", config("mysql", 2))
	b.born("mysql", 2)
	b.ensure("crashing", config("crashing", 1))
	b.born("crashing", 2)
	wrong := config("mysql", 3)
	seen("the error of a conflict", fmt.Sprintf("%+v", m.EnsureOperator(t.Context(), "mysql", "/", wrong)))
	wrong.AgentConf = facade.Secret{}
	seen("the error of a bad config", fmt.Sprintf("%+v", m.EnsureOperator(t.Context(), "mysql", "/", wrong)))

	seen("the report", fmt.Sprintf("%+v %#v", m.Report(), m.Report()))
	seen("the status", fmt.Sprintf("%+v", b.operator("crashing").Status))
	seen("the operator", fmt.Sprintf("%+v %#v", b.operator("mysql"), b.operator("mysql").Config))
	seen("the arguments", strings.Join(first.Args, " "))
	seen("the environment", strings.Join(first.Env, " "))
	// What the kernel shows of the process, and what ps would print.
	for _, name := range []string{"cmdline", "environ", "comm"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", b.born("mysql", 2).Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		seen(name, string(data))
	}
	b.kill()
	seen("the log", b.logs.String())
	if !strings.Contains(b.logs.String(), "operator started") {
		t.Error("nothing was logged")
	}
}
