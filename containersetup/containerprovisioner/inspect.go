package containerprovisioner

import (
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/internal/keyqueue"
)

// State is where a container is between two looks, or within one.
type State string

const (
	// StateQueued: it is about to be looked at.
	StateQueued State = "queued"
	// StateRunning: it is being looked at, started or stopped.
	StateRunning State = "running"
	// StateWaiting: for its turn, or for the harvest mode.
	StateWaiting State = "waiting"
	// StateFailed: the last look failed, and another one follows.
	StateFailed State = "failed"
	// StateError: given up, until somebody asks for it again.
	StateError State = "error"
	// StateSettled: there is nothing to do.
	StateSettled State = "settled"
)

// States returns every state that there is, in the order of a container's way
// through them.
func States() []State {
	return []State{StateQueued, StateRunning, StateWaiting, StateFailed, StateError, StateSettled}
}

// Status is the worker in figures, for gauges. [Worker.Report] says the same and
// more in words.
type Status struct {
	// MachineID and Type are those of the Config.
	MachineID string
	Type      container.Type
	// Containers counts those in each state; every state is there.
	Containers map[State]int
	// Starting and Stopping are how many have a turn.
	Starting, Stopping int
	// UnsettledSince is since when the container that has been unsettled the
	// longest is, those given up included; zero if all are settled.
	UnsettledSince time.Time
	// QueuedSince is since when the first in the queue waits; zero if none
	// does.
	QueuedSince time.Time
	// Watchers has each watcher that there is.
	Watchers map[string]WatcherStatus
	// Resynced is when all containers were last marked to be looked at, and
	// NextResync when they are next; zero for not yet.
	Resynced, NextResync time.Time
	// Listed is when the broker's instances were last listed; zero for not
	// yet. Instances is how many there were, and NotRunning how many of them
	// did not run.
	Listed                time.Time
	Instances, NotRunning int
}

// WatcherStatus is what there is to know of one watcher.
type WatcherStatus struct {
	// Events counts them, the baseline included.
	Events int
	// LastEvent is when the last one came; zero for none yet.
	LastEvent time.Time
}

// ContainerStatus is one container, for a page.
type ContainerStatus struct {
	ID    string
	State State
	// Outcome is that of the last pass; empty before the first.
	Outcome Outcome
	// Attempts is how many attempts to start it failed, and Left how many
	// there are yet.
	Attempts, Left int
	// Since is when the outcome changed last.
	Since time.Time
	// UnsettledSince is when the container was last settled, or first heard
	// of; zero if it is settled.
	UnsettledSince time.Time
	// Next is when it is looked at again; zero for not by itself.
	Next time.Time
	// Err is why it is not settled, or what it waits for.
	Err string
}

// Status returns the worker in figures. It may be called at any time, also after
// the end.
func (w *Worker) Status() Status {
	stats := w.queue.Stats()
	starting, stopping := w.turns.counts()
	w.mu.Lock()
	defer w.mu.Unlock()
	status := Status{
		MachineID:   w.config.MachineID,
		Type:        w.config.Type,
		Containers:  make(map[State]int),
		Starting:    starting,
		Stopping:    stopping,
		QueuedSince: stats.OldestReady,
		Watchers:    make(map[string]WatcherStatus),
		Resynced:    w.resyncs.last,
		NextResync:  w.resyncs.next,
	}
	for _, state := range States() {
		status.Containers[state] = 0
	}
	for id, t := range w.containers {
		status.Containers[w.stateOf(id, t)]++
		if !t.unsettled.IsZero() && (status.UnsettledSince.IsZero() || t.unsettled.Before(status.UnsettledSince)) {
			status.UnsettledSince = t.unsettled
		}
	}
	for name, state := range w.watchers {
		status.Watchers[name] = WatcherStatus{Events: state.events, LastEvent: state.last}
	}
	if w.lister != nil {
		if latest, _, _ := w.lister.status(); latest != nil {
			status.Listed, status.Instances, status.NotRunning = latest.began, len(latest.instances), latest.notRunning()
		}
	}
	return status
}

// Containers returns every container that the worker knows, in no order. It may
// be called at any time, also after the end.
func (w *Worker) Containers() []ContainerStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]ContainerStatus, 0, len(w.containers))
	for id, t := range w.containers {
		out = append(out, ContainerStatus{
			ID:             id,
			State:          w.stateOf(id, t),
			Outcome:        t.outcome,
			Attempts:       t.attempts,
			Left:           max(w.config.MaxAttempts-t.attempts, 0),
			Since:          t.since,
			UnsettledSince: t.unsettled,
			Next:           t.next,
			Err:            t.reason,
		})
	}
	return out
}

// stateOf tells a container's state from where its key is and how its last pass
// ended.
func (w *Worker) stateOf(id string, t *tracked) State {
	switch {
	case t.running:
		return StateRunning
	case w.queue.Status(id).State == keyqueue.Queued:
		return StateQueued
	}
	switch t.outcome {
	case OutcomeWaiting:
		return StateWaiting
	case OutcomeGivenUp:
		return StateError
	case OutcomeFailed, OutcomePermanent, OutcomePanicked:
		return StateFailed
	}
	return StateSettled
}

// notRunning counts the instances that do not run.
func (l *listing) notRunning() int {
	n := 0
	for _, i := range l.instances {
		if !i.Running {
			n++
		}
	}
	return n
}
