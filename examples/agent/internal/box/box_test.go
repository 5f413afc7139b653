package box

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

func TestBoxIsADirectoryOfPrivateFilesAndAProcessInASessionOfItsOwn(t *testing.T) {
	w := newWorld(t)
	name, answer := w.start(w.broker(w.host()), "0/box/3")
	if name != "juju-1c2d3e-0-box-3" || answer.Container != "0/box/3" {
		t.Errorf("got %s, %+v", name, answer)
	}
	if sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(answer.PID), 0, 0); errno != 0 || int(sid) != answer.PID {
		t.Errorf("got session %d of process %d, %v", sid, answer.PID, errno)
	}
	userData := 0
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "user-data-canary") {
			userData++
		}
		return err
	})
	if err != nil || userData != 1 {
		t.Errorf("user data is in %d files, %v", userData, err)
	}
	for _, file := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(answer.PID), file))
		if err != nil || strings.Contains(string(data), "canary") || strings.Contains(string(data), "HOME=") {
			t.Errorf("%s: %q, %v", file, data, err)
		}
	}
	if strings.Contains(w.log.String(), "canary") {
		t.Error("user data is in the log")
	}
}

func TestHostThatEndsLeavesItsBoxesToTheNext(t *testing.T) {
	w := newWorld(t)
	first := w.host()
	name, before := w.start(w.broker(first), "0/box/0")
	w.stop(first)
	b := w.broker(w.host())
	if one := w.one(b); !one.Running || string(one.ID) != name || one.Status != "running" {
		t.Errorf("got %+v", one)
	}
	if _, after := w.start(b, "0/box/0"); after != before {
		t.Errorf("got %+v, then %+v; want it adopted", before, after)
	}
	if n := strings.Count(w.log.String(), "is prepared for boxes"); n != 1 {
		t.Errorf("prepared %d times", n)
	}
}

func TestBoxThatIsKilledIsStartedAgain(t *testing.T) {
	w := newWorld(t)
	b := w.broker(w.host())
	name, before := w.start(b, "0/box/0")
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("it runs again", func() bool {
		answer, err := Ask(t.Context(), filepath.Join(w.dir, name))
		return err == nil && answer.PID != before.PID
	})
	w.eventually("it is listed", func() bool { return w.one(b).Running })
	if pids := w.processes(); len(pids) != 1 {
		t.Errorf("got processes %v", pids)
	}
}

func TestStoppedBoxesStartWithTheNextHost(t *testing.T) {
	w := newWorld(t)
	first := w.host()
	name, before := w.start(w.broker(first), "0/box/0")
	w.stop(first)
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pids := w.processes(); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if one := w.one(&broker{host: first}); one.Running || one.Status != "stopped" {
		t.Errorf("got %+v", one)
	}
	w.host()
	w.eventually("it runs again", func() bool {
		answer, err := Ask(t.Context(), filepath.Join(w.dir, name))
		return err == nil && answer.PID != before.PID
	})
}

func TestBoxThatDoesNotEndIsKilled(t *testing.T) {
	w := newWorld(t)
	h := w.host(func(c *Config) { c.Command = command(deaf + "=1") })
	w.broker(h)
	b, err := h.Backend().NewBroker(t.Context(), facade.ContainerManagerConfig{StopTimeoutSetting: "50ms"})
	if err != nil {
		t.Fatal(err)
	}
	name, _ := w.start(b, "0/box/0")
	if err := b.StopInstances(t.Context(), container.InstanceID(name))[0]; err != nil {
		t.Fatal(err)
	}
	if pids := w.processes(); len(pids) > 0 || w.one(b).ID != "" {
		t.Errorf("left: %v, %+v", pids, w.one(b))
	}
}

func TestCancelledStopIsTakenUpAgain(t *testing.T) {
	w := newWorld(t)
	b := w.broker(w.host(func(c *Config) { c.Command = command(deaf + "=1") }))
	name, before := w.start(b, "0/box/0")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.StopInstances(ctx, container.InstanceID(name))[0]; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if one := w.one(b); one.Running || one.Status != "being removed" {
		t.Errorf("got %+v", one)
	}
	// Somebody changed their mind: what was half removed is replaced.
	b.(*broker).settings.stopTimeout = 0
	if _, after := w.start(b, "0/box/0"); after.PID == before.PID {
		t.Error("the same process")
	}
	if one := w.one(b); !one.Running {
		t.Errorf("got %+v", one)
	}
}

// TestBoxOfAnAgentThatDidNotHearIsAdopted is an agent that was killed after the
// box was ready and before it could write that down.
func TestBoxOfAnAgentThatDidNotHearIsAdopted(t *testing.T) {
	w := newWorld(t)
	first := w.host()
	name, before := w.start(w.broker(first), "0/box/0")
	w.stop(first)
	w.unstart(name)
	b := w.broker(w.host())
	if one := w.one(b); one.Running || one.Status != "half made" {
		t.Errorf("got %+v", one)
	}
	if _, after := w.start(b, "0/box/0"); after != before {
		t.Errorf("got %+v, then %+v", before, after)
	}
	if one := w.one(b); !one.Running {
		t.Errorf("got %+v", one)
	}
}

// unstart makes an instance's record say that it was never ready.
func (w *world) unstart(name string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	r, err := readRecord(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Started = false
	if err := r.write(dir); err != nil {
		w.t.Fatal(err)
	}
}

func TestHalfMadeBoxThatDoesNotAnswerIsReplaced(t *testing.T) {
	w := newWorld(t)
	b := w.broker(w.host())
	name, before := w.start(b, "0/box/0")
	w.unstart(name)
	if err := os.Remove(filepath.Join(w.dir, name, socketFile)); err != nil {
		t.Fatal(err)
	}
	if _, after := w.start(b, "0/box/0"); after.PID == before.PID {
		t.Error("the same process")
	}
	w.eventually("the old one is gone", func() bool { return len(w.processes()) == 1 })
}

func TestProcessThatHasThePidOfABoxIsNeverSignalled(t *testing.T) {
	for name, change := range map[string]func(*process){
		"started later":   func(p *process) { p.Start++ },
		"of another boot": func(p *process) { p.Boot = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := w.host()
			b := w.broker(h)
			box, answer := w.start(b, "0/box/0")
			w.stop(h) // or it would start the box again
			if err := h.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			other := exec.Command("sleep", "1000")
			other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
			_, start, err := stat(other.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			boot, err := bootID()
			if err != nil {
				t.Fatal(err)
			}
			p := process{PID: other.Process.Pid, Start: start, Boot: boot}
			change(&p)
			if err := p.write(filepath.Join(w.dir, box)); err != nil {
				t.Fatal(err)
			}
			if w.one(b).Running {
				t.Error("taken for the box")
			}
			if _, after := w.start(b, "0/box/0"); after.PID == answer.PID || after.PID == other.Process.Pid {
				t.Errorf("got %+v", after)
			}
			if err := p.write(filepath.Join(w.dir, box)); err != nil {
				t.Fatal(err)
			}
			if err := b.StopInstances(t.Context(), container.InstanceID(box))[0]; err != nil {
				t.Error(err)
			}
			if state, _, err := stat(other.Process.Pid); err != nil || state == 'Z' {
				t.Errorf("the other process: %c, %v", state, err)
			}
			w.eventually("the box misses its directory", func() bool { return len(w.processes()) == 0 })
		})
	}
}

func TestDamagedFileCostsItsOwnBoxAlone(t *testing.T) {
	w := newWorld(t)
	b := w.broker(w.host())
	_, good := w.start(b, "0/box/1")
	for _, file := range []string{recordFile, processFile} {
		for name, data := range map[string]string{"empty": "", "no YAML": "[secret-canary", "other": "pid: 1\n"} {
			box, before := w.start(b, "0/box/0")
			path := filepath.Join(w.dir, box, file)
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := b.AllInstances(t.Context())
			if err != nil || len(all) != 2 || all[0].ContainerID != "0/box/0" || all[0].Running || !all[1].Running {
				t.Fatalf("%s %s: got %+v, %v", file, name, all, err)
			}
			if file == processFile {
				// It must not have a second process, and the first one is
				// not known: it goes with its directory.
				if err := b.StopInstances(t.Context(), container.InstanceID(box))[0]; err != nil {
					t.Fatal(err)
				}
			}
			if _, after := w.start(b, "0/box/0"); after.PID == before.PID {
				t.Errorf("%s %s: the same process", file, name)
			}
			w.eventually("no process too many", func() bool { return len(w.processes()) == 2 })
			if err := b.StopInstances(t.Context(), container.InstanceID(box))[0]; err != nil {
				t.Fatal(err)
			}
		}
	}
	if again := w.ask("juju-1c2d3e-0-box-1"); again != good {
		t.Errorf("the good one: %+v, then %+v", good, again)
	}
	if strings.Contains(w.log.String(), "canary") {
		t.Error("a damaged file is repeated in the log")
	}
}

func TestWhatCannotBeABoxIsRefused(t *testing.T) {
	w := newWorld(t)
	b := w.broker(w.host())
	huge := params("0/box/0")
	huge.Info.Constraints.Cores = uint64(runtime.NumCPU()) + 1
	for want, p := range map[string]container.StartParams{
		`ContainerID of type "lxd" (want box) not valid`: params("0/lxd/0"),
		"cores on a machine with":                        huge,
	} {
		if _, err := b.StartInstance(t.Context(), p); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if one := w.one(b); one.ID != "" {
		t.Errorf("got %+v", one)
	}
}

func TestProgramThatIsNoBoxIsAnErrorAndLeavesNoProcess(t *testing.T) {
	for name, test := range map[string]struct {
		argv []string
		want string
	}{
		"is not there":    {[]string{"/no/such/program", DirPlaceholder}, "starting the process"},
		"fails":           {[]string{"/bin/sh", "-c", "echo why >&2; exit 3", DirPlaceholder}, "ended before it was ready, or is no box (box.log may tell)"},
		"says other":      {[]string{"/bin/sh", "-c", "echo hello; sleep 1000", "box", "--dir", DirPlaceholder}, "ended before it was ready"},
		"is another":      {[]string{"/bin/sh", "-c", "echo ready; sleep 1000", "box", "--dir", DirPlaceholder}, "process.yaml of another process"},
		"never gets done": {[]string{"/bin/sh", "-c", "sleep 1000", "box", "--dir", DirPlaceholder}, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.broker(w.host(func(c *Config) { c.Command = test.argv }))
			ctx := t.Context()
			if name == "never gets done" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			_, err := b.StartInstance(ctx, params("0/box/0"))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			// What a shell had begun is killed with it, and gone a moment later.
			w.eventually("no process is left", func() bool { return len(w.processes()) == 0 })
			if one := w.one(b); one.Running || one.Status != "half made" {
				t.Errorf("got %+v", one)
			}
		})
	}
}

func TestBoxThatKeepsEndingWaitsLonger(t *testing.T) {
	w := newWorld(t)
	h := w.host()
	name, _ := w.start(w.broker(h), "0/box/0")
	w.stop(h)
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.config.Command = []string{"/bin/false", DirPlaceholder}
	after := map[string]*backoff{}
	h.startEnded(t.Context(), after)
	for n := 1; n < 5; n++ {
		b := after[name]
		if b == nil || b.n != n {
			t.Fatalf("got %+v after %d starts", b, n)
		}
		h.startEnded(t.Context(), after) // too early
		if b.n != n {
			t.Error("it did not wait")
		}
		b.next = time.Now()
		h.startEnded(t.Context(), after)
	}
	if b := after[name]; b.delay < 4*minBackoff {
		t.Errorf("got %+v", b)
	}
	// Nothing is remembered of one that is gone.
	if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
		t.Fatal(err)
	}
	if h.startEnded(t.Context(), after); len(after) > 0 {
		t.Errorf("got %v", after)
	}
}

func TestBoxHasOneProcess(t *testing.T) {
	w := newWorld(t)
	name, before := w.start(w.broker(w.host()), "0/box/0")
	var ready strings.Builder
	config := RunConfig{Dir: filepath.Join(w.dir, name), Ready: &ready, Logger: w.config().Logger}
	if err := Run(t.Context(), config); !errors.Is(err, errors.AlreadyExists) || ready.Len() > 0 {
		t.Errorf("got %v, %q", err, ready.String())
	}
	if after := w.ask(name); after != before {
		t.Errorf("got %+v, then %+v", before, after)
	}
}

func TestRunNamesWhatIsMissing(t *testing.T) {
	logger := newWorld(t).config().Logger
	for want, config := range map[string]RunConfig{
		"empty Dir not valid":  {},
		"nil Ready not valid":  {Dir: "d"},
		"nil Logger not valid": {Dir: "d", Ready: os.Stdout},
		"box.yaml not found":   {Dir: t.TempDir(), Ready: os.Stdout, Logger: logger},
	} {
		if err := Run(t.Context(), config); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWhatAKilledHostLeftIsSwept(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{
		".making-juju-1c2d3e-0-box-0-1", ".removing-juju-1c2d3e-0-box-0-1/box",
		".making-juju-ffffff-0-box-0-1", "notes", "juju-ffffff-0-box-0", "juju-1c2d3e-", "juju-1c2d3e-0-BOX-0",
	} {
		if err := os.MkdirAll(filepath.Join(w.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".prepared.yaml.123", "juju-1c2d3e-0-box-7/.box.yaml.123"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := w.broker(w.host())
	if left, err := os.ReadDir(filepath.Join(w.dir, "juju-1c2d3e-0-box-7")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v", left, err)
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "*"))
	if err != nil || len(left) != 7 { // what is not ours, and prepared.yaml
		t.Errorf("got %v, %v", left, err)
	}
	if one := w.one(b); one.ID != "" {
		t.Errorf("got %+v", one)
	}
}
