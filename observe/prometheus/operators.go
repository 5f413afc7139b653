package prometheus

import (
	"log/slog"
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/provisioner"
)

// operators is what operator provisioners are measured by.
type operators struct {
	logger  *slog.Logger
	workers attached[*provisioner.Worker, provisioner.Status]

	passes, events, failures children[client.Counter]
	retries, starts          client.Counter
	duration, wait           client.Observer
	batchSize, batchDuration children[client.Observer]

	running, applications, unsettled, queued, certificate *client.Desc
	event, resynced, nextResync, listed, saturated        *client.Desc

	// With Config.ApplicationLabels.
	labels                             bool
	appUnsettled, appFailures, omitted *client.Desc
}

func newOperators(f *families, config Config) *operators {
	passes := f.counter("operator_passes_total",
		"Looks at one application, by how they ended.", "outcome")
	retries := f.counter("operator_retries_total",
		"Looks at applications whose look before had failed.")
	duration := f.histogram("operator_pass_duration_seconds",
		"Time that looks at one application took, without waiting for them to begin.", passBuckets())
	wait := f.histogram("operator_queue_wait_seconds",
		"Time for which applications were due and no worker was free.", waitBuckets())
	events := f.counter("operator_events_total",
		"Events that had applications looked at, by where they came from.", "source")
	batchSize := f.histogram("operator_batch_applications",
		"Applications for which one call was made.", sizeBuckets(), "call")
	batchDuration := f.histogram("operator_batch_duration_seconds",
		"Time that calls for many applications at once took.", callBuckets(), "call")
	failures := f.counter("operator_batch_failures_total",
		"Calls for many applications at once that failed as a whole.", "call")
	starts := f.counter("operator_worker_starts_total",
		"Operator provisioners that were started.")
	o := &operators{
		logger: config.Logger,
		labels: config.ApplicationLabels,

		passes:   newChildren(provisioner.Outcomes(), single(passes.WithLabelValues)),
		retries:  retries.WithLabelValues(),
		duration: duration.WithLabelValues(),
		wait:     wait.WithLabelValues(),
		events:   newChildren(provisioner.EventSources(), single(events.WithLabelValues)),

		batchSize:     newChildren(operatorCalls(), single(batchSize.WithLabelValues)),
		batchDuration: newChildren(operatorCalls(), single(batchDuration.WithLabelValues)),
		failures:      newChildren(operatorCalls(), single(failures.WithLabelValues)),
		starts:        starts.WithLabelValues(),

		running: f.gauge("operator_workers",
			"Operator provisioners that run."),
		applications: f.gauge("operator_applications",
			"Applications, by where each is between two looks or within one.", "state"),
		unsettled: f.gauge("operator_oldest_unsettled_timestamp_seconds",
			"Since when the application is unsettled that has been so the longest; 0 if all are settled."),
		queued: f.gauge("operator_oldest_queued_timestamp_seconds",
			"Since when the first application in the queue waits for a free worker; 0 if none does."),
		certificate: f.gauge("operator_certificate_expiry_timestamp_seconds",
			"When the first certificate of an operator ends; 0 if none is known."),
		event: f.gauge("operator_watcher_last_event_timestamp_seconds",
			"When the last event of a watcher came; 0 for none yet, or no such watcher.", "watcher"),
		resynced: f.gauge("operator_last_resync_timestamp_seconds",
			"When all applications were last marked to be looked at; 0 for not yet."),
		nextResync: f.gauge("operator_next_resync_timestamp_seconds",
			"When all applications are next marked to be looked at; 0 for not known."),
		listed: f.gauge("operator_last_listing_timestamp_seconds",
			"When the manager's operators were last listed; 0 for not yet, or if it cannot list them."),
		saturated: f.gauge("operator_resync_saturated",
			"1 if a resync was not through when the next one began, else 0."),
	}
	if o.labels {
		o.appUnsettled = f.gauge("operator_application_unsettled_timestamp_seconds",
			"Since when the application is unsettled; only those unsettled the longest have a series.", "application", "outcome")
		o.appFailures = f.gauge("operator_application_failures",
			"Looks at the application that failed in a row; only those unsettled the longest have a series.", "application")
		o.omitted = f.gauge("operator_applications_omitted",
			"Unsettled applications that have no series of their own.")
	}
	return o
}

// operatorCalls are the calls for many applications at once.
func operatorCalls() []string { return []string{"ApplicationsInfo", "SetPasswords"} }

// operatorWatchers are the watchers that there may be.
func operatorWatchers() []string {
	return []string{
		string(provisioner.SourceApplications),
		string(provisioner.SourceOperators),
		string(provisioner.SourceProvisioning),
	}
}

// PassDone is part of provisioner.Metrics.
func (o *operators) PassDone(pass provisioner.Pass) {
	o.passes.of(string(pass.Outcome)).Inc()
	if pass.Attempts > 0 {
		o.retries.Inc()
	}
	o.duration.Observe(seconds(pass.Duration))
	o.wait.Observe(seconds(pass.QueueWait))
}

// EventReceived is part of provisioner.EventMetrics.
func (o *operators) EventReceived(event provisioner.Event) {
	o.events.of(string(event.Source)).Inc()
}

// BatchDone is part of provisioner.BatchMetrics.
func (o *operators) BatchDone(batch provisioner.Batch) {
	o.batchSize.of(batch.Call).Observe(float64(batch.Size))
	o.batchDuration.of(batch.Call).Observe(seconds(batch.Duration))
	if batch.Err != nil {
		o.failures.of(batch.Call).Inc()
	}
}

// Attach is part of provisioner.Attacher.
func (o *operators) Attach(worker *provisioner.Worker) (detach func()) {
	o.starts.Inc()
	return o.workers.add(worker)
}

func (o *operators) complain(why string) {
	o.logger.Error("operator provisioner left out of metrics: its status panicked", "error", why)
}

// gauge tells how the attached workers stand.
func (o *operators) gauge(g gauges) {
	var sum provisioner.Status
	running, unsettled := 0, []labelled(nil)
	applications := make(map[provisioner.State]int)
	events := make(map[string]time.Time)
	o.workers.each(o.complain, func(w *provisioner.Worker, status provisioner.Status) {
		running++
		for state, n := range status.Applications {
			applications[state] += n
		}
		for name, watcher := range status.Watchers {
			events[name] = earlier(events[name], watcher.LastEvent)
		}
		sum.UnsettledSince = earlier(sum.UnsettledSince, status.UnsettledSince)
		sum.QueuedSince = earlier(sum.QueuedSince, status.QueuedSince)
		sum.CertificateExpires = earlier(sum.CertificateExpires, status.CertificateExpires)
		sum.Resynced = earlier(sum.Resynced, status.Resynced)
		sum.NextResync = earlier(sum.NextResync, status.NextResync)
		sum.Listed = earlier(sum.Listed, status.Listed)
		sum.Saturated = sum.Saturated || status.Saturated
		if o.labels && !status.UnsettledSince.IsZero() {
			unsettled = append(unsettled, unsettledApplications(listed(o.complain, w.Applications))...)
		}
	})

	g.count(o.running, running)
	for _, state := range provisioner.States() {
		g.count(o.applications, applications[state], string(state))
	}
	g.at(o.unsettled, sum.UnsettledSince)
	g.at(o.queued, sum.QueuedSince)
	g.at(o.certificate, sum.CertificateExpires)
	for _, watcher := range operatorWatchers() {
		g.at(o.event, events[watcher], watcher)
	}
	g.at(o.resynced, sum.Resynced)
	g.at(o.nextResync, sum.NextResync)
	g.at(o.listed, sum.Listed)
	g.flag(o.saturated, sum.Saturated)
	if o.labels {
		shown, omitted := worst(unsettled)
		for _, app := range shown {
			g.at(o.appUnsettled, app.since, app.name, app.outcome)
			g.count(o.appFailures, app.attempts, app.name)
		}
		g.count(o.omitted, omitted)
	}
}

// unsettledApplications leaves out what cannot be an application's name: that
// may be of any length, and no text at all.
func unsettledApplications(all []provisioner.ApplicationStatus) []labelled {
	var out []labelled
	for _, app := range all {
		if app.UnsettledSince.IsZero() || facade.ValidateApplicationName(app.Name) != nil {
			continue
		}
		out = append(out, labelled{
			name: app.Name, attempts: app.Attempts, since: app.UnsettledSince,
			outcome: outcomeLabel(provisioner.Outcomes(), app.Outcome),
		})
	}
	return out
}
