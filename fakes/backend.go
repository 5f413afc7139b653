package fakes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// Host is the machine that an agent runs on, in memory: its back ends with
// their instances, its network and its lock. What is there outlives the agent.
//
// A Host is a view of that over one connection, its [Faults], as one
// incarnation of the agent has it; [Host.Session] makes the next one's. All of
// its methods may be called from many goroutines at once.
//
// The key of a call, for a [Rule], is the type for Initialise, NewBroker and
// AllInstances, the container for StartInstance, and each instance, by its id,
// for StopInstances; for Bridge it is each device, and the failure of one is the
// failure of all. To do half of its work is, for Initialise, to leave the type
// half prepared, for StartInstance to leave the instance half made, and for
// StopInstances to do the first half of the list.
type Host struct {
	faults *Faults
	state  *hostState
}

type hostState struct {
	mu       sync.Mutex
	clock    clock.Clock
	sessions []*Faults
	life     int
	lock     *Lock
	// guarded is set once somebody uses the lock: then changes without it
	// are wrong.
	guarded    bool
	changes    []*change
	violations []string

	types     map[facade.ContainerType]*hostType
	initTime  time.Duration
	startTime time.Duration
	starting  int
	peak      int
	instances map[string]*hostInstance // by container
	starts    map[string]int
	stops     map[string]int

	staleReads int
	staleFor   time.Duration

	network   []facade.NetworkInterface
	bridgings map[string]int
	rollbacks int
}

// change is a change of the host that is under way.
type change struct {
	what   string
	faults *Faults
}

// hostType is a host's back end for one type.
type hostType struct {
	unsupported  bool
	installed    bool
	ready        bool
	initialised  int
	brokers      int
	settings     facade.ContainerManagerConfig
	foreign      []container.InstanceID
	stale        []container.Instance
	staleReads   int
	staleUntil   time.Time
	staleOngoing bool
}

// hostInstance is an instance of this model's.
type hostInstance struct {
	name           container.InstanceID
	t              facade.ContainerType
	whole, running bool
	params         container.StartParams
}

func newInstance(p container.StartParams) *hostInstance {
	return &hostInstance{name: InstanceID(p.ContainerID), t: typeOf(p.ContainerID), params: p}
}

// NewHost returns a host that is prepared for no container, with the network
// that [HostInterfaces] returns, and whose calls go through the faults given.
func NewHost(faults *Faults) *Host {
	s := &hostState{clock: faults.clock, lock: NewLock(faults), sessions: []*Faults{faults}}
	s.renew()
	return &Host{faults: faults, state: s}
}

// renew makes the host as it was when it was installed.
func (s *hostState) renew() {
	s.life++
	s.types = make(map[facade.ContainerType]*hostType)
	s.instances = make(map[string]*hostInstance)
	s.starts, s.stops = make(map[string]int), make(map[string]int)
	s.network, s.bridgings, s.rollbacks = HostInterfaces(), make(map[string]int), 0
	s.changes = nil
}

// Session returns a view of the same host over another connection.
func (h *Host) Session(faults *Faults) *Host {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.sessions = append(h.state.sessions, faults)
	return &Host{faults: faults, state: h.state}
}

// Faults returns what this view's calls go through.
func (h *Host) Faults() *Faults { return h.faults }

// Lock returns the machine's lock over this view's connection. Once it was
// asked for, a change of the host without the lock is a violation.
func (h *Host) Lock() *Lock {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.guarded = true
	return h.state.lock.Session(h.faults)
}

// Backend returns the host's back end for containers of the type. Every type
// has one; its instances are named as container.InstanceName does, for
// [ModelUUID].
func (h *Host) Backend(t facade.ContainerType) container.Backend {
	return container.Backend{
		Initialiser: initialiser{h, t},
		NewBroker: func(ctx context.Context, settings facade.ContainerManagerConfig) (container.Broker, error) {
			call := Call{Method: "NewBroker", Key: string(t), Args: []any{maps.Clone(settings)}}
			return run(ctx, h.faults, call, func(p plan) (container.Broker, error) {
				h.state.mu.Lock()
				defer h.state.mu.Unlock()
				if err := h.state.prepared(t); err != nil || p.half() {
					return nil, err
				}
				h.state.of(t).brokers++
				h.state.of(t).settings = maps.Clone(settings)
				return broker{h, t}, nil
			})
		},
	}
}

// Backends returns the host's back ends for the types.
func (h *Host) Backends(types ...facade.ContainerType) map[facade.ContainerType]container.Backend {
	out := make(map[facade.ContainerType]container.Backend)
	for _, t := range types {
		out[t] = h.Backend(t)
	}
	return out
}

func (s *hostState) of(t facade.ContainerType) *hostType {
	if s.types[t] == nil {
		s.types[t] = &hostType{}
	}
	return s.types[t]
}

// prepared returns errors.NotYetAvailable unless the type was initialised.
func (s *hostState) prepared(t facade.ContainerType) error {
	if !s.of(t).ready {
		return errors.NotYetAvailablef("back end for %s containers", t)
	}
	return nil
}

// begin notes a change of the host that begins, and what is wrong with it; end
// is called when it is over.
func (h *Host) begin(what string) (end func()) {
	s := h.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.faults.isCut() {
		return func() {}
	}
	if s.guarded && !s.lock.heldBy(h.faults) {
		s.violate("%s without the lock", what)
	}
	s.changes = slices.DeleteFunc(s.changes, func(c *change) bool { return c.faults.isCut() })
	for _, other := range s.changes {
		s.violate("%s during %s", what, other.what)
	}
	mine := &change{what, h.faults}
	s.changes = append(s.changes, mine)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes = slices.DeleteFunc(s.changes, func(c *change) bool { return c == mine })
	}
}

func (s *hostState) violate(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

// initialiser is a container.Initialiser.
type initialiser struct {
	host *Host
	t    facade.ContainerType
}

// Initialise is part of container.Initialiser. Its two steps are each done only
// where they have not been done before.
func (i initialiser) Initialise(ctx context.Context) error {
	s := i.host.state
	defer i.host.begin("Initialise " + string(i.t))()
	step := func(do func(*hostType)) func(plan) (struct{}, error) {
		return func(plan) (struct{}, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.of(i.t).unsupported {
				return struct{}{}, errors.NotSupportedf("%s containers on this machine", i.t)
			}
			do(s.of(i.t))
			return struct{}{}, nil
		}
	}
	install := step(func(t *hostType) { t.installed = true })
	configure := step(func(t *hostType) {
		if !t.ready {
			t.ready = true
			t.initialised++
		}
	})
	s.mu.Lock()
	pause := s.initTime
	if s.of(i.t).ready {
		pause = 0
	}
	s.mu.Unlock()
	_, err := runSteps(ctx, i.host.faults, Call{Method: "Initialise", Key: string(i.t)}, pause, install, configure)
	return err
}

// broker is a container.Broker.
type broker struct {
	host *Host
	t    facade.ContainerType
}

// StartInstance is part of container.Broker.
func (b broker) StartInstance(ctx context.Context, params container.StartParams) (container.StartResult, error) {
	s, id := b.host.state, params.ContainerID
	params = cloneParams(params)
	s.mu.Lock()
	pause := s.startTime
	if made := s.instances[id]; made != nil && made.running {
		pause = 0
	}
	s.starting++
	s.peak = max(s.peak, s.starting)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.starting--
	}()

	step := func(do func() error) func(plan) (container.StartResult, error) {
		return func(plan) (container.StartResult, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.prepared(b.t); err != nil {
				return container.StartResult{}, err
			}
			if err := b.validate(params); err != nil {
				return container.StartResult{}, err
			}
			if err := do(); err != nil {
				return container.StartResult{}, err
			}
			return result(s.instances[id].params), nil
		}
	}
	half := step(func() error {
		if made := s.instances[id]; made == nil || !made.whole {
			s.changing(b.t)
			s.instances[id] = newInstance(params)
		}
		return nil
	})
	start := step(func() error {
		made := s.instances[id]
		if made == nil {
			return errors.NotFoundf("instance of container %q, removed meanwhile,", id)
		}
		if !made.running {
			s.changing(b.t)
			made.whole, made.running = true, true
			s.starts[id]++
		}
		return nil
	})
	call := Call{Method: "StartInstance", Key: id, Args: []any{params}}
	return runSteps(ctx, b.host.faults, call, pause, half, start)
}

func (b broker) validate(params container.StartParams) error {
	if err := params.Validate(); err != nil {
		return err
	}
	if id, _ := container.ParseID(params.ContainerID); id.Type != b.t {
		return errors.NotValidf("ContainerID: container %q of another type than %s", params.ContainerID, b.t)
	}
	return nil
}

// StopInstances is part of container.Broker.
func (b broker) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	s := b.host.state
	call := Call{Method: "StopInstances", Keys: make([]string, len(ids))}
	for i, id := range ids {
		call.Keys[i] = string(id)
	}
	results, err := run(ctx, b.host.faults, call, func(p plan) ([]error, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		results := make([]error, len(ids))
		if err := s.prepared(b.t); err != nil {
			return nil, err
		}
		for i, id := range ids {
			if p.half() && i >= len(ids)/2 {
				break
			}
			effect := p.items[i]
			if effect.acts() {
				s.remove(b.t, id)
			}
			results[i] = altered(effect, effect.Err)
		}
		return results, nil
	})
	if err != nil {
		results = make([]error, len(ids))
		for i := range results {
			results[i] = err
		}
	}
	return results
}

// AllInstances is part of container.Broker. They are sorted by container.
func (b broker) AllInstances(ctx context.Context) ([]container.Instance, error) {
	s := b.host.state
	return run(ctx, b.host.faults, Call{Method: "AllInstances", Key: string(b.t)}, func(plan) ([]container.Instance, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.prepared(b.t); err != nil {
			return nil, err
		}
		t := s.of(b.t)
		if t.staleOngoing {
			if t.staleReads > 0 || s.clock.Now().Before(t.staleUntil) {
				t.staleReads--
				return slices.Clone(t.stale), nil
			}
			t.staleOngoing = false
		}
		return s.list(b.t), nil
	})
}

// changing is called before instances of the type change, for readers that lag
// behind.
func (s *hostState) changing(t facade.ContainerType) {
	ht := s.of(t)
	if s.staleReads == 0 && s.staleFor == 0 || ht.staleOngoing {
		return
	}
	ht.stale, ht.staleOngoing = s.list(t), true
	ht.staleReads, ht.staleUntil = s.staleReads, s.clock.Now().Add(s.staleFor)
}

func (s *hostState) list(t facade.ContainerType) []container.Instance {
	var out []container.Instance
	for _, id := range slices.Sorted(maps.Keys(s.instances)) {
		if i := s.instances[id]; i.t == t {
			out = append(out, i.instance(id))
		}
	}
	return out
}

func (s *hostState) remove(t facade.ContainerType, instance container.InstanceID) {
	for id, i := range s.instances {
		if i.t == t && i.name == instance {
			s.changing(t)
			delete(s.instances, id)
			s.stops[id]++
		}
	}
}

func (i *hostInstance) instance(id string) container.Instance {
	out := container.Instance{ID: i.name, ContainerID: id, Running: i.running, Status: "Stopped"}
	switch {
	case i.running:
		out.Status = "Running"
	case !i.whole:
		out.Status = "Creating"
	}
	return out
}

func result(params container.StartParams) container.StartResult {
	c := params.Info.Constraints
	hw := facade.Hardware{Cores: max(c.Cores, 1), Memory: max(c.Memory, 512), RootDisk: max(c.RootDisk, 8192), Arch: c.Arch}
	if hw.Arch == "" {
		hw.Arch = "amd64"
	}
	return container.StartResult{
		InstanceID: InstanceID(params.ContainerID),
		Hardware:   hw,
		Interfaces: cloneInterfaces(params.Interfaces),
	}
}

// InstanceID returns what the back ends of a [Host] name the instance of the
// container; empty for what is no container's id.
func InstanceID(id string) container.InstanceID {
	name, _ := container.InstanceName(ModelUUID, id)
	return container.InstanceID(name)
}

func typeOf(id string) facade.ContainerType {
	parsed, _ := container.ParseID(id)
	return parsed.Type
}

func cloneParams(p container.StartParams) container.StartParams {
	p.Info = cloneContainerInfo(p.Info)
	p.Interfaces = cloneInterfaces(p.Interfaces)
	return p
}
