package process

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// retryDelay is between two attempts at what failed for the disk's sake. It is
// nobody's process that fails, so no back-off grows.
const retryDelay = 5 * time.Second

// minCleanWait and maxCleanWait bound the time between two looks at processes
// that were killed and are not our children, so that nobody tells of their end.
// Most are gone at the second look; one that hangs in the kernel may stay for ever.
const (
	minCleanWait = 10 * time.Millisecond
	maxCleanWait = 2 * time.Second
)

// supervise gives the unit a goroutine, if it has none, that carries out what
// its record says. Called before anybody else knows the unit, or with its lock.
func (m *Manager) supervise(u *unit) {
	if u.supervised {
		return
	}
	u.supervised = true
	m.background(func() {
		for {
			wait, more := m.supervisorStep(u)
			if !more || !m.pause(u, wait) {
				return
			}
		}
	})
}

// pause waits for that long, or for being woken. It returns false when the
// manager ends.
func (m *Manager) pause(u *unit, wait time.Duration) bool {
	var timer clock.Timer
	var due <-chan time.Time
	if wait >= 0 {
		timer = m.config.Clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.Chan()
	}
	select {
	case <-u.wakeup:
	case <-due:
	case <-m.catacomb.Dying():
		return false
	}
	return true
}

// supervisorStep looks at the unit and does one thing. It returns how long to
// wait for the next look, or that there is nothing left to look after.
func (m *Manager) supervisorStep(u *unit) (wait time.Duration, more bool) {
	if u.lock(context.Background(), m.catacomb.Dying()) != nil {
		return 0, false
	}
	process, running := u.process, u.running()
	trash := ""
	err := m.refresh(u)
	if err != nil {
		// Without its record nothing is known of what is wanted. Retried,
		// since a disk may recover; until then nothing is touched.
		wait = m.trouble(u, "reading its record", err)
	} else {
		wait, trash = m.act(u)
	}
	more = !u.vacant() || err != nil
	if !more {
		u.supervised = false
		m.forget(u)
	}
	u.publish(m.isHalted())
	if running && !u.running() {
		m.noteExit()
	}
	if u.process != nil && u.process != process {
		// If it ended before the poll could know of it, nobody else tells.
		u.wake()
	}
	u.unlock()

	// From here on the name may have a new unit already.
	if trash != "" {
		m.notify(u.app)
		m.discard(trash)
	}
	return wait, more
}

// act does what is to be done. trash is the directory of a deleted operator,
// which has lost its name and is still to be removed.
func (m *Manager) act(u *unit) (wait time.Duration, trash string) {
	if u.process != nil && !m.procs.alive(*u.process) {
		m.ended(u)
	}
	if !u.leftOver.empty() && !m.clean(u) {
		return u.cleanWait, ""
	}
	if u.process != nil {
		u.problem = "" // what stands in the way now is found out below
		if m.logTooLarge(u) {
			m.moveLog(u)
		}
	}
	if u.unsaved && u.stored {
		// Retried at every look until it is written.
		if err := m.save(u, u.rec); err != nil {
			m.trouble(u, "keeping its record", err)
		}
	}
	now := m.config.Clock.Now()
	next, wait := decide(situation{
		ensured:     u.rec.Ensured,
		deleting:    u.rec.Deleting,
		halted:      m.isHalted(),
		alive:       u.process != nil,
		current:     u.rec.Started == u.rec.Wanted,
		now:         now,
		asked:       u.asked,
		nextStart:   u.nextStart,
		stopTimeout: m.config.StopTimeout,
	})
	switch next {
	case terminate:
		u.asked = now
		m.send(u, syscall.SIGTERM)
	case kill:
		// Counts as asked anew, so that it is repeated.
		u.asked = now
		m.send(u, syscall.SIGKILL)
	case start:
		wait = m.start(u)
	case remove:
		return m.remove(u)
	}
	if u.unsaved && (wait == forever || wait > retryDelay) {
		wait = retryDelay
	}
	return wait, ""
}

// trouble notes what stands in the way of a unit, and when to look next.
func (m *Manager) trouble(u *unit, doing string, err error) time.Duration {
	problem := doing + ": " + err.Error()
	if u.problem != problem {
		m.logger.Warn("trouble with an operator", "application", u.app, "error", problem)
	}
	u.problem = problem
	return retryDelay
}

// send signals the unit's process. When that fails, the next attempt is the one
// after StopTimeout.
func (m *Manager) send(u *unit, sig syscall.Signal) {
	m.logger.Info("operator is told to end", "application", u.app, "pid", u.process.Pid, "signal", sig.String())
	if err := m.procs.signal(*u.process, sig); err != nil {
		m.trouble(u, "sending a signal", err)
	}
}

// ended takes note of the process's end, and sets the time of the next start.
func (m *Manager) ended(u *unit) {
	p := *u.process
	u.lastExit = m.procs.reap(p)
	// Perhaps.
	u.leftOver.tokens[u.rec.Token] = true
	u.leftOver.groups[p.Pid] = true
	now := m.config.Clock.Now()
	// One that did as it was told is started again at once, if at all; one
	// that ended by itself waits, longer each time.
	told := !u.asked.IsZero()
	if told || now.Sub(u.since) >= resetAfter {
		u.delay, u.attempt, u.nextStart = 0, 0, time.Time{}
	}
	if !told {
		m.backOff(u, now)
	}
	m.logger.Info("operator ended", "application", u.app, "pid", p.Pid, "how", u.lastExit)
	u.process, u.asked, u.since = nil, time.Time{}, now
}

// backOff sets the time of the next start after one that came to nothing.
func (m *Manager) backOff(u *unit, now time.Time) {
	u.delay = m.config.Backoff(u.delay, u.attempt)
	u.attempt++
	u.nextStart = now.Add(u.delay)
}

// leftOver is what has to end before anything else is done about a unit: mostly
// what an operator started and left behind.
type leftOver struct {
	tokens map[string]bool // processes with these
	groups map[int]bool    // processes of these that are on their way out
	seen   map[process]bool
}

func newLeftOver() leftOver {
	return leftOver{tokens: make(map[string]bool), groups: make(map[int]bool), seen: make(map[process]bool)}
}

func (l leftOver) empty() bool { return len(l.tokens)+len(l.groups)+len(l.seen) == 0 }

// clean ends what is left of an operator whose first process is gone: it holds
// the ports and files that the next one needs. It returns whether all of it has
// ended; until then nothing else is done about the unit.
func (m *Manager) clean(u *unit) bool {
	const problem = "waiting for left-over processes to end"
	left := u.leftOver
	for _, members := range m.procs.members(func(token string) bool { return left.tokens[token] }) {
		for _, p := range members {
			if !left.seen[p.process] {
				m.logger.Info("left-over process is killed", "application", u.app, "pid", p.Pid)
			}
			left.seen[p.process] = true
			if err := m.procs.signalOne(p.process, syscall.SIGKILL); err != nil {
				m.logger.Warn("cannot kill", "application", u.app, "pid", p.Pid, "error", err)
			}
		}
	}
	// One that is on its way out has no environment any more, and still has
	// its files. It is found by its group, or was seen before.
	for _, p := range m.procs.exiting(left.groups) {
		left.seen[p] = true
	}
	maps.DeleteFunc(left.seen, func(p process, _ bool) bool { return !m.procs.alive(p) })
	if len(left.seen) > 0 {
		u.problem = problem
		u.cleanWait = min(max(2*u.cleanWait, minCleanWait), maxCleanWait)
		return false
	}
	u.leftOver, u.cleanWait = newLeftOver(), 0
	if u.problem == problem {
		u.problem = ""
	}
	return true
}

// start starts the operator, or says when to do so.
func (m *Manager) start(u *unit) time.Duration {
	agentConf, info, err := m.readConfig(u)
	if err == nil && (agentConf == nil || info == nil) {
		// Somebody took a file away. There is nothing to wait for but the
		// next Ensure.
		u.problem = "its configuration is not complete"
		return forever
	}
	if err == nil {
		err = m.launch(u, agentConf, info)
	}
	now := m.config.Clock.Now()
	if err != nil {
		// Retried with the same back-off as an end: a program that is not
		// there may be installed.
		m.trouble(u, "starting", err)
		u.since = now
		m.backOff(u, now)
		return u.delay
	}
	u.problem = ""
	if u.started {
		u.restarts++
	}
	u.started = true
	m.logger.Info("operator started", "application", u.app, "pid", u.process.Pid)
	return forever
}

// launch does it in this order: the operator's own agent.conf first, which the
// process reads; then the record says that a process is about to be there, so
// that whoever comes after a crash looks for its token; then the process; then
// its pid.
func (m *Manager) launch(u *unit, agentConf, info []byte) error {
	if err := m.seed(u, agentConf); err != nil {
		return errors.Annotate(err, "writing agent.conf")
	}
	rec := u.rec
	rec.Wanted = u.effective(agentConf, info)
	rec.Started = rec.Wanted
	rec.StartedAt = m.config.Clock.Now().Round(0).UTC()
	rec.Boot = m.procs.boot
	rec.Process = nil
	if err := m.save(u, rec); err != nil {
		return err
	}
	p, err := m.spawn(u)
	if err != nil {
		return err
	}
	u.process, u.since = &p, m.config.Clock.Now()
	u.rec.Process = &p
	if err := m.save(u, u.rec); err != nil {
		// It runs, and its token finds it. The record is written later.
		u.unsaved = true
		m.trouble(u, "keeping its record", err)
	}
	return nil
}

// seed gives the operator an agent.conf if it has none, whatever kind of file
// it has. No process of the operator runs.
func (m *Manager) seed(u *unit, agentConf []byte) error {
	if _, err := m.disk.root.Lstat(u.path(agentConfName)); !isAbsent(err) {
		return err
	}
	return m.disk.write(u.path(agentConfName), agentConf)
}

// spawn starts the process.
func (m *Manager) spawn(u *unit) (process, error) {
	if err := m.disk.step("start", u.app); err != nil {
		return process{}, err
	}
	if m.logTooLarge(u) {
		m.moveLog(u) // of a process that wrote much and ended
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return process{}, err
	}
	defer func() { _ = null.Close() }()
	log, err := m.openLog(u)
	if err != nil {
		return process{}, err
	}
	defer func() { _ = log.Close() }()

	dir := filepath.Join(m.config.Dir, u.app)
	argv := make([]string, len(m.command))
	replacer := strings.NewReplacer(applicationPlaceholder, u.app, dirPlaceholder, dir)
	for i, arg := range m.command {
		argv[i] = replacer.Replace(arg)
	}
	child, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir:   dir,
		Env:   append([]string{TokenVariable + "=" + u.rec.Token}, m.environ...),
		Files: []*os.File{null, log, log},
		// Signals reach all of its group, and those of the terminal do not.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return process{}, err
	}
	pid := child.Pid
	// From here on it is treated as one that was adopted. As our child it
	// keeps its pid until it is reaped.
	_ = child.Release()
	p, err := m.procs.identify(pid)
	if err != nil {
		// A process that cannot be known again would be started again.
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	return p, err
}

// openLog never follows a link and never waits for a pipe's reader.
func (m *Manager) openLog(u *unit) (*os.File, error) {
	name := u.path(logName)
	if info, err := m.disk.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, errors.NotValidf("%q (not a regular file)", logName)
	}
	return m.disk.root.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

// logTooLarge goes by the size alone. Between two polls a log may grow beyond the
// limit by what a process writes in that time.
func (m *Manager) logTooLarge(u *unit) bool {
	info, err := m.disk.root.Lstat(u.path(logName))
	return err == nil && info.Mode().IsRegular() && info.Size() > logLimit
}

// moveLog copies the end of the log and empties it: the process has it open
// and would follow a rename. What it writes at this very moment may be lost.
func (m *Manager) moveLog(u *unit) {
	log, err := m.disk.root.OpenFile(u.path(logName), os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err == nil {
		defer func() { _ = log.Close() }()
		err = m.disk.replace(u.path(oldLogName), func(w io.Writer) error {
			if _, err := log.Seek(-logLimit, io.SeekEnd); err != nil {
				return err
			}
			_, err := io.CopyN(w, log, logLimit)
			return err
		})
	}
	if err == nil {
		err = log.Truncate(0)
	}
	if err != nil {
		m.trouble(u, "moving its log", err)
	}
}

// remove ends the deletion of an operator whose process has ended. The
// directory loses its name, all at once, and then its content, which may take
// time and needs no lock.
func (m *Manager) remove(u *unit) (wait time.Duration, trash string) {
	trash = removingPrefix + u.app + "-" + random(16)
	err := m.disk.rename(u.app, trash)
	if isAbsent(err) {
		trash, err = "", nil // somebody was quicker
	}
	if err != nil {
		// Retried; until then it is terminating.
		return m.trouble(u, "removing", err), ""
	}
	u.stored = false
	m.logger.Info("operator removed", "application", u.app)
	return forever, trash
}
