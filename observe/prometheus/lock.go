package prometheus

import (
	"context"
	"sync"
	"time"

	"github.com/juju/worker/v3"
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/container"
)

// maxHolders bounds the parts of an agent that have series of their own.
const maxHolders = 16

// lock is what machine locks are measured by.
type lock struct {
	wait, hold         *client.HistogramVec
	failures           *client.CounterVec
	waiting, waitsFrom *client.Desc
	heldFrom           *client.Desc

	bound bounded
	mu    sync.Mutex
	known map[string]*holder
	next  int
	wants map[int]claim
}

// holder has the series of one part of the agent.
type holder struct {
	wait, hold client.Observer
	failures   client.Counter
}

// claim is somebody who waits for a lock, or has one.
type claim struct {
	worker string
	since  time.Time
	held   bool
}

// knownHolders are the parts that sutler itself has.
func knownHolders() []string { return []string{"container-setup", "hostprep"} }

func newLock(f *families) *lock {
	l := &lock{
		wait: f.histogram("machine_lock_wait_seconds",
			"Time for which the machine lock was waited for until it was had.", longBuckets(), "worker"),
		hold: f.histogram("machine_lock_hold_seconds",
			"Time for which the machine lock was held.", longBuckets(), "worker"),
		failures: f.counter("machine_lock_failures_total",
			"Waits for the machine lock that ended without it.", "worker"),
		waiting: f.gauge("machine_lock_waiting",
			"How many wait for the machine lock.", "worker"),
		waitsFrom: f.gauge("machine_lock_wait_start_timestamp_seconds",
			"Since when the machine lock is waited for; 0 if it is not.", "worker"),
		heldFrom: f.gauge("machine_lock_hold_start_timestamp_seconds",
			"Since when the machine lock is held; 0 if it is not.", "worker"),
		bound: bounded{most: maxHolders},
		known: make(map[string]*holder),
		wants: make(map[int]claim),
	}
	for _, worker := range knownHolders() {
		l.of(worker)
	}
	return l
}

// of returns the series of a holder, which are there from then on.
func (l *lock) of(worker string) (string, *holder) {
	label := l.bound.label(worker)
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.known[label]
	if !ok {
		known = &holder{
			wait:     l.wait.WithLabelValues(label),
			hold:     l.hold.WithLabelValues(label),
			failures: l.failures.WithLabelValues(label),
		}
		l.known[label] = known
	}
	return label, known
}

// claim notes that somebody waits. What it returns notes that the lock is held,
// and that the claim is over.
func (l *lock) claim(label string) (granted, over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next
	l.next++
	l.wants[id] = claim{worker: label, since: time.Now()}
	granted = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wants[id] = claim{worker: label, since: time.Now(), held: true}
	}
	return granted, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.wants, id)
	}
}

// gauge tells who waits and who has it.
func (l *lock) gauge(g gauges) {
	l.mu.Lock()
	waiting := make(map[string]int)
	waitsFrom, heldFrom := make(map[string]time.Time), make(map[string]time.Time)
	for _, c := range l.wants {
		if c.held {
			heldFrom[c.worker] = earlier(heldFrom[c.worker], c.since)
			continue
		}
		waiting[c.worker]++
		waitsFrom[c.worker] = earlier(waitsFrom[c.worker], c.since)
	}
	l.mu.Unlock()
	for _, label := range l.bound.all() {
		g.count(l.waiting, waiting[label], label)
		g.at(l.waitsFrom, waitsFrom[label], label)
		g.at(l.heldFrom, heldFrom[label], label)
	}
}

// Lock returns a lock that measures how long the one given is waited for and
// held, by the name of the holder's worker. It is a container.LockStatuser and a
// worker.Reporter if that is. Nil gives nil.
//
// Times of the lock are the process's own, not those of a Config.Clock.
func (m *Metrics) Lock(inner containersetup.Lock) containersetup.Lock {
	if inner == nil {
		return nil
	}
	measured := &measuredLock{inner: inner, lock: m.lock}
	status, hasStatus := inner.(container.LockStatuser)
	reporter, hasReport := inner.(worker.Reporter)
	switch {
	case hasStatus && hasReport:
		return struct {
			containersetup.Lock
			container.LockStatuser
			worker.Reporter
		}{measured, status, reporter}
	case hasStatus:
		return struct {
			containersetup.Lock
			container.LockStatuser
		}{measured, status}
	case hasReport:
		return struct {
			containersetup.Lock
			worker.Reporter
		}{measured, reporter}
	}
	return measured
}

type measuredLock struct {
	inner containersetup.Lock
	lock  *lock
}

// Acquire is part of containersetup.Lock.
func (l *measuredLock) Acquire(ctx context.Context, who containersetup.Holder) (func(), error) {
	label, series := l.lock.of(who.Worker)
	granted, over := l.lock.claim(label)
	began, acquired := time.Now(), false
	defer func() {
		// Also on the way out of a panic.
		if !acquired {
			over()
			series.failures.Inc()
		}
	}()
	release, err := l.inner.Acquire(ctx, who)
	if err != nil || release == nil {
		return release, err
	}
	acquired = true
	granted()
	series.wait.Observe(seconds(time.Since(began)))
	held := time.Now()
	var once sync.Once
	return func() {
		// The lock is released first: measuring must not prolong it.
		defer once.Do(func() {
			over()
			series.hold.Observe(seconds(time.Since(held)))
		})
		release()
	}, nil
}
