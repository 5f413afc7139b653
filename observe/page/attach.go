package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/provisioner"
)

// Operators returns what goes into the Metrics of an operator provisioner's
// config, for the page to show it. To have other metrics too, see
// observe.Operators. From the first call on, the page is not ready without such a
// worker.
func (p *Page) Operators() provisioner.Metrics {
	p.workers.expect(kindOperators)
	return operators{p}
}

// Setup returns what goes into the Metrics of a container-setup handler's config,
// for the page to show it and the container provisioners that it starts. To have
// other metrics too, see observe.Setup. From the first call on, the page is not
// ready without such a worker.
func (p *Page) Setup() containersetup.Metrics {
	p.workers.expect(kindSetup)
	return setup{p}
}

// operators shows operator provisioners to the page.
type operators struct{ p *Page }

// PassDone is part of provisioner.Metrics.
func (operators) PassDone(provisioner.Pass) {}

// Attach is part of provisioner.Attacher.
func (o operators) Attach(w *provisioner.Worker) func() {
	return o.p.workers.attach(&shown{
		name:      name{kind: kindOperators, of: w.Status().ModelUUID},
		operators: w,
		reporter:  w,
	})
}

// setup shows container-setup handlers to the page.
type setup struct{ p *Page }

// PhaseDone is part of containersetup.Metrics.
func (setup) PhaseDone(containersetup.PhaseAttempt) {}

// Attach is part of containersetup.Attacher.
func (s setup) Attach(w *containersetup.Worker) func() {
	return s.p.workers.attach(&shown{
		name:     name{kind: kindSetup, of: w.Status().MachineID},
		setup:    w,
		reporter: w,
	})
}

// ContainerMetrics is part of containersetup.ContainerMetrics.
func (s setup) ContainerMetrics(containersetup.ContainerType) containerprovisioner.Metrics {
	return containers(s)
}

// containers shows container provisioners to the page.
type containers struct{ p *Page }

// PassDone is part of containerprovisioner.Metrics.
func (containers) PassDone(containerprovisioner.Pass) {}

// Attach is part of containerprovisioner.Attacher.
func (c containers) Attach(w *containerprovisioner.Worker) func() {
	status := w.Status()
	return c.p.workers.attach(&shown{
		name:       name{kind: kindContainers, of: status.MachineID, typed: status.Type},
		containers: w,
		reporter:   w,
	})
}

// kind is a kind of worker.
type kind string

const (
	kindOperators  kind = "operator provisioner"
	kindSetup      kind = "container-setup handler"
	kindContainers kind = "container provisioner"
)

// name tells workers apart that may be there at the same time.
type name struct {
	kind  kind
	of    string                       // model or machine
	typed containersetup.ContainerType // of a container provisioner
}

// String is how people call the worker.
func (n name) String() string {
	switch n.kind {
	case kindOperators:
		return fmt.Sprintf("operator provisioner of model %s", n.of)
	case kindSetup:
		return fmt.Sprintf("container-setup handler of machine %s", n.of)
	}
	return fmt.Sprintf("%s provisioner of machine %s", n.typed, n.of)
}

// shown is a worker that showed itself; one of the first three is set.
type shown struct {
	name
	operators  *provisioner.Worker
	setup      *containersetup.Worker
	containers *containerprovisioner.Worker

	reporter Reporter
	guard    guard[map[string]any]
	since    time.Time
}

// endedKept is for how long a worker that has ended is spoken of, unless another
// one takes its place. It is longer than an engine or a runner takes to start it
// again, and short for an agent that has left a model for good.
const endedKept = 15 * time.Minute

// workers are those that show themselves.
type workers struct {
	clock clock.Clock

	mu       sync.Mutex // guards what follows
	expected map[kind]bool
	live     map[name]*shown
	ended    map[name]time.Time // when; the worker itself is let go
}

func (ws *workers) expect(k kind) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.expected == nil {
		ws.expected = make(map[kind]bool)
	}
	ws.expected[k] = true
}

// attach puts a worker in its place, and returns what takes it away unless
// another one has taken that place meanwhile.
func (ws *workers) attach(s *shown) (detach func()) {
	s.since = ws.clock.Now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.live == nil {
		ws.live, ws.ended = make(map[name]*shown), make(map[name]time.Time)
	}
	ws.live[s.name] = s
	delete(ws.ended, s.name)
	return func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if ws.live[s.name] == s {
			delete(ws.live, s.name)
			ws.ended[s.name] = ws.clock.Now()
		}
	}
}

// gone is a worker that has ended.
type gone struct {
	name
	at time.Time
}

// list returns the workers that are there, those that have ended, and which kinds
// are expected, all in order.
func (ws *workers) list() (live []*shown, ended []gone, expected []kind) {
	now := ws.clock.Now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	maps.DeleteFunc(ws.ended, func(_ name, at time.Time) bool { return now.Sub(at) > endedKept })
	live = slices.SortedFunc(maps.Values(ws.live), func(a, b *shown) int { return a.compare(b.name) })
	for n, at := range ws.ended {
		ended = append(ended, gone{n, at})
	}
	slices.SortFunc(ended, func(a, b gone) int { return a.compare(b.name) })
	return live, ended, slices.Sorted(maps.Keys(ws.expected))
}

func (n name) compare(other name) int {
	order := []kind{kindOperators, kindSetup, kindContainers}
	return cmp.Or(
		cmp.Compare(slices.Index(order, n.kind), slices.Index(order, other.kind)),
		cmp.Compare(n.of, other.of),
		cmp.Compare(n.typed, other.typed),
	)
}
