package containersetup

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/containersetup/hostprep"
	"github.com/sutler-dev/sutler/facade"
)

// workerName is how this worker calls itself to the machine lock.
const workerName = "container-setup"

// setup prepares the machine for one type of container: phase after phase, each
// retried by itself. It is a worker, and ends when the provisioner is started.
type setup struct {
	catacomb catacomb.Catacomb
	w        *Worker
	t        ContainerType
	backend  Backend
	asked    Event // what first asked for the type
	teller   *teller
	wake     chan struct{}

	// The loop's own.
	progress progress
	settings facade.ContainerManagerConfig
	broker   Broker
	lockHold time.Duration   // of the attempt under way
	present  map[string]bool // ids of containers that are there, of those asked for
	waiting  map[string]bool // ids of those that wait for the type
	unread   map[string]bool // ids of those that could not be read

	mu        sync.Mutex // guards what follows
	requested map[string]bool
	status    setupStatus
}

// setupStatus is what the report tells of a type.
type setupStatus struct {
	phase     Phase
	attempts  int // failures of this phase in a row
	lastError string
	since     time.Time // of this phase
	next      time.Time // when it is tried next; zero while it is under way
	lockSince time.Time // since when the lock is waited for; zero if it is not
	lockWait  time.Duration
	waiting   int
}

func newSetup(w *Worker, t ContainerType, backend Backend, asked Event) (*setup, error) {
	s := &setup{
		w: w, t: t, backend: backend, asked: asked,
		teller:    newTeller(w),
		wake:      make(chan struct{}, 1),
		present:   map[string]bool{},
		waiting:   map[string]bool{},
		unread:    map[string]bool{},
		requested: map[string]bool{},
		status:    setupStatus{phase: PhaseIdle, since: w.config.Clock.Now()},
	}
	err := catacomb.Invoke(catacomb.Plan{Site: &s.catacomb, Work: s.loop})
	return s, errors.Trace(err)
}

// Kill is part of worker.Worker.
func (s *setup) Kill() { s.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (s *setup) Wait() error { return s.catacomb.Wait() }

// request has the containers looked at, and the machine prepared if one of them
// is there.
func (s *setup) request(ids []string) {
	s.mu.Lock()
	for _, id := range ids {
		s.requested[id] = true
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// attempts is when something is tried next, and how often it has failed.
type attempts struct {
	at    time.Time
	delay time.Duration
	n     int
}

// later puts the next attempt off.
func (r *attempts) later(now time.Time, backoff func(time.Duration, int) time.Duration) {
	r.delay = backoff(r.delay, r.n)
	r.n++
	r.at = now.Add(r.delay)
}

// loop prepares the type, phase after phase, until its provisioner is started.
// A container that comes in the meantime is looked at, and told what it waits
// for; it does not cut a back-off short.
func (s *setup) loop() error {
	ctx, cancel := context.WithCancel(s.catacomb.Context(context.Background()))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.teller.run(ctx) })

	var looking, trying attempts
	for {
		pause := s.lookWhenDue(ctx, &looking)
		phase := s.progress.next()
		s.enter(phase)
		switch phase {
		case PhaseReady:
			return nil
		case PhaseIdle, PhaseRefused:
			// Nothing to do but for those who ask.
		default:
			if left := trying.at.Sub(s.w.config.Clock.Now()); left <= 0 {
				s.try(ctx, phase, &trying)
				pause = 0
			} else if pause < 0 || left < pause {
				pause = left
			}
		}
		if !s.w.wait(ctx, pause, s.wake) {
			return s.catacomb.ErrDying()
		}
	}
}

// try tries a phase, and takes note of what came of it.
func (s *setup) try(ctx context.Context, phase Phase, trying *attempts) {
	tried, done := s.attempt(ctx, phase, trying.n)
	// Last: whoever hears of it may look at the report.
	defer s.w.heardBy("PhaseDone", func() { s.w.config.Metrics.PhaseDone(tried) })
	defer done(tried)
	err := tried.Err
	if s.w.isDying() {
		<-ctx.Done() // in a moment
	}
	switch {
	case ctx.Err() != nil:
		// Cut short: being killed is no failure.
	case err == nil:
		s.progress = s.progress.completed(phase)
		*trying = attempts{}
		s.enter(s.progress.next())
	case errors.Is(err, errors.NotSupported) && phase != PhaseNetwork && phase != PhaseProvisioner:
		// Never to be had here: given up at first sight.
		s.refuse(phase, err)
	default:
		trying.later(s.w.config.Clock.Now(), s.w.config.Backoff)
		s.failed(phase, err, trying)
	}
}

// lookWhenDue looks at what was asked for, and returns how long to wait for the
// next look: negative if nothing is left to look at.
func (s *setup) lookWhenDue(ctx context.Context, looking *attempts) time.Duration {
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.requested))
	clear(s.requested)
	s.mu.Unlock()
	due := !looking.at.After(s.w.config.Clock.Now())
	if due {
		ids = slices.AppendSeq(ids, maps.Keys(s.unread))
		clear(s.unread)
	}
	if s.look(ctx, ids) != nil && due {
		// Retried with a back-off of its own, which holds up neither the
		// phases nor a look at who comes meanwhile.
		looking.later(s.w.config.Clock.Now(), s.w.config.Backoff)
	}
	if len(s.unread) == 0 {
		*looking = attempts{}
		return -1
	}
	return max(looking.at.Sub(s.w.config.Clock.Now()), 0)
}

// look finds out which of the containers are there. One that is gone already
// prepares nothing; one that cannot be read is kept for later.
func (s *setup) look(ctx context.Context, ids []string) (err error) {
	slices.Sort(ids)
	for chunk := range slices.Chunk(slices.Compact(ids), maxTold) {
		if failed := s.lookAt(ctx, chunk); failed != nil {
			s.w.logger(s.t).Debug("containers not read", "error", failed.Error())
			err = failed
		}
	}
	return err
}

func (s *setup) lookAt(ctx context.Context, ids []string) (err error) {
	defer s.recovered(&err)
	for _, id := range ids {
		s.unread[id] = true // until it was read
	}
	var results []facade.ContainerResult
	err = s.w.ask(ctx, func(ctx context.Context) (err error) {
		results, err = s.w.config.Facade.Containers(ctx, ids)
		return err
	})
	if err != nil {
		return err
	}
	byID := make(map[string]facade.ContainerResult, len(results))
	for _, r := range results {
		byID[r.ID] = r
	}
	for _, id := range ids {
		r, ok := byID[id]
		switch {
		case !ok:
			err = errors.NotValidf("answer without container %q", id)
		case errors.Is(r.Err, errors.NotFound):
			delete(s.unread, id)
			delete(s.present, id)
			delete(s.waiting, id)
		case r.Err != nil:
			err = r.Err
		case r.Life.Validate() != nil:
			err = r.Life.Validate()
		default:
			// A dead one, too: what there may be of its instance has to
			// be taken away.
			delete(s.unread, id)
			s.present[id] = true
			s.teller.heard(id, r.Status)
			// One in error was given up, by an earlier agent maybe, and
			// waits for somebody to ask for it again: nobody asks by
			// starting an agent.
			if r.Life == facade.Alive && r.InstanceID == "" && r.Status != facade.ContainerError {
				s.waiting[id] = true
			}
		}
	}
	// When the last one goes before its type was prepared, that is not any more.
	s.progress.wanted = len(s.present) > 0
	return err
}

// enter takes note of the phase that is next, and has it told to those who
// wait.
func (s *setup) enter(phase Phase) {
	waiting := len(s.waiting)
	if phase == PhaseReady {
		waiting = 0 // what is not there yet waits for its provisioner
	}
	s.mu.Lock()
	s.status.waiting = waiting
	if s.status.phase != phase {
		s.status = setupStatus{phase: phase, since: s.w.config.Clock.Now(), waiting: waiting, lockWait: s.status.lockWait}
	}
	status := s.status
	s.mu.Unlock()
	s.tell(status)
}

// tell tells those who wait what they wait for.
func (s *setup) tell(status setupStatus) {
	state := facade.ContainerPending
	var message string
	switch {
	case status.phase == PhaseIdle || status.phase == PhaseReady:
		return
	case status.phase == PhaseProvisioner && status.lastError == "":
		return // what was told is about to be taken back
	case status.phase == PhaseRefused:
		state = facade.ContainerError
		message = fmt.Sprintf("%s containers cannot be had on this machine: %s", s.t, status.lastError)
	case status.lastError != "":
		message = fmt.Sprintf("preparing for %s: %s: %s (next attempt at %s)",
			s.t, status.phase, status.lastError, status.next.UTC().Format(time.RFC3339))
	default:
		message = fmt.Sprintf("preparing for %s: %s", s.t, status.phase)
	}
	s.teller.tell(state, message, slices.Collect(maps.Keys(s.waiting))...)
}

// failed takes note of a failure that is retried.
func (s *setup) failed(phase Phase, err error, trying *attempts) {
	s.mu.Lock()
	repeated := s.status.lastError == err.Error()
	s.status.attempts, s.status.lastError, s.status.next = trying.n, err.Error(), trying.at
	s.mu.Unlock()
	level := slog.LevelWarn
	if repeated {
		level = slog.LevelDebug
	}
	s.w.logger(s.t).Log(context.Background(), level, "preparation failed",
		"phase", string(phase), "error", err.Error(), "attempts", trying.n, "next", trying.delay)
}

// refuse gives the type up.
func (s *setup) refuse(phase Phase, err error) {
	s.progress.refused = true
	s.mu.Lock()
	s.status = setupStatus{
		phase: PhaseRefused, lastError: err.Error(),
		since: s.w.config.Clock.Now(), waiting: len(s.waiting), lockWait: s.status.lockWait,
	}
	s.mu.Unlock()
	s.w.logger(s.t).Warn("this machine cannot have such containers", "phase", string(phase), "error", err.Error())
}

// attempt tries a phase once. It returns what came of it, and whom to tell.
func (s *setup) attempt(ctx context.Context, phase Phase, failed int) (PhaseAttempt, func(PhaseAttempt)) {
	ctx, done := s.w.starting(ctx, PhaseStart{Type: s.t, Phase: phase, Attempts: failed, Event: s.asked})
	started := s.w.config.Clock.Now()
	waited := s.lockWait()
	s.lockHold = 0
	err := s.do(ctx, phase)
	lock := s.lockWait() - waited
	return PhaseAttempt{
		Type: s.t, Phase: phase, Attempts: failed,
		LockWait: lock, LockHold: s.lockHold,
		Duration: s.w.config.Clock.Now().Sub(started) - lock,
		Event:    s.asked, Err: err,
	}, done
}

func (s *setup) do(ctx context.Context, phase Phase) (err error) {
	defer s.recovered(&err)
	switch phase {
	case PhaseSettings:
		return s.readSettings(ctx)
	case PhaseInitialise:
		return s.initialise(ctx)
	case PhaseNetwork:
		return s.publishNetwork(ctx)
	case PhaseBroker:
		return s.connect(ctx)
	}
	return s.startProvisioner(ctx)
}

// recovered turns a panic into the error of the phase.
func (s *setup) recovered(err *error) {
	r := recover()
	if r == nil {
		return
	}
	*err = errors.Errorf("panic: %v", r)
	s.mu.Lock()
	repeated := s.status.lastError == (*err).Error()
	s.mu.Unlock()
	if !repeated {
		s.w.logger(s.t).Error("preparation panicked", "error", (*err).Error(), "stack", string(debug.Stack()))
	}
}

func (s *setup) readSettings(ctx context.Context) error {
	err := s.w.ask(ctx, func(ctx context.Context) (err error) {
		s.settings, err = s.w.config.Facade.ContainerManagerConfig(ctx, s.t)
		return err
	})
	return errors.Annotate(err, "reading the settings")
}

// initialise changes the host, and so holds the machine lock; nothing else
// does.
func (s *setup) initialise(ctx context.Context) error {
	initialiser, err := s.initialiser()
	if err != nil {
		return errors.Annotate(err, "following the settings")
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return errors.Annotate(err, "waiting for the machine lock")
	}
	held := s.w.config.Clock.Now()
	defer func() {
		release()
		s.lockHold = s.w.config.Clock.Now().Sub(held)
	}()
	return s.w.within(ctx, s.w.config.InitialiseTimeout, initialiser.Initialise)
}

// initialiser returns the one that follows the settings, where it can.
func (s *setup) initialiser() (Initialiser, error) {
	with, ok := s.backend.Initialiser.(SettingsInitialiser)
	if !ok {
		return s.backend.Initialiser, nil
	}
	initialiser, err := with.WithSettings(maps.Clone(s.settings))
	switch {
	case errors.Is(err, errors.NotValid):
		// Read anew, in case somebody mends them.
		s.progress.settings = false
	case err == nil && initialiser == nil:
		err = errors.NotValidf("nil initialiser")
	}
	return initialiser, err
}

// acquire waits for the lock, however long, and lets the report tell.
func (s *setup) acquire(ctx context.Context) (func(), error) {
	started := s.w.config.Clock.Now()
	s.mu.Lock()
	s.status.lockSince = started
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.status.lockSince = time.Time{}
		s.status.lockWait += s.w.config.Clock.Now().Sub(started)
		s.mu.Unlock()
	}()
	release, err := s.w.config.Lock.Acquire(ctx, Holder{Worker: workerName, Reason: "initialise " + string(s.t)})
	if err == nil && release == nil {
		err = errors.NotValidf("nil release of the machine lock")
	}
	return release, err
}

func (s *setup) lockWait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.lockWait
}

// maxPublished is how often the network is published in one go while it keeps
// changing.
const maxPublished = 3

// publishNetwork tells the controller what the host looks like now. Nothing
// observed is nothing published: an empty list would take the host's addresses
// away.
//
// The provisioner of another type may bridge a device, and publish that, between
// the look and the telling, since no lock is held. What was seen before must not
// be the last word: so there is another look afterwards.
func (s *setup) publishNetwork(ctx context.Context) error {
	seen, err := s.observe(ctx)
	for n := 0; err == nil && len(seen) > 0 && n < maxPublished; n++ {
		told := seen
		err = s.w.ask(ctx, func(ctx context.Context) error {
			return s.w.config.Facade.SetHostMachineNetworkConfig(ctx, s.w.config.MachineID, told)
		})
		if err != nil {
			return errors.Annotate(err, "publishing the network")
		}
		seen, err = s.observe(ctx)
		if reflect.DeepEqual(seen, told) {
			return err
		}
	}
	return err
}

// observe returns the interfaces of the host that can be told of.
func (s *setup) observe(ctx context.Context) ([]facade.NetworkInterface, error) {
	var seen []facade.NetworkInterface
	err := s.w.within(ctx, s.w.config.CallTimeout, func(ctx context.Context) (err error) {
		seen, err = s.w.config.Network.Observe(ctx)
		return err
	})
	if err != nil {
		return nil, errors.Annotate(err, "observing the network")
	}
	return slices.DeleteFunc(slices.Clone(seen), func(i facade.NetworkInterface) bool {
		// One odd device must not keep the machine from having containers.
		err := i.Validate()
		if err != nil {
			s.w.logger(s.t).Warn("interface left out", "error", err.Error())
		}
		return err != nil
	}), nil
}

// connect makes the broker.
func (s *setup) connect(ctx context.Context) error {
	err := s.w.within(ctx, s.w.config.CallTimeout, func(ctx context.Context) (err error) {
		s.broker, err = s.backend.NewBroker(ctx, s.settings)
		return err
	})
	switch {
	case errors.Is(err, errors.NotValid):
		// It is about the settings: they are read anew, in case somebody
		// mends them.
		s.progress.settings = false
	case err == nil && s.broker == nil:
		err = errors.NotValidf("nil broker")
	}
	return errors.Annotate(err, "connecting to the back end")
}

// startProvisioner hands the type over. Nothing more is told of its containers
// from here: the provisioner has the word.
func (s *setup) startProvisioner(ctx context.Context) error {
	config := s.w.config
	preparer, err := hostprep.New(hostprep.Config{
		Facade:    config.Facade,
		MachineID: config.MachineID,
		Lock:      config.Lock,
		Network:   config.Network,
		Bridger:   config.Bridger,
		Clock:     config.Clock,
		Logger:    s.w.logger(s.t),
	})
	if err != nil {
		return errors.Annotate(err, "preparing the host's network")
	}
	s.teller.clear(ctx, slices.Collect(maps.Keys(s.waiting)))
	return s.w.startProvisioner(s.t, containerprovisioner.Config{
		Facade:    config.Facade,
		MachineID: config.MachineID,
		Type:      s.t,
		Broker:    s.broker,
		Preparer:  preparer,
		Clock:     config.Clock,
		Logger:    s.w.logger(s.t),
		IsFatal:   config.IsFatal,
		Metrics:   s.w.containerMetrics(s.t),
	})
}
