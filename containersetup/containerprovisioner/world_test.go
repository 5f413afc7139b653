package containerprovisioner_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// world is a worker with everything around it, in virtual time.
type world struct {
	*testing.T
	faults  *fakes.Faults
	machine *fakes.Machine
	host    *fakes.Host
	log     *fakes.Log
	passes  *passes
	config  containerprovisioner.Config
	worker  *containerprovisioner.Worker
}

// story tells one in a world whose worker is not started yet. Its back-off and
// resync are without jitter, and the host is prepared for lxd.
func story(t *testing.T, tell func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		tell(w)
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	faults := fakes.NewFaults(clock.WallClock)
	w := &world{
		T: t, faults: faults,
		machine: fakes.NewMachine(faults, "0"),
		host:    fakes.NewHost(faults),
		log:     fakes.NewLog(),
		passes:  &passes{},
	}
	w.config = containerprovisioner.Config{
		Facade:    w.machine.Plain(),
		MachineID: "0",
		Type:      container.LXD,
		Broker:    broker(t, w.host),
		Clock:     clock.WallClock,
		Logger:    w.log.Logger(),
		Metrics:   w.passes,
		Backoff:   doubling,
		Jitter:    func(d time.Duration) time.Duration { return d },
	}
	return w
}

// broker prepares the host for lxd and returns its broker.
func broker(t *testing.T, host *fakes.Host) container.Broker {
	t.Helper()
	backend := host.Backend(container.LXD)
	if err := backend.Initialiser.Initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := backend.NewBroker(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	host.Faults().Reset()
	return b
}

// doubling is the default back-off without jitter.
func doubling(_ time.Duration, attempt int) time.Duration {
	return min(time.Second<<min(attempt, 20), 2*time.Minute)
}

// start starts the worker and lets it do what it can do at once.
func (w *world) start() {
	w.Helper()
	worker, err := containerprovisioner.New(w.config)
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

// restart plays a crash: nothing that the worker calls has an effect any more,
// and another takes its place over connections of its own.
func (w *world) restart() {
	w.Helper()
	w.faults.Cut()
	w.stop()
	w.succeed()
	w.start()
}

// succeed gives the world new connections, for the next worker.
func (w *world) succeed() {
	w.Helper()
	w.faults = fakes.NewFaults(clock.WallClock)
	w.machine, w.host = w.machine.Session(w.faults), w.host.Session(w.faults)
	w.config.Broker = broker(w.T, w.host)
	if _, ok := w.config.Facade.(facade.HarvestWatcher); ok {
		w.config.Facade = w.machine
	} else {
		w.config.Facade = w.machine.Plain()
	}
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// add adds containers by their numbers.
func (w *world) add(ids ...string) {
	for _, id := range ids {
		w.machine.AddContainer(id, fakes.Container{})
	}
}

// provisioned wants each container to run, once started, recorded, and shown so.
func (w *world) provisioned(ids ...string) {
	w.Helper()
	running := w.host.Running()
	for _, id := range ids {
		if !slices.Contains(running, id) {
			w.Errorf("%s does not run", id)
		}
		if n := w.host.Starts(id); n != 1 {
			w.Errorf("%s was started %d times, want once", id, n)
		}
		if got, want := w.machine.InstanceInfo(id), string(fakes.InstanceID(id)); got.InstanceID != want || got.Nonce == "" || len(got.Interfaces) == 0 {
			w.Errorf("of %s is recorded %+v, want %q with everything", id, got, want)
		}
		w.status(id, facade.ContainerRunning, "")
	}
}

// removed wants nothing to be left of the containers.
func (w *world) removed(ids ...string) {
	w.Helper()
	for _, id := range ids {
		for _, i := range w.host.Instances() {
			if i.ContainerID == id {
				w.Errorf("%s still has an instance: %+v", id, i)
			}
		}
		if slices.Contains(w.machine.Addresses(), id) {
			w.Errorf("%s still has addresses", id)
		}
		if life := w.machine.Life(id); life != "" {
			w.Errorf("%s is still %s", id, life)
		}
	}
}

// status wants the container's users to see that.
func (w *world) status(id string, state facade.ContainerState, message string) {
	w.Helper()
	got := w.machine.Status(id)
	if got.State != state || !strings.Contains(got.Message, message) || message == "" && got.Message != "" {
		w.Errorf("%s is shown as %s %q, want %s %q", id, got.State, got.Message, state, message)
	}
}

// total returns how many containers the report has in a state.
func (w *world) total(state string) int {
	w.Helper()
	totals, _ := w.worker.Report()["totals"].(map[string]any)
	n, ok := totals[state].(int)
	if !ok {
		w.Fatalf("the report has no total of %q", state)
	}
	return n
}

// entry returns what the report says of a container that is not settled.
func (w *world) entry(id string) map[string]any {
	list, _ := w.worker.Report()["containers"].([]any)
	for _, item := range list {
		if entry := item.(map[string]any); entry["id"] == id {
			return entry
		}
	}
	return nil
}

// reported wants the report to have the container in a state, for a reason that
// contains the text.
func (w *world) reported(id, state, reason string) {
	w.Helper()
	entry := w.entry(id)
	if entry == nil || entry["state"] != state {
		w.Errorf("%s is reported as %v, want %s", id, entry, state)
		return
	}
	if got, _ := entry["error"].(string); !strings.Contains(got, reason) {
		w.Errorf("the reason for %s is %q, want %q in it", id, got, reason)
	}
}

// unknown returns the containers whose instances are reported as left.
func (w *world) unknown() string {
	list, _ := w.worker.Report()["unknown-instances"].([]any)
	var out []string
	for _, item := range list {
		out = append(out, item.(map[string]any)["container"].(string))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// times returns when calls of a method about the key began, since the first of
// them.
func (w *world) times(method, key string) []time.Duration {
	var out []time.Duration
	var first time.Time
	for _, c := range w.faults.Calls() {
		if c.Method != method || c.Key != key && !slices.Contains(c.Keys, key) {
			continue
		}
		if first.IsZero() {
			first = c.Start
		}
		out = append(out, c.Start.Sub(first))
	}
	return out
}

// order returns the methods called about the container or its instance, in
// order, reads of the container left out.
func (w *world) order(id string) string {
	var out []string
	for _, c := range w.faults.Calls() {
		about := append(slices.Clone(c.Keys), c.Key)
		if c.Method != "Containers" && (slices.Contains(about, id) || slices.Contains(about, string(fakes.InstanceID(id)))) {
			out = append(out, c.Method)
		}
	}
	return strings.Join(out, " ")
}

// passes is a containerprovisioner.Metrics that keeps what it hears.
type passes struct {
	mu   sync.Mutex
	list []containerprovisioner.Pass
}

func (p *passes) PassDone(pass containerprovisioner.Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, pass)
}

// of returns the passes of a container.
func (p *passes) of(id string) []containerprovisioner.Pass {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []containerprovisioner.Pass
	for _, pass := range p.list {
		if pass.Container == id {
			out = append(out, pass)
		}
	}
	return out
}

// boom is an error of no particular kind.
const boom = errors.ConstError("boom")
