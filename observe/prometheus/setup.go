package prometheus

import (
	"log/slog"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
)

// setup is what container-setup handlers are measured by.
type setup struct {
	logger     *slog.Logger
	containers *containers
	workers    attached[*containersetup.Worker, containersetup.Status]

	attempts       *client.CounterVec
	duration       *client.HistogramVec
	events, starts client.Counter

	running, watching, phase, since, waiting, failures, refused, skipped *client.Desc

	mu    sync.Mutex
	types map[string]*setupOfType
}

// setupOfType has the series of one type of container.
type setupOfType struct {
	attempts map[string]children[client.Counter] // by result
	duration children[client.Observer]
}

func newSetup(f *families, c *containers, config Config) *setup {
	return &setup{
		logger:     config.Logger,
		containers: c,
		types:      make(map[string]*setupOfType),

		attempts: f.counter("container_setup_attempts_total",
			"Attempts at one phase of preparing the machine for a type of container.", "type", "phase", "result"),
		duration: f.histogram("container_setup_phase_duration_seconds",
			"Time that attempts at one phase took, without waiting for the machine lock.",
			longBuckets(), "type", "phase"),
		events: f.counter("container_setup_events_total",
			"Events that named containers of this machine.").WithLabelValues(),
		starts: f.counter("container_setup_worker_starts_total",
			"Container-setup handlers that were started.").WithLabelValues(),

		running: f.gauge("container_setup_workers",
			"Container-setup handlers that run."),
		watching: f.gauge("container_setup_watching",
			"1 if containers of a type that is not prepared yet are waited for, else 0."),
		phase: f.gauge("container_setup_phase",
			"1 for the phase that the preparation of a type is in, 0 for the others.", "type", "phase"),
		since: f.gauge("container_setup_phase_start_timestamp_seconds",
			"Since when a type is in its phase; 0 if nobody has asked for it.", "type"),
		waiting: f.gauge("container_setup_waiting_containers",
			"Containers that wait for their type to be prepared.", "type"),
		failures: f.gauge("container_setup_failures",
			"Attempts at the phase that a type is in that failed in a row.", "type"),
		refused: f.gauge("container_setup_refused_containers",
			"Containers that were asked for and cannot be had on this machine."),
		skipped: f.gauge("container_setup_skipped_ids",
			"Ids that were named and are not those of this machine's containers, up to a thousand."),
	}
}

// attemptedPhases are those in which something is done.
func attemptedPhases() []containersetup.Phase {
	return []containersetup.Phase{
		containersetup.PhaseSettings, containersetup.PhaseInitialise, containersetup.PhaseNetwork,
		containersetup.PhaseBroker, containersetup.PhaseProvisioner,
	}
}

// of returns the series of a type, which are there from then on, and so are
// those of its containers. The label is the one that these have.
func (s *setup) of(t containersetup.ContainerType) (string, *setupOfType) {
	s.containers.of(t)
	label := s.containers.bound.label(string(t))
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.types[label]
	if !ok {
		known = &setupOfType{
			attempts: make(map[string]children[client.Counter]),
			duration: newChildren(attemptedPhases(), secondOf(label, s.duration.WithLabelValues)),
		}
		for _, result := range results() {
			known.attempts[result] = newChildren(attemptedPhases(), func(phase string) client.Counter {
				return s.attempts.WithLabelValues(label, phase, result)
			})
		}
		s.types[label] = known
	}
	return label, known
}

// PhaseDone is part of containersetup.Metrics.
func (s *setup) PhaseDone(attempt containersetup.PhaseAttempt) {
	result := resultDone
	if attempt.Err != nil {
		result = resultFailed
	}
	_, known := s.of(attempt.Type)
	known.attempts[result].of(string(attempt.Phase)).Inc()
	known.duration.of(string(attempt.Phase)).Observe(seconds(attempt.Duration))
}

// EventReceived is part of containersetup.EventMetrics.
func (s *setup) EventReceived(containersetup.Event) { s.events.Inc() }

// ContainerMetrics is part of containersetup.ContainerMetrics.
func (s *setup) ContainerMetrics(t containersetup.ContainerType) containerprovisioner.Metrics {
	return s.containers.of(t)
}

// Attach is part of containersetup.Attacher.
func (s *setup) Attach(worker *containersetup.Worker) (detach func()) {
	s.starts.Inc()
	return s.workers.add(worker)
}

func (s *setup) complain(why string) {
	s.logger.Error("container-setup handler left out of metrics: its status panicked", "error", why)
}

// setupSum is how one type stands on all attached workers.
type setupSum struct {
	phases            map[string]int
	since             time.Time
	waiting, failures int
}

// gauge tells how the attached workers stand.
func (s *setup) gauge(g gauges) {
	running, watching, refused, skipped := 0, false, 0, 0
	types := make(map[string]*setupSum)
	s.workers.each(s.complain, func(_ *containersetup.Worker, status containersetup.Status) {
		running++
		watching = watching || status.Watching
		refused += status.Refused
		skipped += status.Skipped
		for t, ts := range status.Types {
			label, _ := s.of(t)
			sum := types[label]
			if sum == nil {
				sum = &setupSum{phases: make(map[string]int)}
				types[label] = sum
			}
			sum.phases[string(ts.Phase)]++
			sum.since = earlier(sum.since, ts.Since)
			sum.waiting += ts.Waiting
			sum.failures = max(sum.failures, ts.Attempts)
		}
	})

	g.count(s.running, running)
	g.flag(s.watching, watching)
	g.count(s.refused, refused)
	g.count(s.skipped, skipped)
	for _, label := range s.containers.bound.all() {
		sum := types[label]
		if sum == nil {
			sum = &setupSum{}
		}
		for _, phase := range containersetup.Phases() {
			g.count(s.phase, sum.phases[string(phase)], label, string(phase))
		}
		g.at(s.since, sum.since, label)
		g.count(s.waiting, sum.waiting, label)
		g.count(s.failures, sum.failures, label)
	}
}
