package provisioner_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/provisioner"
)

// world is a worker with everything around it, in virtual time.
type world struct {
	*testing.T
	faults     *fakes.Faults
	controller *fakes.Controller
	manager    *fakes.Manager
	agent      *fakes.Agent
	log        *fakes.Log
	passes     *passes
	config     provisioner.Config
	worker     *provisioner.Worker
}

// story tells one in a world whose worker is not started yet. Its back-off and
// resync are without jitter.
func story(t *testing.T, tell func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		faults := fakes.NewFaults(clock.WallClock)
		controller := fakes.NewController(faults)
		w := &world{
			T: t, faults: faults, controller: controller,
			manager: fakes.NewManager(faults),
			agent:   fakes.NewAgent(controller.CACert()),
			log:     fakes.NewLog(),
			passes:  &passes{},
		}
		w.config = provisioner.Config{
			Facade:          controller,
			OperatorManager: w.manager,
			Agent:           w.agent,
			ModelUUID:       fakes.ModelUUID,
			Clock:           clock.WallClock,
			Logger:          w.log.Logger(),
			Metrics:         w.passes,
			Backoff:         doubling,
			Jitter:          func(d time.Duration) time.Duration { return d },
		}
		defer w.stop()
		tell(w)
	})
}

// doubling is the default back-off without jitter.
func doubling(_ time.Duration, attempt int) time.Duration {
	return min(time.Second<<min(attempt, 20), 2*time.Minute)
}

// start starts the worker and lets it do what it can do at once.
func (w *world) start() {
	w.Helper()
	worker, err := provisioner.New(w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.worker = worker
	synctest.Wait()
}

// stop ends the worker, if there is one, and wants no error.
func (w *world) stop() {
	w.Helper()
	if w.worker == nil {
		return
	}
	w.worker.Kill()
	if err := w.worker.Wait(); err != nil {
		w.Errorf("the worker ended with %v, want nil", err)
	}
	w.worker = nil
}

// ended waits for the worker's own end and returns why.
func (w *world) ended() error {
	err := w.worker.Wait()
	w.worker = nil
	return err
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// look has the worker look at the application now.
func (w *world) look(app string) {
	w.Helper()
	if err := w.worker.Trigger(app); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// exists tells whether the application's operator is fully there.
func (w *world) exists(app string) bool {
	w.Helper()
	state, err := w.manager.Session(fakes.NewFaults(clock.WallClock)).OperatorExists(w.Context(), app)
	if err != nil {
		w.Fatal(err)
	}
	return state.Exists
}

// conf returns what the application's stored agent.conf says.
func (w *world) conf(app string) *agentconf.Config {
	w.Helper()
	stored := w.manager.Config(app)
	if stored == nil {
		w.Fatalf("there is no configuration of %q", app)
	}
	conf, err := agentconf.Parse([]byte(stored.AgentConf.Reveal()))
	if err != nil {
		w.Fatalf("agent.conf of %q: %v", app, err)
	}
	return conf
}

// provisioned wants the application to have an operator that can log in and
// whose certificate is good.
func (w *world) provisioned(apps ...string) {
	w.Helper()
	for _, app := range apps {
		if !w.exists(app) {
			w.Errorf("%q has no operator", app)
			continue
		}
		if err := w.controller.Login(app, w.conf(app).Password()); err != nil {
			w.Errorf("the operator cannot log in: %v", err)
		}
		info, err := operator.ParseInfo(w.manager.Config(app).OperatorInfo)
		if err != nil {
			w.Errorf("operator.yaml of %q: %v", app, err)
			continue
		}
		if _, err := operator.CheckCertificate(info, app, w.controller.CACert(), time.Now()); err != nil {
			w.Errorf("certificate of %q: %v", app, err)
		}
	}
	if err := w.manager.CheckHistory(); err != nil {
		w.Error(err)
	}
}

// total returns how many applications the report has in a state.
func (w *world) total(state string) int {
	totals, _ := w.worker.Report()["totals"].(map[string]any)
	n, ok := totals[state].(int)
	if !ok {
		w.Fatalf("the report has no total of %q", state)
	}
	return n
}

// entry returns what the report says of an application that is not settled.
func (w *world) entry(app string) map[string]any {
	list, _ := w.worker.Report()["applications"].([]any)
	for _, item := range list {
		if entry := item.(map[string]any); entry["name"] == app {
			return entry
		}
	}
	return nil
}

// reported wants the report to have the application in a state, for a reason
// that contains the text.
func (w *world) reported(app, state, reason string) {
	w.Helper()
	entry := w.entry(app)
	if entry == nil || entry["state"] != state {
		w.Errorf("%q is reported as %v, want %s", app, entry, state)
		return
	}
	if got, _ := entry["error"].(string); !strings.Contains(got, reason) {
		w.Errorf("the reason for %q is %q, want %q in it", app, got, reason)
	}
}

// times returns when calls of a method about the application began, since the
// first of them.
func (w *world) times(method, app string) []time.Duration {
	var out []time.Duration
	var first time.Time
	for _, c := range w.faults.Calls() {
		if c.Method != method || c.Key != app {
			continue
		}
		if first.IsZero() {
			first = c.Start
		}
		out = append(out, c.Start.Sub(first))
	}
	return out
}

// order returns the methods called about the application, in order.
func (w *world) order(app string) string {
	var out []string
	for _, c := range w.faults.Calls() {
		if c.Key == app || len(c.Keys) == 1 && c.Keys[0] == app {
			out = append(out, c.Method)
		}
	}
	return strings.Join(out, " ")
}

// passes is a provisioner.Metrics that keeps what it hears.
type passes struct {
	mu   sync.Mutex
	list []provisioner.Pass
}

func (p *passes) PassDone(pass provisioner.Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, pass)
}

// of returns the passes of an application.
func (p *passes) of(app string) []provisioner.Pass {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []provisioner.Pass
	for _, pass := range p.list {
		if pass.Application == app {
			out = append(out, pass)
		}
	}
	return out
}

// boom is an error of no particular kind.
const boom = errors.ConstError("boom")

// storage is provisioning information with charm storage of a provider.
func storage(provider string) facade.OperatorProvisioningInfo {
	info := fakes.Info()
	info.CharmStorage = &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: provider}
	return info
}
