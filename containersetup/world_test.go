package containersetup_test

import (
	"fmt"
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
)

const (
	lxd = containersetup.LXD
	kvm = containersetup.KVM
)

// boom is an error of no particular kind.
const boom = errors.ConstError("boom")

// world is a worker with everything around it, in virtual time. Its provisioners
// do nothing but live.
type world struct {
	*testing.T
	faults       *fakes.Faults
	machine      *fakes.Machine
	host         *fakes.Host
	log          *fakes.Log
	provisioners *provisioners
	phases       *phases
	config       containersetup.Config
	worker       *containersetup.Worker
}

// story tells one in a world whose worker is not started yet. Its back-off is
// without jitter.
func story(t *testing.T, tell func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		faults := fakes.NewFaults(clock.WallClock)
		w := &world{
			T: t, faults: faults,
			machine:      fakes.NewMachine(faults, "0"),
			host:         fakes.NewHost(faults),
			log:          fakes.NewLog(),
			provisioners: &provisioners{},
			phases:       &phases{},
		}
		w.machine.SetSupported(lxd, kvm)
		w.config = containersetup.Config{
			Facade:         w.machine,
			MachineID:      "0",
			Backends:       w.host.Backends(lxd, kvm),
			Lock:           w.host.Lock(),
			Network:        w.host.Network(),
			Bridger:        w.host.Bridger(),
			Clock:          clock.WallClock,
			Logger:         w.log.Logger(),
			NewProvisioner: w.provisioners.start,
			Backoff: func(_ time.Duration, attempt int) time.Duration {
				return min(time.Second<<min(attempt, 20), 2*time.Minute)
			},
			Metrics: w.phases,
		}
		defer w.check()
		defer w.stop()
		tell(w)
	})
}

// check wants the lock free and the host changed under it alone.
func (w *world) check() {
	w.Helper()
	if err := w.host.Lock().CheckFree(); err != nil {
		w.Error(err)
	}
	for _, v := range append(w.host.Violations(), w.machine.Violations()...) {
		w.Error(v)
	}
}

func (w *world) start() {
	w.Helper()
	started, err := containersetup.New(w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.worker = started
	synctest.Wait()
}

// stop ends the worker, if there is one, and wants no error, within a second.
func (w *world) stop() {
	w.Helper()
	if w.worker == nil {
		return
	}
	killed := time.Now()
	w.worker.Kill()
	if err := w.worker.Wait(); err != nil {
		w.Errorf("the worker ended with %v, want nil", err)
	}
	if took := time.Since(killed); took > time.Second {
		w.Errorf("it took %v to stop", took)
	}
	w.worker = nil
}

// ended waits for the worker's own end and returns why.
func (w *world) ended() error {
	err := w.worker.Wait()
	w.worker = nil
	return err
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// ask asks for containers.
func (w *world) ask(ids ...string) {
	for _, id := range ids {
		w.machine.AddContainer(id, fakes.Container{})
	}
	synctest.Wait()
}

// ready wants exactly these types to be prepared, each once, and their
// provisioners to run.
func (w *world) ready(types ...containersetup.ContainerType) {
	w.Helper()
	var want []string
	for _, t := range types {
		want = append(want, string(t))
		if n := w.host.Initialisations(t); n != 1 {
			w.Errorf("the host was prepared for %s %d times, want once", t, n)
		}
		if n, _ := w.host.Brokers(t); n != 1 {
			w.Errorf("%d brokers of %s were made, want 1", n, t)
		}
	}
	if got := w.provisioners.running(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("provisioners of %v run, want %v", got, want)
	}
}

// told wants the container's status to be of the state, and its message to
// contain the text.
func (w *world) told(id string, state any, text string) {
	w.Helper()
	got := w.machine.Status(id)
	if fmt.Sprint(got.State) != fmt.Sprint(state) || !strings.Contains(got.Message, text) || text == "" && got.Message != "" {
		w.Errorf("the status of %s is %s %q, want %s %q", id, got.State, got.Message, state, text)
	}
}

// phase returns what the report says of a type.
func (w *world) phase(t containersetup.ContainerType) map[string]any {
	types := w.worker.Report()["types"].(map[string]any)
	entry, _ := types[string(t)].(map[string]any)
	return entry
}

// count returns how often a method was called, whatever about.
func (w *world) count(method string) int {
	n := 0
	for _, c := range w.faults.Calls() {
		if c.Method == method {
			n++
		}
	}
	return n
}

// provisioners are those that were started.
type provisioners struct {
	mu   sync.Mutex
	list []*provisioner
	fail error
}

type provisioner struct {
	config                   containerprovisioner.Config
	*fakes.Watcher[struct{}] // a worker that does as it is told
}

func (p *provisioners) start(config containerprovisioner.Config) (worker.Worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	started := &provisioner{config: config, Watcher: fakes.NewNotifyWatcher()}
	p.list = append(p.list, started)
	return started, nil
}

// started returns all that were started.
func (p *provisioners) started() []*provisioner {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*provisioner(nil), p.list...)
}

// running returns the types of those that live, in the order of their start.
func (p *provisioners) running() (types []containersetup.ContainerType) {
	for _, one := range p.started() {
		if !one.Ended() {
			types = append(types, one.config.Type)
		}
	}
	return types
}

// phases is a containersetup.Metrics that keeps what it hears.
type phases struct {
	mu   sync.Mutex
	list []containersetup.PhaseAttempt
}

func (p *phases) PhaseDone(a containersetup.PhaseAttempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, a)
}

// of returns the attempts at a phase of a type.
func (p *phases) of(t containersetup.ContainerType, phase containersetup.Phase) (out []containersetup.PhaseAttempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.list {
		if a.Type == t && a.Phase == phase {
			out = append(out, a)
		}
	}
	return out
}
