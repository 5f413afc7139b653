package process

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

const (
	// pollInterval is how often processes are looked at that nobody tells
	// us about: those of an earlier agent.
	pollInterval = 500 * time.Millisecond
	// logLimit is the size beyond which an operator's log is moved away.
	logLimit = 10 << 20
)

// errStopped is what calls of a manager get that was killed.
const errStopped = errors.ConstError("operator manager is stopped")

var (
	_ operator.Manager = (*Manager)(nil)
	_ operator.Watcher = (*Manager)(nil)
	_ operator.Lister  = (*Manager)(nil)
	_ operator.Stager  = (*Manager)(nil)
	_ worker.Worker    = (*Manager)(nil)
)

// Manager keeps operators as processes of this machine. It is a worker and an
// operator.Manager, Watcher, Lister and Stager.
type Manager struct {
	catacomb catacomb.Catacomb
	config   Config
	command  []string // Config.Command with the program looked up
	environ  []string // of every operator, but for its token
	procs    procfs
	disk     disk
	lock     *os.File // held for the manager's life; closed on exec
	id       string   // the directory's; in the tokens of its operators
	logger   *slog.Logger
	garbage  []string // what an earlier manager had no time to remove

	// goroutines are the supervisors, and the calls under way.
	goroutines sync.WaitGroup

	// mu guards what follows. It is held for moments only, never while
	// anything is written, and taken after a unit's lock if both are needed.
	mu       sync.Mutex
	units    map[string]*unit
	watchers map[*watcher]struct{}
	foreign  []string      // names, as they were found last
	halted   bool          // no operator is to run any more
	closed   bool          // no goroutine may be added any more
	exits    chan struct{} // closed, and replaced, when a process has ended
}

// New returns a manager of the operators in config.Dir. It adopts those that
// run, and starts those that are to run and do not.
//
// It returns errors.NotValid for a bad config or a command that is not there,
// errors.AlreadyExists while the directory has a manager, and
// errors.NotSupported on a system other than Linux. The caller owns the
// manager: Kill and Wait leave its operators running.
func New(config Config) (*Manager, error) {
	m, err := newManager(config, options{})
	return m, errors.Annotate(err, "process manager")
}

// options are for a manager that is not quite one.
type options struct {
	before func(op, name string) error // see disk
	halted bool                        // stops what it finds and starts nothing
}

// newManager is New with options. Nothing is made before the config is known to
// be good.
func newManager(config Config, opts options) (_ *Manager, err error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	m := &Manager{
		config:   config,
		logger:   config.Logger,
		units:    make(map[string]*unit),
		watchers: make(map[*watcher]struct{}),
		halted:   opts.halted,
		exits:    make(chan struct{}),
	}
	if m.command, err = lookUp(config.Command); err != nil {
		return nil, err
	}
	m.environ = environ(config.Env)
	if m.procs, err = openProcfs("/proc"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, errors.Annotate(err, "making Dir")
	}
	root, err := os.OpenRoot(config.Dir)
	if err != nil {
		return nil, errors.Annotate(err, "opening Dir")
	}
	m.disk = disk{root: root, before: opts.before}
	if err := m.begin(); err != nil {
		m.release()
		return nil, err
	}
	return m, nil
}

// begin is the part of newManager that has things to release when it fails. The
// lock comes first: without it nothing may even be looked at, since another
// manager could be at work.
func (m *Manager) begin() (err error) {
	if m.lock, err = m.disk.lockDir(); err != nil {
		return err
	}
	if m.id, err = m.disk.id(m.lock); err != nil {
		return errors.Annotate(err, "reading the directory's id")
	}
	if err := m.load(); err != nil {
		return err
	}
	err = catacomb.Invoke(catacomb.Plan{Site: &m.catacomb, Work: m.loop})
	if err != nil {
		return err
	}
	// Only now, with a catacomb to tell them when to end.
	for _, u := range m.snapshot() {
		m.supervise(u)
	}
	return nil
}

// release gives the directory free. No goroutine may be left that uses it.
func (m *Manager) release() {
	if m.lock != nil {
		unlock(m.lock)
	}
	_ = m.disk.root.Close()
}

// lookUp makes the program of a command an absolute path, now and not at every
// start, so that a later change of PATH changes no operator.
func lookUp(command []string) ([]string, error) {
	command = slices.Clone(command)
	if !strings.Contains(command[0], "/") {
		program, err := exec.LookPath(command[0])
		if err != nil || !filepath.IsAbs(program) {
			return nil, errors.NotValidf("Command[0] %q (not found in PATH)", command[0])
		}
		command[0] = program
	}
	return command, nil
}

// environ is the whole environment that operators share.
func environ(env []string) []string {
	env = slices.Clone(env)
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		env = append(env, "PATH="+os.Getenv("PATH"))
	}
	return env
}

// load finds the operators that are there, and adopts their processes.
func (m *Manager) load() error {
	entries, err := m.entries()
	if err != nil {
		return errors.Annotate(err, "reading Dir")
	}
	for _, name := range entries.apps {
		u := newUnit(name)
		if err := m.read(u); err != nil {
			// Its supervisor says so, and looks again until it can be read.
			u.stored = false
		}
		m.units[name] = u
	}
	m.foreign = entries.foreign
	m.garbage = entries.garbage
	if len(entries.foreign) > 0 {
		m.logger.Warn("foreign content is left alone", "dir", m.config.Dir, "count", len(entries.foreign))
	}
	m.adopt(m.snapshot())
	m.findOrphans()
	return nil
}

// entries is what there is in the directory.
type entries struct{ apps, foreign, garbage []string }

func (m *Manager) entries() (found entries, err error) {
	dir, err := m.disk.root.Open(".")
	if err != nil {
		return found, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return found, err
	}
	slices.Sort(names) // for whoever reads a report twice
	for _, name := range names {
		switch {
		case name == lockName:
		case strings.HasPrefix(name, makingPrefix), strings.HasPrefix(name, removingPrefix):
			found.garbage = append(found.garbage, name)
		case facade.ValidateApplicationName(name) != nil:
			found.foreign = append(found.foreign, name)
		default:
			// One that cannot be looked at is taken for ours: it is nobody
			// else's trouble, and touched by nobody.
			if ours, err := m.hasRecord(name); ours || err != nil {
				found.apps = append(found.apps, name)
			} else {
				found.foreign = append(found.foreign, name)
			}
		}
	}
	return found, nil
}

// hasRecord says whether the application has a directory that we made.
func (m *Manager) hasRecord(app string) (bool, error) {
	info, err := m.disk.root.Lstat(app)
	if isAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return false, nil
	}
	return m.disk.has(filepath.Join(app, recordName))
}

// Kill asks the manager to end. Its operators go on.
func (m *Manager) Kill() { m.catacomb.Kill(nil) }

// Wait returns when the manager has ended and another may take its place.
func (m *Manager) Wait() error { return m.catacomb.Wait() }

// loop watches all processes, and ends everything when it is time.
func (m *Manager) loop() error {
	defer m.release()
	defer m.close()
	m.background(m.collect) // takes its time, and nobody waits for it

	// The kernel tells of the end of our own children; the poll finds that
	// of the adopted.
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	timer := m.config.Clock.NewTimer(pollInterval)
	defer timer.Stop()
	for {
		select {
		case <-m.catacomb.Dying():
			return m.catacomb.ErrDying()
		case <-children:
		case <-timer.Chan():
			timer.Reset(pollInterval)
		}
		m.poll()
	}
}

// close returns when no goroutine of this manager is left and none can come.
func (m *Manager) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.goroutines.Wait()
}

// enter keeps the manager from ending before leave is called. It fails once the
// manager is on its way out.
func (m *Manager) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !m.isAlive() {
		return errStopped
	}
	m.goroutines.Add(1)
	return nil
}

// leave ends what enter has begun.
func (m *Manager) leave() { m.goroutines.Done() }

// isAlive is false from Kill on.
func (m *Manager) isAlive() bool {
	select {
	case <-m.catacomb.Dying():
		return false
	default:
		return true
	}
}

// background runs f as a goroutine that close waits for; f ends soon after the
// manager's death.
func (m *Manager) background(f func()) {
	if m.enter() != nil {
		return
	}
	go func() {
		defer m.leave()
		f()
	}()
}

// collect removes what an earlier manager left half made or half removed.
func (m *Manager) collect() {
	for _, name := range m.garbage {
		m.discard(name)
	}
}

// discard removes a directory that is nobody's any more. What cannot be removed
// is left to the next manager.
func (m *Manager) discard(name string) {
	ctx := m.catacomb.Context(context.Background())
	if err := m.disk.removeTree(ctx, name); err != nil && ctx.Err() == nil {
		m.logger.Warn("cannot remove", "name", name, "error", err)
	}
}

// snapshot returns the units there are, so that m.mu need not be held while
// anything is done with them.
func (m *Manager) snapshot() []*unit {
	m.mu.Lock()
	defer m.mu.Unlock()
	units := make([]*unit, 0, len(m.units))
	for _, u := range m.units {
		units = append(units, u)
	}
	return units
}

// isHalted is true once StopOperators was called.
func (m *Manager) isHalted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.halted
}

// poll wakes the supervisors that have something to do, and tells the watchers
// what others did to our files.
func (m *Manager) poll() {
	m.mu.Lock()
	watched := len(m.watchers) > 0
	m.mu.Unlock()
	for _, u := range m.snapshot() {
		// Without the unit's lock, so that one that is busy holds up none.
		v := u.view.Load()
		if v.process != nil && (!m.procs.alive(*v.process) || m.logTooLarge(u)) {
			u.wake()
		}
		if watched {
			m.look(u)
		}
	}
}

// Report describes the manager and every operator, with no secret.
func (m *Manager) Report() map[string]any {
	m.mu.Lock()
	halted, foreign := m.halted, m.foreign
	m.mu.Unlock()
	operators := make(map[string]any)
	for _, u := range m.snapshot() {
		operators[u.app] = u.view.Load().report()
	}
	report := map[string]any{
		"dir":       m.config.Dir,
		"operators": operators,
	}
	if halted {
		report["halted"] = true
	}
	if len(foreign) > 0 {
		report["foreign"] = shorten(foreign)
	}
	return report
}

// shorten bounds what a report says of names that anybody may have chosen.
func shorten(names []string) []string {
	const limit = 20
	out := slices.Clone(names[:min(limit, len(names))])
	if len(names) > limit {
		out = append(out, "...")
	}
	return out
}

// StopOperators ends every operator's process, with SIGTERM and after
// Config.StopTimeout with SIGKILL, and keeps the files: the next manager on the
// directory starts the operators again. This manager starts none any more,
// though it goes on to store what it is given.
//
// It works also on a manager that was killed, unless another one has taken the
// directory since: errors.AlreadyExists. It returns when all processes have
// ended, or with the context's error.
func (m *Manager) StopOperators(ctx context.Context) error {
	err := m.stopOperators(ctx)
	if errors.Is(err, errStopped) {
		err = m.stopAfterDeath(ctx)
	}
	return errors.Annotate(err, "stopping operators")
}

// stopAfterDeath does it with another manager, made for the purpose.
func (m *Manager) stopAfterDeath(ctx context.Context) error {
	select {
	case <-m.catacomb.Dead():
	case <-ctx.Done():
		return ctx.Err()
	}
	// It finds everything as any next manager does, so what the dead one
	// remembers does not matter.
	successor, err := newManager(m.config, options{halted: true})
	if err != nil {
		return err
	}
	err = successor.stopOperators(ctx)
	if stopErr := worker.Stop(successor); err == nil {
		err = stopErr
	}
	return err
}

// stopOperators leaves the work to the supervisors, and waits for them.
func (m *Manager) stopOperators(ctx context.Context) error {
	m.mu.Lock()
	m.halted = true
	m.mu.Unlock()
	for _, u := range m.snapshot() {
		// Whoever holds a unit's lock may not have seen the word yet, and
		// be about to start it. Once the lock was ours, nobody is.
		if err := u.lock(ctx, m.catacomb.Dying()); err != nil {
			return err
		}
		u.unlock()
		u.wake()
	}
	for {
		// The channel first, then the look: an end in between closes it.
		m.mu.Lock()
		exits := m.exits
		m.mu.Unlock()
		if !m.anyRuns() {
			return nil
		}
		select {
		case <-exits:
		case <-ctx.Done():
			return ctx.Err()
		case <-m.catacomb.Dying():
			return errStopped
		}
	}
}

// anyRuns goes by what was published: noteExit comes after that.
func (m *Manager) anyRuns() bool {
	return slices.ContainsFunc(m.snapshot(), func(u *unit) bool { return u.view.Load().running })
}

// noteExit wakes those who wait for processes to end.
func (m *Manager) noteExit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.exits)
	m.exits = make(chan struct{})
}
