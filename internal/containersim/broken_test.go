package containersim

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/containersetup/hostprep"
	"github.com/sutler-dev/sutler/facade"
)

// brokenSetup is a container set-up with a fault that stories have to find. All
// are made from the real one by lies that it is told, or by a part of it that is
// replaced.
type brokenSetup struct {
	about   string
	variant Variant
	// says is what has to be found wrong; one of them suffices.
	says []string
}

// notRunning is what is wrong in the end when a type is never prepared.
var notRunning = []string{"does not run", "the report has no provisioner", "its phase is"}

func brokenSetups() []brokenSetup {
	return []brokenSetup{{
		about: "a type counts as prepared before the work is done",
		variant: Variant{Setup: func(config *containersetup.Config, _ *Session) {
			wrapBackends(config, func(b container.Backend) container.Backend {
				b.Initialiser = &hasty{inner: b.Initialiser}
				return b
			})
		}},
		says: notRunning,
	}, {
		about:   "events of prepared types are counted, not types",
		variant: Variant{Setup: countEvents},
		says:    notRunning,
	}, {
		about:   "a panic keeps the lock",
		variant: Variant{Setup: keepLockOnPanic},
		says:    []string{"lock held by"},
	}, {
		about: "host changes are asked for outside the lock",
		variant: Variant{Provisioner: func(config *containerprovisioner.Config, s *Session) {
			config.Preparer = askingFirst{s}
		}},
		says: []string{"asked without the lock"},
	}, {
		about: "a stop is not noticed while waiting for the lock",
		variant: Variant{Setup: func(config *containersetup.Config, s *Session) {
			config.Lock = deaf{s}
		}},
		says: []string{"after being killed"},
	}, {
		about: "the lock is given back before the work",
		variant: Variant{Setup: func(config *containersetup.Config, _ *Session) {
			config.Lock = hollow{config.Lock}
		}},
		says: []string{"without the lock"},
	}, {
		about:   "a status that could not be told counts as told",
		variant: lying(func(m facade.Machine) facade.Machine { return muttering{m} }),
		says:    []string{"its status is"},
	}, {
		about:   "addresses are not given back",
		variant: lying(func(m facade.Machine) facade.Machine { return keeping{m} }),
		says:    []string{"still has addresses"},
	}, {
		about: "the harvest mode is ignored",
		variant: Variant{
			Setup:       func(config *containersetup.Config, s *Session) { config.Facade = s.machine.Plain() },
			Provisioner: func(config *containerprovisioner.Config, _ *Session) { config.HarvestMode = facade.HarvestDestroyed },
		},
		says: []string{"the harvest mode is none", "is gone, and still has an instance"},
	}, {
		about: "errors quote the user data",
		variant: brokering(func(b container.Broker, _ *Session) container.Broker {
			return talkative{b}
		}),
		says: []string{"a secret was printed"},
	}, {
		about: "an instance that is half made counts as made",
		variant: brokering(func(b container.Broker, s *Session) container.Broker {
			return satisfied{b, s}
		}),
		says: []string{"does not run"},
	}, {
		about: "calls have no deadline",
		variant: Variant{
			Setup:       func(config *containersetup.Config, _ *Session) { config.CallTimeout = 1000 * time.Hour },
			Provisioner: func(config *containerprovisioner.Config, _ *Session) { config.CallTimeout = 1000 * time.Hour },
		},
		says: append([]string{"the report says"}, notRunning...),
	}, {
		about: "any error of the controller ends the worker",
		variant: Variant{Setup: func(config *containersetup.Config, _ *Session) {
			config.IsFatal = func(error) bool { return true }
		}},
		says: []string{"without a reason that ends a worker"},
	}, {
		about:   "the end of the watcher is not noticed",
		variant: lying(func(m facade.Machine) facade.Machine { return undying{m} }),
		says:    []string{"after its watcher ended"},
	}, {
		about:   "a provisioner that ends is not started again",
		variant: Variant{Setup: neverRestart},
		says:    []string{"does not run", "not marked for removal", "the report says", "its status is"},
	}, {
		about:   "a restart asks for what was given up",
		variant: Variant{Setup: func(config *containersetup.Config, s *Session) { config.Facade = forgiving{s.machine} }, Provisioner: honest},
		says:    []string{"was given up, and nobody asked"},
	}, {
		about: "the network is not looked at again after it was published",
		variant: Variant{
			Setup: func(config *containersetup.Config, _ *Session) {
				config.Network = &shortSighted{inner: config.Network, clock: config.Clock}
			},
			Provisioner: func(config *containerprovisioner.Config, s *Session) {
				config.Preparer = staggered{s, preparer(s)}
			},
		},
		says: []string{"not bridged as far as the controller knows"},
	}}
}

// TestStoriesFindWhatIsBroken demands that random stories find the fault, and
// tells how many it took.
func TestStoriesFindWhatIsBroken(t *testing.T) {
	const most = 5000
	for _, broken := range brokenSetups() {
		t.Run(broken.about, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(most) {
				wrong := bubble(t, func() []string { return NewStory(5001+n, broken.variant).Tell() })
				if what := broken.found(wrong); what != "" {
					t.Logf("found by story %d: %s", n+1, what)
					return
				}
			}
			t.Fatalf("not found in %d stories", most)
		})
	}
}

// found returns the line that says what has to be found, empty if none does.
func (b brokenSetup) found(wrong []string) string {
	for _, line := range wrong {
		for _, says := range b.says {
			if strings.Contains(line, says) {
				line, _, _ = strings.Cut(line, "\n")
				return line[:min(len(line), 160)]
			}
		}
	}
	return ""
}

// lying is a Variant whose controller is not quite what it seems.
func lying(wrap func(facade.Machine) facade.Machine) Variant {
	return Variant{Setup: func(config *containersetup.Config, s *Session) {
		wrapped := wrap(s.machine)
		if s.world.options.Plain {
			config.Facade = wrapped
			return
		}
		config.Facade = struct {
			facade.Machine
			facade.HarvestWatcher
		}{wrapped, s.machine}
	}}
}

// brokering is a Variant with another broker.
func brokering(wrap func(container.Broker, *Session) container.Broker) Variant {
	return Variant{Setup: func(config *containersetup.Config, s *Session) {
		wrapBackends(config, func(b container.Backend) container.Backend {
			inner := b.NewBroker
			b.NewBroker = func(ctx context.Context, settings facade.ContainerManagerConfig) (container.Broker, error) {
				made, err := inner(ctx, settings)
				if made == nil {
					return made, err
				}
				return wrap(made, s), err
			}
			return b
		})
	}}
}

// honest has provisioners talk to the controller itself.
func honest(config *containerprovisioner.Config, s *Session) {
	config.Facade = s.machine
	if s.world.options.Plain {
		config.Facade = s.machine.Plain()
	}
}

func wrapBackends(config *containersetup.Config, wrap func(container.Backend) container.Backend) {
	config.Backends = maps.Clone(config.Backends)
	for t, backend := range config.Backends {
		config.Backends[t] = wrap(backend)
	}
}

// hasty sets its flag first.
type hasty struct {
	inner container.Initialiser
	done  atomic.Bool
}

func (i *hasty) Initialise(ctx context.Context) error {
	if i.done.Swap(true) {
		return nil
	}
	return i.inner.Initialise(ctx)
}

// countEvents stops the watcher when as many provisioners were started as there
// are types, whatever types they are of.
func countEvents(config *containersetup.Config, s *Session) {
	var started atomic.Int32
	inner := config.NewProvisioner
	config.NewProvisioner = func(config containerprovisioner.Config) (worker.Worker, error) {
		w, err := inner(config)
		if started.Add(1) == 2 {
			for _, watcher := range s.machine.ContainerWatchers("") {
				watcher.Silence()
			}
		}
		return w, err
	}
}

// keepLockOnPanic gives the lock back only when nothing has panicked with it.
func keepLockOnPanic(config *containersetup.Config, _ *Session) {
	panicked := new(atomic.Bool)
	config.Lock = untidy{config.Lock, panicked}
	wrapBackends(config, func(b container.Backend) container.Backend {
		b.Initialiser = noting{b.Initialiser, panicked}
		return b
	})
}

type untidy struct {
	inner    container.Lock
	panicked *atomic.Bool
}

func (l untidy) Acquire(ctx context.Context, holder container.Holder) (func(), error) {
	release, err := l.inner.Acquire(ctx, holder)
	if release == nil {
		return release, err
	}
	return func() {
		if !l.panicked.Load() {
			release()
		}
	}, err
}

type noting struct {
	inner    container.Initialiser
	panicked *atomic.Bool
}

func (i noting) Initialise(ctx context.Context) error {
	returned := false
	defer func() { i.panicked.CompareAndSwap(false, !returned) }()
	err := i.inner.Initialise(ctx)
	returned = true
	return err
}

// askingFirst prepares the host as hostprep does, but asks before it has the
// lock.
type askingFirst struct{ s *Session }

func (p askingFirst) Prepare(ctx context.Context, id string) error {
	changes, err := p.s.machine.HostChangesForContainer(ctx, id)
	if err != nil {
		return err
	}
	if len(changes.Devices) == 0 {
		return nil
	}
	release, err := p.s.lock.Acquire(ctx, container.Holder{Worker: "asking first"})
	if err != nil {
		return err
	}
	defer release()
	if err := p.s.host.Bridger().Bridge(ctx, changes.Devices, changes.ReconfigureDelay); err != nil {
		return err
	}
	seen, err := p.s.host.Network().Observe(ctx)
	if err != nil {
		return err
	}
	return p.s.machine.SetHostMachineNetworkConfig(ctx, machineID, seen)
}

// deaf waits for the lock whatever becomes of the caller, as long as it has a
// process.
type deaf struct{ s *Session }

func (l deaf) Acquire(ctx context.Context, holder container.Holder) (func(), error) {
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		select {
		case <-l.s.faults.Severed():
			cancel()
		case <-waiting.Done():
		}
	}()
	release, err := l.s.lock.Acquire(waiting, holder)
	if err == nil && ctx.Err() != nil {
		release()
		return nil, ctx.Err()
	}
	return release, err
}

// hollow gives the lock back at once.
type hollow struct{ inner container.Lock }

func (l hollow) Acquire(ctx context.Context, holder container.Holder) (func(), error) {
	release, err := l.inner.Acquire(ctx, holder)
	if release != nil {
		release()
	}
	return release, err
}

// muttering says that everything was told.
type muttering struct{ facade.Machine }

func (m muttering) SetContainerStatus(ctx context.Context, statuses []facade.ContainerStatus) ([]error, error) {
	if _, err := m.Machine.SetContainerStatus(ctx, statuses); ctx.Err() != nil {
		return nil, err
	}
	return make([]error, len(statuses)), nil
}

// keeping gives no address back.
type keeping struct{ facade.Machine }

func (keeping) ReleaseContainerAddresses(context.Context, string) error { return nil }

// talkative says what it was given when it fails.
type talkative struct{ container.Broker }

func (b talkative) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	result, err := b.Broker.StartInstance(ctx, params)
	return result, errors.Annotatef(err, "starting from %s", params.Info.UserData.Reveal())
}

// satisfied takes whatever is there of an instance for the whole.
type satisfied struct {
	container.Broker
	s *Session
}

func (b satisfied) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	if there, ok := b.s.world.instance(params.ContainerID); ok {
		return container.StartResult{InstanceID: there.ID}, nil
	}
	return b.Broker.StartInstance(ctx, params)
}

// undying hands out watchers of which nobody is told when they end.
type undying struct{ facade.Machine }

func (m undying) WatchAllContainers(ctx context.Context, machine string) (facade.StringsWatcher, error) {
	inner, err := m.Machine.WatchAllContainers(ctx, machine)
	if inner == nil {
		return nil, err
	}
	w := &undyingWatcher{StringsWatcher: inner, changes: make(chan []string), killed: make(chan struct{})}
	w.wg.Go(w.loop)
	return w, err
}

type undyingWatcher struct {
	facade.StringsWatcher
	changes chan []string
	killed  chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

func (w *undyingWatcher) Changes() <-chan []string { return w.changes }

func (w *undyingWatcher) Kill() {
	w.once.Do(func() { close(w.killed) })
	w.StringsWatcher.Kill()
}

func (w *undyingWatcher) Wait() error {
	<-w.killed
	w.wg.Wait()
	return nil
}

func (w *undyingWatcher) loop() {
	from := w.StringsWatcher.Changes()
	for {
		select {
		case <-w.killed:
			return
		case ids, ok := <-from:
			if !ok {
				from = nil
				continue
			}
			select {
			case <-w.killed:
				return
			case w.changes <- ids:
			}
		}
	}
}

// neverRestart hides from the handler that a provisioner has ended.
func neverRestart(config *containersetup.Config, _ *Session) {
	inner := config.NewProvisioner
	config.NewProvisioner = func(config containerprovisioner.Config) (worker.Worker, error) {
		w, err := inner(config)
		if err != nil {
			return nil, err
		}
		return &undead{Worker: w, killed: make(chan struct{})}, nil
	}
}

type undead struct {
	worker.Worker
	killed chan struct{}
	once   sync.Once
}

func (w *undead) Kill() {
	w.once.Do(func() { close(w.killed) })
	w.Worker.Kill()
}

func (w *undead) Wait() error {
	err := w.Worker.Wait()
	if errors.Is(err, facade.ErrConnectionLost) {
		return err
	}
	<-w.killed
	return err
}

func (w *undead) Report() map[string]any { return w.Worker.(worker.Reporter).Report() }

// forgiving shows the handler what is in error as if it had been asked for.
type forgiving struct{ facade.Machine }

func (m forgiving) Containers(ctx context.Context, ids []string) ([]facade.ContainerResult, error) {
	results, err := m.Machine.Containers(ctx, ids)
	for i := range results {
		if results[i].Status == facade.ContainerError {
			results[i].Status = facade.ContainerPending
		}
	}
	return results, err
}

// shortSighted sees what it saw a short while ago.
type shortSighted struct {
	inner container.NetworkObserver
	clock clock.Clock

	mu   sync.Mutex
	seen []facade.NetworkInterface
	at   time.Time
}

func (n *shortSighted) Observe(ctx context.Context) ([]facade.NetworkInterface, error) {
	// Nobody must wait for a mutex while another sleeps in virtual time.
	n.mu.Lock()
	seen, at := n.seen, n.at
	n.mu.Unlock()
	if n.clock.Now().Sub(at) < callTimeout {
		return seen, nil
	}
	seen, err := n.inner.Observe(ctx)
	if err == nil {
		n.mu.Lock()
		n.seen, n.at = seen, n.clock.Now()
		n.mu.Unlock()
	}
	return seen, err
}

// preparer prepares the host with what is really there.
func preparer(s *Session) containerprovisioner.Preparer {
	p, err := hostprep.New(hostprep.Config{
		Facade: s.machine, MachineID: machineID, Lock: s.lock, Network: s.host.Network(),
		Bridger: s.host.Bridger(), Clock: s.world.clock,
	})
	if err != nil {
		panic(err)
	}
	return p
}
