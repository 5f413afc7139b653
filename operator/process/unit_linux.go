package process

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator"
)

// unit is one application's operator, as far as there is one.
type unit struct {
	app    string
	wakeup chan struct{} // for the supervisor; holds one
	view   atomic.Pointer[view]

	// sem holds the lock of everything below while it is full. It is held
	// for some writes to disk at most, never while waiting for a process.
	sem chan struct{}

	// Of the unit itself.
	gone       bool // no longer in Manager.units: look there again
	supervised bool // has a goroutine

	// What is on disk, as far as is known. refresh looks.
	stored  bool   // has a directory with a record
	rec     record // the record; of a vanished directory, the last one
	unsaved bool   // rec has something that could not be written

	// The process, and what became of those before it.
	process   *process      // the living one, as far as is known
	since     time.Time     // of the start, or without a process of the end
	asked     time.Time     // when the process was told to end
	nextStart time.Time     // not before this
	delay     time.Duration // the last back-off, and
	attempt   int           // how many there were
	restarts  int
	leftOver  leftOver
	cleanWait time.Duration // until the next look at what is left
	started   bool          // at least once by this manager, or adopted
	lastExit  string        // how the last process ended
	problem   string        // why the last step came to nothing

	// digestOf and digest remember one effective digest, which is some
	// hundred times the work of a revision.
	digestOf, digest string
	// signature is what the stored files looked like after the last write
	// of ours, or the last look of a watcher.
	signature signature
}

// newUnit returns one of which nothing is known yet.
func newUnit(app string) *unit {
	u := &unit{
		app:      app,
		wakeup:   make(chan struct{}, 1),
		sem:      make(chan struct{}, 1),
		leftOver: newLeftOver(),
	}
	u.view.Store(&view{})
	return u
}

// lock waits for the unit until the context or the manager ends.
func (u *unit) lock(ctx context.Context, dying <-chan struct{}) error {
	select {
	case u.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-dying:
		return errStopped
	}
}

// tryLock is for who can as well look later.
func (u *unit) tryLock() bool {
	select {
	case u.sem <- struct{}{}:
		return true
	default:
		return false
	}
}

func (u *unit) unlock() { <-u.sem }

// running says that there is a process, or that something of one is left.
func (u *unit) running() bool { return u.process != nil || !u.leftOver.empty() }

// vacant says that there is nothing of the operator to look after.
func (u *unit) vacant() bool { return !u.stored && !u.running() }

// wake makes the supervisor look, now or as soon as it is done with what it is
// doing.
func (u *unit) wake() {
	select {
	case u.wakeup <- struct{}{}:
	default:
	}
}

// path is relative to the manager's directory.
func (u *unit) path(name string) string { return filepath.Join(u.app, name) }

// view is what others see of a unit without its lock. It is never changed once
// it is there.
type view struct {
	process  *process
	running  bool // as in unit.running
	status   operator.Status
	dying    bool
	restarts int
	lastExit string
	problem  string
}

// publish shows the unit as it is now. The caller holds its lock.
func (u *unit) publish(halted bool) {
	u.view.Store(&view{
		process:  u.process,
		running:  u.running(),
		status:   u.status(halted),
		dying:    u.rec.Deleting,
		restarts: u.restarts,
		lastExit: u.lastExit,
		problem:  u.problem,
	})
}

// status is for people. The messages have nothing of the configuration in them;
// errors in them are the system's, about files and programs.
func (u *unit) status(halted bool) operator.Status {
	switch {
	case u.process != nil:
		s := operator.Status{Phase: operator.Running, Since: u.since}
		if !u.asked.IsZero() {
			s.Message = "told to end"
		}
		return s
	case u.rec.Deleting:
		return operator.Status{Phase: operator.Terminated, Message: u.why("being removed")}
	case halted:
		return operator.Status{Phase: operator.Waiting, Message: "stopped with its agent"}
	case !u.rec.Ensured:
		return operator.Status{Phase: operator.Waiting, Message: u.why("configuration is stored, start not asked for")}
	case u.nextStart.IsZero():
		return operator.Status{Phase: operator.Waiting, Message: u.why("about to start")}
	}
	return operator.Status{
		Phase:   operator.Waiting,
		Since:   u.since,
		Message: u.why(u.lastExit) + ", next start at " + u.nextStart.UTC().Format(time.RFC3339),
	}
}

// why prefers the trouble there is to the state of things.
func (u *unit) why(state string) string {
	if u.problem != "" {
		return u.problem
	}
	return state
}

// report leaves out what there is nothing to say about.
func (v *view) report() map[string]any {
	r := map[string]any{"phase": string(v.status.Phase), "restarts": v.restarts}
	if v.process != nil {
		r["pid"] = v.process.Pid
	}
	if v.dying {
		r["terminating"] = true
	}
	if !v.status.Since.IsZero() {
		r["since"] = v.status.Since.UTC().Format(time.RFC3339)
	}
	for key, text := range map[string]string{
		"message": v.status.Message, "last-exit": v.lastExit, "problem": v.problem,
	} {
		if text != "" {
			r[key] = text
		}
	}
	return r
}

// refresh compares what is known of the operator with its directory, which
// somebody may have taken away or put back. The caller holds the unit's lock.
func (m *Manager) refresh(u *unit) error {
	there, err := m.hasRecord(u.app)
	if err != nil {
		return err
	}
	switch {
	case there && !u.stored:
		if err := m.read(u); err != nil {
			return err
		}
		if u.process == nil {
			m.adopt([]*unit{u})
		}
		m.supervise(u)
	case !there && u.stored:
		// What runs goes on until it is deleted, or ensured anew: then in
		// the new directory, hence the start.
		u.stored = false
		u.rec.Ensured, u.rec.Started = false, ""
		u.signature = signature{}
		m.notify(u.app)
	}
	return nil
}

// read takes over a record that another manager wrote.
func (m *Manager) read(u *unit) error {
	data, _, err := m.disk.read(u.path(recordName))
	if err != nil {
		return err
	}
	u.stored = true
	u.problem = ""
	rec, err := decodeRecord(data)
	if err != nil {
		// Only half an operator, which the next Ensure makes whole.
		m.logger.Error("the record of an operator is damaged", "application", u.app, "error", err)
		u.problem = "its record is damaged"
		return nil
	}
	// A process that we know is not forgotten for a record out of a backup,
	// which may name another one or none.
	if u.process == nil {
		u.rec = rec
	}
	return nil
}

// adopt finds the processes that run of these units, and takes on those without
// a record. What is left of others is to end.
func (m *Manager) adopt(units []*unit) {
	tokens := make(map[string]bool)
	for _, u := range units {
		if u.rec.Boot != m.procs.boot {
			continue // nothing of another boot runs, or it never started
		}
		if p := u.rec.Process; p != nil && m.procs.alive(*p) {
			m.take(u, *p)
		} else {
			tokens[u.rec.Token] = true
		}
	}
	// One look at all processes for all units that are in doubt.
	var members map[string][]member
	if len(tokens) > 0 {
		members = m.procs.members(func(token string) bool { return tokens[token] })
	}
	for _, u := range units {
		if u.process == nil && tokens[u.rec.Token] {
			m.claim(u, members[u.rec.Token])
		}
		u.publish(m.isHalted())
	}
}

// findOrphans makes the operators of this directory end of which no record is
// left: it was damaged, or taken away while nobody looked. Nobody could supervise
// them, and the next Ensure would start a second copy.
func (m *Manager) findOrphans() {
	known := make(map[string]bool)
	for _, u := range m.units {
		known[u.rec.Token] = true
	}
	orphans := m.procs.members(func(token string) bool {
		id, app := splitToken(token)
		if id != m.id || known[token] {
			return false
		}
		// The record of this one may be there, and could not be read.
		u := m.units[app]
		return u == nil || u.stored
	})
	for token := range orphans {
		_, app := splitToken(token)
		u := m.units[app]
		if u == nil {
			u = newUnit(app)
			m.units[app] = u
		}
		u.leftOver.tokens[token] = true
		u.publish(m.isHalted())
	}
}

// claim takes on the process that was started and not recorded, if there is
// one: the one that leads its group, and the eldest if several do.
func (m *Manager) claim(u *unit, members []member) {
	var leader *process
	if u.rec.Process == nil {
		for _, p := range members {
			if p.leads && (leader == nil || p.Start < leader.Start) {
				leader = &p.process
			}
		}
	}
	if leader != nil {
		m.take(u, *leader)
		u.rec.Process, u.unsaved = leader, true
		return
	}
	if len(members) > 0 {
		u.leftOver.tokens[u.rec.Token] = true
	}
}

// take makes a process that runs the unit's. From here on it is like one that
// this manager has started.
func (m *Manager) take(u *unit, p process) {
	u.process, u.since, u.started = &p, u.rec.StartedAt, true
	m.logger.Info("operator adopted", "application", u.app, "pid", p.Pid)
}

// save writes rec and then makes it the unit's: what is in memory is never ahead
// of the disk, but for a pid that could not be written (see launch).
func (m *Manager) save(u *unit, rec record) error {
	data, err := rec.encode()
	if err == nil {
		err = m.disk.write(u.path(recordName), data)
	}
	if err != nil {
		return errors.Annotate(err, "writing the record")
	}
	u.rec, u.unsaved = rec, false
	return nil
}

// create makes the operator's directory, with rec in it, appear at once. It
// refuses a place that is taken by what we did not make.
func (m *Manager) create(u *unit, rec record) error {
	if _, err := m.disk.root.Lstat(u.app); err == nil {
		return errors.NotValidf("%q in the directory of operators (not ours)", u.app)
	} else if !isAbsent(err) {
		return err
	}
	data, err := rec.encode()
	if err != nil {
		return err
	}
	// A name of its own each time: the one before may still be in removal.
	making := fmt.Sprintf("%s%s-%s", makingPrefix, u.app, random(16))
	if err := m.disk.mkdir(making); err != nil {
		return errors.Annotate(err, "making the directory")
	}
	// The record is in it before it has its name: a directory without one
	// would be foreign to whoever comes after a crash.
	err = m.disk.write(filepath.Join(making, recordName), data)
	if err == nil {
		err = m.disk.rename(making, u.app)
	}
	if err != nil {
		m.discard(making)
		return errors.Annotate(err, "making the directory")
	}
	u.stored, u.rec, u.unsaved = true, rec, false
	return nil
}

// effective is the digest of what the operator has to read again when it
// changes.
func (u *unit) effective(agentConf, info []byte) string {
	if rev := revision(agentConf, info); u.digestOf != rev {
		u.digestOf, u.digest = rev, effective(agentConf, info)
	}
	return u.digest
}
