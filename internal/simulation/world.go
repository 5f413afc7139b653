package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/provisioner"
)

// AllFeatures is every optional interface of the facade and the manager.
const AllFeatures = fakes.ProvisioningEvents | fakes.BulkReads | fakes.StatusReports |
	fakes.Watching | fakes.Listing | fakes.Staging | fakes.Glancing

// Variant breaks the provisioner on purpose, from outside, to see whether that
// is found. The zero value breaks nothing.
type Variant struct {
	// Wrap changes what a worker is made with. It is given the worker's own
	// views of the controller and the manager.
	Wrap func(config *provisioner.Config, controller *fakes.Controller, manager *fakes.Manager)
	// Without are the optional interfaces that are missing, as they may be.
	Without fakes.Features
}

// Options are what a [World] is made by.
type Options struct {
	// Seed decides latencies and faults.
	Seed uint64
	// Features are the optional interfaces that workers find.
	Features fakes.Features
	// HideGenerations makes the manager one without revisions.
	HideGenerations bool
	// Concurrency is how many applications a worker works on at once. It is
	// to be no less than how many there are: in what order those get their
	// turn that become ready at one instant is not certain.
	Concurrency int
	// Variant is for worlds in which something is wrong.
	Variant Variant
}

// World is a model, its controller and its operators, and the workers that have
// served it. Its methods are the hand of whoever tells the story; they never
// fail by a fault. It is safe for use by many goroutines.
type World struct {
	options   Options
	clock     clock.Clock
	start     time.Time
	hostClock *steppedClock // the workers'

	controller *fakes.Controller
	manager    *fakes.Manager
	agent      *fakes.Agent
	log        *fakes.Log

	// What the judge has found out; used by one goroutine at a time.
	goodUntil map[string]time.Time         // operator.yaml and CA: good until
	confs     map[string]*agentconf.Config // agent.conf: parsed

	mu       sync.Mutex
	apps     map[string]*App
	sessions []*Session
	events   []traced
	shared   bool     // two workers have set statuses
	broken   []string // rules that were broken at some instant
	printed  []string // what was printed besides the log
	secrets  map[string]bool
}

// NewWorld returns an empty model.
func NewWorld(options Options) *World {
	hand := fakes.NewFaults(clock.WallClock)
	w := &World{
		options:    options,
		clock:      clock.WallClock,
		start:      clock.WallClock.Now(),
		hostClock:  &steppedClock{Clock: clock.WallClock},
		controller: fakes.NewController(hand),
		manager:    fakes.NewManager(hand),
		log:        fakes.NewLog(),
		apps:       make(map[string]*App),
		secrets:    make(map[string]bool),
		goodUntil:  make(map[string]time.Time),
		confs:      make(map[string]*agentconf.Config),
	}
	w.agent = fakes.NewAgent(w.controller.CACert())
	if options.HideGenerations {
		w.manager.HideGenerations()
	}
	return w
}

func (w *World) has(f fakes.Features) bool { return w.options.Features&f != 0 }

// Trigger has every worker that runs look at an application.
func (w *World) Trigger(name string) {
	w.mu.Lock()
	sessions := slices.Clone(w.sessions)
	w.mu.Unlock()
	for _, s := range sessions {
		if err := s.worker.Trigger(name); err != nil {
			w.violated("Trigger(%q): %v", name, err)
		}
	}
}

// Later makes something happen when a time has passed.
func (w *World) Later(d time.Duration, f func()) {
	go func() {
		w.Sleep(d)
		f()
	}()
}

// Sleep lets time pass.
func (w *World) Sleep(d time.Duration) { <-w.clock.After(d) }

// violated records that a rule was broken just now.
func (w *World) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf("at %s: ", w.clock.Now().Sub(w.start))+fmt.Sprintf(format, args...))
}

// shareStatus says that two workers set statuses from now on. Each tells changes
// only, as it sees them, so that the last word may be either's.
func (w *World) shareStatus() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = true
}

// print records what a person, or another program, got to see.
func (w *World) print(texts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.printed = append(w.printed, texts...)
}

// keepSecret records what must not be printed.
func (w *World) keepSecret(s facade.Secret) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[s.Reveal()] = true
}

// App is what the story knows of one application. The zero Life is one that is
// not there (any more).
type App struct {
	Name string
	// Format is the charm's; an application never changes it, and one of
	// that name that is made again has the same.
	Format  int
	Life    facade.Life
	NoCharm bool
	Info    facade.OperatorProvisioningInfo

	// died is when it became dead or was removed, whichever came first, gone
	// when it was removed, and deleted when a worker last deleted its
	// operator.
	died, gone, deleted time.Time
	// own tells that its operator gave itself a password, and restarted that
	// it was made anew since, from what it was first given: then the
	// password that it had before is as good.
	own, restarted bool
	// stays tells that it began to die with an operator, which has to stay.
	stays bool
	// foreign is the configuration of an operator that is not ours to touch.
	foreign *operator.Config
}

// Spec is an application to be added.
type Spec struct {
	Name string
	// Format is 1 by default.
	Format  int
	NoCharm bool
	// Storage is the provider of charm storage; empty for none.
	Storage string
	// Foreign gives an application of format 2 an operator of somebody
	// else's.
	Foreign bool
}

// registryPassword is a secret that every application's image needs.
const registryPassword = "canary-of-the-registry"

// Add adds an application that is alive; nothing if there is one of that name.
func (w *World) Add(spec Spec) {
	spec.Format = max(spec.Format, 1)
	info := fakes.Info()
	info.ImageDetails.Username = "puller"
	info.ImageDetails.Password = facade.NewSecret(registryPassword)
	w.keepSecret(info.ImageDetails.Password)
	if spec.Storage != "" {
		info.CharmStorage = &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: spec.Storage}
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[spec.Name]
	if a == nil {
		a = &App{Name: spec.Name}
		w.apps[spec.Name] = a
	}
	if a.Life != "" {
		return
	}
	*a = App{
		Name: spec.Name, Format: spec.Format, Life: facade.Alive, Info: info, NoCharm: spec.NoCharm,
		foreign: a.foreign,
	}
	if spec.Foreign && spec.Format >= 2 && a.foreign == nil {
		a.foreign = &operator.Config{
			Version: "3.0", AgentConf: facade.NewSecret("not ours"), OperatorInfo: facade.NewSecret("nor this"),
		}
		if err := w.manager.EnsureOperator(context.Background(), spec.Name, "/elsewhere", a.foreign); err != nil {
			panic(err)
		}
	}
	w.controller.AddApplication(spec.Name, fakes.App{Charm: fakes.Charm(spec.Format), Info: info})
	if spec.NoCharm {
		w.controller.RemoveCharm(spec.Name)
	}
}

// alter changes an application if it is there.
func (w *World) alter(name string, f func(a *App)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.apps[name]; a != nil && a.Life != "" {
		f(a)
	}
}

// Age moves an application on in its life: alive, dying, dead, gone.
func (w *World) Age(name string) {
	w.alter(name, func(a *App) {
		switch a.Life {
		case facade.Alive:
			state := w.manager.State(name)
			a.stays = a.Format == 1 && state.Exists && !state.Terminating
			a.Life = facade.Dying
		case facade.Dying:
			a.Life = facade.Dead
			a.died = w.clock.Now()
		default:
			w.remove(a)
			return
		}
		w.controller.SetLife(name, a.Life)
	})
}

// Remove takes an application away, whatever its life.
func (w *World) Remove(name string) {
	w.alter(name, w.remove)
}

// remove is called with the lock held.
func (w *World) remove(a *App) {
	now := w.clock.Now()
	if a.Life != facade.Dead {
		a.died = now
	}
	a.Life, a.gone = "", now
	w.controller.RemoveApplication(a.Name)
}

// SetInfo changes what an application's operator is to be made from.
func (w *World) SetInfo(name string, change func(*facade.OperatorProvisioningInfo)) {
	w.alter(name, func(a *App) {
		// What the fake was given before is not shared with it.
		a.Info.APIAddresses = slices.Clone(a.Info.APIAddresses)
		change(&a.Info)
		w.controller.SetInfo(name, a.Info)
	})
}

// LoseCharm makes an application's charm not be found, FindCharm found again.
func (w *World) LoseCharm(name string) {
	w.alter(name, func(a *App) {
		a.NoCharm = true
		w.controller.RemoveCharm(name)
	})
}

// FindCharm is the reverse of LoseCharm.
func (w *World) FindCharm(name string) {
	w.alter(name, func(a *App) {
		a.NoCharm = false
		w.controller.SetCharm(name, fakes.Charm(a.Format))
	})
}

// RotateCA gives the controller another CA, of which the workers' agents do not
// know before LearnCA.
func (w *World) RotateCA() { w.controller.RotateCA() }

// LearnCA tells the workers' agents of the controller's CA.
func (w *World) LearnCA() { w.agent.SetCACert(w.controller.CACert()) }

// Tampering is what may happen to an operator behind everybody's back.
type Tampering string

const (
	// Vanishes: everything of it is gone.
	Vanishes Tampering = "vanishes"
	// HalfVanishes: only its configuration is left.
	HalfVanishes Tampering = "half vanishes"
	// ConfigVanishes: only its configuration is gone.
	ConfigVanishes Tampering = "config vanishes"
	// Deleted: somebody deletes it.
	Deleted Tampering = "deleted"
	// Corrupted: its stored agent.conf cannot be read any more.
	Corrupted Tampering = "corrupted"
)

// Tamper does that to the operator of an application. It does nothing to the
// operators of others, and does not take from an operator that has a password
// of its own what its controller could have told it apart by: without its first
// password nobody can know what it logs in with.
func (w *World) Tamper(name string, how Tampering) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[name]
	state := w.manager.State(name)
	if a == nil || a.foreign != nil || state.Terminating {
		return false
	}
	if a.own && (how == ConfigVanishes || how == Corrupted) {
		return false
	}
	switch how {
	case Vanishes:
		w.manager.Vanish(name)
		a.own, a.restarted = false, false
	case Deleted:
		if err := w.manager.DeleteOperator(context.Background(), name); err != nil {
			panic(err)
		}
		a.own, a.restarted = false, false
	case HalfVanishes:
		w.manager.VanishOperator(name)
		a.restarted = true
	case ConfigVanishes:
		w.manager.VanishConfig(name)
	case Corrupted:
		cfg := w.manager.Config(name)
		if cfg == nil {
			return false
		}
		cfg.AgentConf = facade.NewSecret("# format 2.0\ntag: [torn off")
		if _, err := w.manager.StageOperator(context.Background(), name, w.agent.DataDir(), cfg); err != nil {
			panic(err)
		}
	}
	a.stays = false
	return true
}

// TakeOwnPassword makes an operator log in and give itself a password, as a
// fresh agent does. It tells whether the operator was in a state to do so.
func (w *World) TakeOwnPassword(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[name]
	state := w.manager.State(name)
	if a == nil || a.Life == "" || a.own || a.foreign != nil || !state.Exists || state.Terminating {
		return false
	}
	stored, live := parseConf(w.manager.Config(name).AgentConf), parseConf(w.manager.AgentConf(name))
	if stored == nil || live == nil || !stored.Password().Equal(live.Password()) || len(stored.Values) > 0 {
		return false
	}
	first := live.Password()
	own := facade.NewSecret(fmt.Sprintf("own-%016x", throwFor(w.options.Seed, int(w.clock.Now().UnixNano()), "own", name).next()))
	if w.controller.ChangePassword(name, first, own) != nil {
		return false
	}
	live.APIPassword, live.OldPassword = own, first
	content, err := live.Render()
	if err != nil {
		panic(err)
	}
	w.manager.WriteAgentConf(name, facade.NewSecret(string(content)))
	w.secrets[own.Reveal()] = true
	a.own, a.restarted = true, false
	return true
}

// deleted records that a worker deleted an application's operator, or began to.
func (w *World) deleted(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[name]
	if a == nil {
		return
	}
	a.deleted = w.clock.Now()
	if cfg := w.manager.Config(name); cfg == nil {
		a.own, a.restarted = false, false
	} else {
		a.restarted = true
	}
}
