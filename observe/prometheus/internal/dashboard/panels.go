package dashboard

import (
	"strings"
)

// The rows of the dashboard, top down. Panels fill the 24 columns from the left;
// $F stands for the filter that the reader chooses.

func operatorStats() []panel {
	return []panel{
		stat("Operator provisioners", "", "How many run. With a leader election, one of several agents.",
			goodAbove(1), q("sum(sutler_operator_workers{$F})", "")),
		stat("Applications settled", "percentunit", "Those with nothing left to do.",
			plain(), q(`sum(sutler_operator_applications{$F, state="settled"}) / sum(sutler_operator_applications{$F})`, "")),
		stat("Failed or stuck", "", "Applications whose last look failed, and operators whose deletion does not end.",
			badAbove(1, 10), q(`sum(sutler_operator_applications{$F, state=~"failed|stuck"})`, "")),
		stat("Oldest unsettled", "s", "For how long the application is unsettled that has been so the longest.",
			badAbove(300, 1800), q(age("max", "sutler_operator_oldest_unsettled_timestamp_seconds"), "")),
		stat("First certificate ends in", "s", "Certificates are replaced with a third of their life left.",
			goodAbove(86400), q("min(sutler_operator_certificate_expiry_timestamp_seconds{$F} > 0) - time()", "")),
		stat("Resync", "", "Late: one was not through when the next one began.",
			mapped(badAbove(1, 2), "in time", "late"), q("max(sutler_operator_resync_saturated{$F})", "")),
	}
}

func operatorCharts() []panel {
	return []panel{
		coloured(stacked("Applications by state", 12, "short", "",
			q("sum by (state) (sutler_operator_applications{$F})", "{{state}}"))),
		coloured(stacked("Looks by outcome", 12, "ops", "Looks at one application, a second.",
			q("sum by (outcome) (rate(sutler_operator_passes_total{$F}[$__rate_interval]))", "{{outcome}}"))),

		lines("Time of a look", 8, "s", "Without waiting for it to begin.",
			q(quantile("0.5", "", "sutler_operator_pass_duration_seconds"), "median"),
			q(quantile("0.99", "", "sutler_operator_pass_duration_seconds"), "99th percentile")),
		lines("Wait for a free worker", 8, "s", "For how long an application was due before it was looked at.",
			q(quantile("0.99", "", "sutler_operator_queue_wait_seconds"), "99th percentile"),
			q(age("max", "sutler_operator_oldest_queued_timestamp_seconds"), "first in the queue, now")),
		lines("Oldest unsettled", 8, "s", "",
			q(age("max", "sutler_operator_oldest_unsettled_timestamp_seconds"), "age")),

		lines("Retries, and calls that failed", 8, "ops", "Calls are those for many applications at once that failed as a whole.",
			q("sum(rate(sutler_operator_retries_total{$F}[$__rate_interval]))", "retries"),
			q("sum by (call) (rate(sutler_operator_batch_failures_total{$F}[$__rate_interval]))", "{{call}} failed")),
		lines("Applications a call", 8, "short", "How many applications one call was for, on average.",
			q(mean("call", "sutler_operator_batch_applications"), "{{call}}")),
		lines("Time of a call", 8, "s", "99th percentile, of calls for many applications at once.",
			q(quantile("0.99", "call", "sutler_operator_batch_duration_seconds"), "{{call}}")),

		stacked("Events by source", 6, "ops", "",
			q("sum by (source) (rate(sutler_operator_events_total{$F}[$__rate_interval]))", "{{source}}")),
		lines("Since the last event", 6, "s", "Of a quiet model it is long. Listings and resyncs come every ResyncInterval.",
			q("time() - min by (watcher) (sutler_operator_watcher_last_event_timestamp_seconds{$F} > 0)", "{{watcher}}"),
			q("time() - min(sutler_operator_last_listing_timestamp_seconds{$F} > 0)", "listing"),
			q("time() - min(sutler_operator_last_resync_timestamp_seconds{$F} > 0)", "resync")),
		lines("Next resync in", 6, "s", "Below zero, it is overdue.",
			q("min(sutler_operator_next_resync_timestamp_seconds{$F} > 0) - time()", "next resync")),
		lines("Starts of the worker, in 5 minutes", 6, "short", "",
			q("sum(increase(sutler_operator_worker_starts_total{$F}[5m]))", "operator provisioner")),
	}
}

func containerStats() []panel {
	return []panel{
		stat("Container-setup handlers", "", "How many run.",
			plain(), q("sum(sutler_container_setup_workers{$F})", "")),
		stat("Provisioners", "", "Container provisioners that run, one for each type that is prepared.",
			plain(), q("sum(sutler_container_workers{$F})", "")),
		stat("Containers settled", "", "",
			plain(), q(`sum(sutler_container_containers{$F, state="settled"})`, "")),
		stat("Failed or given up", "", "Containers that are tried again, and that are not.",
			badAbove(1, 10), q(`sum(sutler_container_containers{$F, state=~"failed|error"})`, "")),
		stat("Oldest unsettled", "s", "For how long the container is unsettled that has been so the longest.",
			badAbove(900, 3600), q(age("max", "sutler_container_oldest_unsettled_timestamp_seconds"), "")),
		stat("Refused, skipped", "", "Containers that this machine cannot have, and ids that are not its own.",
			badAbove(1, 100), q("sum(sutler_container_setup_refused_containers{$F}) + sum(sutler_container_setup_skipped_ids{$F})", "")),
	}
}

func containerCharts() []panel {
	return []panel{
		timeline("Preparation of the machine", 12, "The phase of each type of container, as long as it lasts.",
			q("max by (type, phase) (sutler_container_setup_phase{$F}) > 0", "{{type}} {{phase}}")),
		coloured(stacked("Containers by state", 12, "short", "",
			q("sum by (state) (sutler_container_containers{$F})", "{{state}}"))),

		lines("Attempts at a phase, in 5 minutes", 8, "short", "",
			q("sum by (type, phase, result) (increase(sutler_container_setup_attempts_total{$F}[5m])) > 0", "{{type}} {{phase}} {{result}}")),
		lines("Time of a phase", 8, "s", "On average over an hour, without waiting for the machine lock.",
			q(longMean("phase", "sutler_container_setup_phase_duration_seconds"), "{{phase}}"),
			q("time() - min by (type) (sutler_container_setup_phase_start_timestamp_seconds{$F} > 0 unless on (instance, type) (max by (instance, type) (sutler_container_setup_phase{$F, phase=\"ready\"}) > 0))", "{{type}}, in its phase")),
		lines("Failures in a row, and who waits", 8, "short", "",
			q("max by (type) (sutler_container_setup_failures{$F})", "{{type}} failures"),
			q("sum by (type) (sutler_container_setup_waiting_containers{$F})", "{{type}} containers waiting"),
			q("max(sutler_container_setup_watching{$F})", "other types waited for")),

		lines("Wait for the machine lock", 8, "s", "",
			q(longMean("worker", "sutler_machine_lock_wait_seconds"), "{{worker}}, mean"),
			q(age("max by (worker)", "sutler_machine_lock_wait_start_timestamp_seconds"), "{{worker}}, now")),
		lines("Hold of the machine lock", 8, "s", "",
			q(longMean("worker", "sutler_machine_lock_hold_seconds"), "{{worker}}, mean"),
			q(age("max by (worker)", "sutler_machine_lock_hold_start_timestamp_seconds"), "{{worker}}, now")),
		lines("Who wants the lock", 8, "short", "",
			q("sum by (worker) (sutler_machine_lock_waiting{$F})", "{{worker}}"),
			q("sum by (worker) (increase(sutler_machine_lock_failures_total{$F}[$__rate_interval]))", "{{worker}}, in vain")),

		lines("Attempts to start, in 5 minutes", 8, "short", "",
			q("sum by (type, result) (increase(sutler_container_start_attempts_total{$F}[5m]))", "{{type}} {{result}}")),
		lines("Turns", 8, "short", "Containers that are being started or stopped.",
			q("sum by (type, turn) (sutler_container_turns{$F})", "{{type}} {{turn}}")),
		lines("Instances", 8, "short", "At the last listing.",
			q("sum by (type, state) (sutler_container_instances{$F})", "{{type}} {{state}}")),

		coloured(stacked("Looks by outcome", 8, "ops", "Looks at one container, a second.",
			q("sum by (outcome) (rate(sutler_container_passes_total{$F}[$__rate_interval]))", "{{outcome}}"))),
		lines("Time of a look", 8, "s", "Including the start of an instance; and for how long one was due.",
			q(quantile("0.99", "type", "sutler_container_pass_duration_seconds"), "{{type}}, 99th percentile"),
			q(quantile("0.99", "type", "sutler_container_queue_wait_seconds"), "{{type}}, waits"),
			q(age("max by (type)", "sutler_container_oldest_queued_timestamp_seconds"), "{{type}}, first in the queue")),
		lines("Retries, and calls that failed", 8, "ops", "",
			q("sum by (type) (rate(sutler_container_retries_total{$F}[$__rate_interval]))", "{{type}} retries"),
			q("sum by (call) (rate(sutler_container_batch_failures_total{$F}[$__rate_interval]))", "{{call}} failed")),

		lines("Containers a call", 8, "short", "How many containers one call was for, on average.",
			q(mean("call", "sutler_container_batch_containers"), "{{call}}")),
		lines("Time of a call", 8, "s", "99th percentile, of calls for many containers at once.",
			q(quantile("0.99", "call", "sutler_container_batch_duration_seconds"), "{{call}}")),
		lines("Since the last event", 8, "s", "",
			q("time() - min by (type, watcher) (sutler_container_watcher_last_event_timestamp_seconds{$F} > 0)", "{{type}} {{watcher}}"),
			q("time() - min by (type) (sutler_container_last_listing_timestamp_seconds{$F} > 0)", "{{type}} listing"),
			q("time() - min by (type) (sutler_container_last_resync_timestamp_seconds{$F} > 0)", "{{type}} resync")),

		stacked("Events by source", 8, "ops", "Those of set-up name containers of any type.",
			q("sum by (source) (rate(sutler_container_events_total{$F}[$__rate_interval]))", "{{source}}"),
			q("sum(rate(sutler_container_setup_events_total{$F}[$__rate_interval]))", "set-up")),
		lines("Next resync in", 8, "s", "Below zero, it is overdue.",
			q("min by (type) (sutler_container_next_resync_timestamp_seconds{$F} > 0) - time()", "{{type}}")),
		lines("Starts of workers, in 5 minutes", 8, "short", "",
			q("sum(increase(sutler_container_setup_worker_starts_total{$F}[5m]))", "container-setup handler"),
			q("sum by (type) (increase(sutler_container_worker_starts_total{$F}[5m]))", "{{type}} provisioner")),
	}
}

// filter is what the reader chooses.
const filter = `job=~"$job", instance=~"$instance"`

// build puts the panels where they go.
func build() Dashboard {
	source := func() *Datasource { return &Datasource{Type: "prometheus", UID: "${datasource}"} }
	d := Dashboard{
		Title:         "sutler",
		Description:   "Operators and containers of agents that embed sutler. Made by observe/prometheus/internal/dashboard.",
		Tags:          []string{"sutler"},
		Editable:      true,
		GraphTooltip:  1,
		Refresh:       "30s",
		SchemaVersion: 39,
		Time:          TimeRange{From: "now-1h", To: "now"},
		Templating: Templating{List: []Variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1},
			{
				Name: "job", Label: "Job", Type: "query", Query: "label_values(sutler_operator_workers, job)",
				Datasource: source(), Refresh: 2, IncludeAll: true, Multi: true, AllValue: ".*", Sort: 1,
			},
			{
				Name: "instance", Label: "Agent", Type: "query", Query: `label_values(sutler_operator_workers{job=~"$job"}, instance)`,
				Datasource: source(), Refresh: 2, IncludeAll: true, Multi: true, AllValue: ".*", Sort: 1,
			},
		}},
	}
	x, y, height := 0, 0, 0
	place := func(p Panel, w, h int) {
		if x+w > columns {
			x, y = 0, y+height
			height = 0
		}
		p.ID = len(d.Panels) + 1
		p.Grid = Grid{X: x, Y: y, W: w, H: h}
		x, height = x+w, max(height, h)
		d.Panels = append(d.Panels, p)
	}
	for _, row := range []struct {
		title  string
		panels []panel
	}{
		{"Operators", append(operatorStats(), operatorCharts()...)},
		{"Containers", append(containerStats(), containerCharts()...)},
	} {
		open := false
		x, y, height = 0, y+height, 0
		place(Panel{Type: "row", Title: row.title, Collapsed: &open}, columns, 1)
		for _, p := range row.panels {
			made := p.Panel
			made.Datasource = source()
			made.Targets = nil
			for i, target := range p.Targets {
				target.RefID = string(rune('A' + i))
				target.Expr = strings.ReplaceAll(target.Expr, "$F", filter)
				target.Datasource = source()
				target.Instant = made.Type == "stat"
				made.Targets = append(made.Targets, target)
			}
			place(made, p.width, p.height)
		}
	}
	return d
}

// columns is how wide a dashboard is.
const columns = 24
