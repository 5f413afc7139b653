package simulation

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/provisioner"
)

// What workers are configured with: the defaults, without the randomness.
const (
	callTimeout     = provisioner.DefaultCallTimeout
	resyncInterval  = provisioner.DefaultResyncInterval
	terminationPoll = provisioner.DefaultTerminationPoll
	minBackoff      = provisioner.DefaultMinBackoff
	maxBackoff      = provisioner.DefaultMaxBackoff
	// maxIssueBackoff is for how long a refused certificate is not asked
	// for again, at most.
	maxIssueBackoff = time.Hour
	// longestStagger is how long a look is held up before its first call.
	longestStagger = time.Millisecond
	// killTime is how long a worker may take to end.
	killTime = time.Second
)

// backoff doubles from a second to two minutes. It has no jitter, which would
// be drawn from a source that does not replay.
func backoff(_ time.Duration, attempt int) time.Duration {
	return min(minBackoff<<min(max(attempt, 0), 10), maxBackoff)
}

// Session is one life of a worker, with a connection of its own to the
// controller and the manager.
type Session struct {
	world      *World
	name       string
	faults     *fakes.Faults
	controller *fakes.Controller
	manager    *fakes.Manager
	worker     *provisioner.Worker
	hook       func(fakes.Call) fakes.Effect // or nil

	// ended is closed when the worker has ended, which was at the time end.
	ended chan struct{}
	end   time.Time

	mu       sync.Mutex
	doom     string // why the worker may end by itself; empty if it may not
	ends     bool   // it was killed, at the time killedAt
	killedAt time.Time
	looks    map[string]int
	received []*slowWatcher
	waits    map[string]explained
}

// explained is how long an application's failures explain that it waits.
type explained struct {
	failures int
	longest  time.Duration
	why      string
}

// Faults is the session's connection.
func (s *Session) Faults() *fakes.Faults { return s.faults }

// Prepare makes the connection of a new session. No worker uses it yet, so
// there is time to say what its calls suffer: by its faults, or by its hook,
// which goes on top of their latency.
func (w *World) Prepare(name string) *Session {
	faults := fakes.NewFaults(w.clock)
	s := &Session{
		world: w, name: name, faults: faults,
		controller: w.controller.Session(faults),
		manager:    w.manager.Session(faults),
		ended:      make(chan struct{}),
		looks:      make(map[string]int),
		waits:      make(map[string]explained),
	}
	faults.OnCall(s.befalls)
	return s
}

// Start starts a worker on a connection that was prepared.
func (w *World) Start(s *Session) *Session {
	config := provisioner.Config{
		Facade:          s.controller.With(w.options.Features),
		OperatorManager: s.manager.With(w.options.Features),
		Agent:           w.agent,
		ModelUUID:       fakes.ModelUUID,
		Clock:           w.hostClock,
		Logger:          w.log.Logger().With(slog.String("session", s.name)),
		Concurrency:     s.world.options.Concurrency,
		Backoff:         backoff,
		Jitter:          func(d time.Duration) time.Duration { return d },
		Owns:            s.stagger,
		Metrics:         s,
	}
	if wrap := w.options.Variant.Wrap; wrap != nil {
		wrap(&config, s.controller, s.manager)
	}
	worker, err := provisioner.New(config)
	if err != nil {
		panic(err)
	}
	s.worker = worker
	w.mu.Lock()
	w.sessions = append(w.sessions, s)
	w.mu.Unlock()
	go s.wait()
	return s
}

// wait records the worker's end.
func (s *Session) wait() {
	err := s.worker.Wait()
	s.mu.Lock()
	killed, doom := s.ends, s.doom
	s.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
		s.world.print(text)
	}
	// Not why: of two reasons at one instant either may be told.
	s.world.note("worker %s ended", s.name)
	switch {
	case killed, s.severed():
	case err == nil:
		s.world.violated("worker %s ended by itself, and without an error", s.name)
	case doom == "":
		s.world.violated("worker %s ended without a reason that ends a worker: %s", s.name, text)
	}
	s.end = s.world.clock.Now()
	close(s.ended)
}

// stagger owns every application. It is asked at the start of a look, and takes
// a moment: applications that are looked at together would else do their first
// steps in no certain order.
func (s *Session) stagger(app string) bool {
	s.mu.Lock()
	s.looks[app]++
	n := s.looks[app]
	s.mu.Unlock()
	s.world.Sleep(throwFor(s.world.options.Seed, n, s.name, "look", app).between(0, longestStagger))
	return true
}

// befalls is the hook of the session's connection.
func (s *Session) befalls(c fakes.Call) fakes.Effect {
	var e fakes.Effect
	if s.hook != nil {
		e = s.hook(c)
	}
	if c.Item {
		return e
	}
	e.Delay += throwFor(s.world.options.Seed, c.N, s.name, c.Method, c.Key).between(time.Millisecond, 20*time.Millisecond)
	switch c.Method {
	case "WatchApplications", "WatchProvisioning", "WatchOperators":
		if e.Err != nil || e.Panic != nil || e.Answer != nil {
			break
		}
		e.Answer = fakes.Alter(func(inner facade.StringsWatcher) facade.StringsWatcher {
			slow := newSlowWatcher(inner, s.world.clock, func(n int) time.Duration {
				return throwFor(s.world.options.Seed, n, s.name, c.Method, "event").between(time.Millisecond, 20*time.Millisecond)
			})
			s.mu.Lock()
			defer s.mu.Unlock()
			s.received = append(s.received, slow)
			return slow
		})
	case "StageOperator", "EnsureOperator", "KeepOperator":
		s.guardPassword(c, &e)
	case "DeleteOperator":
		e.Then = both(func() { s.world.deleted(c.Key) }, e.Then)
	}
	return e
}

// guardPassword holds, for one write, that a password which is stored is kept.
func (s *Session) guardPassword(c fakes.Call, e *fakes.Effect) {
	var before *operator.Config
	e.Before = both(e.Before, func() { before = s.manager.Config(c.Key) })
	e.Then = both(func() {
		after := s.manager.Config(c.Key)
		if before == nil || after == nil || before.AgentConf.Equal(after.AgentConf) {
			return
		}
		was, is := parseConf(before.AgentConf), parseConf(after.AgentConf)
		if was != nil && !was.Password().IsZero() && (is == nil || !is.Password().Equal(was.Password())) {
			s.world.violated("%s of %s by worker %s replaced a stored password", c.Method, c.Key, s.name)
		}
	}, e.Then)
}

// both calls the one and the other, if they are there.
func both(f, g func()) func() {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func() { f(); g() }
}

// PassDone is part of provisioner.Metrics. It holds that an application waits
// no longer than its own failures explain, and never for another's.
func (s *Session) PassDone(p provisioner.Pass) {
	s.mu.Lock()
	w, again := s.waits[p.Application]
	s.waits[p.Application] = w.after(p)
	s.mu.Unlock()
	if w.why != "" && p.Delay > w.longest {
		s.world.violated("worker %s: %s waited for %s after failure %d in a row, %s, which explains no more than %s",
			s.name, p.Application, p.Delay, w.failures, w.why, w.longest)
	}
	// Its first pass may have been asked for before the worker was set up.
	if p.QueueWait > 0 && again {
		s.world.violated("worker %s: %s waited for %s although workers were free", s.name, p.Application, p.QueueWait)
	}
	if p.Err != nil {
		s.world.print(p.Err.Error())
	}
	s.world.note("worker %s: pass over %s: %s %s", s.name, p.Application, p.Outcome, errText(p.Err))
}

// after is what explains the next wait, after this pass.
func (x explained) after(p provisioner.Pass) explained {
	x.why = string(p.Outcome) + " " + errText(p.Err)
	switch p.Outcome {
	case provisioner.OutcomeFailed, provisioner.OutcomePanicked:
		x.longest = backoff(0, x.failures)
		x.failures++
		if strings.Contains(x.why, "issuing a certificate") {
			x.longest = maxIssueBackoff
		}
	case provisioner.OutcomePermanent:
		x.longest = maxBackoff
		x.failures++
	case provisioner.OutcomeWaiting, provisioner.OutcomeStuck:
		x.longest = max(backoff(0, x.failures), terminationPoll)
		x.failures++
	default:
		return explained{}
	}
	return x
}

// over tells whether the worker has ended, or its connection was cut.
func (s *Session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.severed()
	}
}

// severed tells whether the connection was cut: a worker may notice that by
// its deadlines before it is killed.
func (s *Session) severed() bool {
	select {
	case <-s.faults.Severed():
		return true
	default:
		return false
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// serves tells whether the worker has done a pass.
func (s *Session) serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits) > 0
}

// Doom says why the worker may end by itself from now on.
func (s *Session) Doom(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doom = why
}

// Kill stops the worker and waits for it to end, which is to take no more than
// a second.
func (s *Session) Kill() {
	s.mu.Lock()
	if !s.ends {
		s.ends, s.killedAt = true, s.world.clock.Now()
	}
	s.mu.Unlock()
	s.worker.Kill()
	s.awaitEnd(killTime, "being killed")
}

// Crash ends the connection and the worker, as the end of its process would.
func (s *Session) Crash() {
	s.world.note("worker %s crashes", s.name)
	s.faults.Cut()
	s.Kill()
}

// awaitEnd waits until the worker has ended, and complains if that takes too
// long.
func (s *Session) awaitEnd(most time.Duration, why string) {
	select {
	case <-s.ended:
	case <-s.world.clock.After(most):
		s.world.violated("worker %s has not ended %s after %s", s.name, most, why)
		<-s.ended
	}
}
