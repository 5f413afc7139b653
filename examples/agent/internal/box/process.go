package box

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/files"
)

// process is one process of this machine, told from every other that had or
// will have its pid.
type process struct {
	PID int `yaml:"pid"`
	// Start is when it started, in clock ticks since the boot.
	Start uint64 `yaml:"start-ticks"`
	// Boot is the machine's boot id.
	Boot string `yaml:"boot"`
}

const maxProcess = 4 << 10

// bootID returns errors.NotSupported where there is no /proc: without it no
// process can be told from another.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", errors.NewNotSupported(err, "reading the boot id")
	}
	return strings.TrimSpace(string(data)), nil
}

// self returns the process that this is.
func self() (process, error) {
	boot, err := bootID()
	if err != nil {
		return process{}, err
	}
	_, start, err := stat(os.Getpid())
	if err != nil {
		return process{}, errors.Annotate(err, "looking at this process")
	}
	return process{PID: os.Getpid(), Start: start, Boot: boot}, nil
}

// write keeps the process in the directory of its box.
func (p process) write(dir string) error {
	data, err := yaml.Marshal(p)
	if err != nil {
		return errors.Trace(err)
	}
	return files.Write(filepath.Join(dir, processFile), data)
}

// readProcess returns the process of the box in dir; the zero process, which is
// never alive, when none has begun there.
func readProcess(dir string) (process, error) {
	data, err := files.Read(filepath.Join(dir, processFile), maxProcess)
	if errors.Is(err, errors.NotFound) {
		return process{}, nil
	}
	if err != nil {
		return process{}, err
	}
	var p process
	if err := yaml.Unmarshal(data, &p); err != nil || p.PID <= 1 {
		return process{}, errors.NotValidf("%s", processFile)
	}
	return p, nil
}

// alive says whether the process still runs. When that cannot be told it does: a
// second copy is the greater evil. One that is dead and our child is reaped.
func (p process) alive() bool {
	if p.PID == 0 {
		return false
	}
	if boot, err := bootID(); err == nil && boot != p.Boot {
		return false
	}
	state, start, err := stat(p.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		return true
	case start != p.Start:
		return false
	case state == 'Z' || state == 'X':
		// Not our child, if there was another agent: then somebody else
		// reaps it.
		_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
		return false
	}
	return true
}

// signal sends to the process's whole group, if it is still there.
func (p process) signal(sig syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	// It may end between the look and the call, but for its pid to go to a
	// new group all others would have to be used up meanwhile.
	if err := syscall.Kill(-p.PID, sig); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// stat returns the state and the start time of a process, or fs.ErrNotExist.
func stat(pid int) (state byte, start uint64, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, syscall.ESRCH) {
		return 0, 0, fs.ErrNotExist // it ended between open and read
	}
	if err != nil {
		return 0, 0, err
	}
	return parseStat(data)
}

// parseStat counts from the last parenthesis: the command before it may hold
// anything.
func parseStat(data []byte) (state byte, start uint64, err error) {
	const startField = 19
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= startField {
		return 0, 0, errors.NotValidf("process status of %d fields", len(fields))
	}
	start, err = strconv.ParseUint(string(fields[startField]), 10, 64)
	if err != nil {
		return 0, 0, errors.NotValidf("process start time")
	}
	return fields[0][0], start, nil
}
