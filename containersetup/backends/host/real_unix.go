//go:build unix

package host

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
)

// Config is what [New] takes. Its zero value is this machine.
type Config struct {
	// Prefix stands before every command, as in "nsenter", "--net=/run/netns/x".
	Prefix []string
}

// New returns the machine that this program runs on.
func New(config Config) Host { return real{config} }

// maxOutput is how much of what a command prints is kept.
const maxOutput = 1 << 20

// grace is for how long a command that was ended may hold on to its output.
const grace = 2 * time.Second

type real struct{ config Config }

func (r real) Run(ctx context.Context, c Command) (Output, error) {
	if err := c.Validate(); err != nil {
		return Output{}, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	args := slices.Concat(r.config.Prefix, c.Args)
	cmd := exec.CommandContext(limited, args[0], args[1:]...) //nolint:gosec // running what it is told is what it is for
	cmd.Stdin = bytes.NewReader(c.Stdin)
	// In a language that is known, and with nothing that asks for a terminal.
	cmd.Env = slices.Concat(os.Environ(), []string{"LC_ALL=C.UTF-8", "LANGUAGE="}, c.Env)
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// Its children end with it, those that it left behind, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace

	err := cmd.Run()
	out := Output{stdout.Bytes(), stderr.Bytes()}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		// It ended well; something that it left running holds its output.
		return out, nil
	case ctx.Err() != nil:
		return out, errors.Annotate(ctx.Err(), c.Args[0])
	case limited.Err() != nil:
		return out, errors.Timeoutf("%s, after %s,", c.Args[0], timeout)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return out, errors.NotFoundf("program %q", args[0])
	case errors.As(err, &exit):
		return out, &ExitError{Program: c.Args[0], Code: exit.ExitCode(), Message: lastLine(out)}
	}
	return out, errors.Annotate(err, c.Args[0])
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (real) ReadFile(_ context.Context, name string) ([]byte, error) {
	if err := absolute(name); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(name) //nolint:gosec // as told
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.NotFoundf("file %q", name)
	}
	return data, errors.Trace(err)
}

func (real) WriteFile(_ context.Context, name string, data []byte, perm fs.FileMode) (err error) {
	if err := absolute(name); err != nil {
		return err
	}
	// Through a link, so that the link stays.
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return errors.Trace(err)
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*")
	if err != nil {
		return errors.Trace(err)
	}
	defer func() {
		if err != nil {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
	}()
	if info, err := os.Stat(name); err == nil {
		perm = info.Mode().Perm()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = temp.Chown(int(st.Uid), int(st.Gid)) // as root it can be kept
		}
	}
	if err := temp.Chmod(perm); err != nil {
		return errors.Trace(err)
	}
	if _, err := temp.Write(data); err != nil {
		return errors.Trace(err)
	}
	if err := temp.Sync(); err != nil {
		return errors.Trace(err)
	}
	if err := temp.Close(); err != nil {
		return errors.Trace(err)
	}
	if err := os.Rename(temp.Name(), name); err != nil {
		return errors.Trace(err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // as told
	if err != nil {
		return errors.Trace(err)
	}
	defer d.Close()
	return errors.Trace(d.Sync())
}

func (real) Remove(_ context.Context, name string) error {
	if err := absolute(name); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Trace(err)
	}
	return nil
}

func (real) Glob(_ context.Context, pattern string) ([]string, error) {
	if err := absolute(pattern); err != nil {
		return nil, err
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, errors.NotValidf("pattern %q", pattern)
	}
	return names, nil
}

func (real) LockHolder(_ context.Context, name string) (*Process, error) {
	if err := absolute(name); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0) //nolint:gosec // as told
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return nil, errors.Annotatef(err, "looking at the lock of %s", name)
	}
	if lock.Type == syscall.F_UNLCK {
		return nil, nil
	}
	pid := int(lock.Pid)
	comm, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm")) //nolint:gosec // a number
	return &Process{PID: pid, Name: strings.TrimSpace(string(comm))}, nil
}
