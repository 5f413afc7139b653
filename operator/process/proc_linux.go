package process

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
)

// process is one process of this machine, told from every other that had or
// will have its pid: the kernel gives a pid anew only to one that starts later.
type process struct {
	Pid int `json:"pid"`
	// Start is when it started, in clock ticks since the machine's boot.
	Start uint64 `json:"start-ticks"`
}

// procfs reads the kernel's table of processes.
type procfs struct {
	dir string
	// boot is the machine's boot id: pids and start times of another boot
	// mean nothing.
	boot string
}

// openProcfs fails where there is no such table, as in some containers: without
// it no process can be told from another.
func openProcfs(dir string) (procfs, error) {
	data, err := os.ReadFile(filepath.Join(dir, "sys/kernel/random/boot_id"))
	if err != nil {
		return procfs{}, errors.NewNotSupported(err, "reading the boot id")
	}
	return procfs{dir: dir, boot: strings.TrimSpace(string(data))}, nil
}

// stat is what is needed of /proc/PID/stat.
type stat struct {
	state   byte
	pgrp    int
	threads int
	start   uint64
}

// dead is a process that runs no more, whether or not its parent has noticed. A
// zombie with more than one thread has only lost its first one.
func (s stat) dead() bool {
	return s.state == 'Z' && s.threads <= 1 || s.state == 'X' || s.state == 'x'
}

// statFields are those after the command, which is chosen by the process and may
// hold anything: they are counted from the last parenthesis. The first is the
// state, number 3 in proc_pid_stat(5).
func statFields(data []byte) [][]byte {
	return bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
}

func parseStat(data []byte) (stat, error) {
	const state, pgrp, threads, start = 0, 2, 17, 19
	fields := statFields(data)
	if len(fields) <= start {
		return stat{}, errors.NotValidf("process status of %d fields", len(fields))
	}
	group, err := strconv.Atoi(string(fields[pgrp]))
	if err != nil {
		return stat{}, errors.NotValidf("process group")
	}
	count, err := strconv.Atoi(string(fields[threads]))
	if err != nil {
		return stat{}, errors.NotValidf("number of threads")
	}
	ticks, err := strconv.ParseUint(string(fields[start]), 10, 64)
	if err != nil {
		return stat{}, errors.NotValidf("process start time")
	}
	return stat{state: fields[state][0], pgrp: group, threads: count, start: ticks}, nil
}

// stat returns fs.ErrNotExist for a process that is not there.
func (p procfs) stat(pid int) (stat, error) {
	data, err := os.ReadFile(filepath.Join(p.dir, strconv.Itoa(pid), "stat"))
	// The first for one that was not there, the second for one that ended
	// between open and read.
	if errors.Is(err, syscall.ESRCH) {
		return stat{}, fs.ErrNotExist
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(data)
}

// identify returns the process that has the pid now.
func (p procfs) identify(pid int) (process, error) {
	s, err := p.stat(pid)
	if err != nil {
		return process{}, errors.Annotate(err, "looking at the new process")
	}
	return process{Pid: pid, Start: s.start}, nil
}

// alive says whether the process still runs. When that cannot be told (no file
// descriptor left, say) it does: a second copy is the greater evil.
func (p procfs) alive(proc process) bool {
	s, err := p.stat(proc.Pid)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || s.start == proc.Start && !s.dead()
}

// reap collects a dead process that is our child, by this manager or by an
// earlier one of this agent, and says how it ended. It takes nobody else's
// child: not one that has the pid now.
func (p procfs) reap(proc process) string {
	const unknown = "exited, status not known"
	if s, err := p.stat(proc.Pid); err != nil || s.start != proc.Start {
		return unknown
	}
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(proc.Pid, &status, syscall.WNOHANG, nil)
	switch {
	case err != nil || pid != proc.Pid:
		// Not our child: whoever is its parent knows.
		return unknown
	case status.Signaled():
		return "ended by signal " + strconv.Itoa(int(status.Signal())) + " (" + status.Signal().String() + ")"
	}
	return "exited with status " + strconv.Itoa(status.ExitStatus())
}

// signal sends to the process's whole group, if the process is still there.
func (p procfs) signal(proc process, sig syscall.Signal) error {
	if !p.alive(proc) {
		return nil
	}
	// Between the look and the call the process may end, but for its pid to
	// go to a new group all other pids would have to be used up meanwhile.
	err := syscall.Kill(-proc.Pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		// It left its group.
		return p.signalOne(proc, sig)
	}
	return err
}

// signalOne sends to one process. The handle is taken before the look, so what
// was looked at is what gets the signal.
func (p procfs) signalOne(proc process, sig syscall.Signal) error {
	// A pidfd where the kernel has them. Where not, what is said in signal
	// holds here, too.
	handle, err := os.FindProcess(proc.Pid)
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }()
	if !p.alive(proc) {
		return nil
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// member is a living process that has an operator's token in its environment.
type member struct {
	process
	leads bool // its own process group, as an operator does
}

// members finds the living processes of our own user whose token is wanted, by
// token. What it cannot read is not there: it may have ended just now.
func (p procfs) members(wanted func(token string) bool) map[string][]member {
	found := make(map[string][]member)
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return found
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !p.own(entry.Name()) {
			continue
		}
		// In this order, so that a pid that is given to another process in
		// between costs nothing: the identity is of the one looked at last,
		// and is compared again before every signal.
		token, ok := p.token(pid)
		if !ok || !wanted(token) {
			continue
		}
		if s, err := p.stat(pid); err == nil && !s.dead() {
			proc := process{Pid: pid, Start: s.start}
			found[token] = append(found[token], member{process: proc, leads: s.pgrp == pid})
		}
	}
	return found
}

// exiting finds the processes of our own user and these groups that have given up
// their memory, and with it their environment, and not yet ended. To wait for one
// that is not ours, because the group's number was given anew, costs a moment.
func (p procfs) exiting(groups map[int]bool) []process {
	entries, err := os.ReadDir(p.dir)
	if err != nil || len(groups) == 0 {
		return nil
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		s, err := p.stat(pid)
		if err != nil || !groups[s.pgrp] || s.dead() || !p.own(entry.Name()) {
			continue
		}
		if _, err := os.Readlink(filepath.Join(p.dir, entry.Name(), "exe")); err != nil {
			found = append(found, process{Pid: pid, Start: s.start})
		}
	}
	return found
}

// own says whether the process is of our own user. Others' are not ours to
// judge, even for root, who may read them.
func (p procfs) own(pid string) bool {
	info, err := os.Stat(filepath.Join(p.dir, pid))
	if err != nil {
		return false
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}

// token returns the token in the process's environment, as it was when its
// program was started: what the program does to its environment is not seen.
func (p procfs) token(pid int) (string, bool) {
	environ := p.environ(pid)
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if key, value, _ := bytes.Cut(entry, []byte{'='}); string(key) == TokenVariable {
			return string(value), true
		}
	}
	return "", false
}

// environ returns the environment, empty for a process that has none or is gone.
//
// In the middle of an exec the kernel shows an empty one, and such a process may
// be one of ours: what an operator is just starting, or the operator itself of an
// agent that was killed at this instant. So it is waited for, within reason.
func (p procfs) environ(pid int) []byte {
	for range execLooks {
		data, err := os.ReadFile(filepath.Join(p.dir, strconv.Itoa(pid), "environ"))
		if err != nil || len(data) > 0 || !p.inExec(pid) {
			return data
		}
		time.Sleep(time.Millisecond) // the kernel's time, not the clock's
	}
	return nil
}

// execLooks is how often a process in an exec is looked at, a millisecond apart.
// An exec takes less than one, unless the machine is very busy.
const execLooks = 300

// inExec tells a process whose program is being replaced from one that has no
// environment: the kernel has not yet put one anywhere.
func (p procfs) inExec(pid int) bool {
	const envEnd = 48
	data, err := os.ReadFile(filepath.Join(p.dir, strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	fields := statFields(data)
	if len(fields) <= envEnd || string(fields[envEnd]) != "0" {
		return false
	}
	// A thread of the kernel never has one, nor a program.
	_, err = os.Readlink(filepath.Join(p.dir, strconv.Itoa(pid), "exe"))
	return err == nil
}
