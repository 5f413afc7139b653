package prometheus

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
)

// maxTypes bounds the types of containers that have series of their own. The set
// of types is open, and a machine that has as many is not known.
const maxTypes = 16

// containers is what container provisioners are measured by, a type of
// container each.
type containers struct {
	logger *slog.Logger
	labels bool

	passes, retries, events, failures, attempts, starts *client.CounterVec
	duration, wait, batchSize, batchDuration            *client.HistogramVec

	running, containers, turns, instances          *client.Desc
	unsettled, queued                              *client.Desc
	event, resynced, nextResync, listed            *client.Desc
	containerUnsettled, containerFailures, omitted *client.Desc // with Config.ApplicationLabels

	bound bounded
	mu    sync.Mutex
	types map[string]*ofType
}

// ofType has the series of one type. It is a containerprovisioner.Metrics.
type ofType struct {
	all     *containers
	workers attached[*containerprovisioner.Worker, containerprovisioner.Status]

	passes, events, failures, attempts children[client.Counter]
	retries, starts                    client.Counter
	duration, wait                     client.Observer
	batchSize, batchDuration           children[client.Observer]
}

func newContainers(f *families, config Config) *containers {
	c := &containers{
		logger: config.Logger,
		labels: config.ApplicationLabels,
		bound:  bounded{most: maxTypes},
		types:  make(map[string]*ofType),

		passes: f.counter("container_passes_total",
			"Looks at one container, by how they ended.", "type", "outcome"),
		retries: f.counter("container_retries_total",
			"Looks at containers whose look before had failed.", "type"),
		duration: f.histogram("container_pass_duration_seconds",
			"Time that looks at one container took, without waiting for them to begin.", longBuckets(), "type"),
		wait: f.histogram("container_queue_wait_seconds",
			"Time for which containers were due and nobody was free to look; waiting for a turn is not part of it.",
			waitBuckets(), "type"),
		events: f.counter("container_events_total",
			"Events that had containers looked at, by where they came from.", "type", "source"),
		attempts: f.counter("container_start_attempts_total",
			"Attempts to start an instance; one that could not be recorded failed.", "type", "result"),
		batchSize: f.histogram("container_batch_containers",
			"Containers for which one call was made.", sizeBuckets(), "type", "call"),
		batchDuration: f.histogram("container_batch_duration_seconds",
			"Time that calls for many containers at once took.", callBuckets(), "type", "call"),
		failures: f.counter("container_batch_failures_total",
			"Calls for many containers at once that failed as a whole.", "type", "call"),
		starts: f.counter("container_worker_starts_total",
			"Container provisioners that were started.", "type"),

		running: f.gauge("container_workers",
			"Container provisioners that run.", "type"),
		containers: f.gauge("container_containers",
			"Containers, by where each is between two looks or within one.", "type", "state"),
		turns: f.gauge("container_turns",
			"Containers that have a turn to start or stop.", "type", "turn"),
		unsettled: f.gauge("container_oldest_unsettled_timestamp_seconds",
			"Since when the container is unsettled that has been so the longest; 0 if all are settled.", "type"),
		queued: f.gauge("container_oldest_queued_timestamp_seconds",
			"Since when the first container in the queue waits for somebody to look; 0 if none does.", "type"),
		event: f.gauge("container_watcher_last_event_timestamp_seconds",
			"When the last event of a watcher came; 0 for none yet, or no such watcher.", "type", "watcher"),
		resynced: f.gauge("container_last_resync_timestamp_seconds",
			"When all containers were last marked to be looked at; 0 for not yet.", "type"),
		nextResync: f.gauge("container_next_resync_timestamp_seconds",
			"When all containers are next marked to be looked at; 0 for not known.", "type"),
		listed: f.gauge("container_last_listing_timestamp_seconds",
			"When the back end's instances were last listed; 0 for not yet.", "type"),
		instances: f.gauge("container_instances",
			"Instances at the last listing, by whether they run.", "type", "state"),
	}
	if c.labels {
		c.containerUnsettled = f.gauge("container_unsettled_timestamp_seconds",
			"Since when the container is unsettled; only those unsettled the longest have a series.",
			"container", "type", "outcome")
		c.containerFailures = f.gauge("container_failures",
			"Attempts to start the container that failed; only those unsettled the longest have a series.",
			"container", "type")
		c.omitted = f.gauge("container_containers_omitted",
			"Unsettled containers that have no series of their own.")
	}
	return c
}

// containerCalls are the calls for many containers at once.
func containerCalls() []string {
	return []string{"Containers", "MarkForRemoval", "ProvisioningInfo", "SetContainerStatus", "SetInstanceInfo"}
}

// containerWatchers are the watchers that there may be.
func containerWatchers() []string {
	return []string{
		string(containerprovisioner.SourceContainers),
		string(containerprovisioner.SourceHarvestMode),
	}
}

// What an attempt came to.
const (
	resultDone   = "done"
	resultFailed = "failed"
)

func results() []string { return []string{resultDone, resultFailed} }

// of returns the series of a type, which are there from then on.
func (c *containers) of(t containersetup.ContainerType) *ofType {
	label := c.bound.label(string(t))
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.types[label]
	if !ok {
		known = c.newType(label)
		c.types[label] = known
	}
	return known
}

func (c *containers) newType(label string) *ofType {
	return &ofType{
		all:      c,
		passes:   newChildren(containerprovisioner.Outcomes(), secondOf(label, c.passes.WithLabelValues)),
		retries:  c.retries.WithLabelValues(label),
		duration: c.duration.WithLabelValues(label),
		wait:     c.wait.WithLabelValues(label),
		events:   newChildren(containerprovisioner.EventSources(), secondOf(label, c.events.WithLabelValues)),
		attempts: newChildren(results(), secondOf(label, c.attempts.WithLabelValues)),

		batchSize:     newChildren(containerCalls(), secondOf(label, c.batchSize.WithLabelValues)),
		batchDuration: newChildren(containerCalls(), secondOf(label, c.batchDuration.WithLabelValues)),
		failures:      newChildren(containerCalls(), secondOf(label, c.failures.WithLabelValues)),
		starts:        c.starts.WithLabelValues(label),
	}
}

// secondOf is for families whose first label is the type.
func secondOf[T any](first string, of func(labels ...string) T) func(string) T {
	return func(second string) T { return of(first, second) }
}

// PassDone is part of containerprovisioner.Metrics.
func (t *ofType) PassDone(pass containerprovisioner.Pass) {
	t.passes.of(string(pass.Outcome)).Inc()
	if pass.Attempts > 0 {
		t.retries.Inc()
	}
	if pass.Start > 0 {
		result := resultFailed
		if pass.Outcome == containerprovisioner.OutcomeSettled {
			result = resultDone
		}
		t.attempts.of(result).Inc()
	}
	t.duration.Observe(seconds(pass.Duration))
	t.wait.Observe(seconds(pass.QueueWait))
}

// EventReceived is part of containerprovisioner.EventMetrics.
func (t *ofType) EventReceived(event containerprovisioner.Event) {
	t.events.of(string(event.Source)).Inc()
}

// BatchDone is part of containerprovisioner.BatchMetrics.
func (t *ofType) BatchDone(batch containerprovisioner.Batch) {
	t.batchSize.of(batch.Call).Observe(float64(batch.Size))
	t.batchDuration.of(batch.Call).Observe(seconds(batch.Duration))
	if batch.Err != nil {
		t.failures.of(batch.Call).Inc()
	}
}

// Attach is part of containerprovisioner.Attacher.
func (t *ofType) Attach(worker *containerprovisioner.Worker) (detach func()) {
	t.starts.Inc()
	return t.workers.add(worker)
}

func (t *ofType) complain(why string) {
	t.all.logger.Error("container provisioner left out of metrics: its status panicked", "error", why)
}

// gauge tells how the attached workers stand.
func (c *containers) gauge(g gauges) {
	c.mu.Lock()
	types := maps.Clone(c.types)
	c.mu.Unlock()
	var unsettled []labelled
	for _, label := range slices.Sorted(maps.Keys(types)) {
		unsettled = append(unsettled, types[label].gauge(g, label)...)
	}
	if c.labels {
		shown, omitted := worst(unsettled)
		for _, l := range shown {
			g.at(c.containerUnsettled, l.since, l.name, l.kind, l.outcome)
			g.count(c.containerFailures, l.attempts, l.name, l.kind)
		}
		g.count(c.omitted, omitted)
	}
}

func (t *ofType) gauge(g gauges, label string) (unsettled []labelled) {
	var sum containerprovisioner.Status
	running := 0
	states := make(map[containerprovisioner.State]int)
	events := make(map[string]time.Time)
	t.workers.each(t.complain, func(w *containerprovisioner.Worker, status containerprovisioner.Status) {
		running++
		for state, n := range status.Containers {
			states[state] += n
		}
		for name, watcher := range status.Watchers {
			events[name] = earlier(events[name], watcher.LastEvent)
		}
		sum.Starting += status.Starting
		sum.Stopping += status.Stopping
		sum.UnsettledSince = earlier(sum.UnsettledSince, status.UnsettledSince)
		sum.QueuedSince = earlier(sum.QueuedSince, status.QueuedSince)
		sum.Resynced = earlier(sum.Resynced, status.Resynced)
		sum.NextResync = earlier(sum.NextResync, status.NextResync)
		sum.Listed = earlier(sum.Listed, status.Listed)
		sum.Instances += status.Instances
		sum.NotRunning += status.NotRunning
		if t.all.labels && !status.UnsettledSince.IsZero() {
			unsettled = append(unsettled, unsettledContainers(label, listed(t.complain, w.Containers))...)
		}
	})

	c := t.all
	g.count(c.running, running, label)
	for _, state := range containerprovisioner.States() {
		g.count(c.containers, states[state], label, string(state))
	}
	g.count(c.turns, sum.Starting, label, "starting")
	g.count(c.turns, sum.Stopping, label, "stopping")
	g.at(c.unsettled, sum.UnsettledSince, label)
	g.at(c.queued, sum.QueuedSince, label)
	for _, watcher := range containerWatchers() {
		g.at(c.event, events[watcher], label, watcher)
	}
	g.at(c.resynced, sum.Resynced, label)
	g.at(c.nextResync, sum.NextResync, label)
	g.at(c.listed, sum.Listed, label)
	g.count(c.instances, sum.Instances-sum.NotRunning, label, "running")
	g.count(c.instances, sum.NotRunning, label, "stopped")
	return unsettled
}

// unsettledContainers leaves out what cannot be a container's id.
func unsettledContainers(label string, all []containerprovisioner.ContainerStatus) []labelled {
	var out []labelled
	for _, c := range all {
		if c.UnsettledSince.IsZero() {
			continue
		}
		if _, err := container.ParseID(c.ID); err != nil || len(c.ID) > 2*maxLabel {
			continue
		}
		out = append(out, labelled{
			name: c.ID, kind: label, attempts: c.Attempts, since: c.UnsettledSince,
			outcome: outcomeLabel(containerprovisioner.Outcomes(), c.Outcome),
		})
	}
	return out
}
