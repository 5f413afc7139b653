package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

const (
	lxd = containersetup.LXD
	kvm = containersetup.KVM
)

// boom is an error of no particular kind.
const boom = errors.ConstError("boom")

// otherModel is one more, besides fakes.ModelUUID.
const otherModel = "5d2b4c1e-77aa-4b0e-8a51-0f6c3d9e2b11"

// world is a page with workers, and everything that these work with.
type world struct {
	testing.TB
	clock      clock.Clock
	faults     *fakes.Faults
	controller *fakes.Controller
	manager    *fakes.Manager
	machine    *fakes.Machine
	host       *fakes.Host
	log        *fakes.Log
	config     Config
	page       *Page
	workers    []worker.Worker
}

// newWorld returns one without any worker. Its page is made by the first who
// looks.
func newWorld(t testing.TB, clk clock.Clock) *world {
	faults := fakes.NewFaults(clk)
	w := &world{
		TB: t, clock: clk, faults: faults,
		controller: fakes.NewController(faults),
		manager:    fakes.NewManager(faults),
		machine:    fakes.NewMachine(faults, "0"),
		host:       fakes.NewHost(faults),
		log:        fakes.NewLog(),
	}
	w.machine.SetSupported(lxd, kvm)
	w.config = Config{Clock: clk, Logger: w.log.Logger()}
	return w
}

// story tells one in virtual time.
func story(t *testing.T, tell func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clock.WallClock)
		defer w.stop()
		tell(w)
	})
}

// look returns the page.
func (w *world) look() *Page {
	w.Helper()
	if w.page == nil {
		p, err := New(w.config)
		if err != nil {
			w.Fatal(err)
		}
		w.page = p
	}
	return w.page
}

// doubling is the default back-off without jitter.
func doubling(_ time.Duration, attempt int) time.Duration {
	return min(time.Second<<min(attempt, 20), 2*time.Minute)
}

// operators starts an operator provisioner of a model on the fakes.
func (w *world) operators(model string, change ...func(*provisioner.Config)) *provisioner.Worker {
	w.Helper()
	config := provisioner.Config{
		Facade: w.controller, OperatorManager: w.manager,
		Agent:     fakes.NewAgent(w.controller.CACert()),
		ModelUUID: model, Clock: w.clock, Logger: w.log.Logger(),
		Metrics: w.look().Operators(),
		Backoff: doubling,
		Jitter:  func(d time.Duration) time.Duration { return d },
	}
	for _, f := range change {
		f(&config)
	}
	started, err := provisioner.New(config)
	if err != nil {
		w.Fatal(err)
	}
	w.workers = append(w.workers, started)
	return started
}

// setup starts a container-setup handler on the fakes.
func (w *world) setup(change ...func(*containersetup.Config)) *containersetup.Worker {
	w.Helper()
	config := containersetup.Config{
		Facade: w.machine, MachineID: "0",
		Backends: w.host.Backends(lxd, kvm),
		Lock:     w.host.Lock(), Network: w.host.Network(), Bridger: w.host.Bridger(),
		Clock: w.clock, Logger: w.log.Logger(),
		Metrics: w.look().Setup(),
		Backoff: doubling,
		NewProvisioner: func(config containerprovisioner.Config) (worker.Worker, error) {
			config.Backoff = doubling
			return containerprovisioner.New(config)
		},
	}
	for _, f := range change {
		f(&config)
	}
	started, err := containersetup.New(config)
	if err != nil {
		w.Fatal(err)
	}
	w.workers = append(w.workers, started)
	return started
}

// stop ends all workers.
func (w *world) stop() {
	for _, started := range w.workers {
		started.Kill()
	}
	for _, started := range w.workers {
		_ = started.Wait()
	}
}

// after lets virtual time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// request asks the page, as over a unix socket.
func (w *world) request(method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, target, nil)
	r.Host = "localhost"
	for _, f := range change {
		f(r)
	}
	recorder := httptest.NewRecorder()
	w.look().ServeHTTP(recorder, r)
	return recorder
}

// get wants an answer with the status, and returns its body.
func (w *world) get(target string, status int) string {
	w.Helper()
	answer := w.request(http.MethodGet, target)
	if answer.Code != status {
		w.Fatalf("%s: %d %s, want %d", target, answer.Code, strings.TrimSpace(answer.Body.String()), status)
	}
	return answer.Body.String()
}

// shows wants each text to be in the body.
func (w *world) shows(body string, texts ...string) {
	w.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			w.Errorf("no %q in\n%s", text, body)
		}
	}
}

// hides wants none of the texts in the body.
func (w *world) hides(body string, texts ...string) {
	w.Helper()
	for _, text := range texts {
		if strings.Contains(body, text) {
			w.Errorf("%q is in\n%s", text, body)
		}
	}
}

// hands is a clock that can be set, with timers that run as ever, for a picture
// that shows the same times whenever it is taken.
type hands struct {
	clock.Clock
	base, started time.Time

	mu      sync.Mutex
	ahead   time.Duration
	stopped time.Time // what they show; zero while they move
}

func newHands(base time.Time) *hands {
	return &hands{Clock: clock.WallClock, base: base, started: time.Now()}
}

// Now is part of clock.Clock.
func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.stopped.IsZero() {
		return h.stopped
	}
	return h.base.Add(time.Since(h.started) + h.ahead)
}

// stop holds them.
func (h *hands) stop() {
	now := h.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = now
}

func (h *hands) turn(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

// eventually polls, for what runs in real time.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not after 30 s", what)
		}
	}
}
