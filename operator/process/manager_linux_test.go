package process

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

func TestWholeConfigIsShownAlsoAfterARestart(t *testing.T) {
	b := newBench(t)
	m := b.start()
	want := whole()
	want.AgentConf, want.OperatorInfo = config("mysql", 1).AgentConf, config("mysql", 1).OperatorInfo
	if _, err := m.StageOperator(t.Context(), "mysql", "/", want); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at once", "after a restart"} {
		got := b.operator("mysql").Config
		if got.Generation == "" {
			t.Errorf("%s: no generation", when)
		}
		got.Generation = ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: another config", when)
		}
		b.restart()
	}
	op := b.operator("mysql")
	if op.Status.Phase != operator.Waiting || op.Status.Message != "configuration is stored, start not asked for" {
		t.Errorf("status %+v", op.Status)
	}
	if pids := b.running(); len(pids) != 0 {
		t.Errorf("running: %d", pids)
	}
}

func TestEqualEnsureWritesNothing(t *testing.T) {
	b := newBench(t)
	b.start()
	b.ensure("mysql", config("mysql", 1))
	b.born("mysql", 1)
	b.settled("mysql")
	inodes := func() (out []string) {
		for _, name := range []string{templateName, infoName, agentConfName, recordName, "."} {
			info, err := os.Lstat(b.path("mysql", name))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprint(info.ModTime(), info.Sys()))
		}
		return out
	}
	b.restart()
	b.settled("mysql")
	before := inodes()
	for range 5 {
		b.ensure("mysql", config("mysql", 1))
	}
	b.restart()
	b.ensure("mysql", config("mysql", 1))
	for i, now := range inodes() {
		// The time of the last read is in there, and is none of ours.
		if strings.Split(now, " +")[0] != strings.Split(before[i], " +")[0] {
			t.Errorf("file %d was written", i)
		}
	}
}

func TestForeignContentIsReportedAndLeftAlone(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"Upper", "lost+found", "wordpress", "empty"} {
		if err := os.MkdirAll(b.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"README", "mysql", "wordpress/precious", "Upper/operator.json"} {
		if err := os.WriteFile(b.path(name), []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	away := t.TempDir()
	if err := os.Symlink(away, b.path("linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(away, recordName), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := b.start()
	want := []string{"README", "Upper", "empty", "linked", "lost+found", "mysql", "wordpress"}
	if got := m.Report()["foreign"]; !reflect.DeepEqual(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
	if names, err := m.Operators(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("Operators = %q, %v", names, err)
	}
	for _, app := range []string{"mysql", "wordpress", "linked", "empty"} {
		if err := m.EnsureOperator(t.Context(), app, "/", config(app, 1)); !errors.Is(err, errors.NotValid) {
			t.Errorf("EnsureOperator(%q): %v", app, err)
		}
		if state := b.state(app); state != (operator.State{}) {
			t.Errorf("%q is %+v", app, state)
		}
		if _, err := m.Operator(t.Context(), app); !errors.Is(err, errors.NotFound) {
			t.Errorf("Operator(%q): %v", app, err)
		}
		if err := m.DeleteOperator(t.Context(), app); err != nil {
			t.Errorf("DeleteOperator(%q): %v", app, err)
		}
	}
	for _, name := range []string{"README", "mysql", "wordpress/precious", "Upper/operator.json", "linked/operator.json"} {
		if b.read(name) != "precious" {
			t.Errorf("%s was touched", name)
		}
	}
	// Nothing half made is left of the refused ones.
	entries, _ := os.ReadDir(b.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), makingPrefix) {
			t.Errorf("left: %s", e.Name())
		}
	}
}

func TestReportOfForeignContentIsBounded(t *testing.T) {
	b := newBench(t)
	for i := range 30 {
		if err := os.MkdirAll(b.path(fmt.Sprintf("X%02d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := b.start().Report()["foreign"].([]string)
	if len(got) != 21 || got[20] != "..." {
		t.Errorf("reported %q", got)
	}
}

func TestGarbageOfAnEarlierManagerIsRemoved(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{".making-mysql-x/sub", ".removing-mysql-y/sub"} {
		if err := os.MkdirAll(b.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m := b.start()
	if m.Report()["foreign"] != nil {
		t.Errorf("report %v", m.Report())
	}
	b.eventually("removed", func() bool { entries, _ := os.ReadDir(b.dir); return len(entries) == 1 })
}

func TestDamagedRecordIsHalfAnOperatorUntilTheNextEnsure(t *testing.T) {
	b := newBench(t)
	m := b.start()
	for _, app := range []string{"mysql", "wordpress"} {
		if _, err := m.StageOperator(t.Context(), app, "/", config(app, 1)); err != nil {
			t.Fatal(err)
		}
	}
	b.kill()
	for _, app := range []string{"mysql", "wordpress"} {
		if err := os.WriteFile(b.path(app, recordName), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m = b.start()
	if state := b.state("mysql"); state != (operator.State{}) {
		t.Errorf("state %+v", state)
	}
	op := b.operator("mysql")
	if !op.Config.AgentConf.Equal(config("mysql", 1).AgentConf) {
		t.Error("the configuration is lost")
	}
	if op.Status.Message != "its record is damaged" {
		t.Errorf("status %+v", op.Status)
	}
	b.ensure("mysql", config("mysql", 1))
	b.born("mysql", 1)
	if err := m.DeleteOperator(t.Context(), "wordpress"); err != nil {
		t.Fatal(err)
	}
	b.gone("wordpress")
}

func TestRecordThatCannotBeReadIsOneApplicationsTrouble(t *testing.T) {
	b := newBench(t)
	b.start()
	b.ensure("mysql", config("mysql", 1))
	b.ensure("wordpress", config("wordpress", 1))
	b.born("mysql", 1)
	b.born("wordpress", 1)
	b.settled("mysql")
	b.kill()
	good := b.read("mysql", recordName)
	// Too large to be read at all.
	if err := os.Truncate(b.path("mysql", recordName), maxFile+1); err != nil {
		t.Fatal(err)
	}
	m := b.start()
	b.settled("wordpress")
	if _, err := m.OperatorExists(t.Context(), "mysql"); err == nil {
		t.Error("OperatorExists has no error")
	}
	b.eventually("reported", func() bool { return b.report("mysql")["problem"] != nil })
	if len(b.runningFor("mysql")) != 1 {
		t.Error("its process was touched")
	}
	if err := os.WriteFile(b.path("mysql", recordName), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	b.ensure("mysql", config("mysql", 1))
	b.settled("mysql")
	if n := len(b.births("mysql")); n != 1 {
		t.Errorf("%d starts", n)
	}
}

func TestFileThatWasTakenAwayIsWrittenAgain(t *testing.T) {
	b := newBench(t)
	b.start()
	b.ensure("mysql", config("mysql", 1))
	b.born("mysql", 1)
	b.settled("mysql")
	for _, name := range []string{templateName, infoName} {
		if err := os.Remove(b.path("mysql", name)); err != nil {
			t.Fatal(err)
		}
		if state := b.state("mysql"); state != (operator.State{}) {
			t.Errorf("without %s: %+v", name, state)
		}
		b.ensure("mysql", config("mysql", 1))
		if !b.state("mysql").Exists {
			t.Errorf("%s was not written again", name)
		}
	}
	if n := len(b.births("mysql")); n != 1 {
		t.Errorf("%d starts, and nothing to read anew", n)
	}
}

func TestDirectoryThatWasTakenAwayIsMadeAgain(t *testing.T) {
	b := newBench(t)
	m := b.start()
	b.ensure("mysql", config("mysql", 1))
	first := b.born("mysql", 1)
	b.settled("mysql")
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(b.path("mysql"), away); err != nil {
		t.Fatal(err)
	}
	if state := b.state("mysql"); state != (operator.State{}) {
		t.Errorf("state %+v", state)
	}
	// Its process runs, so it is not as if there were nothing.
	if op := b.operator("mysql"); op.Status.Phase != operator.Running || op.Config.Generation != "" {
		t.Errorf("Operator: %+v", op)
	}
	if names, err := m.Operators(t.Context()); err != nil || !slices.Equal(names, []string{"mysql"}) {
		t.Errorf("Operators = %q, %v", names, err)
	}
	b.ensure("mysql", config("mysql", 1))
	second := b.born("mysql", 1)
	b.settled("mysql")
	if second.Pid == first.Pid || isRunning(first.Pid) {
		t.Error("the process in the old directory still runs")
	}
}

func TestOperatorWithoutADirectoryIsDeleted(t *testing.T) {
	b := newBench(t)
	m := b.start()
	b.ensure("mysql", config("mysql", 1))
	pid := b.born("mysql", 1).Pid
	b.settled("mysql")
	if err := os.Rename(b.path("mysql"), filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
		t.Fatal(err)
	}
	b.gone("mysql")
	if isRunning(pid) {
		t.Error("its process still runs")
	}
}

func TestDirectoryThatWasPutBackIsTakenOn(t *testing.T) {
	b := newBench(t)
	one := b.leave("mysql")
	if err := syscall.Kill(one.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(b.path("mysql"), away); err != nil {
		t.Fatal(err)
	}
	m := b.start()
	if _, err := m.Operator(t.Context(), "mysql"); !errors.Is(err, errors.NotFound) {
		t.Errorf("Operator: %v", err)
	}
	if err := os.Rename(away, b.path("mysql")); err != nil {
		t.Fatal(err)
	}
	if !b.state("mysql").Exists {
		t.Error("it does not exist")
	}
	if again := b.born("mysql", 2); again.AgentConf != one.AgentConf {
		t.Error("another agent.conf")
	}
	b.settled("mysql")
}

func TestNothingIsRememberedOfApplicationsThatAreNotThere(t *testing.T) {
	b := newBench(t)
	m := b.start()
	for i := range 100 {
		app := fmt.Sprintf("app-x%d", i)
		b.state(app)
		_, _ = m.Operator(t.Context(), app)
		if err := m.DeleteOperator(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		bad := config(app, 1)
		bad.Generation = "of something else"
		if err := m.EnsureOperator(t.Context(), app, "/", bad); !errors.Is(err, operator.ErrConflict) {
			t.Errorf("EnsureOperator with the generation of what is gone: %v", err)
		}
	}
	if n := len(m.snapshot()); n != 0 {
		t.Errorf("%d applications in memory", n)
	}
}

func TestWatcherNamesWhatOthersDid(t *testing.T) {
	b := newBench(t)
	m := b.start()
	for _, app := range []string{"mysql", "wordpress"} {
		b.ensure(app, config(app, 1))
		b.born(app, 1)
		b.settled(app)
	}
	w, err := m.WatchOperators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	next := func(what string) []string {
		t.Helper()
		select {
		case names := <-w.Changes():
			return names
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: no event", what)
			return nil
		}
	}
	baseline := next("baseline")
	slices.Sort(baseline)
	if !slices.Equal(baseline, []string{"mysql", "wordpress"}) {
		t.Errorf("baseline %q", baseline)
	}
	if err := os.WriteFile(b.path("mysql", infoName), []byte("forged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := next("edited file"); !slices.Equal(got, []string{"mysql"}) {
		t.Errorf("edited file: %q", got)
	}
	b.ensure("mysql", config("mysql", 1))
	if got := next("ensured"); !slices.Equal(got, []string{"mysql"}) {
		t.Errorf("ensured: %q", got)
	}
	if err := os.Remove(b.path("wordpress", templateName)); err != nil {
		t.Fatal(err)
	}
	if got := next("removed file"); !slices.Equal(got, []string{"wordpress"}) {
		t.Errorf("removed file: %q", got)
	}
	if err := os.Rename(b.path("wordpress"), filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	if got := next("removed directory"); !slices.Equal(got, []string{"wordpress"}) {
		t.Errorf("removed directory: %q", got)
	}
	b.kill()
	if err := w.Wait(); err == nil || err.Error() != "operator manager is stopped" {
		t.Errorf("the watcher of a dead manager ended with %v", err)
	}
}

func TestSecondWatcherTakesNothingFromTheFirst(t *testing.T) {
	b := newBench(t)
	b.config.Clock = newFakeClock() // the poll is when the test says
	m := b.start()
	if _, err := m.StageOperator(t.Context(), "mysql", "/", config("mysql", 1)); err != nil {
		t.Fatal(err)
	}
	var watchers []facade.StringsWatcher
	for range 2 {
		w, err := m.WatchOperators(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Kill()
		if names := <-w.Changes(); !slices.Equal(names, []string{"mysql"}) {
			t.Errorf("baseline %q", names)
		}
		if watchers = append(watchers, w); len(watchers) == 1 {
			if err := os.Remove(b.path("mysql", infoName)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.config.Clock.(*fakeClock).advance(pollInterval)
	for i, w := range watchers {
		select {
		case names := <-w.Changes():
			if !slices.Equal(names, []string{"mysql"}) {
				t.Errorf("watcher %d: %q", i, names)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("watcher %d: no event", i)
		}
	}
}

func TestDeadManagerRefusesEverything(t *testing.T) {
	b := newBench(t)
	m := b.start()
	b.ensure("mysql", config("mysql", 1))
	b.kill()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"OperatorExists": func() error { return second(m.OperatorExists(ctx, "mysql")) },
		"Operator":       func() error { return second(m.Operator(ctx, "mysql")) },
		"EnsureOperator": func() error { return m.EnsureOperator(ctx, "mysql", "/", config("mysql", 1)) },
		"StageOperator":  func() error { return second(m.StageOperator(ctx, "mysql", "/", config("mysql", 1))) },
		"DeleteOperator": func() error { return m.DeleteOperator(ctx, "mysql") },
		"Operators":      func() error { return second(m.Operators(ctx)) },
		"WatchOperators": func() error { return second(m.WatchOperators(ctx)) },
	} {
		if err := call(); !errors.Is(err, errStopped) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m.Report() == nil {
		t.Error("no report")
	}
	m.Kill()
	if err := m.Wait(); err != nil {
		t.Error(err)
	}
	b.start() // which cleans up
	b.born("mysql", 1)
}

func TestProgramIsFoundInPathOnce(t *testing.T) {
	b := newBench(t)
	bin := t.TempDir()
	if err := os.Symlink("/proc/self/exe", filepath.Join(bin, "operator")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	b.config.Command[0] = "operator"
	b.start()
	t.Setenv("PATH", "/nowhere")
	b.ensure("mysql", config("mysql", 1))
	one := b.born("mysql", 1)
	if one.Args[0] != filepath.Join(bin, "operator") || !slices.Contains(one.Env, "PATH="+bin) {
		t.Errorf("started as %q with %q", one.Args[0], one.Env)
	}
}

func TestProgramThatIsNotInPathIsRefused(t *testing.T) {
	b := newBench(t)
	t.Setenv("PATH", t.TempDir())
	b.config.Command[0] = "operator"
	_, err := New(b.config)
	if !errors.Is(err, errors.NotValid) || err.Error() != `process manager: Command[0] "operator" (not found in PATH) not valid` {
		t.Errorf("New: %v", err)
	}
	if _, err := os.Lstat(b.dir); err == nil {
		t.Error("New made Dir")
	}
}

func TestPathOfTheConfigWins(t *testing.T) {
	if got := environ([]string{"A=1", "PATH=/bin"}); !slices.Equal(got, []string{"A=1", "PATH=/bin"}) {
		t.Errorf("environment %q", got)
	}
}

func TestPlaceholdersAreFilledInOnce(t *testing.T) {
	b := newBench(t)
	b.dir = filepath.Join(t.TempDir(), "{application}")
	b.config.Dir = b.dir
	b.config.Command = append(b.config.Command, "--at={dir}/{application}", `{"json": {}}`)
	b.start()
	b.ensure("mysql", config("mysql", 1))
	if got := b.born("mysql", 1).Args[4:]; !slices.Equal(got, []string{"--at=" + b.path("mysql") + "/mysql", `{"json": {}}`}) {
		t.Errorf("arguments %q", got)
	}
}

func TestKillIsQuickWhateverGoesOn(t *testing.T) {
	b := newBench(t)
	m := b.start()
	// A deaf one that is being deleted, one that crashes all the time, one
	// with many files in removal, and callers.
	b.ensure("stubborn", config("stubborn", 1))
	b.born("stubborn", 1)
	b.ensure("crashing", config("crashing", 1))
	b.ensure("mysql", config("mysql", 1))
	b.born("mysql", 1)
	for i := range 3000 {
		if err := os.WriteFile(b.path("mysql", fmt.Sprintf("file%d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, app := range []string{"stubborn", "mysql"} {
		if err := m.DeleteOperator(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	w, err := m.WatchOperators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			if err := m.EnsureOperator(t.Context(), "busy", "/", config("busy", i)); errors.Is(err, errStopped) {
				return
			}
		}
	}()
	b.kill()
	<-done
	_ = w.Wait()
	// All of it is taken up again.
	b.config.StopTimeout = 10 * time.Millisecond
	b.start()
	b.gone("mysql")
	b.gone("stubborn")
}
