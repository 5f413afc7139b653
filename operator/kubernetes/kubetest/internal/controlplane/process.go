//go:build linux

package controlplane

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
)

// A process is known by its id and by when it started: ids are given out again.
type process struct {
	pid     int
	started string
}

// lookUp returns the process that has the id now; false when there is none, or only
// one that has ended and was not waited for.
func lookUp(pid int) (process, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	// The program's name, in brackets, may itself have spaces and brackets. After
	// it come the state and, as the 20th, the time of start.
	_, rest, _ := strings.Cut(string(data[bytes.LastIndexByte(data, ')'):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || strings.ContainsAny(fields[0], "ZX") {
		return process{}, false
	}
	return process{pid: pid, started: fields[19]}, true
}

func (p process) alive() bool {
	now, ok := lookUp(p.pid)
	return ok && now == p
}

// freeze stops the process, and waits until the last of its threads has stopped: the
// signal does not wait for one that runs on another processor.
func (p process) freeze() error {
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		return errors.Annotatef(err, "stopping process %d", p.pid)
	}
	for end := time.Now().Add(10 * time.Second); !p.frozen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.Timeoutf("halt of stopped process %d", p.pid)
		}
	}
	return nil
}

// frozen reports whether every thread has stopped.
func (p process) frozen() bool {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.pid), "task", "*", "stat"))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		data, err := os.ReadFile(thread)
		if os.IsNotExist(err) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data[bytes.LastIndexByte(data, ')')+1:]), " ")
		if err != nil || !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}

// kill ends the process, if it is still the one, and waits until it has gone.
func (p process) kill() error {
	// The handle is taken before looking, so that it cannot be another's.
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return errors.Trace(err)
	}
	defer handle.Release() //nolint:errcheck // It only frees the handle.
	if !p.alive() {
		return nil
	}
	// Nobody needs what the programs would write on their way out.
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Annotatef(err, "killing process %d", p.pid)
	}
	for end := time.Now().Add(10 * time.Second); p.alive(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.Timeoutf("end of killed process %d", p.pid)
		}
	}
	return nil
}

// The file in the state folder that says which process runs a program.
func recordPath(dir, program string) string { return filepath.Join(dir, program+".pid") }

func (p process) record(dir, program string) error {
	return os.WriteFile(recordPath(dir, program), fmt.Appendf(nil, "%d %s\n", p.pid, p.started), 0o600)
}

// recorded returns the process that was recorded for a program; false when none was.
func recorded(dir, program string) (process, bool) {
	data, err := os.ReadFile(recordPath(dir, program))
	if err != nil {
		return process{}, false
	}
	var p process
	_, err = fmt.Sscanf(string(data), "%d %s", &p.pid, &p.started)
	return p, err == nil
}

// A starter starts programs that are not to outlive this process: the kernel kills
// them when the thread that started them ends, so all are started from one thread,
// which is kept.
type starter struct {
	work chan func()
}

func newStarter() *starter {
	s := &starter{work: make(chan func())}
	go func() {
		// Not unlocked: the thread ends with the goroutine, when all that it
		// started has been stopped.
		runtime.LockOSThread()
		for work := range s.work {
			work()
		}
	}()
	return s
}

// close ends the thread, and all that it has started.
func (s *starter) close() { close(s.work) }

// start runs the program with its output in the log and records it. A nil starter
// starts what outlives this process.
func (s *starter) start(state State, program, path string, args ...string) error {
	log, err := os.OpenFile(state.Log(program), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	defer log.Close()
	// It is no child of any call's context: Stop ends it.
	cmd := exec.Command(path, args...) //nolint:noctx // See above.
	cmd.Dir, cmd.Stdout, cmd.Stderr = state.Dir, log, log
	// A session of its own: a terminal's interrupt is not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if s == nil {
		err = cmd.Start()
	} else {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		done := make(chan struct{})
		s.work <- func() {
			err = cmd.Start()
			close(done)
		}
		<-done
	}
	if err != nil {
		return errors.Annotatef(err, "starting %s", program)
	}
	// Whoever looks at it must see that it has ended, so it is waited for. The
	// goroutine ends with the process.
	go cmd.Wait() //nolint:errcheck // How it ended is in its log.
	p, ok := lookUp(cmd.Process.Pid)
	if !ok {
		return errors.Errorf("%s ended at once: %s", program, state.tail(program))
	}
	return errors.Trace(p.record(state.Dir, program))
}

// tail returns the end of a program's log.
func (s State) tail(program string) string {
	data, err := os.ReadFile(s.Log(program))
	if err != nil {
		return err.Error()
	}
	const enough = 2000
	if len(data) > enough {
		data = data[len(data)-enough:]
	}
	return strings.TrimSpace(string(data))
}
