package box

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
)

// readyTimeout is how long a box may take to be ready.
const readyTimeout = 30 * time.Second

// answerTimeout is how long a box that runs may take to say who it is.
const answerTimeout = 2 * time.Second

// ready is what a box writes to its standard output when it is.
const ready = "ready"

// spawn starts the instance's process and returns when it is ready. When it
// fails, or ctx ends first, no process is left.
func (i instance) spawn(ctx context.Context) (process, error) {
	pid, out, err := i.exec()
	if err != nil {
		return process{}, errors.Annotate(err, "starting the process")
	}
	defer out.Close()
	within, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	stop := context.AfterFunc(within, func() { _ = out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	line, _ := bufio.NewReader(out).ReadString('\n') // of nothing, if that fails
	p, err := readProcess(i.dir)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case within.Err() != nil:
		err = errors.Timeoutf("ready after %s: process", readyTimeout)
	case strings.TrimSpace(line) != ready:
		err = errors.Errorf("process ended before it was ready, or is no box (%s may tell)", logFile)
	case err == nil && p.PID != pid:
		err = errors.NotValidf("%s of another process", processFile)
	}
	if err != nil {
		// Our child, and not reaped, so the pid is still its own.
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return process{}, err
	}
	return p, nil
}

// exec starts the process with its output on a pipe, which is the caller's.
func (i instance) exec() (pid int, out *os.File, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	log, err := os.OpenFile(filepath.Join(i.dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer theirs.Close()

	argv := make([]string, len(i.host.config.Command))
	for n, arg := range i.host.config.Command {
		argv[n] = strings.ReplaceAll(arg, DirPlaceholder, i.dir)
	}
	child, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir: i.dir,
		// Nothing of the agent's environment is a box's business.
		Env:   []string{"PATH=" + os.Getenv("PATH")},
		Files: []*os.File{null, theirs, log},
		// Neither the terminal's signals nor the agent's end reach it.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = out.Close()
		return 0, nil, err
	}
	pid = child.Pid
	// From here on it is treated as one that was adopted. As our child it
	// keeps its pid until it is reaped.
	_ = child.Release()
	return pid, out, nil
}

// answers tells whether the box says that it is this one.
func (f found) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := Ask(ctx, f.dir)
	return err == nil && answer.Container == f.record.Container && answer.PID == f.process.PID
}

// Answer is what a box says of itself.
type Answer struct {
	Container string    `yaml:"container"`
	PID       int       `yaml:"pid"`
	Since     time.Time `yaml:"since"`
}

// Ask has the box in that directory say who it is; errors.NotFound when there is
// none.
func Ask(ctx context.Context, dir string) (Answer, error) {
	data, err := socket.Read(ctx, dir, socketFile)
	if err != nil {
		return Answer{}, err
	}
	var a Answer
	if err := yaml.Unmarshal(data, &a); err != nil || a.Container == "" {
		return Answer{}, errors.NotValidf("answer of a box")
	}
	return a, nil
}
