package containersim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// What workers are configured with: the defaults without the randomness, and
// shorter deadlines for what takes long.
const (
	callTimeout       = containersetup.DefaultCallTimeout
	initialiseTimeout = 5 * time.Minute
	startTimeout      = 10 * time.Minute
	stopTimeout       = 2 * time.Minute
	resyncInterval    = containerprovisioner.DefaultResyncInterval
	minBackoff        = containersetup.DefaultMinBackoff
	maxBackoff        = containersetup.DefaultMaxBackoff
	// killTime is how long a worker may take to end.
	killTime = time.Second
)

// backoff doubles from a second to two minutes. It has no jitter, which would
// be drawn from a source that does not replay.
func backoff(_ time.Duration, attempt int) time.Duration {
	return min(minBackoff<<min(max(attempt, 0), 10), maxBackoff)
}

// Session is one life of an agent: a container-setup handler with its
// provisioners, and a connection of its own to the controller, the host and the
// lock.
type Session struct {
	world   *World
	name    string
	faults  *fakes.Faults
	machine *fakes.Machine
	host    *fakes.Host
	lock    *fakes.Lock
	worker  *containersetup.Worker
	hook    func(fakes.Call) fakes.Effect

	ended chan struct{} // closed when the worker has ended

	mu       sync.Mutex
	end      time.Time // when the worker had ended
	doom     string    // why the worker may end by itself; empty if it may not
	ends     bool      // it was killed, at the time killedAt
	killedAt time.Time
	done     map[string]int // how often each phase of each type succeeded
}

// Faults is the session's connection.
func (s *Session) Faults() *fakes.Faults { return s.faults }

// Prepare makes the connection of a new session, whose calls suffer what hook
// says on top of their latency; nil says nothing. No worker uses it yet.
func (w *World) Prepare(name string, hook func(fakes.Call) fakes.Effect) *Session {
	faults := fakes.NewFaults(w.clock)
	s := &Session{
		world: w, name: name, faults: faults, hook: hook,
		machine: w.machine.Session(faults),
		host:    w.host.Session(faults),
		ended:   make(chan struct{}),
		done:    make(map[string]int),
	}
	s.lock = s.host.Lock()
	faults.OnCall(s.befalls)
	return s
}

// Start starts a worker on a connection that was prepared.
func (w *World) Start(s *Session) *Session {
	config := containersetup.Config{
		Facade:            s.machine,
		MachineID:         machineID,
		Backends:          s.host.Backends(lxd, kvm),
		Lock:              silent{s.lock},
		Network:           s.host.Network(),
		Bridger:           s.host.Bridger(),
		Clock:             w.clock,
		Logger:            w.log.Logger().With(slog.String("session", s.name)),
		NewProvisioner:    s.newProvisioner,
		Backoff:           backoff,
		InitialiseTimeout: initialiseTimeout,
		Metrics:           s,
	}
	if w.options.Plain {
		config.Facade = s.machine.Plain()
	}
	if wrap := w.options.Variant.Setup; wrap != nil {
		wrap(&config, s)
	}
	started, err := containersetup.New(config)
	if err != nil {
		panic(err)
	}
	s.worker = started
	w.mu.Lock()
	w.sessions = append(w.sessions, s)
	w.mu.Unlock()
	go s.wait()
	return s
}

// silent is a lock that tells nobody who has it: what is asked for a report is
// no part of a story.
type silent struct{ container.Lock }

// newProvisioner is the host's part of making one.
func (s *Session) newProvisioner(config containerprovisioner.Config) (worker.Worker, error) {
	config.MaxAttempts, config.Concurrency = s.world.options.MaxAttempts, s.world.options.Concurrency
	config.StartTimeout, config.StopTimeout = startTimeout, stopTimeout
	config.Backoff = backoff
	config.Jitter = func(d time.Duration) time.Duration { return d }
	config.HarvestMode, _ = s.world.mode()
	config.Metrics = passes{s}
	config.Preparer = staggered{s, config.Preparer}
	if wrap := s.world.options.Variant.Provisioner; wrap != nil {
		wrap(&config, s)
	}
	w, err := containerprovisioner.New(config)
	if err != nil {
		return nil, err
	}
	return w, nil
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
	s.world.note("agent %s ended", s.name)
	switch {
	case killed && err != nil && doom == "":
		s.world.violated("agent %s was killed, and that was an error: %s", s.name, text)
	case killed, s.severed():
	case err == nil:
		s.world.violated("agent %s ended by itself, and without an error", s.name)
	case doom == "":
		s.world.violated("agent %s ended without a reason that ends a worker: %s", s.name, text)
	}
	s.mu.Lock()
	s.end = s.world.clock.Now()
	s.mu.Unlock()
	close(s.ended)
}

// throw returns dice for something about this session at this moment.
func (s *Session) throw(words ...string) *dice {
	return throwFor(s.world.options.Seed, append(words, s.name, s.world.since().String())...)
}

// about names what a call is about. That a call is about several containers
// depends, where these are quick, on how they were joined.
func (s *Session) about(c fakes.Call) string {
	if c.Keys == nil || s.world.options.Quick {
		return c.Key
	}
	return strings.Join(slices.Sorted(slices.Values(c.Keys)), " ")
}

// shared tells whether those who call the method at one instant share calls.
func shared(method string) bool {
	switch method {
	case "Containers", "ProvisioningInfo", "SetContainerStatus", "SetInstanceInfo", "MarkForRemoval", "AllInstances":
		return true
	}
	return false
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
	if !s.world.options.Quick || !shared(c.Method) {
		e.Delay += s.throw("latency", c.Method, s.about(c)).between(time.Millisecond, 20*time.Millisecond)
	}
	switch c.Method {
	case "Acquire":
		// Whoever is given the lock goes on a little later than who gave it
		// back.
		e.Late += s.throw("handing over", c.Method).between(time.Millisecond, 20*time.Millisecond)
	case "StartInstance":
		e.Then = both(func() { s.world.startedAt(c.Key, s) }, e.Then)
	case "StopInstances":
		e.Before = both(e.Before, func() { s.world.stopping(c.Keys, s) })
	case "SetContainerStatus":
		e.Then = both(func() { s.world.told(c.Keys) }, e.Then)
	}
	return e
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

// startedAt holds that a container that was given up is not started until
// somebody asks for it again.
func (w *World) startedAt(id string, s *Session) {
	for _, c := range w.known() {
		if c.ID == id && c.givenUp && !s.severed() {
			w.violated("agent %s started %s, which was given up, and nobody asked", s.name, id)
		}
	}
}

// stopping holds that no instance is stopped while its container needs it, nor
// when none is to be harvested.
func (w *World) stopping(instances []string, s *Session) {
	for _, instance := range instances {
		id := w.containerOf(instance)
		if life := w.machine.Life(id); life == facade.Alive || life == facade.Dying {
			w.violated("agent %s stops %s, which is %s", s.name, id, life)
		}
		if mode, always := w.mode(); always && mode == facade.HarvestNone {
			w.violated("agent %s stops %s, and the harvest mode is none", s.name, id)
		}
	}
}

// told takes note of containers whose users were told that they are given up.
func (w *World) told(ids []string) {
	for _, id := range ids {
		status := w.machine.Status(id)
		if status.State == facade.ContainerError && strings.Contains(status.Message, "given up after") {
			w.alter(id, func(c *Container) { c.givenUp = true })
		}
	}
}

// staggered keeps containers that are called at one instant from asking for the
// lock at one instant, in no certain order.
type staggered struct {
	s     *Session
	inner containerprovisioner.Preparer
}

// Prepare is part of containerprovisioner.Preparer.
func (p staggered) Prepare(ctx context.Context, id string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.s.world.clock.After(p.s.throw("stagger", id).between(0, time.Millisecond)):
	}
	return p.inner.Prepare(ctx, id)
}

// PhaseDone is part of containersetup.Metrics. It holds that no phase is
// repeated once it is done.
func (s *Session) PhaseDone(a containersetup.PhaseAttempt) {
	if a.Err != nil {
		s.world.print(a.Err.Error())
		return
	}
	s.world.reach(s, fmt.Sprintf("agent %s: %s of %s is done", s.name, a.Phase, a.Type))
	if a.Phase == containersetup.PhaseSettings {
		return // they are read anew when the back end refuses them
	}
	key := string(a.Type) + " " + string(a.Phase)
	s.mu.Lock()
	s.done[key]++
	again := s.done[key] > 1
	s.mu.Unlock()
	if again {
		s.world.violated("agent %s did the phase %s of %s again", s.name, a.Phase, a.Type)
	}
}

// passes is what hears of passes.
type passes struct{ s *Session }

// PassDone is part of containerprovisioner.Metrics.
func (p passes) PassDone(pass containerprovisioner.Pass) {
	if pass.Err != nil {
		p.s.world.print(pass.Err.Error())
	}
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

// severed tells whether the connection was cut.
func (s *Session) severed() bool {
	select {
	case <-s.faults.Severed():
		return true
	default:
		return false
	}
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
	s.world.note("agent %s crashes", s.name)
	s.faults.Cut()
	s.Kill()
}

// awaitEnd waits until the worker has ended, and complains if that takes too
// long.
func (s *Session) awaitEnd(most time.Duration, why string) {
	select {
	case <-s.ended:
		return
	case <-s.world.clock.After(most):
	}
	s.world.violated("agent %s has not ended %s after %s", s.name, most, why)
	s.worker.Kill()
	<-s.ended
}
