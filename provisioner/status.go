package provisioner

import (
	"time"

	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// State is where an application is between two looks, or within one.
type State string

const (
	// StateQueued: it is about to be looked at.
	StateQueued State = "queued"
	// StateRunning: it is being looked at.
	StateRunning State = "running"
	// StateWaiting: something else has to end first.
	StateWaiting State = "waiting"
	// StateStuck: as waiting, for longer than Config.TerminationTimeout.
	StateStuck State = "stuck"
	// StateFailed: the last look failed, and another one follows.
	StateFailed State = "failed"
	// StateSettled: there is nothing to do.
	StateSettled State = "settled"
)

// States returns every state that there is, in the order of an application's
// way through them.
func States() []State {
	return []State{StateQueued, StateRunning, StateWaiting, StateStuck, StateFailed, StateSettled}
}

// Status is the worker in figures, for gauges. [Worker.Report] says the same and
// more in words.
type Status struct {
	// ModelUUID is Config.ModelUUID.
	ModelUUID string
	// Applications counts those in each state; every state is there.
	Applications map[State]int
	// UnsettledSince is since when the application that has been unsettled
	// the longest is; zero if all are settled. One that was settled and is
	// looked at again counts as settled until that look ends otherwise.
	UnsettledSince time.Time
	// QueuedSince is since when the first in the queue waits; zero if none
	// does.
	QueuedSince time.Time
	// CertificateExpires is when the first certificate of an operator ends;
	// zero if none is known.
	CertificateExpires time.Time
	// Watchers has each watcher that there is.
	Watchers map[string]WatcherStatus
	// Resynced is when all applications were last marked to be looked at, and
	// NextResync when they are next; zero for not yet.
	Resynced, NextResync time.Time
	// Saturated tells that the resync before was not through by then.
	Saturated bool
	// Listed is when the manager's operators were last listed; zero for not
	// yet, or if it cannot list them.
	Listed time.Time
}

// WatcherStatus is what there is to know of one watcher.
type WatcherStatus struct {
	// Events counts them, the baseline included.
	Events int
	// LastEvent is when the last one came; zero for none yet.
	LastEvent time.Time
}

// ApplicationStatus is one application, for a page.
type ApplicationStatus struct {
	Name  string
	State State
	// Outcome is that of the last pass; empty before the first.
	Outcome Outcome
	// Attempts is how many passes failed in a row.
	Attempts int
	// Since is when the outcome changed last.
	Since time.Time
	// UnsettledSince is when the application was last settled, or first heard
	// of; zero if it is settled.
	UnsettledSince time.Time
	// Next is when it is looked at again; zero for not by itself.
	Next time.Time
	// TerminatingSince is since when the end of an operator is awaited; zero
	// for no such thing.
	TerminatingSince time.Time
	// CertificateExpires is when the operator's certificate ends; zero if it
	// is not known.
	CertificateExpires time.Time
	// Err is why it is not settled, or what it waits for.
	Err string
	// Would is what a dry run did not do.
	Would string
}

// Status returns the worker in figures. It looks at every application, which
// takes some 10 ms for 100,000; it may be called at any time, also after the
// end.
func (w *Worker) Status() Status {
	stats := w.queue.Stats()
	w.mu.Lock()
	defer w.mu.Unlock()
	status := Status{
		ModelUUID:    w.config.ModelUUID,
		Applications: make(map[State]int),
		QueuedSince:  stats.OldestReady,
		Watchers:     make(map[string]WatcherStatus),
		Resynced:     w.resyncs.last,
		NextResync:   w.resyncs.next,
		Saturated:    w.resyncs.saturated,
		Listed:       w.resyncs.listed,
	}
	for _, state := range States() {
		status.Applications[state] = 0
	}
	for app, a := range w.applications {
		status.Applications[w.stateOf(app, a)]++
		status.UnsettledSince = earlier(status.UnsettledSince, a.unsettled)
		status.CertificateExpires = earlier(status.CertificateExpires, a.expires)
	}
	for name, state := range w.watchers {
		if state.missing == "" {
			status.Watchers[name] = WatcherStatus{Events: state.events, LastEvent: state.last}
		}
	}
	return status
}

// Applications returns every application that the worker knows, in no order. It
// may be called at any time, also after the end.
func (w *Worker) Applications() []ApplicationStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]ApplicationStatus, 0, len(w.applications))
	for app, a := range w.applications {
		out = append(out, ApplicationStatus{
			Name:               app,
			State:              w.stateOf(app, a),
			Outcome:            a.outcome,
			Attempts:           a.attempts,
			Since:              a.since,
			UnsettledSince:     a.unsettled,
			Next:               a.next,
			TerminatingSince:   a.terminating,
			CertificateExpires: a.expires,
			Err:                a.reason,
			Would:              a.would,
		})
	}
	return out
}

// stateOf tells an application's state from where its key is and how its last
// pass ended.
func (w *Worker) stateOf(app string, a *application) State {
	switch {
	case a.running:
		return StateRunning
	case w.queue.Status(app).State == keyqueue.Queued:
		return StateQueued
	}
	switch a.outcome {
	case OutcomeStuck:
		return StateStuck
	case OutcomeWaiting:
		return StateWaiting
	case OutcomeFailed, OutcomePermanent, OutcomePanicked:
		return StateFailed
	case OutcomeSettled:
		return StateSettled
	}
	return StateQueued // heard of, and about to be
}

// earlier returns the earlier one; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
