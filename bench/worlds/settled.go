package worlds

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// Settled is a controller and a manager with applications that all have their
// operators already. Nothing that a contender does to one of them should change
// anything: see [Settled.Writes]. It has calls that answer at once, or after a
// latency.
type Settled struct {
	names   []string
	number  map[string]int
	stored  []*operator.Operator
	agent   *fakes.Agent
	info    facade.OperatorProvisioningInfo
	charm   facade.CharmInfo
	latency time.Duration

	passes, writes, calls atomic.Int64
	hang                  atomic.Bool

	mu      sync.Mutex
	feeds   []*feed
	waiters []waiter
}

type waiter struct {
	passes int64
	done   chan struct{}
}

// NewSettled makes a world with n settled applications. Their files are made
// here, which takes about a millisecond each.
func NewSettled(n int, latency time.Duration) (*Settled, error) {
	s := &Settled{
		names: Names(n), number: make(map[string]int, n), stored: make([]*operator.Operator, n),
		info: fakes.Info(), charm: fakes.Charm(1), latency: latency,
	}
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	s.agent = fakes.NewAgent(controller.CACert())
	for i, app := range s.names {
		s.number[app] = i
		controller.AddApplication(app, fakes.App{})
		cfg, err := s.render(controller, app)
		if err != nil {
			return nil, errors.Annotate(err, app)
		}
		s.stored[i] = &operator.Operator{ID: app, Config: cfg}
		controller.RemoveApplication(app)
		faults.Reset() // it remembers each call
	}
	return s, nil
}

// render makes what is stored of one application's operator.
func (s *Settled) render(controller *fakes.Controller, app string) (*operator.Config, error) {
	cert, err := controller.IssueOperatorCertificate(context.Background(), app)
	if err != nil {
		return nil, errors.Trace(err)
	}
	info := operator.Info{CACert: cert.CACert, Cert: cert.Cert, PrivateKey: cert.PrivateKey}
	operatorInfo, err := info.Marshal()
	if err != nil {
		return nil, errors.Trace(err)
	}
	conf := agentconf.Config{
		Tag: agentconf.TagForApplication(app), DataDir: s.agent.DataDir(), LogDir: s.agent.LogDir(),
		UpgradedToVersion: s.info.Version, CACert: s.agent.CACert(), ControllerUUID: s.agent.ControllerUUID(),
		ModelUUID: fakes.ModelUUID, APIAddresses: s.info.APIAddresses, OldPassword: facade.NewSecret("as random as any other one"),
	}
	agentConf, err := conf.Render()
	if err != nil {
		return nil, errors.Trace(err)
	}
	return &operator.Config{
		ImageDetails: s.info.ImageDetails, BaseImageDetails: s.info.BaseImageDetails, Version: s.info.Version,
		ResourceTags: s.info.Tags, AgentConf: facade.NewSecret(string(agentConf)), OperatorInfo: operatorInfo, Generation: "1",
	}, nil
}

// Names are the applications'.
func (s *Settled) Names() []string { return s.names }

// World is what a contender is given.
func (s *Settled) World() contenders.World {
	return contenders.World{Facade: settledFacade{s}, Manager: settledManager{s}, Agent: s.agent, ModelUUID: fakes.ModelUUID}
}

// Release lets go of the watchers handed out.
func (s *Settled) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds = nil
}

// Send tells every watcher that the applications named have changed.
func (s *Settled) Send(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		f.send(names...)
	}
}

// Passes returns how often an operator was ensured, which a pass does last.
func (s *Settled) Passes() int64 { return s.passes.Load() }

// Pass counts one, for what does nothing else.
func (s *Settled) Pass() {
	s.passes.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiters) > 0 {
		s.tell()
	}
}

// Writes returns how often an operator would have been changed. None should
// be.
func (s *Settled) Writes() int64 { return s.writes.Load() }

// Await returns a channel that is closed when there have been so many passes,
// counted from the beginning of the world.
func (s *Settled) Await(passes int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := waiter{passes, make(chan struct{})}
	s.waiters = append(s.waiters, w)
	s.tell()
	return w.done
}

func (s *Settled) tell() {
	passes := s.passes.Load()
	left := s.waiters[:0]
	for _, w := range s.waiters {
		if passes >= w.passes {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	s.waiters = left
}

// Hang makes every call from now on hang until its context ends.
func (s *Settled) Hang(hang bool) { s.hang.Store(hang) }

// Calls returns how many calls there were.
func (s *Settled) Calls() int64 { return s.calls.Load() }

// call is what each call takes.
func (s *Settled) call(ctx context.Context) error {
	s.calls.Add(1)
	if s.hang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.latency == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(s.latency)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (s *Settled) find(app string) (*operator.Operator, error) {
	i, ok := s.number[app]
	if !ok {
		return nil, errors.NotFoundf("application %q", app)
	}
	return s.stored[i], nil
}

// settledFacade is the controller's side of a Settled.
type settledFacade struct{ s *Settled }

func (f settledFacade) WatchApplications(context.Context) (facade.StringsWatcher, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	watcher := newFeed(f.s.names)
	f.s.feeds = append(slices.DeleteFunc(f.s.feeds, (*feed).ended), watcher)
	return watcher, nil
}

func (f settledFacade) Life(ctx context.Context, _ string) (facade.Life, error) {
	return facade.Alive, f.s.call(ctx)
}

func (f settledFacade) CharmInfo(ctx context.Context, _ string) (facade.CharmInfo, error) {
	return f.s.charm, f.s.call(ctx)
}

func (f settledFacade) OperatorProvisioningInfo(ctx context.Context, _ string) (facade.OperatorProvisioningInfo, error) {
	return f.s.info, f.s.call(ctx)
}

func (f settledFacade) SetPasswords(ctx context.Context, passwords []facade.ApplicationPassword) ([]error, error) {
	f.s.writes.Add(1)
	return make([]error, len(passwords)), f.s.call(ctx)
}

func (f settledFacade) IssueOperatorCertificate(context.Context, string) (facade.OperatorCertificate, error) {
	f.s.writes.Add(1)
	return facade.OperatorCertificate{}, errors.NotSupportedf("issuing a certificate where all are good")
}

// settledManager is the operators' side of a Settled.
type settledManager struct{ s *Settled }

func (m settledManager) OperatorExists(ctx context.Context, _ string) (operator.State, error) {
	return operator.State{Exists: true}, m.s.call(ctx)
}

func (m settledManager) Operator(ctx context.Context, app string) (*operator.Operator, error) {
	if err := m.s.call(ctx); err != nil {
		return nil, err
	}
	return m.s.find(app)
}

func (m settledManager) EnsureOperator(ctx context.Context, app, _ string, cfg *operator.Config) error {
	if err := m.s.call(ctx); err != nil {
		return err
	}
	op, err := m.s.find(app)
	if err != nil {
		return err
	}
	if !op.Config.AgentConf.Equal(cfg.AgentConf) || !op.Config.OperatorInfo.Equal(cfg.OperatorInfo) {
		m.s.writes.Add(1)
	}
	m.s.Pass()
	return nil
}

func (m settledManager) DeleteOperator(ctx context.Context, _ string) error {
	m.s.writes.Add(1)
	return m.s.call(ctx)
}
