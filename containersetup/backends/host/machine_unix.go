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

// New returns the machine that this program runs on.
func New(config Config) Host {
	return machine{prefix: slices.Clone(config.Prefix)}
}

// grace is for how long a command that has ended, or was ended, may have its output held
// by something that it left running out of reach.
const grace = 2 * time.Second

// notThere is the code with which env, nsenter, unshare, chroot and their like say that
// there is no such program.
const notThere = 127

type machine struct{ prefix []string }

func (m machine) Run(ctx context.Context, c Command) (Output, error) {
	if err := c.Validate(); err != nil {
		return Output{}, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	args := slices.Concat(m.prefix, c.Args)
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	if len(c.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	// In a language that is known, whatever the agent's own.
	cmd.Env = slices.Concat(os.Environ(), []string{"LC_ALL=C.UTF-8", "LANGUAGE="}, c.Env)
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A group of its own, so that what it has started is ended with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			// It ended by itself in this very moment, and is judged by that.
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = grace

	err := cmd.Run()
	out := Output{stdout.head.Bytes(), stderr.head.Bytes()}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		// It ended well; at most, something that it left running holds its output.
		if c.ReadOnly && stdout.more {
			return out, errors.Errorf("%s: more than %d bytes of output", c.Args[0], maxOutput)
		}
		return out, nil
	case ctx.Err() != nil:
		return out, errors.Annotate(ctx.Err(), c.Args[0])
	case limited.Err() != nil:
		return out, errors.Timeoutf("%s, after %s,", c.Args[0], timeout)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return out, errors.NotFoundf("program %q", args[0])
	case errors.As(err, &exit) && len(m.prefix) > 0 && exit.ExitCode() == notThere:
		return out, errors.NotFoundf("program %q", c.Args[0])
	case errors.As(err, &exit):
		return out, &ExitError{Program: c.Args[0], Code: exit.ExitCode(), Message: lastLine(stderr.end(), stdout.end())}
	}
	return out, errors.Annotate(err, c.Args[0])
}

// bounded keeps the beginning of what is written to it, for who asked, and a little of
// the end, for what went wrong.
type bounded struct {
	head bytes.Buffer
	tail []byte // of what came after the head
	more bool
}

const maxTail = 4 << 10

func (b *bounded) Write(p []byte) (int, error) {
	n := min(maxOutput-b.head.Len(), len(p))
	b.head.Write(p[:n])
	if n < len(p) {
		b.more = true
		b.tail = append(b.tail, p[max(n, len(p)-maxTail):]...)
		b.tail = b.tail[max(0, len(b.tail)-maxTail):]
	}
	return len(p), nil
}

func (b *bounded) end() []byte {
	if b.more {
		return b.tail
	}
	return b.head.Bytes()
}

func (machine) ReadFile(_ context.Context, name string) ([]byte, error) {
	if err := absolute(name); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.NotFoundf("file %q", name)
	}
	return data, errors.Trace(err)
}

func (machine) WriteFile(_ context.Context, name string, data []byte, perm fs.FileMode) error {
	if err := absolute(name); err != nil {
		return err
	}
	name, err := target(filepath.Clean(name))
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	above, err := makeDirs(dir, perm)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".sutler-*.tmp")
	if err != nil {
		return errors.Trace(err)
	}
	err = fill(temp, name, data, perm)
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return errors.Annotatef(err, "writing %q", name)
	}
	// The name is there for good once its directory is written, and those that are new
	// once theirs are.
	for {
		if err := syncDir(dir); err != nil {
			return err
		}
		if dir == above {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// fill makes a temporary file, which it closes, ready to take a name's place.
func fill(temp *os.File, name string, data []byte, perm fs.FileMode) error {
	defer func() { _ = temp.Close() }() // for the second time, if all went well
	if info, err := os.Lstat(name); err == nil {
		perm = info.Mode().Perm()
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			// Only root can; anybody else's file becomes this process's own.
			_ = temp.Chown(int(stat.Uid), int(stat.Gid))
		}
	}
	if err := temp.Chmod(perm); err != nil {
		return err
	}
	if _, err := temp.Write(data); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	return temp.Close()
}

// maxLinks is how many links in a row are followed, as by the kernel.
const maxLinks = 40

// target returns what a name stands for if it is a link, also if that is not there yet:
// the link is to stay.
func target(name string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(name)
		if err != nil {
			return name, nil // it is no link, or not there
		}
		if !filepath.IsAbs(to) {
			// From where its directory really is.
			dir, err := filepath.EvalSymlinks(filepath.Dir(name))
			if err != nil {
				return "", errors.Trace(err)
			}
			to = filepath.Join(dir, to)
		}
		name = to
	}
	return "", errors.NotValidf("file name %q: a link in a circle: it", cut(name, 100))
}

// makeDirs makes the directories that are missing, for everybody whom a file in them is
// for, and returns the one above them that was there.
func makeDirs(dir string, perm fs.FileMode) (above string, err error) {
	for above = dir; ; above = filepath.Dir(above) {
		if _, err := os.Stat(above); err == nil || above == filepath.Dir(above) {
			break
		}
	}
	readers := perm & 0o044
	return above, errors.Trace(os.MkdirAll(dir, 0o700|readers|readers>>2))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { _ = d.Close() }()
	return errors.Trace(d.Sync())
}

func (machine) Remove(_ context.Context, name string) error {
	if err := absolute(name); err != nil {
		return err
	}
	err := os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Trace(err)
	}
	return syncDir(filepath.Dir(filepath.Clean(name)))
}

func (machine) Glob(_ context.Context, pattern string) ([]string, error) {
	if err := absolute(pattern); err != nil {
		return nil, err
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, errors.NotValidf("pattern %q", pattern)
	}
	slices.Sort(names) // it sorts each directory's names, not all
	return names, nil
}

func (machine) LockHolder(_ context.Context, name string) (*Process, error) {
	if err := absolute(name); err != nil {
		return nil, err
	}
	// Looking needs no right to write, and must not wait for the other end of a pipe.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	defer func() { _ = f.Close() }()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil {
		return nil, errors.Annotatef(err, "looking at the lock of %s", name)
	}
	if lock.Type == syscall.F_UNLCK {
		return nil, nil
	}
	p := Process{PID: max(0, int(lock.Pid))}
	comm, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "comm"))
	p.Name = strings.TrimSpace(strings.Map(printable, string(comm)))
	return &p, nil
}
