package pager_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/worker/v3"
	dependencytesting "github.com/juju/worker/v3/dependency/testing"

	pager "github.com/sutler-dev/sutler/examples/testing"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/provisioner"
)

// host is the agent under test and the world around it.
type host struct {
	*testing.T

	// The world outlives the agent. These are the test's own hands on it:
	// their methods never fail and are not recorded.
	controller *fakes.Controller
	manager    *fakes.Manager
	log        *fakes.Log
	phone      *phone

	// The agent. All of its calls go through faults; every start gives it
	// new ones, as a new process has new connections.
	faults  *fakes.Faults
	workers []worker.Worker
}

// story tells one in virtual time: in a synctest bubble clock.WallClock stands
// still until every goroutine waits, and then jumps to where the next one has
// something to do. Everything must be made inside the bubble, the fakes too.
func story(t *testing.T, tell func(h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		world := fakes.NewFaults(clock.WallClock)
		h := &host{
			T:          t,
			controller: fakes.NewController(world),
			manager:    fakes.NewManager(world),
			log:        fakes.NewLog(),
			phone:      &phone{},
			faults:     fakes.NewFaults(clock.WallClock),
		}
		defer h.stop()
		tell(h)
	})
}

// start starts the agent as its engine would: the manifold is the real one, and
// its inputs are fakes.
func (h *host) start() {
	h.Helper()
	p, err := pager.New(pager.Config{Clock: clock.WallClock, Page: h.phone.ring})
	if err != nil {
		h.Fatal(err)
	}
	h.workers = append(h.workers, p)
	manifold := provisioner.Manifold(provisioner.ManifoldConfig{
		AgentName:           "agent",
		FacadeName:          "controller",
		OperatorManagerName: "operators",
		ClockName:           "clock",
		ModelUUID:           fakes.ModelUUID,
		NewWorker:           p.NewWorker,
		Logger:              h.log.Logger(),
	})
	w, err := manifold.Start(dependencytesting.StubContext(nil, map[string]any{
		"agent":      fakes.NewAgent(h.controller.CACert()),
		"controller": h.controller.Session(h.faults),
		"operators":  h.manager.Session(h.faults),
		"clock":      clock.Clock(clock.WallClock),
	}))
	if err != nil {
		h.Fatal(err)
	}
	h.workers = append(h.workers, w)
	// Until nothing is left to do at this moment of virtual time.
	synctest.Wait()
}

// stop ends the agent, which must succeed, and wants to have seen no secret.
func (h *host) stop() {
	h.Helper()
	for _, w := range h.workers {
		if err := worker.Stop(w); err != nil {
			h.Errorf("a worker ended with %v", err)
		}
	}
	h.workers = nil
	for _, app := range h.manager.Apps() {
		password := h.password(app)
		if password != "" && strings.Contains(h.log.Text()+h.phone.text(), password) {
			h.Errorf("the password of %s is in the log, or was sent to somebody", app)
		}
	}
}

// after lets time pass. In the bubble that takes none.
func (h *host) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// password returns what the operator of the application would log in with:
// what is stored, or "" when nothing is.
func (h *host) password(app string) string {
	h.Helper()
	stored := h.manager.Config(app)
	if stored == nil {
		return ""
	}
	conf, err := agentconf.Parse([]byte(stored.AgentConf.Reveal()))
	if err != nil {
		h.Fatalf("agent.conf of %s: %v", app, err)
	}
	return conf.Password().Reveal()
}

// worksFor wants the application to have an operator that can log in.
func (h *host) worksFor(app string) {
	h.Helper()
	if !h.manager.State(app).Exists {
		h.Errorf("%s has no operator", app)
		return
	}
	conf, err := agentconf.Parse([]byte(h.manager.AgentConf(app).Reveal()))
	if err != nil {
		h.Fatalf("agent.conf of %s: %v", app, err)
	}
	if err := h.controller.Login(app, conf.Password()); err != nil {
		h.Errorf("the operator cannot log in: %v", err)
	}
}

// phone is where pages arrive. It is so simple that it is not worth a fake of
// its own; what it must be able to do is fail.
type phone struct {
	mu      sync.Mutex
	pages   []string
	failing error
}

func (p *phone) ring(_ context.Context, message string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing == nil {
		p.pages = append(p.pages, message)
	}
	return p.failing
}

func (p *phone) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing = err
}

func (p *phone) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.pages, "\n")
}
