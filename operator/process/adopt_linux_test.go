package process

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator"
)

func TestOperatorsOutliveTheManagerAndAreAdopted(t *testing.T) {
	b := newBench(t)
	b.start()
	b.ensure("mysql", config("mysql", 1))
	b.ensure("wordpress", config("wordpress", 1))
	mysql, wordpress := b.born("mysql", 1), b.born("wordpress", 1)
	b.eventually("recorded", func() bool { return b.pid("mysql") != 0 && b.pid("wordpress") != 0 })
	stored := b.operator("mysql").Config

	b.kill()
	if !isRunning(mysql.Pid) || !isRunning(wordpress.Pid) {
		t.Fatal("an operator ended with its manager")
	}
	b.start()
	if b.pid("mysql") != mysql.Pid || b.pid("wordpress") != wordpress.Pid {
		t.Errorf("adopted %d and %d", b.pid("mysql"), b.pid("wordpress"))
	}
	if got := b.operator("mysql").Config; got.Generation != stored.Generation || !got.AgentConf.Equal(stored.AgentConf) {
		t.Error("another configuration after the restart")
	}

	// It is supervised like any other, and not restarted for nothing.
	b.ensure("mysql", config("mysql", 1))
	b.ensure("wordpress", config("wordpress", 2))
	b.born("wordpress", 2)
	if err := syscall.Kill(mysql.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.born("mysql", 2)
	b.eventually("the exit is reported", func() bool {
		return b.report("mysql")["last-exit"] == "ended by signal 9 (killed)"
	})
	if n := len(b.births("mysql")); n != 2 {
		t.Errorf("mysql was started %d times, want twice", n)
	}
}

// startAgent runs an agent with a manager in a process of its own, until it has
// ensured mysql.
func startAgent(t *testing.T, b *bench) *exec.Cmd {
	agent := exec.Command("/proc/self/exe", agentRole, b.dir)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("the agent says %q, %v", line, err)
	}
	return agent
}

func TestOperatorsOutliveAKilledAgent(t *testing.T) {
	b := newBench(t)
	agent := startAgent(t, b)
	first := b.born("mysql", 1)
	if _, err := New(b.config); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("a second manager beside the agent's: %v", err)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()

	m := b.start()
	b.eventually("adopted", func() bool { return b.pid("mysql") == first.Pid })
	if err := m.EnsureOperator(t.Context(), "mysql", "/", config("mysql", 1)); err != nil {
		t.Fatal(err)
	}
	// It is nobody's child here, so its end is seen by looking.
	if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := b.born("mysql", 2)
	if second.AgentConf != first.AgentConf {
		t.Error("another agent.conf")
	}
	b.eventually("the exit is reported", func() bool {
		return b.report("mysql")["last-exit"] == "exited, status not known"
	})
	if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
		t.Fatal(err)
	}
	b.gone("mysql")
}

// TestAgentIsKilledAtAnyTime kills real agents while they start an operator,
// earlier and later. There is never a second copy.
func TestAgentIsKilledAtAnyTime(t *testing.T) {
	for i := range 12 {
		b := newBench(t)
		agent := exec.Command("/proc/self/exe", agentRole, b.dir)
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		b.eventually("the agent began", func() bool { _, err := os.Lstat(b.dir); return err == nil })
		time.Sleep(time.Duration(i) * time.Millisecond / 2) // for variety, not to wait
		if err := agent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = agent.Wait()

		// The lock may be held by a process that is just becoming the operator.
		var m *Manager
		b.eventually("the directory is free", func() bool {
			var err error
			m, err = New(b.config)
			if err != nil && !errors.Is(err, errors.AlreadyExists) {
				t.Fatal(err)
			}
			return err == nil
		})
		b.manager = m
		b.ensure("mysql", config("mysql", 1))
		b.born("mysql", 1)
		b.settled("mysql")
	}
}

// settled waits until exactly one process of the application runs, the one that
// the manager knows.
func (b *bench) settled(app string) {
	b.Helper()
	b.eventually("one process of "+app, func() bool {
		pid := b.pid(app)
		return pid != 0 && b.report(app)["phase"] == "running" && slices.Equal(b.runningFor(app), []int{pid})
	})
}

// edit changes the record of an application while there is no manager.
func (b *bench) edit(app string, change func(*record)) {
	b.Helper()
	rec, err := decodeRecord([]byte(b.read(app, recordName)))
	if err != nil {
		b.Fatal(err)
	}
	change(&rec)
	data, err := json.Marshal(rec)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(b.path(app, recordName), data, 0o600); err != nil {
		b.Fatal(err)
	}
}

// leave starts an operator and leaves it without a manager.
func (b *bench) leave(app string) birth {
	b.Helper()
	b.start()
	b.ensure(app, config(app, 1))
	one := b.born(app, 1)
	b.eventually("recorded", func() bool { return b.pid(app) == one.Pid })
	b.kill()
	return one
}

func TestLostPidIsFoundByItsToken(t *testing.T) {
	b := newBench(t)
	const app = "with-child" // which has the token, too
	one := b.leave(app)
	b.edit(app, func(r *record) { r.Process = nil })
	b.start()
	b.settled(app)
	if b.pid(app) != one.Pid || len(b.births(app)) != 1 {
		t.Errorf("adopted %d, want %d; %d starts", b.pid(app), one.Pid, len(b.births(app)))
	}
	b.eventually("recorded again", func() bool { return strings.Contains(b.read(app, recordName), `"process"`) })
	if !isRunning(one.Child) {
		t.Error("the adopted operator's child was killed")
	}
}

func TestLeftOversOfADeadOperatorAreKilledBeforeTheNextStart(t *testing.T) {
	b := newBench(t)
	const app = "with-child"
	one := b.leave(app)
	if err := syscall.Kill(one.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.born(app, 2)
	b.eventually("the child of the first is gone", func() bool { return !isRunning(one.Child) })
	b.settled(app)
}

func TestOperatorOfALostRecordIsEnded(t *testing.T) {
	for name, lose := range map[string]func(*bench){
		"damaged": func(b *bench) { _ = os.WriteFile(b.path("mysql", recordName), []byte("{"), 0o600) },
		"gone with its directory": func(b *bench) {
			_ = os.Rename(b.path("mysql"), filepath.Join(b.TempDir(), "away"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			one := b.leave("mysql")
			lose(b)
			// One of another directory is none of ours.
			other := newBench(t)
			foreign := other.leave("mysql")

			m := b.start()
			b.eventually("it has ended", func() bool { return !isRunning(one.Pid) })
			b.ensure("mysql", config("mysql", 1))
			b.settled("mysql")
			if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
				t.Fatal(err)
			}
			b.gone("mysql")
			if !isRunning(foreign.Pid) {
				t.Error("the operator of another directory was ended")
			}
		})
	}
}

func TestPidOfAnotherProcessIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*record){
		"the start time differs": func(r *record) { r.Process.Start-- },
		"the pid is ours":        func(r *record) { r.Process.Pid = os.Getpid() },
		"another boot": func(r *record) {
			p, _ := procfs{dir: "/proc"}.identify(os.Getpid())
			r.Process, r.Boot = &p, "another"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			one := b.leave("mysql")
			if err := syscall.Kill(one.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			// One that the operator's pid was given to, so to speak.
			bystander := exec.Command("/proc/self/exe", childRole)
			bystander.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := bystander.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
			b.edit("mysql", func(r *record) {
				r.Process.Pid = bystander.Process.Pid
				change(r)
			})
			m := b.start()
			b.born("mysql", 2)
			if err := m.DeleteOperator(t.Context(), "mysql"); err != nil {
				t.Fatal(err)
			}
			b.gone("mysql")
			if !isRunning(bystander.Process.Pid) {
				t.Error("another process was killed")
			}
		})
	}
}

func TestZombieIsDead(t *testing.T) {
	b := newBench(t)
	one := b.leave("mysql")
	// It is our child, and nobody reaps it.
	if err := syscall.Kill(one.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is a zombie", func() bool {
		s, err := procfs{dir: "/proc"}.stat(one.Pid)
		return err == nil && s.state == 'Z'
	})
	b.start()
	b.born("mysql", 2)
	b.settled("mysql")
}

func TestChangeWhileThereWasNoManagerToRestart(t *testing.T) {
	b := newBench(t)
	b.leave("mysql")
	// As after a crash between the record and the restart.
	if err := os.WriteFile(b.path("mysql", infoName), []byte("new: info\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.edit("mysql", func(r *record) { r.Wanted = "another" })
	b.start()
	if got := b.born("mysql", 2); got.Info != "new: info\n" {
		t.Errorf("operator.yaml is %q", got.Info)
	}
	b.settled("mysql")
	if n := len(b.births("mysql")); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestDeletionGoesOnAfterARestart(t *testing.T) {
	b := newBench(t)
	one := b.leave("mysql")
	b.edit("mysql", func(r *record) { r.Deleting = true })
	b.start()
	b.gone("mysql")
	if isRunning(one.Pid) {
		t.Error("the process is still there")
	}
}

func TestSecondManagerIsRefused(t *testing.T) {
	b := newBench(t)
	m := b.start()
	if _, err := New(b.config); !errors.Is(err, errors.AlreadyExists) ||
		err.Error() != "process manager: another manager of the directory already exists" {
		t.Errorf("second manager: %v", err)
	}
	// One that was refused does no harm.
	b.ensure("mysql", config("mysql", 1))
	b.born("mysql", 1)
	if _, err := m.Operators(t.Context()); err != nil {
		t.Error(err)
	}
	b.restart()
}

func TestStopOperators(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(map[bool]string{false: "before the manager is killed", true: "after"}[dead], func(t *testing.T) {
			b := newBench(t)
			b.config.StopTimeout = 300 * time.Millisecond
			m := b.start()
			for _, app := range []string{"mysql", "stubborn", "with-child"} {
				b.ensure(app, config(app, 1))
				b.born(app, 1)
			}
			if _, err := m.StageOperator(t.Context(), "staged", "/", config("staged", 1)); err != nil {
				t.Fatal(err)
			}
			if dead {
				b.kill()
			}
			if err := m.StopOperators(t.Context()); err != nil {
				t.Fatal(err)
			}
			if pids := b.running(); len(pids) != 0 {
				t.Errorf("still running: %d", pids)
			}
			if child := b.births("with-child")[0].Child; isRunning(child) {
				t.Error("a child of an operator is still running")
			}
			if !dead {
				if s := b.operator("mysql").Status; s.Phase != operator.Waiting || s.Message != "stopped with its agent" {
					t.Errorf("status %+v", s)
				}
				// It still stores what it is given, and starts nothing.
				b.ensure("mysql", config("mysql", 2))
				b.ensure("late", config("late", 1))
				b.kill()
			}
			if err := m.StopOperators(t.Context()); err != nil {
				t.Errorf("a second time: %v", err)
			}
			b.start()
			again := b.born("mysql", 2)
			b.born("stubborn", 2)
			if again.AgentConf != config("mysql", 1).AgentConf.Reveal() {
				t.Error("its agent.conf did not stay")
			}
			if !dead {
				b.born("late", 1)
			}
			if len(b.runningFor("staged")) != 0 {
				t.Error("what was staged only was started")
			}
		})
	}
}

func TestStopOperatorsOfADeadManagerLeavesTheNextOnesAlone(t *testing.T) {
	b := newBench(t)
	m := b.start()
	b.ensure("mysql", config("mysql", 1))
	pid := b.born("mysql", 1).Pid
	b.restart()
	if err := m.StopOperators(t.Context()); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("StopOperators: %v", err)
	}
	if !isRunning(pid) {
		t.Error("the next manager's operator was stopped")
	}
}

func TestStopOperatorsEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	b.config.Clock = newFakeClock() // no SIGKILL ever
	m := b.start()
	b.ensure("stubborn", config("stubborn", 1))
	b.born("stubborn", 1)
	ctx, cancel := contextUntil(t, func() bool { _, err := os.Lstat(b.path("stubborn", "deaf")); return err == nil })
	defer cancel()
	if err := m.StopOperators(ctx); !errors.Is(err, ctx.Err()) || ctx.Err() == nil {
		t.Errorf("StopOperators: %v", err)
	}
}
