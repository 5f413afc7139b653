package dashshot_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/observe/prometheus/internal/dashshot"
	"github.com/sutler-dev/sutler/provisioner"
)

const (
	hour = time.Hour
	step = 30 * time.Second
)

// world is an agent on fakes.
type world struct {
	began      time.Time
	calls      *fakes.Faults // of applications and operators
	controller *fakes.Controller
	manager    *fakes.Manager
	host       *fakes.Host
	hostCalls  *fakes.Faults
	machine    *fakes.Machine
}

// event is something that happens in the hour.
type event struct {
	at time.Duration
	do func(w *world)
}

// play plays the hour in virtual time, and records what Prometheus would have
// seen, and when it began.
func play(t *testing.T) (recording *dashshot.Recording, began time.Time) {
	t.Helper()
	recording = &dashshot.Recording{Labels: map[string]string{"job": "agent", "instance": "machine-0"}}
	synctest.Test(t, func(t *testing.T) {
		registry := client.NewPedanticRegistry()
		metrics, err := prometheus.New(prometheus.Config{Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld()
		began = w.began
		for _, started := range []worker.Worker{w.operators(t, metrics), w.setup(t, metrics)} {
			defer func() {
				if err := worker.Stop(started); err != nil {
					t.Error(err)
				}
			}()
		}
		events := plot()
		for at := time.Duration(0); at <= hour; at += step {
			for len(events) > 0 && events[0].at <= at {
				events[0].do(w)
				events = events[1:]
			}
			synctest.Wait()
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			recording.Add(time.Now(), families)
			w.bustle(int(at / step))
			time.Sleep(step)
		}
	})
	return recording, began
}

func newWorld() *world {
	calls, hostCalls := fakes.NewFaults(clock.WallClock), fakes.NewFaults(clock.WallClock)
	w := &world{
		began: time.Now(), calls: calls, hostCalls: hostCalls,
		controller: fakes.NewController(calls), manager: fakes.NewManager(calls),
		host: fakes.NewHost(hostCalls), machine: fakes.NewMachine(hostCalls, "0"),
	}
	// A hook stays when a rule about one call is used up, so that time passes
	// in the others.
	calls.OnCall(func(c fakes.Call) fakes.Effect { return fakes.Effect{Delay: latency(c)} })
	hostCalls.OnCall(func(c fakes.Call) fakes.Effect { return fakes.Effect{Delay: latency(c)} })
	w.machine.SetSupported(containersetup.LXD, containersetup.KVM)
	w.host.SetInitialiseTime(4 * time.Minute)
	w.host.SetStartTime(75 * time.Second)
	for i := range 60 {
		w.controller.AddApplication(app(i), fakes.App{})
	}
	return w
}

func app(i int) string { return "app-" + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) }

// latency is how long a call takes: the same in every run, seldom long.
func latency(c fakes.Call) time.Duration {
	h := fnv.New32a()
	fmt.Fprint(h, c.Method, c.Key, c.N)
	at := float64(h.Sum32()%1000) / 1000
	return time.Duration(4*float64(time.Millisecond) + math.Pow(at, 8)*400*float64(time.Millisecond))
}

func jitterless(d time.Duration) time.Duration { return d }

func (w *world) operators(t *testing.T, metrics *prometheus.Metrics) worker.Worker {
	t.Helper()
	started, err := provisioner.New(provisioner.Config{
		Facade:          w.controller,
		OperatorManager: w.manager,
		Agent:           fakes.NewAgent(w.controller.CACert()),
		ModelUUID:       fakes.ModelUUID,
		Clock:           clock.WallClock,
		Metrics:         metrics.Operators(),
		Jitter:          jitterless,
	})
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func (w *world) setup(t *testing.T, metrics *prometheus.Metrics) worker.Worker {
	t.Helper()
	started, err := containersetup.New(containersetup.Config{
		Facade:    w.machine,
		MachineID: "0",
		Backends:  w.host.Backends(containersetup.LXD, containersetup.KVM),
		Lock:      metrics.Lock(w.host.Lock()),
		Network:   w.host.Network(),
		Bridger:   w.host.Bridger(),
		Clock:     clock.WallClock,
		Metrics:   metrics.Setup(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return started
}

// bustle is what goes on in a model at any time.
func (w *world) bustle(tick int) {
	for i := range 3 {
		info := fakes.Info()
		info.Tags = map[string]string{"model": fakes.ModelUUID, "tick": fmt.Sprint(tick)}
		w.controller.SetInfo(app((tick*7+i*11)%60), info)
	}
}

// plot is what happens, in order of time.
func plot() []event {
	const broken, old = "broken", "old"
	add := func(ids ...string) func(*world) {
		return func(w *world) {
			for _, id := range ids {
				w.machine.AddContainer(id, fakes.Container{})
			}
		}
	}
	var free func()
	return []event{
		{3 * time.Minute, func(w *world) { // an upgrade of packages has the machine lock
			free = w.host.Lock().Occupy(containersetup.Holder{Worker: "apt"}, 4711)
		}},
		{4 * time.Minute, add("0/lxd/0", "0/lxd/1", "0/lxd/2")},
		{6 * time.Minute, func(*world) { free() }},
		{12 * time.Minute, func(w *world) { // one application cannot be had for a while
			w.calls.Add(fakes.Rule{
				Method: "EnsureOperator", Key: broken, Times: 14, Effect: fakes.Effect{Err: errors.New("quota exceeded")},
			})
			w.controller.AddApplication(broken, fakes.App{})
		}},
		{14 * time.Minute, func(w *world) {
			w.hostCalls.Add(fakes.Rule{
				Method: "StartInstance", Key: "0/lxd/5", Times: fakes.Always,
				Effect: fakes.Effect{Err: errors.New("image not found"), Delay: 5 * time.Second},
			})
			add("0/lxd/3", "0/lxd/4", "0/lxd/5", "0/lxd/6", "0/lxd/7", "0/lxd/8", "0/lxd/9")(w)
		}},
		{20 * time.Minute, func(w *world) { // the operator of one that goes does not end
			w.controller.AddApplication(old, fakes.App{})
			w.manager.SetTermination(fakes.Termination{For: 14 * time.Minute}, old)
		}},
		{21 * time.Minute, func(w *world) { w.controller.SetLife(old, facade.Dead) }},
		{25 * time.Minute, func(w *world) { // another type, which takes more than one attempt; a third cannot be had
			w.hostCalls.Add(fakes.Rule{
				Method: "Initialise", Key: "kvm", Times: 5,
				Effect: fakes.Effect{Err: errors.New("no route to the archive"), Delay: 20 * time.Second},
			})
			add("0/kvm/0", "0/kvm/1", "0/podman/0")(w)
		}},
		{34 * time.Minute, func(w *world) { // a bundle is deployed
			for i := 60; i < 180; i++ {
				w.controller.AddApplication(app(i), fakes.App{})
			}
		}},
		{37 * time.Minute, func(w *world) { w.machine.SetLife("0/lxd/1", facade.Dead) }},
		{42 * time.Minute, func(w *world) { // the controller is down for three minutes
			w.outage(errors.New("controller is upgrading"))
		}},
		{43 * time.Minute, add("0/lxd/10", "0/lxd/11")},
		{45 * time.Minute, func(w *world) { w.outage(nil) }},
		{50 * time.Minute, func(w *world) { w.host.Halt("0/lxd/2") }},
		{52 * time.Minute, func(w *world) { // two more that cannot be had, until the end
			for _, name := range []string{"crooked", "lame"} {
				w.calls.Add(fakes.Rule{
					Method: "EnsureOperator", Key: name, Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("image not found")},
				})
				w.controller.AddApplication(name, fakes.App{})
			}
		}},
	}
}

// outage makes the controller's calls fail, or ends that.
func (w *world) outage(err error) {
	down := map[string]bool{"ApplicationsInfo": true, "SetPasswords": true, "Containers": true, "SetContainerStatus": true}
	for _, calls := range []*fakes.Faults{w.calls, w.hostCalls} {
		calls.OnCall(func(c fakes.Call) fakes.Effect {
			if err != nil && !c.Item && down[c.Method] {
				return fakes.Effect{Delay: time.Second, Err: err}
			}
			return fakes.Effect{Delay: latency(c)}
		})
	}
}
