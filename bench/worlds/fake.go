package worlds

import (
	"fmt"
	"sync"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/fakes"
)

// Fake is the fakes of this project around one contender.
type Fake struct {
	Faults     *fakes.Faults
	Controller *fakes.Controller
	Manager    *fakes.Manager
	Agent      *fakes.Agent

	latency time.Duration

	mu       sync.Mutex
	effects  map[effectKey]fakes.Effect
	ensured  map[string]time.Time
	awaited  map[string]bool
	complete chan struct{}
}

type effectKey struct{ method, app string }

// NewFake returns a world without applications, in which each call on an
// application's path takes as long as latency.
func NewFake(latency time.Duration) *Fake {
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	f := &Fake{
		Faults: faults, Controller: controller, Manager: fakes.NewManager(faults), Agent: fakes.NewAgent(controller.CACert()),
		latency: latency,
		effects: make(map[effectKey]fakes.Effect),
		ensured: make(map[string]time.Time),
	}
	faults.OnCall(f.onCall)
	return f
}

// World is what the contender is given: plain reads, and a manager that can
// stage. What a contender does not know how to use it leaves alone.
func (f *Fake) World() contenders.World {
	return contenders.World{
		Facade:    f.Controller.Plain(),
		Manager:   f.Manager.With(fakes.Staging),
		Agent:     f.Agent,
		ModelUUID: fakes.ModelUUID,
	}
}

// Session is another view of the same world, as another agent has it, with
// faults of its own and without latency.
func (f *Fake) Session(faults *fakes.Faults) contenders.World {
	w := f.World()
	w.Facade = f.Controller.Session(faults).Plain()
	w.Manager = f.Manager.Session(faults).With(fakes.Staging)
	return w
}

// Clock is where its time comes from.
func (f *Fake) Clock() clock.Clock { return clock.WallClock }

// Befall has the effect befall each call of the method for the application,
// besides the latency.
func (f *Fake) Befall(method, app string, e fakes.Effect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.effects[effectKey{method, app}] = e
}

// Add adds applications named as [Name] has it, and returns a channel that is
// closed when each of them has an operator that was ensured since.
func (f *Fake) Add(apps ...string) <-chan struct{} {
	f.mu.Lock()
	f.awaited, f.complete = make(map[string]bool, len(apps)), make(chan struct{})
	for _, app := range apps {
		f.awaited[app] = true
	}
	complete := f.complete
	if len(apps) == 0 {
		close(complete)
	}
	f.mu.Unlock()
	for _, app := range apps {
		f.Controller.AddApplication(app, fakes.App{})
	}
	return complete
}

// Ensured returns when the application's operator was first ensured.
func (f *Fake) Ensured(app string) (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.ensured[app]
	return at, ok
}

// onCall gives latency to the calls on an application's path: not to those that
// get a watcher, and once to one that is about several.
func (f *Fake) onCall(c fakes.Call) fakes.Effect {
	if c.Key == "" && c.Method != "SetPasswords" || c.Item {
		return fakes.Effect{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.effects[effectKey{c.Method, c.Key}]
	e.Delay += f.latency
	if c.Method == "EnsureOperator" && e.Err == nil {
		e.Then = func() { f.done(c.Key) }
	}
	return e
}

func (f *Fake) done(app string) {
	if !f.exists(app) {
		return // refused
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.ensured[app]; !ok {
		f.ensured[app] = time.Now()
	}
	if f.awaited[app] {
		delete(f.awaited, app)
		if len(f.awaited) == 0 {
			close(f.complete)
		}
	}
}

func (f *Fake) exists(app string) bool { return f.Manager.Config(app) != nil }

// Disagreement describes the first of the applications whose operator is not
// there or has another password than the controller; empty when there is none.
func (f *Fake) Disagreement(apps ...string) string {
	for _, app := range apps {
		stored := f.Manager.Config(app)
		if stored == nil {
			return fmt.Sprintf("%s has no operator", app)
		}
		password, known := f.Controller.Password(app)
		switch {
		case !known:
			return fmt.Sprintf("the controller has no password of %s", app)
		case !passwordOf(stored).Equal(password):
			return fmt.Sprintf("the operator of %s has another password than its controller", app)
		}
	}
	return ""
}
