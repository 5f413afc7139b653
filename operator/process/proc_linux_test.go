package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"
)

// statLine is /proc/PID/stat of a process with this command name.
func statLine(pid int, comm, state string, pgrp int, start uint64) string {
	return fmt.Sprintf("%d (%s) %s 1 %d 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 99 100 18446744073709551615 1\n",
		pid, comm, state, pgrp, start)
}

func TestParseStat(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     stat
		bad      bool
	}{
		{"a plain one", statLine(5, "sleep", "S", 5, 1234), stat{'S', 5, 1, 1234}, false},
		{"a zombie", statLine(5, "sleep", "Z", 5, 1234), stat{'Z', 5, 1, 1234}, false},
		{"a name that looks like the rest", statLine(5, "a) R 1 2 3 (b", "S", 5, 1234), stat{'S', 5, 1, 1234}, false},
		{"a name with a line break", statLine(5, "a\nb", "S", 6, 1), stat{'S', 6, 1, 1}, false},
		{"nothing", "", stat{}, true},
		{"half of it", "5 (sleep) S 1 5", stat{}, true},
		{"no numbers", strings.ReplaceAll(statLine(5, "a", "S", 5, 1234), "1234", "x"), stat{}, true},
		{"no threads", strings.Replace(statLine(5, "a", "S", 5, 77), " 1 0 77", " x 0 77", 1), stat{}, true},
		{"no group", strings.Replace(statLine(5, "a", "S", 77, 1), "77", "x", 1), stat{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseStat([]byte(test.in))
			if test.bad != errors.Is(err, errors.NotValid) || got != test.want {
				t.Errorf("parseStat = %+v, %v", got, err)
			}
		})
	}
}

// fakeProc is a table of processes on disk.
func fakeProc(t *testing.T, stats map[int]string) procfs {
	dir := t.TempDir()
	for pid, line := range stats {
		path := filepath.Join(dir, fmt.Sprint(pid))
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "stat"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return procfs{dir: dir}
}

func TestAliveIsTheSameProcessThatRuns(t *testing.T) {
	p := fakeProc(t, map[int]string{
		5:  statLine(5, "a", "S", 5, 100),
		6:  statLine(6, "a", "Z", 6, 100),
		7:  statLine(7, "a", "X", 7, 100),
		8:  "not readable by us",
		9:  statLine(9, "a", "T", 9, 100),
		11: strings.Replace(statLine(11, "a", "Z", 11, 100), " 1 0 100", " 2 0 100", 1),
	})
	for _, test := range []struct {
		name string
		proc process
		want bool
	}{
		{"running", process{5, 100}, true},
		{"stopped", process{9, 100}, true},
		{"the pid of another", process{5, 99}, false},
		{"a zombie", process{6, 100}, false},
		{"a zombie but for its other threads", process{11, 100}, true},
		{"dead", process{7, 100}, false},
		{"absent", process{10, 100}, false},
		// A second copy is the greater evil.
		{"not to be told", process{8, 100}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := p.alive(test.proc); got != test.want {
				t.Errorf("alive = %v", got)
			}
		})
	}
}

// reusedPid is the process that runs the tests, under another start time.
func reusedPid(t *testing.T) process {
	p, err := procfs{dir: "/proc"}.identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p.Start--
	return p
}

func TestReusedPidIsNeverSignalledNorReaped(t *testing.T) {
	p := procfs{dir: "/proc"}
	other := reusedPid(t)
	// These would end the tests.
	if err := p.signal(other, syscall.SIGKILL); err != nil {
		t.Errorf("signal: %v", err)
	}
	if err := p.signalOne(other, syscall.SIGKILL); err != nil {
		t.Errorf("signalOne: %v", err)
	}
	if how := p.reap(other); how != "exited, status not known" {
		t.Errorf("reap: %s", how)
	}
}

func TestSignalReachesOneThatLeftItsGroup(t *testing.T) {
	// As with a process that gave itself to another group: there is no
	// group of its pid.
	child, err := os.StartProcess("/proc/self/exe", []string{"operator", childRole}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	p := procfs{dir: "/proc"}
	proc, err := p.identify(child.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.signal(proc, syscall.SIGKILL); err != nil {
		t.Errorf("signal: %v", err)
	}
	state, err := child.Wait()
	if err != nil || state.String() != "signal: killed" {
		t.Errorf("it ended with %v, %v", state, err)
	}
}

func TestBootIDIsNeeded(t *testing.T) {
	if _, err := openProcfs(t.TempDir()); !errors.Is(err, errors.NotSupported) {
		t.Errorf("openProcfs: %v", err)
	}
	p, err := openProcfs("/proc")
	if err != nil || len(p.boot) != 36 {
		t.Errorf("openProcfs = %+v, %v", p, err)
	}
}

func TestExitingProcessesAreFoundByTheirGroup(t *testing.T) {
	p := fakeProc(t, map[int]string{
		5: statLine(5, "a", "Z", 5, 100), // the first process
		6: statLine(6, "a", "R", 5, 101), // exiting
		7: statLine(7, "a", "S", 5, 102), // with its program
		8: statLine(8, "a", "R", 8, 103), // another group
		9: statLine(9, "a", "Z", 5, 104),
	})
	if err := os.Symlink("/bin/true", filepath.Join(p.dir, "7", "exe")); err != nil {
		t.Fatal(err)
	}
	if got := p.exiting(map[int]bool{5: true}); !slices.Equal(got, []process{{6, 101}}) {
		t.Errorf("exiting: %v", got)
	}
	if got := p.exiting(nil); got != nil {
		t.Errorf("of no group: %v", got)
	}
}

// TestProcessInAnExecIsWaitedFor has a table in which an environment appears
// after some looks, as in the middle of an exec.
func TestProcessInAnExecIsWaitedFor(t *testing.T) {
	line := func(envEnd int) string {
		return strings.TrimSpace(statLine(5, "a", "S", 5, 100)) + strings.Repeat(" 0", 24) + fmt.Sprintf(" %d 0\n", envEnd)
	}
	write := func(p procfs, name, content string) {
		if err := os.WriteFile(filepath.Join(p.dir, "5", name), []byte(content), 0o600); err != nil {
			t.Error(err)
		}
	}
	const environ = "A=1\x00" + TokenVariable + "=token\x00"

	inExec := fakeProc(t, map[int]string{5: line(0)})
	if err := os.Symlink("/bin/true", filepath.Join(inExec.dir, "5", "exe")); err != nil {
		t.Fatal(err)
	}
	write(inExec, "environ", "")
	if !inExec.inExec(5) {
		t.Fatal("not told from one without an environment")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(3 * time.Millisecond) // for variety, not to wait
		write(inExec, "environ", environ)
	}()
	if token, ok := inExec.token(5); !ok || token != "token" {
		t.Errorf("in an exec: %q, %v", token, ok)
	}
	<-done

	without := fakeProc(t, map[int]string{5: line(140_000)})
	kernel := fakeProc(t, map[int]string{5: line(0)})
	for name, p := range map[string]procfs{"without an environment": without, "of the kernel": kernel} {
		write(p, "environ", "")
		if token, ok := p.token(5); ok || p.inExec(5) {
			t.Errorf("%s: %q", name, token)
		}
	}
	if own := (procfs{dir: "/proc"}); own.inExec(os.Getpid()) {
		t.Error("this very process is in an exec")
	}
}
